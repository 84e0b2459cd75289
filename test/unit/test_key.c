/* Catches a change of the names of stored segments: digests are checked against the table in
 * doc/format.md (which tools/digest_vectors.py checks against another implementation), and every
 * field must change the name. */
#include "store/key.h"

#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

static char *document;

static void check_vector(const char *name, pc__id id)
{
    char hex[65], line[80];
    pc__id_hex(&id, hex);
    snprintf(line, sizeof line, "| `%s` |", name);
    const char *at = strstr(document, line), *end = at ? strchr(at, '\n') : NULL,
               *value = at ? strstr(at, hex) : NULL;
    if (!CHECK(at && value && value < end))
        fprintf(stderr, "    %s is %s\n", name, hex);
}

static void fill(uint8_t *bytes, uint8_t first)
{
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(first + i);
}

static void vectors(void)
{
    static const int32_t t1[] = {1, 2, 3}, t2[] = {4, -1, 2147483647, 0};
    static const int64_t gap[] = {0, 1, 5};
    uint8_t model[32], adapter[32], tokenizer[32];
    fill(model, 0);
    fill(tokenizer, 32);
    fill(adapter, 64);
    pc_key_parts a = {sizeof a, model, NULL, tokenizer, 1, 1, 0, 1, 0, NULL, 0};
    pc_key_parts b = {sizeof b, model, adapter, NULL, 3, 2, 4096, 0, 3, "tenant-7", 8};
    pc__id base_a = pc__base_key(&a), base_b = pc__base_key(&b);
    pc__id a1 = pc__segment_key(&base_a, NULL, 0, 0, t1, NULL, 3),
           a2 = pc__segment_key(&base_a, &a1, 3, 0, t2, NULL, 4);
    check_vector("base-a", base_a);
    check_vector("base-b", base_b);
    check_vector("segment-a1", a1);
    check_vector("segment-a2", a2);
    check_vector("segment-a3", pc__segment_key(&base_a, &a2, -2, 0, t1, NULL, 1));
    check_vector("segment-gap", pc__segment_key(&base_a, NULL, 0, 0, t1, gap, 3));
    check_vector("segment-empty", pc__segment_key(&base_b, NULL, 0, 17, NULL, NULL, 0));
}

/* Each variant differs from the first in one field. */
static void every_field_counts(void)
{
    uint8_t x[32], y[32];
    fill(x, 1);
    fill(y, 2);
    const pc_key_parts base[] = {
        /* struct_size is no part of a name */
        {0, x, NULL, x, 1, 1, 0, 1, 0, "s", 1}, {0, y, NULL, x, 1, 1, 0, 1, 0, "s", 1},
        {0, x, x, x, 1, 1, 0, 1, 0, "s", 1},    {0, x, NULL, y, 1, 1, 0, 1, 0, "s", 1},
        {0, x, NULL, x, 2, 1, 0, 1, 0, "s", 1}, {0, x, NULL, x, 1, 2, 0, 1, 0, "s", 1},
        {0, x, NULL, x, 1, 1, 1, 1, 0, "s", 1}, {0, x, NULL, x, 1, 1, 0, 0, 0, "s", 1},
        {0, x, NULL, x, 1, 1, 0, 1, 1, "s", 1}, {0, x, NULL, x, 1, 1, 0, 1, 0, "t", 1},
        {0, x, NULL, x, 1, 1, 0, 1, 0, NULL, 0}};
    pc__id ids[sizeof base / sizeof *base + 8];
    size_t n = 0;
    static const int32_t t[] = {5, 6}, u[] = {5, 7};
    static const int64_t gap[] = {0, 2};
    for (; n < sizeof base / sizeof *base; n++)
        ids[n] = pc__base_key(&base[n]);
    ids[n++] = pc__segment_key(&ids[0], NULL, 0, 0, t, NULL, 2);
    ids[n++] = pc__segment_key(&ids[0], &ids[1], 0, 0, t, NULL, 2);
    ids[n++] = pc__segment_key(&ids[0], &ids[1], 1, 0, t, NULL, 2);
    ids[n++] = pc__segment_key(&ids[0], &ids[2], 0, 0, t, NULL, 2);
    ids[n++] = pc__segment_key(&ids[0], &ids[1], 0, 1, t, NULL, 2);
    ids[n++] = pc__segment_key(&ids[0], &ids[1], 0, 0, u, NULL, 2);
    ids[n++] = pc__segment_key(&ids[0], &ids[1], 0, 0, t, NULL, 1);
    ids[n++] = pc__segment_key(&ids[0], &ids[1], 0, 0, t, gap, 2);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(!pc__id_equal(&ids[i], &ids[j]));
}

int main(void)
{
    document = pc_test_read(PC_SOURCE_DIR "/doc/format.md", NULL);
    if (CHECK(document != NULL)) {
        vectors();
        every_field_counts();
    }
    free(document);
    return pc_test_end();
}
