/* A device whose memory is smaller than the RAM tier. Catches: a pass that reads a mirror that was
 * dropped, or not filled; a mirror, memory of the device or of the host that is left behind by
 * what was served; requests of several threads that are refused for want of memory, or wait for
 * each other, though each has enough alone.
 *
 * Schedules of random requests run twice, in two threads with a cache each: with enough memory, and
 * with so little that mirrors of segments are dropped all the time. The answers must be the same.
 * Tokens are drawn at temperature 1, so that one different bit of a logit shows sooner or later.
 * PC_TEST_LONG=1: 2000 schedules; test_small_device COUNT: so many. */
#include <promptcache/batch.h>
#include <promptcache/bench.h>
#include <promptcache/cache.h>
#include <promptcache/sampling.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "attn/backend.h"
#include "counted_context.h"
#include "testing.h"

enum {
    THREADS = 2,
    GROUP = 20, /* schedules that share a cache */
    REQUESTS = 3,
    MOST_LANES = 3,
    MOST_ANSWER = 3,
    ROOTS = 5,
    BRANCHES = 4, /* of each */
    MOST_PROMPT = 240,
    VOCAB = 64
};

typedef struct schedule {
    int32_t tokens[REQUESTS * MOST_LANES * MOST_ANSWER];
    size_t count;
} schedule;

typedef struct world {
    pc_test_memory memory;
    pc_context *context;
    pc__backend *backend;
    pc_model *model;
    schedule *schedules; /* [count] */
    size_t count;
    atomic_size_t cached, most_ram;
    uint64_t dropped;
} world;

static const char config[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 48,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 2,"
    " \"head_dim\": 64, \"intermediate_size\": 32, \"vocab_size\": 64,"
    " \"max_position_embeddings\": 1024, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\"}";

static size_t below(pc_test_rng *rng, size_t n)
{
    return (size_t)(pc_test_bits(rng) >> 20) % n;
}

/* Tokens that depend on the group and on their place in its tree alone. */
static size_t add_text(int32_t *to, size_t group, size_t place, size_t least, size_t more)
{
    pc_test_rng rng = {group * 1009 + place + 1};
    size_t count = least + below(&rng, more);
    for (size_t i = 0; i < count; i++)
        to[i] = (int32_t)below(&rng, VOCAB);
    return count;
}

static pc_prompt *make_prompt(const world *w, size_t group, pc_test_rng *rng)
{
    int32_t tokens[MOST_PROMPT];
    size_t root = below(rng, ROOTS), branch = below(rng, BRANCHES + 1),
           count = add_text(tokens, group, root, 50, 60);
    pc_prompt *prompt = NULL;
    if (branch)
        count += add_text(tokens + count, group, 100 + root * BRANCHES + branch, 50, 60);
    for (size_t i = 1 + below(rng, 6); i; i--)
        tokens[count++] = (int32_t)below(rng, VOCAB);
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, tokens, count, NULL));
    return prompt;
}

static void keep_answer(world *w, schedule *to, const pc_sequence *sequence)
{
    pc_stats stats = PC_STATS_INIT;
    size_t count;
    const int32_t *tokens = pc_sequence_tokens(sequence, &count);
    CHECK_OK(pc_sequence_error(sequence, NULL));
    CHECK_OK(pc_sequence_get_stats(sequence, &stats));
    atomic_fetch_add(&w->cached, stats.tokens_cached);
    for (size_t i = 0; i < count; i++)
        to->tokens[to->count++] = tokens[i];
}

/* Some prompts in one batch. */
static void request(world *w, pc_cache *cache, size_t group, pc_test_rng *rng, schedule *to)
{
    pc_prompt *prompts[MOST_LANES];
    pc_sequence *sequences[MOST_LANES] = {NULL};
    pc_batch *batch = NULL;
    pc_status status = PC_OK;
    size_t lanes = 1 + below(rng, MOST_LANES);
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    for (size_t i = 0; i < lanes; i++) {
        pc_sampling sampling = PC_SAMPLING_INIT;
        pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
        sampling.temperature = 1.0f;
        sampling.seed = pc_test_bits(rng);
        options.sampling = &sampling;
        options.max_tokens = (uint32_t)(1 + below(rng, MOST_ANSWER));
        options.flags = PC_GENERATE_IGNORE_END;
        prompts[i] = make_prompt(w, group, rng);
        CHECK_OK(pc_sequence_new(&sequences[i], prompts[i], cache, &options));
        CHECK_OK(pc_batch_add(batch, sequences[i]));
    }
    while (status == PC_OK)
        status = pc_batch_step(batch);
    CHECK_STATUS(status, PC_END);
    pc_batch_free(batch);
    for (size_t i = 0; i < lanes; i++) {
        keep_answer(w, to, sequences[i]);
        pc_sequence_free(sequences[i]);
        pc_prompt_free(prompts[i]);
    }
}

static void run_group(world *w, size_t group)
{
    pc_tier_stats ram = PC_TIER_STATS_INIT;
    pc_cache *cache = NULL;
    CHECK_OK(pc_cache_new(&cache, w->context, NULL));
    for (size_t s = group * GROUP; s < (group + 1) * GROUP && s < w->count; s++) {
        pc_test_rng rng = {s + 1};
        w->schedules[s].count = 0;
        for (int r = 0; r < REQUESTS; r++)
            request(w, cache, group, &rng, &w->schedules[s]);
    }
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_RAM, &ram));
    size_t most = atomic_load(&w->most_ram);
    while (most < ram.segment_bytes
           && !atomic_compare_exchange_weak(&w->most_ram, &most, ram.segment_bytes))
        ;
    pc_cache_free(cache);
}

typedef struct part {
    world *world;
    size_t first, end; /* groups */
} part;

static void *run_part(void *arg)
{
    const part *p = arg;
    for (size_t g = p->first; g < p->end; g += THREADS)
        run_group(p->world, g);
    return NULL;
}

static void run_groups(world *w, size_t first, size_t end)
{
    pthread_t threads[THREADS];
    part parts[THREADS];
    for (size_t t = 0; t < THREADS; t++) {
        parts[t] = (part){w, first + t, end};
        pthread_create(&threads[t], NULL, run_part, &parts[t]);
    }
    for (size_t t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
}

/* The largest part of the device's memory that can be had, to 4 KiB. */
static size_t free_bytes(pc__backend *backend)
{
    size_t has = 0;
    for (size_t step = (size_t)1 << 31; step >= 4096; step /= 2) {
        void *memory = backend->ops->take(backend, has + step);
        has += memory ? step : 0;
        backend->ops->give(backend, memory);
    }
    return has;
}

typedef struct left {
    size_t mirrors, mirror_bytes, device_bytes;
    int64_t host_blocks, host_bytes;
} left;

static left look(const world *w)
{
    return (left){w->backend->mirrors.count, w->backend->mirrors.bytes, free_bytes(w->backend),
                  w->memory.live_blocks, w->memory.live_bytes};
}

/* Work memory and streams are kept for the next request: how many there are, and how large, depends
 * on what runs at once. One block that is left behind by each schedule is more than that. */
static void compare_left(const left *quarter, const left *end)
{
    enum { KEPT_BLOCKS = 24, KEPT_BYTES = 4 << 20 };
    CHECK_INT(end->mirrors, 0);
    CHECK_INT(end->mirror_bytes, 0);
    CHECK_INT(end->device_bytes, quarter->device_bytes);
    CHECK(end->host_blocks <= quarter->host_blocks + KEPT_BLOCKS);
    CHECK(end->host_bytes <= quarter->host_bytes + KEPT_BYTES);
}

static void run_all(world *w, const char *shape, size_t count)
{
    size_t groups = (count + GROUP - 1) / GROUP, quarter = (groups + 3) / 4;
    left first, last;
    w->schedules = calloc(count, sizeof *w->schedules);
    w->count = count;
    w->context = pc_test_counted_context(&w->memory, 2);
    if (!w->context)
        exit(pc_test_end());
    w->backend = pc__backend_of(w->context);
    CHECK_OK(pc_model_new_shape(&w->model, w->context, shape, 5, NULL));
    run_groups(w, 0, quarter);
    first = look(w);
    run_groups(w, quarter, groups);
    last = look(w);
    compare_left(&first, &last);
    printf("%zu schedules: %zu tokens from a cache of up to %zu bytes, %llu calls of the model, "
           "%llu mirrors "
           "dropped, %zu bytes of the device are free at the end\n",
           count, atomic_load(&w->cached), atomic_load(&w->most_ram),
           (unsigned long long)w->backend->mirrors.works,
           (unsigned long long)w->backend->mirrors.dropped, last.device_bytes);
    w->dropped = w->backend->mirrors.dropped;
    pc_model_free(w->model);
    pc_context_free(w->context);
    CHECK_INT(w->memory.live_blocks, 0);
}

int main(int argc, char **argv)
{
    static world large, small;
    const char *backend = getenv("PC_BACKEND"), *name = NULL, *limit = NULL;
    char shape[512];
    if (backend && !strcmp(backend, "far"))
        name = "PC_TEST_FAR_MEMORY", limit = "1300000";
    if (backend && !strcmp(backend, "fakecuda"))
        name = "PC_TEST_CUDA_MEMORY", limit = "1800000";
    if (!name)
        pc_test_skip("only for backends with memory of their own (PC_BACKEND)");
    unsetenv(name);
    snprintf(shape, sizeof shape, "%s/config.json", pc_test_folder());
    pc_test_write(shape, config, sizeof config - 1);
    size_t count = getenv("PC_TEST_LONG") ? 2000
                   : argc > 1             ? strtoul(argv[1], NULL, 10)
                                          : 80,
           wrong = 0;
    run_all(&large, shape, count);
    CHECK_INT(large.dropped, 0);
    setenv(name, limit, 1);
    run_all(&small, shape, count);
    for (size_t s = 0; s < count; s++)
        wrong += memcmp(&large.schedules[s], &small.schedules[s], sizeof *large.schedules) != 0;
    CHECK_INT(wrong, 0);
    CHECK(large.cached > 0 && small.cached == large.cached);
    CHECK(small.dropped > count);
    free(large.schedules);
    free(small.schedules);
    return pc_test_end();
}
