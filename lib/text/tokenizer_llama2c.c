/* Reads tokenizer.bin of llama2.c: int32 longest piece, then for each token float score, int32
 * size, bytes. Ids 0, 1, 2 are unknown, BOS, EOS; 3 to 258 are bytes. Blanks are written as blanks
 * there; they become U+2581, as in every SentencePiece vocabulary. */
#include <string.h>

#include "base/file.h"
#include "text/tokenizer_internal.h"

typedef struct llama2c_vocab {
    pc__text *tokens;
    float *scores;
    int32_t *types;
    char *arena;
} llama2c_vocab;

static char *mark_spaces(const uint8_t *data, size_t size, char *out)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] == ' ') {
            memcpy(out, PC__BLANK_MARK, PC__BLANK_MARK_SIZE);
            out += 3;
        } else {
            *out++ = (char)data[i];
        }
    return out;
}

static pc_status read_vocab_tokens(llama2c_vocab *v, const pc__file *file, const char *path,
                                   size_t count)
{
    size_t at = 4;
    char *out = v->arena;
    for (size_t i = 0; i < count; i++) {
        int32_t size;
        if (file->size < at + 8)
            return pc__fail(PC_ERR_FORMAT, "%s: the file ends at token %zu of %zu", path, i, count);
        memcpy(&v->scores[i], file->data + at, 4);
        memcpy(&size, file->data + at + 4, 4);
        at += 8;
        if (size < 0 || (size_t)size > file->size - at)
            return pc__fail(PC_ERR_FORMAT,
                            "%s: token %zu: its %d bytes lie beyond the end of the file", path, i,
                            size);
        char *end = mark_spaces(file->data + at, (size_t)size, out);
        v->tokens[i] = (pc__text){out, (size_t)(end - out)};
        v->types[i] = i == 0                              ? PC__TOKEN_UNKNOWN
                      : i < 3                             ? PC__TOKEN_CONTROL
                      : pc__piece_byte(v->tokens[i]) >= 0 ? PC__TOKEN_BYTE
                                                          : PC__TOKEN_NORMAL;
        out = end;
        at += (size_t)size;
    }
    return at == file->size ? PC_OK
                            : pc__fail(PC_ERR_FORMAT, "%s: %zu bytes follow the last of %zu tokens",
                                       path, file->size - at, count);
}

pc_status pc__tokenizer_from_llama2c(pc__tokenizer **out, const pc_allocator *mem, const char *path,
                                     size_t vocab_size)
{
    llama2c_vocab v = {0};
    pc__file file;
    pc_status status;
    *out = NULL;
    PC__TRY_RETURN(pc__file_map(&file, path));
    if (vocab_size < 3 || vocab_size > file.size / 8)
        status = pc__fail(PC_ERR_FORMAT, "%s: %zu bytes cannot hold %zu tokens", path, file.size,
                          vocab_size);
    else {
        v.tokens = pc__calloc(mem, vocab_size, sizeof *v.tokens);
        v.scores = pc__calloc(mem, vocab_size, sizeof *v.scores);
        v.types = pc__calloc(mem, vocab_size, sizeof *v.types);
        v.arena = pc__alloc(mem, 3 * file.size);
        status = v.tokens && v.scores && v.types && v.arena
                     ? read_vocab_tokens(&v, &file, path, vocab_size)
                     : PC_ERR_NOMEM;
    }
    if (status >= 0) {
        pc__vocab vocab = {.kind = PC__VOCAB_SPM,
                           .where = path,
                           .count = vocab_size,
                           .tokens = v.tokens,
                           .scores = v.scores,
                           .types = v.types,
                           .bos = 1,
                           .eos = 2,
                           .unk = 0,
                           .pad = -1,
                           .sep = -1,
                           .cls = -1,
                           .add_bos = 1,
                           .add_eos = 0,
                           .add_space_prefix = 1};
        status = pc__tokenizer_from_vocab(out, mem, &vocab);
    }
    pc__free(mem, v.tokens);
    pc__free(mem, v.scores);
    pc__free(mem, v.types);
    pc__free(mem, v.arena);
    pc__file_unmap(&file);
    return status;
}
