/* Outputs that a memo stores. Catches: outputs that come back changed, or for another prompt,
 * pooling or kernel class, or without having been stored; that are computed although they are
 * stored; damaged ones that are used; a memo of an early version that cannot be opened, or never
 * gets outputs; room of replaced records that is lost. */
#include <promptcache/bench.h>
#include <promptcache/memo.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/little_endian.h"
#include "golden_lanes.h"
#include "testing.h"

enum { COUNT = 40, TOKENS = 8, MOST = 1500, HEAD = 96, BUCKET_1 = 96, BUCKET = 144 };

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_model_info info;
    pc_memo *memo;
    char folder[300];
    float *wanted, *got; /* [COUNT][hidden + vocab] */
    pc_memo_result results[COUNT];
    pc_prefill_stats stats;
} world;

static int32_t tokens[COUNT][MOST];
static pc_input inputs[COUNT];

static void make_inputs(size_t count)
{
    for (size_t i = 0; i < COUNT; i++) {
        pc_test_rng rng = {i + 1};
        for (size_t t = 0; t < MOST; t++)
            tokens[i][t] = (int32_t)(pc_test_bits(&rng) % 250);
        inputs[i] = (pc_input){tokens[i], count, NULL};
    }
}

static pc_status open_memo(world *w, uint32_t outputs, uint32_t pool, uint64_t flags)
{
    static const uint32_t lengths[] = {16, 2048};
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    o.flags = flags;
    o.bucket_tokens = lengths;
    o.bucket_count = 2;
    o.verify_share = -1;
    o.outputs = outputs;
    o.output_pool = pool;
    return pc_memo_open(&w->memo, w->model, w->folder, &o);
}

static void load(world *w, uint32_t compute)
{
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    o.compute = compute;
    w->info = (pc_model_info)PC_MODEL_INFO_INIT;
    CHECK_OK(pc_model_new_shape(&w->model, w->context, "tiny", 0, &o));
    CHECK_OK(pc_model_get_info(w->model, &w->info));
}

static world start(const pc_allocator *allocator)
{
    static int number;
    world w = {0};
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    o.allocator = allocator;
    CHECK_OK(pc_context_new(&w.context, &o));
    load(&w, PC_DTYPE_F32);
    snprintf(w.folder, sizeof w.folder, "%s/memo%d", pc_test_folder(), number++);
    w.wanted = calloc(COUNT, (size_t)(w.info.hidden + w.info.vocab) * sizeof(float));
    w.got = calloc(COUNT, (size_t)(w.info.hidden + w.info.vocab) * sizeof(float));
    return w;
}

static void end(world *w)
{
    pc_memo_free(w->memo);
    pc_model_free(w->model);
    pc_context_free(w->context);
    free(w->wanted);
    free(w->got);
}

enum { EMBEDDINGS = 1, LOGITS = 2 };

static pc_status ask(world *w, size_t count, pc_memo *memo, int what, uint32_t pool, float *to)
{
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    w->stats = (pc_prefill_stats)PC_PREFILL_STATS_INIT;
    memset(to, 0, COUNT * (size_t)(w->info.hidden + w->info.vocab) * sizeof *to);
    o.memo = memo;
    o.pool = pool;
    o.embeddings = what & EMBEDDINGS ? to : NULL;
    o.logits = what & LOGITS ? to + COUNT * (size_t)w->info.hidden : NULL;
    o.results = w->results;
    o.result_stride = sizeof(pc_memo_result);
    return pc_prefill(w->model, inputs, sizeof(pc_input), count, &o, &w->stats);
}

/* What came back is what was computed, beside other rows. */
static void check_outputs(const world *w, size_t values)
{
    same_rows(w->context, "outputs", w->got, w->wanted, COUNT * values, 2e-5);
}

/* 1: all requested outputs come back exactly. 0: they were computed with maps. */
static void expect(world *w, size_t count, int what, uint32_t pool, uint32_t reuse)
{
    CHECK_OK(ask(w, count, NULL, what, pool, w->wanted));
    CHECK_OK(ask(w, count, w->memo, what, pool, w->got));
    CHECK_INT(w->stats.hits, count);
    CHECK_INT(w->stats.output_hits, reuse == PC_REUSE_OUTPUT ? count : 0);
    for (size_t i = 0; i < count; i++)
        CHECK_INT(w->results[i].reuse, reuse);
    if (reuse == PC_REUSE_OUTPUT)
        check_outputs(w, (size_t)(w->info.hidden + w->info.vocab));
}

static pc_memo_stats stats_of(const world *w)
{
    pc_memo_stats s = PC_MEMO_STATS_INIT;
    CHECK_OK(pc_memo_get_stats(w->memo, &s));
    CHECK_INT(s.stored, s.live + s.evicted + s.removed + s.damaged);
    CHECK(s.outputs <= s.live && s.output_hits <= s.hits);
    return s;
}

static void reopen(world *w, uint32_t outputs, uint32_t pool)
{
    pc_memo_free(w->memo);
    CHECK_OK(open_memo(w, outputs, pool, 0));
}

/* ------------------------------------------------------------------------ storing */

static void kinds(void)
{
    static const uint32_t all[] = {PC_OUTPUT_NONE, PC_OUTPUT_EMBEDDINGS, PC_OUTPUT_LOGITS,
                                   PC_OUTPUT_EMBEDDINGS | PC_OUTPUT_LOGITS};
    make_inputs(TOKENS);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (int again = 0; again < 2; again++) {
            world w = start(NULL);
            uint32_t e = all[k] & PC_OUTPUT_EMBEDDINGS ? PC_REUSE_OUTPUT : PC_REUSE_MAPS,
                     l = all[k] & PC_OUTPUT_LOGITS ? PC_REUSE_OUTPUT : PC_REUSE_MAPS;
            CHECK_OK(open_memo(&w, all[k], 0, 0));
            CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
            if (again)
                reopen(&w, 0, 0);
            CHECK_INT(stats_of(&w).outputs, all[k] == PC_OUTPUT_NONE ? 0 : COUNT);
            expect(&w, COUNT, EMBEDDINGS, PC_POOL_DEFAULT, e);
            expect(&w, COUNT, EMBEDDINGS, PC_POOL_LAST, e); /* the default of decoders */
            expect(&w, COUNT, EMBEDDINGS, PC_POOL_MEAN, PC_REUSE_MAPS);
            expect(&w, COUNT, LOGITS, PC_POOL_DEFAULT, l);
            expect(&w, COUNT, EMBEDDINGS | LOGITS, PC_POOL_DEFAULT, e == l ? e : PC_REUSE_MAPS);
            end(&w);
        }
}

/* For any length, and in a large batch; logits by default where they are not larger than the maps.
 */
static void lengths(void)
{
    static const size_t counts[] = {1, 5, 63, 64, 65, 700, MOST};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        world w = start(NULL);
        size_t n = counts[c] > 100 ? 2 : COUNT,
               cells = counts[c] * (counts[c] + 1) / 2 * (size_t)(w.info.heads * w.info.layers);
        make_inputs(counts[c]);
        CHECK_OK(open_memo(&w, 0, 0, 0));
        CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), n, NULL));
        expect(&w, n, EMBEDDINGS, PC_POOL_DEFAULT, PC_REUSE_OUTPUT);
        expect(&w, n, LOGITS, PC_POOL_DEFAULT,
               2 * cells >= 4 * (size_t)w.info.vocab ? PC_REUSE_OUTPUT : PC_REUSE_MAPS);
        end(&w);
    }
    make_inputs(TOKENS);
}

/* Adding again adds missing outputs; each prompt is there once. */
static void filled_up(void)
{
    world w = start(NULL);
    uint64_t bytes;
    CHECK_OK(open_memo(&w, PC_OUTPUT_NONE, 0, 0));
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
    bytes = stats_of(&w).bytes;
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
    CHECK_INT(stats_of(&w).stored, COUNT);
    reopen(&w, PC_OUTPUT_EMBEDDINGS, PC_POOL_MEAN);
    CHECK_INT(stats_of(&w).outputs, 0);
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT / 2, NULL));
    CHECK_INT(stats_of(&w).live, COUNT);
    CHECK_INT(stats_of(&w).outputs, COUNT / 2);
    expect(&w, COUNT / 2, EMBEDDINGS, PC_POOL_MEAN, PC_REUSE_OUTPUT);
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
    CHECK_INT(stats_of(&w).stored, 2 * COUNT);
    reopen(&w, 0, 0);
    CHECK_INT(stats_of(&w).live, COUNT);
    expect(&w, COUNT, EMBEDDINGS, PC_POOL_MEAN, PC_REUSE_OUTPUT);
    CHECK_OK(pc_memo_tidy(w.memo));
    CHECK(stats_of(&w).bytes < 2 * bytes);
    expect(&w, COUNT, EMBEDDINGS, PC_POOL_MEAN, PC_REUSE_OUTPUT);
    pc_memo_free(w.memo);
    CHECK_STATUS(open_memo(&w, PC_OUTPUT_LOGITS, 0, PC_MEMO_READ_ONLY), PC_ERR_STATE);
    CHECK(!w.memo);
    CHECK_STATUS(open_memo(&w, PC_OUTPUT_LOGITS | PC_OUTPUT_NONE, 0, 0), PC_ERR_INVALID);
    CHECK_STATUS(open_memo(&w, 0, PC_POOL_MEAN, 0), PC_ERR_INVALID);
    end(&w);
}

/* Results in bf16 do not count for fp32; the maps serve both. */
static void another_way_of_computing(void)
{
    world w = start(NULL);
    CHECK_OK(open_memo(&w, 0, 0, 0));
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
    expect(&w, COUNT, EMBEDDINGS, 0, PC_REUSE_OUTPUT);
    for (int i = 0; i < 2; i++) {
        pc_memo_free(w.memo);
        pc_model_free(w.model);
        load(&w, i ? PC_DTYPE_F32 : PC_DTYPE_BF16);
        CHECK_OK(open_memo(&w, 0, 0, 0));
        expect(&w, COUNT, EMBEDDINGS, 0, PC_REUSE_MAPS);
        CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
        CHECK_INT(stats_of(&w).live, COUNT);
        expect(&w, COUNT, EMBEDDINGS, 0, PC_REUSE_OUTPUT);
    }
    end(&w);
}

/* ---------------------------------------------------------- files of version 1, damage */

/* Writes the head as version 1. */
static void make_old(const char *folder)
{
    char path[400];
    size_t size, buckets;
    snprintf(path, sizeof path, "%s/memo.pcm", folder);
    uint8_t *new = (uint8_t *)pc_test_read(path, &size), old[HEAD + 64 * BUCKET_1 + 8] = {0};
    buckets = pc__get_u32(new + 60);
    CHECK_INT(size, HEAD + buckets * BUCKET + 8);
    memcpy(old, new, HEAD);
    pc__put_u32(old + 4, 1);
    memset(old + 68, 0, HEAD - 68);
    for (size_t b = 0; b < buckets; b++)
        memcpy(old + HEAD + b * BUCKET_1, new + HEAD + b *BUCKET, 88);
    pc__put_u64(old + HEAD + buckets * BUCKET_1, XXH3_64bits(old, HEAD + buckets * BUCKET_1));
    pc_test_write(path, (char *)old, HEAD + buckets * BUCKET_1 + 8);
    free(new);
}

static void old_memos(void)
{
    world w = start(NULL);
    pc_memo_work work = PC_MEMO_WORK_INIT;
    pc_memo_bucket before = PC_MEMO_BUCKET_INIT, after = PC_MEMO_BUCKET_INIT;
    work.epochs = 2;
    CHECK_OK(open_memo(&w, PC_OUTPUT_NONE, 0, 0)); /* metadata without outputs has not changed */
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
    CHECK_OK(pc_memo_train(w.memo, &work));
    CHECK_OK(pc_memo_set_threshold(w.memo, 0, 0.75, PC_LOSS_COSINE, 0.5, NULL));
    CHECK_OK(pc_memo_get_bucket(w.memo, 0, &before));
    pc_memo_free(w.memo);
    make_old(w.folder);
    CHECK_OK(open_memo(&w, 0, 0, PC_MEMO_READ_ONLY));
    CHECK_OK(pc_memo_get_bucket(w.memo, 0, &after));
    CHECK(after.threshold == 0.75 && after.limit == 0.5 && after.open && after.trained
          && after.records == COUNT);
    expect(&w, COUNT, EMBEDDINGS, 0, PC_REUSE_MAPS);
    reopen(&w, 0, 0);
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
    expect(&w, COUNT, EMBEDDINGS, 0, PC_REUSE_OUTPUT);
    CHECK_OK(pc_memo_set_threshold(w.memo, 0, 0.75, PC_LOSS_COSINE, 0.5,
                                   NULL)); /* writes the head anew */
    reopen(&w, 0, 0);
    CHECK_OK(pc_memo_get_bucket(w.memo, 0, &after));
    CHECK(after.threshold == before.threshold && after.hit_loss == 0 && after.hit_percentile == 0);
    expect(&w, COUNT, EMBEDDINGS, 0, PC_REUSE_OUTPUT);
    end(&w);
}

/* A changed bit of an output: the record is damaged, and the prompt is computed. */
static void damage(void)
{
    world w = start(NULL);
    char path[400];
    size_t size, at = 0;
    float first[4];
    CHECK_OK(open_memo(&w, PC_OUTPUT_EMBEDDINGS, 0, 0));
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
    CHECK_OK(ask(&w, 1, w.memo, EMBEDDINGS, 0, w.got));
    memcpy(first, w.got, sizeof first);
    pc_memo_free(w.memo);
    snprintf(path, sizeof path, "%s/maps/maps.data", w.folder);
    char *data = pc_test_read(path, &size);
    while (at + sizeof first < size && memcmp(data + at, first, sizeof first))
        at += 8;
    CHECK(at + sizeof first < size);
    data[at + 5] ^= 64;
    pc_test_write(path, data, size);
    free(data);
    CHECK_OK(open_memo(&w, 0, 0, 0));
    CHECK_OK(ask(&w, COUNT, NULL, EMBEDDINGS, 0, w.wanted));
    CHECK_OK(ask(&w, COUNT, w.memo, EMBEDDINGS, 0, w.got));
    check_outputs(&w, (size_t)w.info.hidden);
    CHECK_INT(w.results[0].reason, PC_REASON_DAMAGED);
    CHECK_INT(w.results[0].reuse, PC_REUSE_NONE);
    CHECK_INT(w.stats.output_hits, COUNT - 1);
    CHECK_INT(stats_of(&w).damaged, 1);
    CHECK_INT(stats_of(&w).outputs, COUNT - 1);
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), COUNT, NULL));
    expect(&w, COUNT, EMBEDDINGS, 0, PC_REUSE_OUTPUT);
    end(&w);
}

/* Budgets count outputs, and used records stay. */
static void budget(void)
{
    world w = start(NULL);
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    o.budget_bytes = 400 * 1024;
    o.outputs = PC_OUTPUT_EMBEDDINGS;
    CHECK_OK(pc_memo_open(&w.memo, w.model, w.folder, &o));
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), 4, NULL));
    for (int32_t round = 0; round < 8; round++) {
        for (int i = 0; i < 30; i++)
            expect(&w, 4, EMBEDDINGS, 0, PC_REUSE_OUTPUT);
        for (size_t i = 4; i < COUNT; i++)
            tokens[i][0] = round * 30;
        CHECK_OK(pc_memo_add(w.memo, inputs + 4, sizeof(pc_input), COUNT - 4, NULL));
        CHECK(stats_of(&w).bytes <= o.budget_bytes);
    }
    CHECK(stats_of(&w).evicted > 0);
    expect(&w, 4, EMBEDDINGS, 0, PC_REUSE_OUTPUT);
    make_inputs(TOKENS);
    end(&w);
}

/* Any allocation fails: the result is right, or an error. */
static void without_memory(void)
{
    pc_test_memory memory = {0};
    pc_allocator allocator = pc_test_allocator(&memory);
    world w = start(&allocator);
    pc_status status = PC_ERR_NOMEM;
    uint64_t at = 0;
    CHECK_OK(open_memo(&w, PC_OUTPUT_EMBEDDINGS | PC_OUTPUT_LOGITS, 0, 0));
    CHECK_OK(pc_memo_add(w.memo, inputs, sizeof(pc_input), 3, NULL));
    CHECK_OK(ask(&w, 4, NULL, EMBEDDINGS | LOGITS, 0, w.wanted));
    while (status == PC_ERR_NOMEM && at < 2000) {
        memory.fail_at = memory.calls + ++at;
        status = ask(&w, 4, w.memo, EMBEDDINGS | LOGITS, 0, w.got);
        memory.fail_at = 0;
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
    }
    CHECK(at > 8);
    check_outputs(&w, (size_t)(w.info.hidden + w.info.vocab));
    for (status = PC_ERR_NOMEM, at = 0; status == PC_ERR_NOMEM && at < 2000;) {
        memory.fail_at = memory.calls + ++at;
        status = pc_memo_add(w.memo, inputs, sizeof(pc_input), 8, NULL);
        memory.fail_at = 0;
    }
    CHECK_OK(status);
    CHECK_INT(stats_of(&w).live, 8);
    expect(&w, 8, EMBEDDINGS | LOGITS, 0, PC_REUSE_OUTPUT);
    end(&w);
    CHECK_INT(memory.live_blocks, 0);
}

int main(void)
{
    kinds();
    lengths();
    filled_up();
    another_way_of_computing();
    old_memos();
    damage();
    budget();
    without_memory();
    return pc_test_end();
}
