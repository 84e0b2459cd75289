/* The keys tokenizer.ggml.* as a pc__vocab. Strings stay in the mapped file; only arrays of
 * pointers to them are allocated, during the call. */
#include <string.h>

#include "model/load/count.h"
#include "model/load/gguf_internal.h"

/* Borrows all strings of an array. */
static pc_status read_texts(const pc_allocator *mem, const pc__gguf *gguf, const char *key,
                            pc__text **out, size_t *count)
{
    const pc__gguf_entry *entry = pc__gguf_find(gguf, key);
    *out = NULL;
    *count = 0;
    if (!entry)
        return PC_OK;
    if (!entry->is_array || entry->type != PC__GGUF_STRING)
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is not an array of strings",
                        gguf->weights->path, key);
    pc__text *texts = pc__calloc(mem, (size_t)entry->count, sizeof *texts);
    if (!texts)
        return PC_ERR_NOMEM;
    const uint8_t *at = entry->data;
    for (uint64_t i = 0; i < entry->count; i++)
        texts[i] = pc__gguf_next_text(&at);
    *out = texts;
    *count = (size_t)entry->count;
    return PC_OK;
}

/* Allocates one value a token. *out is NULL if the file lacks the key. */
static pc_status room_for(const pc_allocator *mem, const pc__gguf *gguf, const char *key,
                          size_t count, size_t size, void **out)
{
    *out = NULL;
    if (!pc__gguf_find(gguf, key))
        return PC_OK;
    size_t have = pc__gguf_array(gguf, key);
    if (have != count)
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s' has %zu values for %zu tokens",
                        gguf->weights->path, key, have, count);
    *out = pc__calloc(mem, count, size);
    return *out ? PC_OK : PC_ERR_NOMEM;
}

static pc_status read_scores(const pc_allocator *mem, const pc__gguf *gguf, size_t count,
                             float **out)
{
    static const char key[] = "tokenizer.ggml.scores";
    double value;
    PC__TRY_RETURN(room_for(mem, gguf, key, count, sizeof **out, (void **)out));
    for (size_t i = 0; *out && i < count; i++) {
        if (!pc__gguf_array_f64(gguf, key, i, &value) || value != value)
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s': value %zu is not a number",
                            gguf->weights->path, key, i);
        (*out)[i] = (float)value;
    }
    return PC_OK;
}

static pc_status read_types(const pc_allocator *mem, const pc__gguf *gguf, size_t count,
                            int32_t **out)
{
    static const char key[] = "tokenizer.ggml.token_type";
    int64_t value;
    PC__TRY_RETURN(room_for(mem, gguf, key, count, sizeof **out, (void **)out));
    for (size_t i = 0; *out && i < count; i++) {
        if (!pc__gguf_array_i64(gguf, key, i, &value) || value < 0 || value > PC__TOKEN_BYTE)
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s': value %zu is not a token type",
                            gguf->weights->path, key, i);
        (*out)[i] = (int32_t)value;
    }
    return PC_OK;
}

/* Reads the first of `keys` that exists. -1 and the largest 32-bit number mean none. */
static pc_status read_id(const pc__gguf *gguf, size_t count, const char *const keys[2],
                         int32_t *out)
{
    int64_t value;
    *out = -1;
    for (int i = 0; i < 2 && keys[i]; i++) {
        if (!pc__gguf_find(gguf, keys[i]))
            continue;
        if (!pc__gguf_i64(gguf, keys[i], &value))
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is not an integer", gguf->weights->path,
                            keys[i]);
        if (value == -1 || value == UINT32_MAX)
            return PC_OK;
        if (value < 0 || (uint64_t)value >= count)
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s': token %lld is not among the %zu tokens",
                            gguf->weights->path, keys[i], (long long)value, count);
        *out = (int32_t)value;
        return PC_OK;
    }
    return PC_OK;
}

static pc_status read_ids(const pc__gguf *gguf, pc__vocab *vocab)
{
    static const char *const keys[6][2] = {
        {"tokenizer.ggml.bos_token_id", NULL},
        {"tokenizer.ggml.eos_token_id", NULL},
        {"tokenizer.ggml.unknown_token_id", NULL},
        {"tokenizer.ggml.padding_token_id", NULL},
        {"tokenizer.ggml.seperator_token_id",
         "tokenizer.ggml.separator_token_id"}, /* the format's spelling comes first */
        {"tokenizer.ggml.cls_token_id", NULL},
    };
    int32_t *ids[6] = {&vocab->bos, &vocab->eos, &vocab->unk,
                       &vocab->pad, &vocab->sep, &vocab->cls};
    for (int i = 0; i < 6; i++)
        PC__TRY_RETURN(read_id(gguf, vocab->count, keys[i], ids[i]));
    return PC_OK;
}

static int32_t read_flag(const pc__gguf *gguf, const char *key)
{
    uint64_t value;
    return pc__gguf_u64(gguf, key, &value) ? value != 0 : -1;
}

/* Reads an array of bytes; empty if the key is missing. */
static pc_status read_gguf_charsmap(const pc__gguf *gguf, pc__text *out)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    const pc__gguf_entry *entry = pc__gguf_find(gguf, key);
    if (!entry)
        return PC_OK;
    if (!entry->is_array || (entry->type != PC__GGUF_I8 && entry->type != PC__GGUF_U8))
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is not an array of bytes", gguf->weights->path,
                        key);
    *out = (pc__text){(const char *)entry->data, (size_t)entry->count};
    return PC_OK;
}

static pc_status read_vocab_kind(const pc__gguf *gguf, pc__vocab_kind *kind)
{
    const char *model;
    if (!pc__gguf_string(gguf, "tokenizer.ggml.model", &model))
        return pc__fail(PC_ERR_NOT_FOUND,
                        "%s: the file has no tokenizer (key 'tokenizer.ggml.model' is missing)",
                        gguf->weights->path);
    if (!strcmp(model, "t5"))
        *kind = PC__VOCAB_UNIGRAM;
    else if (!strcmp(model, "llama"))
        *kind = PC__VOCAB_SPM;
    else if (!strcmp(model, "gpt2"))
        *kind = PC__VOCAB_BPE;
    else if (!strcmp(model, "gemma4"))
        *kind = PC__VOCAB_SPM;
    else if (!strcmp(model, "bert"))
        *kind = PC__VOCAB_WORDPIECE;
    else if (!strcmp(model, "no_vocab") || !strcmp(model, "none"))
        return pc__fail(PC_ERR_NOT_FOUND,
                        "%s: the file has no tokenizer (key 'tokenizer.ggml.model' is '%s')",
                        gguf->weights->path, model);
    else
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: key 'tokenizer.ggml.model': tokenizer '%s' is not supported",
                        gguf->weights->path, PC__QUOTE(model));
    return PC_OK;
}

/* Pieces of SentencePiece with merges, as Gemma 4 has them: the kind "gemma4", or BPE with one of
 * these pre-tokenizers. */
static void read_piece_merges(const pc__gguf *gguf, pc__vocab *vocab)
{
    const char *model = "";
    pc__gguf_string(gguf, "tokenizer.ggml.model", &model);
    if (strcmp(model, "gemma4")
        && !(vocab->kind == PC__VOCAB_BPE && vocab->pre
             && pc__is_listed("gemma4 granite-embed-multi-311m sarvam-moe", vocab->pre)))
        return;
    vocab->kind = PC__VOCAB_SPM;
    vocab->by_rank = 1;
    if (vocab->add_space_prefix < 0)
        vocab->add_space_prefix = 0;
}

pc_status pc__gguf_tokenizer(pc__tokenizer **out, const pc_allocator *mem, const pc__gguf *gguf)
{
    pc__vocab vocab = {.where = gguf->weights->path};
    pc__text *tokens = NULL, *merges = NULL;
    float *scores = NULL;
    int32_t *types = NULL;
    pc_status status;
    *out = NULL;
    PC__TRY(read_vocab_kind(gguf, &vocab.kind), done);
    PC__TRY(read_texts(mem, gguf, "tokenizer.ggml.tokens", &tokens, &vocab.count), done);
    PC__TRY(pc__count_check(PC__COUNT_VOCABULARY, (int64_t)vocab.count, vocab.where,
                            "tokenizer.ggml.tokens"),
            done);
    PC__TRY(read_texts(mem, gguf, "tokenizer.ggml.merges", &merges, &vocab.merge_count), done);
    PC__TRY(read_scores(mem, gguf, vocab.count, &scores), done);
    PC__TRY(read_types(mem, gguf, vocab.count, &types), done);
    PC__TRY(read_ids(gguf, &vocab), done);
    vocab.tokens = tokens;
    vocab.merges = merges;
    vocab.scores = scores;
    vocab.types = types;
    vocab.add_bos = read_flag(gguf, "tokenizer.ggml.add_bos_token");
    vocab.add_eos = read_flag(gguf, "tokenizer.ggml.add_eos_token");
    vocab.add_space_prefix = read_flag(gguf, "tokenizer.ggml.add_space_prefix");
    if (vocab.kind == PC__VOCAB_UNIGRAM) {
        vocab.one_blank = read_flag(gguf, "tokenizer.ggml.remove_extra_whitespaces") > 0;
        PC__TRY(read_gguf_charsmap(gguf, &vocab.charsmap), done);
    }
    pc__gguf_string(gguf, "tokenizer.ggml.pre", &vocab.pre);
    read_piece_merges(gguf, &vocab);
    pc__gguf_string(gguf, "tokenizer.chat_template", &vocab.chat_template);
    status = pc__tokenizer_from_vocab(out, mem, &vocab);
done:
    pc__free(mem, tokens);
    pc__free(mem, merges);
    pc__free(mem, scores);
    pc__free(mem, types);
    return status;
}
