/* A cache over tiers in memory that can fail (slow_tier.h), states that repeat a number, and
 * requests for them. For tests of loads from below RAM. */
#ifndef PC_LOADING_WORLD_H
#define PC_LOADING_WORLD_H

#include <promptcache/cache.h>
#include "store/cache_internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "at_rest.h"
#include "slow_tier.h"
#include "testing.h"

enum { BLOCKS = 5, BLOCK_BYTES = 4096, TOKENS = 16 };

/* ------------------------------------------- states that are a number repeated */

typedef struct state {
    uint8_t *blocks[BLOCKS];
    uint64_t bytes[BLOCKS];
    size_t block_bytes;
} state;

static atomic_int live, owners;
static size_t block_bytes = BLOCK_BYTES;

static inline void release(void *owner, void *payload)
{
    state *s = payload;
    (void)owner;
    for (size_t b = 0; b < BLOCKS; b++)
        free(s->blocks[b]);
    free(s);
    atomic_fetch_sub(&live, 1);
}

static inline void ref_owner(void *owner)
{
    (void)owner;
    atomic_fetch_add(&owners, 1);
}

static inline void drop_owner(void *owner)
{
    (void)owner;
    atomic_fetch_sub(&owners, 1);
}

static inline state *new_state(void)
{
    state *s = calloc(1, sizeof *s);
    s->block_bytes = block_bytes;
    for (size_t b = 0; b < BLOCKS; b++) {
        s->blocks[b] = malloc(block_bytes);
        s->bytes[b] = block_bytes;
    }
    atomic_fetch_add(&live, 1);
    return s;
}

static inline pc_status describe(void *owner, void *payload, pc__image *image, void **release_me)
{
    state *s = payload;
    (void)owner;
    (void)release_me;
    image->block_count = BLOCKS;
    image->blocks = s->blocks;
    image->block_bytes = s->bytes;
    return PC_OK;
}

static atomic_int refuse_create, refuse_finish;

static inline pc_status create(void *owner, const pc__image *image, void **payload,
                               uint8_t **blocks)
{
    state *s;
    (void)owner;
    if (atomic_load(&refuse_create) || image->block_count != BLOCKS)
        return pc__fail(PC_ERR_MISMATCH, "test: not wanted");
    s = new_state();
    memcpy(blocks, s->blocks, sizeof s->blocks);
    *payload = s;
    return PC_OK;
}

static inline pc_status finish(void *owner, const pc__image *image, void **payload)
{
    (void)owner;
    (void)image;
    (void)payload;
    return atomic_load(&refuse_finish) ? pc__fail(PC_ERR_IO, "test: not finished") : PC_OK;
}

static const pc__payload_ops ops = {.release = release,
                                    .drop_owner = drop_owner,
                                    .describe = describe,
                                    .create = create,
                                    .finish = finish};

/* ------------------------------------------------------------------ names */

static inline void set_tokens(int32_t tokens[TOKENS], int32_t number)
{
    for (int32_t i = 0; i < TOKENS; i++)
        tokens[i] = number + i;
}

static inline pc__id key_of(int32_t number)
{
    static const pc__id nothing;
    int32_t tokens[TOKENS];
    set_tokens(tokens, number);
    return pc__segment_key(&nothing, NULL, 0, 0, tokens, NULL, TOKENS);
}

static inline pc__image image_of(int32_t number, int32_t tokens[TOKENS])
{
    pc__image image = {0};
    set_tokens(tokens, number);
    image.key = key_of(number);
    memset(image.form.model, 7, sizeof image.form.model);
    strcpy(image.form.architecture, "test");
    image.form.layout = PC_LAYOUT_APPLICATION;
    image.form.shape.dtype = PC_DTYPE_F32;
    image.tokens = TOKENS;
    image.token_ids = tokens;
    return image;
}

static inline pc_status put_as(pc_cache *cache, int32_t number, uint32_t write_on_reuse)
{
    int32_t tokens[TOKENS];
    pc__image image = image_of(number, tokens);
    pc_segment *segment = NULL;
    state *s = new_state();
    pc_status status;
    for (size_t b = 0; b < BLOCKS; b++)
        memset(s->blocks[b], number + (int)b, block_bytes);
    ref_owner(NULL);
    if (pc__segment_new(&segment, &pc__libc_allocator, &ops, s, &owners, BLOCKS * block_bytes,
                        tokens, TOKENS)
        < 0)
        abort(); /* not checked: several threads call it */
    status = pc__cache_put_entry(
        cache, &(pc__entry_desc){.key = image.key, .cost = 1, .write_on_reuse = write_on_reuse},
        &image, segment, NULL, NULL);
    pc__segment_unref(segment);
    return status;
}

static inline pc_status put(pc_cache *cache, int32_t number)
{
    return put_as(cache, number, 0);
}

/* Moves all entries below RAM. */
static inline void sink(pc_cache *cache)
{
    CHECK(pc_cache_flush(cache) >= 0);
    pc_test_forget(cache);
}

static inline pc_status get_host(pc_cache *cache, int32_t number)
{
    int32_t tokens[TOKENS];
    pc__id key = key_of(number);
    pc_segment *segment = NULL;
    pc_status status;
    set_tokens(tokens, number);
    status = pc__cache_get_entry(cache, &key, tokens, TOKENS, &segment, NULL);
    pc__segment_unref(segment);
    return status;
}

static inline pc_status seek_after(pc_cache *cache, int32_t number, double before, double cost,
                                   pc__entry_load **out, uint32_t *reason)
{
    int32_t tokens[TOKENS];
    pc__image image = image_of(number, tokens);
    pc__entry_desc desc = {.key = image.key};
    pc__load_request want = {.image = &image,
                             .ops = &ops,
                             .owner = &owners,
                             .ref_owner = ref_owner,
                             .bytes = BLOCKS * block_bytes,
                             .desc = &desc,
                             .cost = cost,
                             .queue_cost = before};
    return pc__cache_lookup_async(cache, &want, out, reason);
}

static inline pc_status look_up_async(pc_cache *cache, int32_t number, double cost,
                                      pc__entry_load **out, uint32_t *reason)
{
    return seek_after(cache, number, 0, cost, out, reason);
}

static inline int is_right(const pc_segment *segment, int32_t number)
{
    const state *s = segment->payload;
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t i = 0; i < block_bytes; i++)
            if (s->blocks[b][i] != (uint8_t)(number + (int)b))
                return 0;
    return segment->tokens == TOKENS && segment->token_ids[0] == number;
}

/* Looks up in RAM, then below, and waits. */
static inline pc_status load(pc_cache *cache, int32_t number, double cost, uint32_t *reason)
{
    pc__entry_load *l;
    pc_segment *segment = NULL;
    pc_status status = get_host(cache, number);
    *reason = PC_REASON_NONE;
    if (status != PC_MISS)
        return status;
    status = look_up_async(cache, number, cost, &l, reason);
    if (status != PC_OK)
        return status;
    status = pc__entry_load_wait(l, pc__now() + 20, &segment, reason);
    CHECK(status == PC_OK || status == PC_MISS);
    CHECK((status == PC_OK) == (segment != NULL));
    CHECK(pc__load_is_done(l) && pc__load_succeeded(l) == (segment != NULL));
    if (segment) {
        CHECK(is_right(segment, number));
        CHECK_INT(segment->tier, pc__load_tier(l));
        CHECK(pc__load_bytes(l) >= BLOCKS * block_bytes
              && pc__load_bytes(l)
                     <= 2 * (BLOCKS * block_bytes + 4096)); /* a record, or of two tiers two */
    }
    pc__segment_unref(segment);
    pc__load_drop(l);
    return status;
}

/* ------------------------------------------------------------------ a cache over such tiers */

typedef struct world {
    pc_context *context;
    pc_cache *cache;
    pc__tier *disk, *remote; /* in memory */
    pc_faults slow_disk, slow_remote;
} world;

/* TEST_LOG=1 prints why loads fail. */
static inline void print_log(void *user, uint32_t level, const char *line)
{
    (void)user;
    printf("[%u] %s\n", level, line);
}

static pc_log_fn watch_log; /* of the worlds that start from now on; NULL: the default above */

static inline void start(world *w, uint64_t ram_bytes, uint64_t flags, double deadline, int remote)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc__tier *tiers[PC_TIER_COUNT] = {NULL};
    memset(w, 0, sizeof *w);
    pc_context_options co = PC_CONTEXT_OPTIONS_INIT;
    co.log = watch_log ? watch_log : getenv("TEST_LOG") ? print_log : NULL;
    CHECK_OK(pc_context_new(&w->context, &co));
    w->disk = pc_memory_tier_new(PC_TIER_DISK);
    tiers[PC_TIER_DISK] = pc_slow_tier_new(w->disk, &w->slow_disk);
    if (remote) {
        w->remote = pc_memory_tier_new(PC_TIER_REMOTE);
        tiers[PC_TIER_REMOTE] = pc_slow_tier_new(w->remote, &w->slow_remote);
    }
    o.ram_bytes = ram_bytes;
    o.flags = flags;
    o.deadline_seconds = deadline;
    CHECK_OK(pc__cache_new_over(&w->cache, w->context, &o, tiers));
}

static inline void check_tier(pc_cache *cache, uint32_t tier)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(cache, tier, &s));
    CHECK_INT(s.offered, s.stored + s.refused + s.failed + s.known);
    CHECK_INT(s.stored + s.found, s.segments + s.evicted + s.removed + s.lost);
    if (tier != PC_TIER_RAM)
        CHECK_INT(s.lookups, s.hits + s.misses + s.load_failed);
}

static inline pc_cache_stats balanced(pc_cache *cache)
{
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_get_stats(cache, &s));
    CHECK_INT(s.lookups, s.hits + s.misses);
    CHECK_INT(s.stored, s.segments + s.evicted + s.removed);
    CHECK(s.segment_bytes <= s.budget_bytes);
    for (uint32_t t = PC_TIER_RAM; t < PC_TIER_COUNT; t++)
        check_tier(cache, t);
    return s;
}

static inline void end(world *w)
{
    pc_test_settle(w->cache);
    balanced(w->cache);
    pc_cache_free(w->cache);
    pc_context_free(w->context);
    CHECK_INT(atomic_load(&live), 0);
    CHECK_INT(atomic_load(&owners), 0);
    CHECK_INT(atomic_load(&w->slow_disk.open_now) + atomic_load(&w->slow_remote.open_now), 0);
}

#endif
