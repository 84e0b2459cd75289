/* Metadata of a GGUF file by key. */
#include <stdlib.h>
#include <string.h>

#include "model/load/gguf_internal.h"

static int key_of_entry(const void *key, const void *entry)
{
    return strcmp(key, ((const pc__gguf_entry *)entry)->key);
}

const pc__gguf_entry *pc__gguf_find(const pc__gguf *gguf, const char *key)
{
    return gguf->count
               ? bsearch(key, gguf->entries, gguf->count, sizeof *gguf->entries, key_of_entry)
               : NULL;
}

pc__text pc__gguf_next_text(const uint8_t **at)
{
    uint64_t size;
    memcpy(&size, *at, sizeof size);
    pc__text text = (pc__text){(const char *)*at + sizeof size, (size_t)size};
    *at += sizeof size + size;
    return text;
}

/* Reads an integer element as 64 bits of two's complement. 0: not an integer. */
static int integer_at(const pc__gguf_entry *entry, uint64_t index, uint64_t *bits, int *negative)
{
    static const uint8_t width[] = {1, 1, 2, 2, 4, 4, 0, 1, 0, 0, 8, 8, 0};
    size_t n = width[entry->type];
    int is_signed = entry->type == PC__GGUF_I8 || entry->type == PC__GGUF_I16
                    || entry->type == PC__GGUF_I32 || entry->type == PC__GGUF_I64;
    if (!n || index >= entry->count)
        return 0;
    *bits = 0;
    memcpy(bits, entry->data + index * n, n);
    *negative = is_signed && *bits >> (8 * n - 1);
    if (*negative && n < 8)
        *bits |= ~UINT64_C(0) << (8 * n);
    return 1;
}

static int signed_at(const pc__gguf_entry *entry, uint64_t index, int64_t *out)
{
    uint64_t bits;
    int negative;
    if (!integer_at(entry, index, &bits, &negative) || (!negative && bits > INT64_MAX))
        return 0;
    memcpy(out, &bits, sizeof *out);
    return 1;
}

static int real_at(const pc__gguf_entry *entry, uint64_t index, double *out)
{
    uint64_t bits;
    int negative;
    float single;
    if (index >= entry->count)
        return 0;
    if (entry->type == PC__GGUF_F32) {
        memcpy(&single, entry->data + index * 4, 4);
        *out = (double)single;
    } else if (entry->type == PC__GGUF_F64) {
        memcpy(out, entry->data + index * 8, 8);
    } else if (integer_at(entry, index, &bits, &negative)) {
        *out = negative ? -(double)(~bits + 1) : (double)bits;
    } else {
        return 0;
    }
    return 1;
}

static const pc__gguf_entry *find_form(const pc__gguf *gguf, const char *key, int is_array)
{
    const pc__gguf_entry *entry = pc__gguf_find(gguf, key);
    return entry && entry->is_array == is_array ? entry : NULL;
}

int pc__gguf_u64(const pc__gguf *gguf, const char *key, uint64_t *out)
{
    const pc__gguf_entry *entry = find_form(gguf, key, 0);
    uint64_t bits;
    int negative;
    if (!entry || !integer_at(entry, 0, &bits, &negative) || negative)
        return 0;
    *out = bits;
    return 1;
}

int pc__gguf_i64(const pc__gguf *gguf, const char *key, int64_t *out)
{
    const pc__gguf_entry *entry = find_form(gguf, key, 0);
    return entry && signed_at(entry, 0, out);
}

int pc__gguf_f64(const pc__gguf *gguf, const char *key, double *out)
{
    const pc__gguf_entry *entry = find_form(gguf, key, 0);
    return entry && real_at(entry, 0, out);
}

int pc__gguf_string(const pc__gguf *gguf, const char *key, const char **out)
{
    const pc__gguf_entry *entry = find_form(gguf, key, 0);
    if (!entry || !entry->text)
        return 0;
    *out = entry->text;
    return 1;
}

size_t pc__gguf_array(const pc__gguf *gguf, const char *key)
{
    const pc__gguf_entry *entry = find_form(gguf, key, 1);
    return entry ? (size_t)entry->count : 0;
}

int pc__gguf_array_i64(const pc__gguf *gguf, const char *key, size_t index, int64_t *out)
{
    const pc__gguf_entry *entry = find_form(gguf, key, 1);
    return entry && signed_at(entry, index, out);
}

int pc__gguf_array_f64(const pc__gguf *gguf, const char *key, size_t index, double *out)
{
    const pc__gguf_entry *entry = find_form(gguf, key, 1);
    return entry && real_at(entry, index, out);
}
