/* Byte-level BPE: regular expressions split text into words; the bytes of a word are merged by
 * rank. */
#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer_internal.h"

typedef struct bpe_words {
    const pc__tokenizer *t;
    pc__ids *out;
    uint32_t *starts;
    int32_t *ids;
    size_t capacity; /* bytes */
} bpe_words;

static pc_status reserve_word(bpe_words *w, size_t size)
{
    if (size <= w->capacity)
        return PC_OK;
    pc__free(&w->t->mem, w->starts);
    pc__free(&w->t->mem, w->ids);
    w->capacity = size * 2;
    w->starts = pc__alloc(&w->t->mem, (w->capacity + 1) * sizeof *w->starts);
    w->ids = pc__alloc(&w->t->mem, (w->capacity + 1) * sizeof *w->ids);
    return w->starts && w->ids ? PC_OK : PC_ERR_NOMEM;
}

static pc_status encode_word(void *user, const char *text, size_t size)
{
    bpe_words *w = user;
    const pc__tokenizer *t = w->t;
    int32_t id = t->rules.ignore_merges ? pc__string_map_get(&t->pieces, text, size) : -1;
    size_t count = size;
    pc_status status;
    if (id >= 0)
        return pc__ids_add(w->out, id);
    PC__TRY_RETURN(reserve_word(w, size));
    for (size_t i = 0; i < size; i++) {
        w->starts[i] = (uint32_t)i;
        w->ids[i] = t->byte_token[(unsigned char)text[i]];
    }
    w->starts[size] = (uint32_t)size;
    status = pc__bpe_merge(t, text, w->starts, w->ids, &count);
    for (size_t i = 0; i < count && status >= 0; i++)
        if (w->ids[i] >= 0 || t->unk >= 0)
            status = pc__ids_add(w->out, w->ids[i] >= 0 ? w->ids[i] : t->unk);
    return status;
}

static pc_status encode_words(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out)
{
    bpe_words w = {.t = t, .out = out};
    pc_status status = pc__expressions_split(t, text, size, encode_word, &w);
    pc__free(&t->mem, w.starts);
    pc__free(&t->mem, w.ids);
    return status;
}

static pc_status encode_nfc(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out)
{
    pc__bytes normal = {.mem = &t->mem};
    pc_status status = pc__normal_form(UTF8PROC_STABLE | UTF8PROC_COMPOSE, text, size, &normal);
    if (status >= 0)
        status = encode_words(t, normal.data, normal.size, out);
    pc__bytes_free(&normal);
    return status;
}

pc_status pc__bpe_encode(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out)
{
    if (size > UINT32_MAX / 8)
        return pc__fail(PC_ERR_LIMIT, "a text of %zu bytes is too long for one call; split it",
                        size);
    return t->rules.nfc ? encode_nfc(t, text, size, out) : encode_words(t, text, size, out);
}
