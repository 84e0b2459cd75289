/* Catches: maps of strings or pairs that lose entries when they grow, confuse keys of equal hash or
 * prefix, overwrite a value, or do not find the longest key that begins a text. */
#include <stdlib.h>
#include <string.h>

#include "testing.h"
#include "text/string_map.h"

static void fills_and_grows(void)
{
    enum { KEYS = 5000 };
    static char keys[KEYS][8];
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    pc__string_map map;
    int right = 0;
    CHECK_OK(pc__string_map_new(&map, &mem, 0));
    CHECK_INT(pc__string_map_get(&map, "k1", 2), -1);
    for (int i = 0; i < KEYS; i++) {
        int n = snprintf(keys[i], sizeof keys[i], "k%d", i);
        CHECK_OK(pc__string_map_add(&map, keys[i], (size_t)n, i));
    }
    for (int i = 0; i < KEYS; i++)
        right += pc__string_map_get(&map, keys[i], strlen(keys[i])) == i;
    CHECK_INT(right, KEYS);
    CHECK_INT(pc__string_map_get(&map, "k", 1), -1);
    CHECK_INT(pc__string_map_get(&map, "k12345", 6), -1);
    CHECK_OK(pc__string_map_add(&map, "k7", 2, 99)); /* the first value stays */
    CHECK_INT(pc__string_map_get(&map, "k7", 2), 7);
    CHECK_OK(
        pc__string_map_add(&map, "", 0, 5)); /* an empty key is a key, and so is one with a NUL */
    CHECK_OK(pc__string_map_add(&map, "a\0b", 3, 6));
    CHECK_INT(pc__string_map_get(&map, "", 0), 5);
    CHECK_INT(pc__string_map_get(&map, "a\0b", 3), 6);
    CHECK_INT(pc__string_map_get(&map, "a\0c", 3), -1);
    CHECK_INT(pc__string_map_get(&map, "a", 1), -1);
    pc__string_map_free(&map);
    pc__string_map_free(&map);
    CHECK_INT(pc__string_map_get(&map, "k1", 2), -1);
    CHECK_INT(memory.live_blocks, 0);
}

static int any(const void *user, int32_t value)
{
    (void)user;
    (void)value;
    return 1;
}

static int below(const void *user, int32_t value)
{
    return value < *(const int32_t *)user;
}

static void longest(void)
{
    static const char *const keys[] = {"a", "abc", "abcde", "b", "<s>", ""};
    pc__string_map map;
    int32_t most = 2;
    CHECK_OK(pc__string_map_new(&map, &pc__libc_allocator, 8));
    for (int32_t i = 0; i < 6; i++)
        CHECK_OK(pc__string_map_add(&map, keys[i], strlen(keys[i]), i));
    CHECK_INT(pc__string_map_longest(&map, "abcdef", 6, any, NULL), 2);
    CHECK_INT(pc__string_map_longest(&map, "abcdef", 4, any, NULL), 1); /* not past the size */
    CHECK_INT(pc__string_map_longest(&map, "abcdef", 2, any, NULL), 0);
    CHECK_INT(pc__string_map_longest(&map, "abcdef", 6, below, &most),
              1); /* a shorter one will do */
    most = 0;
    CHECK_INT(pc__string_map_longest(&map, "abcdef", 6, below, &most), -1);
    CHECK_INT(pc__string_map_longest(&map, "xabc", 4, any, NULL), -1);
    CHECK_INT(pc__string_map_longest(&map, "<s>x", 4, any, NULL), 4);
    CHECK_INT(pc__string_map_longest(&map, "", 0, any, NULL), -1); /* nothing starts nothing */
    pc__string_map_free(&map);
    CHECK_INT(pc__string_map_longest(&map, "a", 1, any, NULL), -1);
}

static void pairs(void)
{
    enum { PAIRS = 3000 };
    pc__pair_map map;
    int right = 0;
    CHECK_OK(pc__pair_map_new(&map, &pc__libc_allocator, PAIRS + 1));
    CHECK(!pc__pair_map_get(&map, 0, 0));
    for (int32_t i = 0; i < PAIRS; i++)
        pc__pair_map_add(&map, i % 53, i, i, -i);
    pc__pair_map_add(&map, 1, 1, 77, 77); /* the first stays */
    for (int32_t i = 0; i < PAIRS; i++) {
        const pc__pair_map_slot *slot = pc__pair_map_get(&map, i % 53, i);
        right += slot && slot->rank == i && slot->merged == -i;
    }
    CHECK_INT(right, PAIRS);
    CHECK(!pc__pair_map_get(&map, 2, 1) && !pc__pair_map_get(&map, 1, 2));
    pc__pair_map_free(&map);
}

static void no_memory(void)
{
    for (uint64_t at = 1; at < 8; at++) {
        pc_test_memory memory = {.fail_at = at};
        const pc_allocator mem = pc_test_allocator(&memory);
        static const char keys[] = "abcdefghijklmnopqrstuvwxyz";
        pc__string_map map;
        pc_status status = pc__string_map_new(&map, &mem, 0);
        int32_t added = 0;
        while (status >= 0 && added < 26
               && (status = pc__string_map_add(&map, keys + added, 1, added)) >= 0)
            added++;
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        for (int32_t i = 0; i < added; i++) /* what was there is still there */
            CHECK_INT(pc__string_map_get(&map, keys + i, 1), i);
        pc__string_map_free(&map);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    fills_and_grows();
    longest();
    pairs();
    no_memory();
    return pc_test_end();
}
