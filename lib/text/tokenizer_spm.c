/* SentencePiece BPE: blanks become U+2581, characters are merged by score or rank, unknown ones
 * become byte tokens. */
#include <string.h>

#include "text/tokenizer_internal.h"

pc_status pc__mark_blanks(const char *text, size_t size, pc__bytes *out)
{
    for (size_t i = 0, n; i < size; i += n) {
        const char *space = memchr(text + i, ' ', size - i);
        n = space ? (size_t)(space - text) - i : size - i;
        PC__TRY_RETURN(pc__bytes_add(out, text + i, n));
        if (space) {
            PC__TRY_RETURN(pc__bytes_add(out, PC__BLANK_MARK, PC__BLANK_MARK_SIZE));
            n++;
        }
    }
    return PC_OK;
}

static pc_status mark_text(const pc__tokenizer *t, const char *text, size_t size, int first,
                           pc__bytes *out)
{
    int has_one = *text == ' ' || pc__starts_with_mark(text, size);
    if ((t->rules.space_prefix == PC__PREFIX_ALWAYS
         || (t->rules.space_prefix == PC__PREFIX_FIRST && first))
        && !(t->rules.one_prefix && has_one))
        PC__TRY_RETURN(pc__bytes_add(out, PC__BLANK_MARK, PC__BLANK_MARK_SIZE));
    return pc__mark_blanks(text, size, out);
}

pc_status pc__piece_add(const pc__tokenizer *t, const char *text, size_t size, int32_t id,
                        int *unknown, pc__ids *out)
{
    int bytes = id < 0;
    if (id < 0)
        id = pc__string_map_get(&t->pieces, text, size);
    if (id >= 0) {
        *unknown = 0;
        return pc__ids_add(out, id);
    }
    for (size_t i = 0; i < size && bytes; i++)
        bytes = t->byte_token[(unsigned char)text[i]] >= 0;
    for (size_t i = 0; i < size && bytes; i++)
        PC__TRY_RETURN(pc__ids_add(out, t->byte_token[(unsigned char)text[i]]));
    if (!bytes && t->ids.unk >= 0 && !(*unknown && t->rules.fuse_unk))
        PC__TRY_RETURN(pc__ids_add(out, t->ids.unk));
    *unknown = !bytes;
    return PC_OK;
}

typedef struct spm_words {
    const pc__tokenizer *t;
    pc__ids *out;
} spm_words;

static pc_status encode_marked(void *user, const char *text, size_t size)
{
    const pc__tokenizer *t = ((const spm_words *)user)->t;
    pc__ids *out = ((const spm_words *)user)->out;
    uint32_t *starts = pc__alloc(&t->mem, (size + 1) * sizeof *starts);
    int32_t *ids = pc__alloc(&t->mem, (size + 1) * sizeof *ids);
    size_t count = 0;
    int unknown = 0;
    pc_status status = starts && ids ? PC_OK : PC_ERR_NOMEM;
    if (status >= 0) {
        for (pc__character c = {0}; pc__utf8_next(text, size, &c);) {
            starts[count] = (uint32_t)c.at;
            ids[count++] = pc__string_map_get(&t->pieces, text + c.at, c.size);
        }
        starts[count] = (uint32_t)size;
        status = pc__bpe_merge(t, text, starts, ids, &count);
    }
    for (size_t i = 0; i < count && status >= 0; i++)
        status = pc__piece_add(t, text + starts[i], starts[i + 1] - starts[i], ids[i], &unknown,
                               out);
    pc__free(&t->mem, starts);
    pc__free(&t->mem, ids);
    return status;
}

pc_status pc__spm_encode(const pc__tokenizer *t, const char *text, size_t size, int first,
                         pc__ids *out)
{
    pc__bytes marked = {.mem = &t->mem};
    spm_words words = {t, out};
    pc_status status = mark_text(t, text, size, first, &marked);
    if (status >= 0)
        status = pc__expressions_split(t, marked.data, marked.size, encode_marked, &words);
    pc__bytes_free(&marked);
    return status;
}
