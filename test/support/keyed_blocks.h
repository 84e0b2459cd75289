/* Blocks of K and V of another runtime, by number: each entry has a key of its own, one token and
 * BLOCKS blocks, whose bytes follow from its number. */
#ifndef PC_TEST_KEYED_BLOCKS_H
#define PC_TEST_KEYED_BLOCKS_H

#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

enum { BLOCKS = 2, BLOCK_MOST = 300000, ALL_TIERS = 0, TIER_BITS = 4 };

/* bits 1 << PC_TIER_… */
#define BIT(tier) (UINT64_C(1) << (tier))

typedef struct keyed {
    uint8_t model[32];
    uint64_t bytes[BLOCKS];
    pc_raw expect; /* without tokens and blocks */
} keyed;

/* Blocks of `bytes` and 520 bytes. The struct must stay where it is. */
static inline void keyed_make(keyed *k, uint64_t bytes)
{
    memset(k, 0, sizeof *k);
    k->model[0] = 9;
    k->bytes[0] = bytes;
    k->bytes[1] = 520;
    k->expect = (pc_raw)PC_RAW_INIT;
    k->expect.model = k->model;
    strcpy(k->expect.architecture, "another");
    k->expect.dtype = PC_DTYPE_BF16;
    k->expect.layout = PC_LAYOUT_APPLICATION + 3;
    k->expect.block_bytes = k->bytes;
    k->expect.block_count = BLOCKS;
}

/* From any thread: it checks nothing that can fail. */
static inline void keyed_key(uint8_t key[32], const char *tenant, int32_t number)
{
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    pc_key_segment_args args = PC_KEY_SEGMENT_ARGS_INIT;
    static const uint8_t model[32] = {9};
    uint8_t base[32];
    parts.model = model;
    parts.layout = PC_LAYOUT_APPLICATION + 3;
    parts.salt = tenant;
    parts.salt_size = tenant ? strlen(tenant) : 0;
    if (pc_key_base(base, &parts) < 0)
        abort();
    args.base = base;
    args.tokens = &number;
    args.count = 1;
    if (pc_key_segment(key, &args) < 0)
        abort();
}

static inline uint8_t keyed_byte(int32_t number, size_t block, size_t i)
{
    return (uint8_t)((uint32_t)number * 37 + block * 101 + i * 7 + i / 253);
}

static inline void keyed_fill(const keyed *k, int32_t number, uint8_t *const *blocks)
{
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t i = 0; i < k->bytes[b]; i++)
            blocks[b][i] = keyed_byte(number, b, i);
}

static inline int keyed_is(const keyed *k, int32_t number, const uint8_t *const *blocks)
{
    size_t wrong = 0;
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t i = 0; i < k->bytes[b]; i++)
            wrong += blocks[b][i] != keyed_byte(number, b, i);
    return !wrong;
}

/* Memory of one entry. */
typedef struct keyed_memory {
    uint8_t *blocks[BLOCKS];
} keyed_memory;

static inline keyed_memory keyed_memory_new(const keyed *k)
{
    keyed_memory m;
    for (size_t b = 0; b < BLOCKS; b++)
        m.blocks[b] = calloc(1, (size_t)k->bytes[b]);
    return m;
}

static inline void keyed_memory_free(keyed_memory *m)
{
    for (size_t b = 0; b < BLOCKS; b++)
        free(m->blocks[b]);
}

static inline pc_raw keyed_raw(const keyed *k, const int32_t *number, const keyed_memory *m)
{
    pc_raw raw = k->expect;
    raw.tokens = number;
    raw.token_count = 1;
    raw.blocks = (const void *const *)m->blocks;
    return raw;
}

static inline pc_status keyed_put(pc_cache *cache, const keyed *k, const char *tenant,
                                  int32_t number, uint64_t tiers, uint64_t flags)
{
    pc_put_options o = PC_PUT_OPTIONS_INIT;
    keyed_memory m = keyed_memory_new(k);
    pc_raw raw = keyed_raw(k, &number, &m);
    uint8_t key[32];
    pc_status status;
    keyed_key(key, tenant, number);
    keyed_fill(k, number, m.blocks);
    o.tiers = tiers;
    o.flags = flags;
    o.cost_seconds = 1;
    status = pc_cache_put_copy(cache, key, &raw, &o);
    for (size_t b = 0; b < BLOCKS; b++)
        memset(m.blocks[b], 0xee, (size_t)k->bytes[b]); /* nobody reads them any more */
    keyed_memory_free(&m);
    return status;
}

/* The tier in which it is found; PC_TIER_NONE. */
static inline uint32_t keyed_tier(pc_cache *cache, const char *tenant, int32_t number,
                                  uint64_t tiers)
{
    pc_find_options o = PC_FIND_OPTIONS_INIT;
    uint8_t key[32];
    uint32_t tier = 99;
    size_t found = 7;
    keyed_key(key, tenant, number);
    o.tiers = tiers;
    CHECK_OK(pc_cache_find(cache, key, 1, &found, &tier, &o));
    CHECK_INT(found, tier != PC_TIER_NONE);
    return tier;
}

#endif
