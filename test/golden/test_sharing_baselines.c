/* Catches: a baseline of sharing (PC_BASELINE_COPIES, PC_BASELINE_PER_ROW) whose answers differ
 * from those with sharing, in a batch or alone; copies that are not made, or that include what
 * shared_tokens leaves shared; a leak or a wrong answer when memory runs out; a baseline or a field
 * that is accepted where it has no meaning. */
#include <promptcache.h>
#include <promptcache/bench.h>
#include <promptcache/batch.h>
#include <stdlib.h>
#include <string.h>

#include "counted_context.h"
#include "testing.h"

enum { PREFIX = 192, PROMPT = 230, SEQUENCES = 4, ANSWER = 12 };

typedef struct world {
    pc_test_memory memory;
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_model_info info;
    pc_prompt *prompts[SEQUENCES];
} world;

static void start(world *w, uint32_t compute)
{
    pc_model_options model = PC_MODEL_OPTIONS_INIT;
    pc_test_rng rng = {7};
    int32_t tokens[PROMPT];
    memset(w, 0, sizeof *w);
    model.compute = compute;
    w->info = (pc_model_info)PC_MODEL_INFO_INIT;
    w->context = pc_test_counted_context(&w->memory, 1);
    CHECK_OK(pc_model_new_shape(&w->model, w->context, "tiny", 0, &model));
    CHECK_OK(pc_model_get_info(w->model, &w->info));
    CHECK_OK(pc_cache_new(&w->cache, w->context, NULL));
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = (int32_t)(pc_test_bits(&rng) % (uint64_t)w->info.vocab);
    for (int s = 0; s < SEQUENCES; s++) {
        for (int i = PREFIX; i < PROMPT; i++)
            tokens[i] = (int32_t)(pc_test_bits(&rng) % (uint64_t)w->info.vocab);
        CHECK_OK(
            pc_prompt_from_tokens(&w->prompts[s], w->model, tokens, (size_t)(PROMPT - s), NULL));
    }
}

static void end(world *w)
{
    for (int s = 0; s < SEQUENCES; s++)
        pc_prompt_free(w->prompts[s]);
    pc_cache_free(w->cache);
    pc_model_free(w->model);
    pc_context_free(w->context);
    CHECK_INT(w->memory.live_blocks, 0);
}

/* They hold until the next call. */
static pc_generate_options options(uint32_t baseline, uint64_t shared)
{
    static pc_bench_options bench;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    bench = (pc_bench_options)PC_BENCH_OPTIONS_INIT;
    bench.baseline = baseline;
    bench.shared_tokens = shared;
    o.max_tokens = ANSWER;
    o.bench = &bench;
    return o;
}

typedef struct answers {
    int32_t tokens[SEQUENCES][ANSWER];
    int64_t bytes; /* shared by the sequences when all had their first token */
} answers;

/* `baseline` of sequence s: baselines[s]. */
static answers run(world *w, const uint32_t *baselines, uint64_t shared)
{
    answers out = {.bytes = 0};
    pc_sequence *sequences[SEQUENCES] = {NULL};
    pc_batch *batch = NULL;
    int64_t before = w->memory.live_bytes;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    for (int s = 0; s < SEQUENCES; s++) {
        pc_generate_options o = options(baselines[s],
                                        baselines[s] == PC_BASELINE_COPIES ? shared : 0);
        CHECK_OK(pc_sequence_new(&sequences[s], w->prompts[s], w->cache, &o));
        CHECK_OK(pc_batch_add(batch, sequences[s]));
    }
    CHECK_OK(pc_batch_step(batch));
    out.bytes = w->memory.live_bytes - before;
    while (pc_batch_step(batch) == PC_OK)
        continue;
    for (int s = 0; s < SEQUENCES; s++) {
        size_t count;
        const int32_t *tokens = pc_sequence_tokens(sequences[s], &count);
        if (CHECK_INT(count, ANSWER))
            memcpy(out.tokens[s], tokens, sizeof out.tokens[s]);
        pc_sequence_free(sequences[s]);
    }
    pc_batch_free(batch);
    return out;
}

static answers run_all(world *w, uint32_t baseline, uint64_t shared)
{
    const uint32_t baselines[SEQUENCES] = {baseline, baseline, baseline, baseline};
    return run(w, baselines, shared);
}

static void same_answers(world *w)
{
    static const uint32_t mixed[SEQUENCES] = {PC_BASELINE_PER_ROW, PC_BASELINE_NONE,
                                              PC_BASELINE_COPIES, PC_BASELINE_PER_ROW};
    int64_t prefix = (int64_t)w->info.kv_bytes_per_token * PREFIX, block = prefix / 3;
    run_all(w, PC_BASELINE_NONE, 0);    /* fills the cache */
    run_all(w, PC_BASELINE_PER_ROW, 0); /* its work memory is kept */
    answers shared = run_all(w, PC_BASELINE_NONE, 0), rows = run_all(w, PC_BASELINE_PER_ROW, 0),
            copies = run_all(w, PC_BASELINE_COPIES, 0),
            partly = run_all(w, PC_BASELINE_COPIES, 128), some = run(w, mixed, 0);
    CHECK(!memcmp(shared.tokens, rows.tokens, sizeof shared.tokens));
    CHECK(!memcmp(shared.tokens, copies.tokens, sizeof shared.tokens));
    CHECK(!memcmp(shared.tokens, partly.tokens, sizeof shared.tokens));
    CHECK(!memcmp(shared.tokens, some.tokens, sizeof shared.tokens));
    CHECK(rows.bytes < shared.bytes + block);
    CHECK(copies.bytes >= shared.bytes + SEQUENCES * prefix);
    CHECK(partly.bytes >= shared.bytes + SEQUENCES * block);
    CHECK(partly.bytes < shared.bytes + SEQUENCES * 2 * block);
}

/* Without attention a token decides what follows, whatever stands before it; other sequences of the
 * batch, and later ones, change nothing. */
static void no_attention(world *w)
{
    static const uint32_t mixed[SEQUENCES] = {PC_BASELINE_NO_ATTENTION, PC_BASELINE_NONE,
                                              PC_BASELINE_NO_ATTENTION, PC_BASELINE_PER_ROW};
    answers shared = run_all(w, PC_BASELINE_NONE, 0),
            none = run_all(w, PC_BASELINE_NO_ATTENTION, 0), some = run(w, mixed, 0),
            after = run_all(w, PC_BASELINE_NONE, 0);
    pc_generate_options o = options(PC_BASELINE_NO_ATTENTION, 0);
    pc_stats stats = PC_STATS_INIT;
    int same = 0, all = 0;
    CHECK(!memcmp(shared.tokens, after.tokens, sizeof shared.tokens));
    for (int s = 0; s < SEQUENCES; s++) {
        CHECK_INT(none.tokens[s][0], shared.tokens[s][0]); /* the prompt's own logits */
        CHECK(!memcmp(some.tokens[s],
                      mixed[s] == PC_BASELINE_NO_ATTENTION ? none.tokens[s] : shared.tokens[s],
                      sizeof none.tokens[s]));
        for (int i = 0; i + 1 < ANSWER; i++)
            for (int t = 0; t < SEQUENCES; t++)
                for (int j = 0; j + 1 < ANSWER; j++)
                    CHECK(none.tokens[s][i] != none.tokens[t][j]
                          || none.tokens[s][i + 1] == none.tokens[t][j + 1]);
        for (int i = 1; i < ANSWER; i++, all++)
            same += none.tokens[s][i] == shared.tokens[s][i];
    }
    CHECK(same < all);
    CHECK_OK(pc_generate(w->prompts[0], w->cache, &o, &stats));
    CHECK_INT(stats.exactness, PC_APPROXIMATE);
    CHECK_INT(stats.tokens_cached, PREFIX);
}

static void statistics(world *w)
{
    for (uint32_t baseline = PC_BASELINE_COPIES; baseline <= PC_BASELINE_PER_ROW; baseline++) {
        pc_generate_options o = options(baseline, 0);
        pc_stats stats = PC_STATS_INIT;
        CHECK_OK(pc_generate(w->prompts[0], w->cache, &o, &stats));
        CHECK_INT(stats.tokens_cached, PREFIX);
        CHECK_INT(stats.exactness, PC_EXACT);
        CHECK_INT(stats.miss_reason, PC_REASON_NONE);
        CHECK_OK(pc_generate(w->prompts[0], NULL, &o, &stats)); /* nothing to copy */
        CHECK_INT(stats.tokens_cached, 0);
    }
}

static void memory_runs_out(world *w)
{
    pc_generate_options o = options(PC_BASELINE_COPIES, 0);
    pc_status status = PC_ERR_NOMEM;
    uint64_t index = 0;
    int64_t blocks = w->memory.live_blocks;
    o.max_tokens = 2;
    while (status == PC_ERR_NOMEM && index < 5000) {
        w->memory.fail_at = w->memory.calls + ++index;
        status = pc_generate(w->prompts[1], w->cache, &o, NULL);
        w->memory.fail_at = 0;
        CHECK_INT(w->memory.live_blocks, blocks);
    }
    CHECK_OK(status);
    CHECK(index > 10);
}

static void wrong_arguments(world *w)
{
    pc_generate_options o = options(PC_BASELINE_NONE, 1);
    CHECK_STATUS(pc_generate(w->prompts[0], w->cache, &o, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("shared_tokens is for PC_BASELINE_COPIES");
    o = options(PC_BASELINE_NO_ATTENTION + 1, 0);
    CHECK_STATUS(pc_generate(w->prompts[0], w->cache, &o, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("baseline 7");
}

int main(void)
{
    static const uint32_t formats[] = {PC_DTYPE_F32, PC_DTYPE_BF16};
    for (int i = 0; i < 2; i++) {
        world w;
        start(&w, formats[i]);
        same_answers(&w);
        no_attention(&w);
        statistics(&w);
        memory_runs_out(&w);
        wrong_arguments(&w);
        end(&w);
    }
    return pc_test_end();
}
