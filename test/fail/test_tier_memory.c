/* Catches: a cache with tiers below RAM whose library holds more memory than the budgets of RAM and
 * COMPRESSED: segments in memory, loads under way, entries that wait to be written or are being
 * compressed, tables, evicted segments that are not freed yet. Every allocation of the context is
 * counted, and the memory of an application's states from the moment its put has returned. Beyond
 * the budgets there may be only what doc/store.md documents: a table entry for each record on disk,
 * and the blocks that are being written. */
#include <promptcache/extend.h>
#include <promptcache/cache.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "testing.h"

#if defined(__SANITIZE_THREAD__) /* twenty times slower */
enum { OPERATIONS = 60, KEYS = 150, HOST_MIB = 9, PACKED_MIB = 3 };
#else
enum { OPERATIONS = 150, KEYS = 300, HOST_MIB = 24, PACKED_MIB = 12 };
#endif
enum { LAYERS = 4, TOKENS = 8, THREADS = 3, FLUSH_EVERY = 8, IO_THREADS = 2 };
enum { PAGE = 4096, SIZES = 61, LARGEST = PAGE * (SIZES + 1) };
#define HOST_BYTES ((uint64_t)HOST_MIB << 20)
#define PACKED_BYTES ((uint64_t)PACKED_MIB << 20)
enum { CONTEXTS = 1 << 20 }; /* of zstd: one that encodes, IO_THREADS that decode */
enum {
    KNOWLEDGE = 600,
    BLOCKS = 2 /* of the thread that writes: as stored, and on its way there */
};

static atomic_int_fast64_t held, held_most;

static void hold(int64_t bytes)
{
    int64_t now = atomic_fetch_add(&held, bytes) + bytes, seen = atomic_load(&held_most);
    while (now > seen && !atomic_compare_exchange_weak(&held_most, &seen, now))
        ;
}

static void *count_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    hold((int64_t)size);
    return pc__libc_allocator.alloc(NULL, size, align);
}

static void count_free(void *user, void *ptr, size_t size, size_t align)
{
    (void)user;
    pc__libc_allocator.free(NULL, ptr, size, align);
    hold(-(int64_t)size);
}

typedef struct states {
    void *block[LAYERS];
    uint64_t bytes[LAYERS];
    atomic_int is_held; /* by the cache, as far as the test counts */
} states;

static void release(void *user)
{
    states *s = user;
    if (atomic_load(&s->is_held))
        hold(-(int64_t)(LAYERS * s->bytes[0]));
    for (int l = 0; l < LAYERS; l++)
        free(s->block[l]);
    free(s);
}

static states *compute(uint64_t bytes, pc_test_rng *rng)
{
    states *s = calloc(1, sizeof *s);
    for (int l = 0; s && l < LAYERS; l++) {
        s->bytes[l] = bytes;
        s->block[l] = aligned_alloc(64, bytes);
        for (size_t i = 0; s->block[l] && i < bytes / sizeof(uint32_t); i++)
            ((uint32_t *)s->block[l])[i] = (uint32_t)(pc_test_bits(rng) & 0xffffff);
    }
    return s;
}

typedef struct worker {
    pc_context *context;
    pc_cache *cache;
    uint64_t seed;
    int failed;
} worker;

static pc_status keep(worker *w, const uint8_t *key, pc_raw *raw, pc_test_rng *rng)
{
    states *s = compute(raw->block_bytes[0], rng);
    pc_segment *segment = NULL;
    pc_status status;
    raw->blocks = (const void *const *)s->block;
    status = pc_segment_wrap(&segment, w->context, raw, release, s);
    if (status < 0) {
        release(s);
        return status;
    }
    status = pc_cache_put(w->cache, key, segment, NULL);
    if (status == PC_OK) { /* while this thread still has a reference */
        atomic_store(&s->is_held, 1);
        hold((int64_t)(LAYERS * s->bytes[0]));
    }
    pc_segment_free(segment);
    return status;
}

static pc_status use(worker *w, int32_t number, pc_test_rng *rng)
{
    static const uint8_t model[32];
    void *blocks[LAYERS] = {NULL};
    uint64_t bytes[LAYERS];
    int32_t tokens[TOKENS];
    uint8_t base[32], key[32];
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    pc_raw raw = PC_RAW_INIT;
    pc_get_info info = PC_GET_INFO_INIT;
    pc_segment *segment = NULL;
    pc_status status;
    for (int l = 0; l < LAYERS; l++)
        bytes[l] = PAGE * (1 + (uint64_t)number * 7919 % SIZES);
    for (int32_t t = 0; t < TOKENS; t++)
        tokens[t] = number * 31 + t;
    parts.model = raw.model = model;
    parts.layout = raw.layout = PC_LAYOUT_APPLICATION + 3;
    parts.dtype = raw.dtype = PC_DTYPE_F32;
    strcpy(raw.architecture, "test");
    raw.layers = LAYERS;
    raw.kv_heads = 1;
    raw.k_dim = raw.v_dim = 16;
    raw.tokens = tokens;
    raw.token_count = TOKENS;
    raw.blocks = (const void *const *)blocks;
    raw.block_bytes = bytes;
    raw.block_count = LAYERS;
    if ((status = pc_key_base(base, &parts)) < 0
        || (status = pc_key_segment(key, &(pc_key_segment_args){sizeof(pc_key_segment_args), base,
                                                                NULL, 0, 0, tokens, NULL, TOKENS}))
               < 0
        || (status = pc_cache_get(&segment, w->cache, key, &raw, 0, &info)) < 0)
        return status;
    if (status == PC_MISS)
        status = keep(w, key, &raw, rng);
    pc_segment_free(segment);
    return status;
}

static void *work(void *arg)
{
    worker *w = arg;
    pc_test_rng rng = {w->seed};
    for (int i = 0; i < OPERATIONS && !w->failed; i++) {
        w->failed = use(w, (int32_t)(pc_test_bits(&rng) % KEYS), &rng) < 0;
        if (i % FLUSH_EVERY == 0)
            w->failed |= pc_cache_flush(w->cache) < 0;
    }
    return NULL;
}

static void churn(pc_context *context, pc_cache *cache)
{
    worker w[THREADS];
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){context, cache, (uint64_t)i + 1, 0};
        CHECK_INT(pthread_create(&ids[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        CHECK(!w[i].failed);
    }
}

static void with_codec(uint32_t codec)
{
    const pc_allocator counting = {sizeof(pc_allocator), NULL, count_alloc, count_free};
    const int64_t budget = (int64_t)(HOST_BYTES + PACKED_BYTES),
                  beside = KEYS * KNOWLEDGE + BLOCKS * LARGEST
                           + (codec == PC_CODEC_ZSTD ? CONTEXTS : 0);
    pc_context_options made = PC_CONTEXT_OPTIONS_INIT;
    pc_cache_options options = PC_CACHE_OPTIONS_INIT;
    pc_tier_stats packed = PC_TIER_STATS_INIT, disk = PC_TIER_STATS_INIT;
    pc_context *context = NULL;
    pc_cache *cache = NULL;
    char path[300];
    made.allocator = &counting;
    made.threads = 1;
    snprintf(path, sizeof path, "%s/codec%u", pc_test_folder(), codec);
    options.ram_bytes = HOST_BYTES;
    options.compressed_bytes = PACKED_BYTES;
    options.disk_path = path;
    options.disk_codec = codec;
    options.io_threads = IO_THREADS;
    options.deadline_seconds = 60;
    options.flags = PC_CACHE_ALWAYS_LOAD;
    atomic_store(&held_most, 0);
    CHECK_OK(pc_context_new(&context, &made));
    CHECK_OK(pc_cache_new(&cache, context, &options));
    churn(context, cache);
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_COMPRESSED, &packed));
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &disk));
    printf("codec %u: %llu packed, %llu written, %llu read; of budgets of %.1f MiB the library "
           "held %.2f at most\n",
           codec, (unsigned long long)packed.stored, (unsigned long long)disk.stored,
           (unsigned long long)(disk.hits + packed.hits), (double)budget / 1048576,
           (double)atomic_load(&held_most) / 1048576);
    CHECK(packed.evicted > 0 && disk.stored > 0 && disk.hits > 0); /* all of it was in use */
    CHECK(atomic_load(&held_most) <= budget + beside);
    CHECK(atomic_load(&held_most) > budget / 2);
    pc_cache_free(cache);
    pc_context_free(context);
    CHECK_INT(atomic_load(&held), 0);
}

int main(void)
{
    with_codec(PC_CODEC_RAW);
    with_codec(PC_CODEC_ZSTD);
    return pc_test_end();
}
