/* Catches: levels that come through the cache, from RAM, a folder or another handle of the model,
 * and are refused, or give other logits than those that never left; such levels of another model or
 * form that are taken; what they have seen forgotten on the way; bytes behind their last token that
 * get into the sums; levels without new tokens, made by hand, that do not continue as the sequence
 * they were taken from (at its end or in its middle, over gaps, with counts that add up); levels
 * that have seen exactly what stands before them and are called approximate; levels in another
 * order, at another distance, after other tokens or of rounded states that are called exact; leaks
 * when memory runs out. */
#include <promptcache/bench.h>
#include <promptcache/memo.h>
#include <promptcache/prompt.h>
#include <promptcache/batch.h>
#include <promptcache/cache.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_model.h"
#include "testing.h"

enum { VOCAB = RANDOM_VOCAB, LONG = 150, ROOM = 8 };

typedef struct world {
    pc_context *context;
    pc_model *model;
    int32_t ids[LONG];
} world;

static int start(world *w, const pc_allocator *allocator, uint32_t kv)
{
    const random_model shape = {PC_POSITION_ROPE, PC_DTYPE_F32, kv, 16, 0};
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_test_rng rng = {5};
    memset(w, 0, sizeof *w);
    o.threads = 1;
    o.allocator = allocator;
    for (int i = 0; i < LONG; i++)
        w->ids[i] = (int32_t)(pc_test_bits(&rng) % VOCAB);
    if (pc_context_new(&w->context, &o) < 0 || random_model_new(&w->model, w->context, &shape) < 0)
        return 0;
    return 1;
}

static void end(world *w)
{
    pc_model_free(w->model);
    pc_context_free(w->context);
}

static pc_sequence *running(const world *w, const pc_prompt *prompt, pc_cache *cache)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sequence *s = NULL;
    pc_batch *batch = NULL;
    o.flags = PC_GENERATE_KEEP | PC_GENERATE_LOGITS;
    CHECK_OK(pc_sequence_new(&s, prompt, cache, &o));
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    CHECK(pc_batch_step(batch) >= 0);
    pc_batch_free(batch);
    return s;
}

static pc_sequence *plain(const world *w, size_t count, pc_cache *cache)
{
    pc_prompt *prompt = NULL;
    pc_sequence *s;
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, w->ids, count, NULL));
    s = running(w, prompt, cache);
    pc_prompt_free(prompt);
    return s;
}

static pc_sequence *joined(const world *w, const pc_span *spans, size_t count, int64_t at,
                           const int32_t *tokens, size_t token_count, pc_stats *stats)
{
    pc_prompt *prompt = NULL;
    pc_sequence *s;
    *stats = (pc_stats)PC_STATS_INIT;
    if (!CHECK_OK(pc_prompt_from_spans(&prompt, w->model, spans, sizeof(pc_span), count, at, tokens,
                                       token_count, NULL)))
        return NULL;
    s = running(w, prompt, NULL);
    CHECK_OK(pc_sequence_get_stats(s, stats));
    CHECK(stats->tokens_prompt
          == stats->tokens_cached + stats->tokens_repaired + stats->tokens_new);
    pc_prompt_free(prompt);
    return s;
}

static uint32_t exactness(const world *w, const pc_span *spans, size_t count)
{
    pc_stats stats;
    pc_sequence *s = joined(w, spans, count, 60, w->ids + 60, 2, &stats);
    pc_sequence_free(s);
    return stats.exactness;
}

static void same_logits(const pc_sequence *a, const pc_sequence *b)
{
    const float *x = pc_sequence_logits(a, NULL), *y = pc_sequence_logits(b, NULL);
    double apart = 0, top = 1;
    if (!CHECK(x && y))
        return;
    for (int i = 0; i < VOCAB; i++) {
        apart = fmax(apart, fabs((double)x[i] - (double)y[i]));
        top = fmax(top, fabs((double)y[i]));
    }
    CHECK(apart / top < 1e-5);
}

static size_t spans_of(pc_sequence *s, pc_span *spans)
{
    size_t count = 0;
    CHECK_OK(pc_sequence_spans(s, spans, sizeof(pc_span), ROOM, &count));
    return count;
}

static void drop(pc_span *spans, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pc_segment_free(spans[i].segment);
}

/* What a sequence holds, gone on with as it is, and from its middle. */
static void continued(const world *w)
{
    pc_sequence *whole = plain(w, 20, NULL), *shorter = plain(w, 15, NULL), *s;
    pc_span spans[ROOM];
    pc_stats stats;
    size_t count = spans_of(whole, spans);
    s = joined(w, spans, count, 20, NULL, 0, &stats);
    CHECK(stats.tokens_prompt == 20 && stats.tokens_cached == 19 && stats.tokens_repaired == 1
          && stats.tokens_new == 0);
    CHECK_INT(stats.exactness, PC_EXACT);
    same_logits(s, whole);
    pc_sequence_free(s);
    CHECK_INT(count, 1);
    spans[0].hi = 15;
    s = joined(w, spans, count, 15, NULL, 0, &stats);
    CHECK(stats.tokens_prompt == 15 && stats.tokens_repaired == 1 && stats.exactness == PC_EXACT);
    same_logits(s, shorter);
    /* and its own spans continue once more: the segment without its last token, which is now the
     * sequence's own */
    pc_span own[ROOM];
    size_t own_count = spans_of(s, own);
    CHECK_INT(own_count, 2);
    pc_sequence *again = joined(w, own, own_count, 15, NULL, 0, &stats);
    CHECK_INT(stats.exactness, PC_EXACT);
    same_logits(again, shorter);
    pc_sequence_free(again);
    drop(own, own_count);
    pc_sequence_free(s);
    spans[0].hi = 1;
    s = joined(w, spans, count, 1, NULL, 0, &stats); /* nothing of it stays */
    CHECK(stats.tokens_cached == 0 && stats.tokens_repaired == 1);
    pc_sequence_free(s);
    drop(spans, count);
    pc_sequence_free(whole);
    pc_sequence_free(shorter);
}

static pc_segment *evaluated(const world *w, const pc_span *spans, size_t count, const int32_t *ids,
                             const int64_t *positions, size_t n, float *logits)
{
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    pc_lane lane = {spans, count, ids, positions, n, NULL, sizeof(pc_span)};
    pc_segment *segment = NULL;
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.segments = &segment;
    args.logits = logits;
    CHECK_OK(pc_eval(w->model, &args));
    return segment;
}

static pc_segment *level(const world *w, const pc_span *spans, size_t count, const int32_t *ids,
                         int64_t at, size_t n)
{
    int64_t positions[LONG];
    for (size_t i = 0; i < n; i++)
        positions[i] = at + (int64_t)i;
    return evaluated(w, spans, count, ids, positions, n, NULL);
}

/* The token that is computed again has the same position, with or without gaps before it. */
static void gaps(const world *w)
{
    static const int64_t positions[5] = {0, 1, 4, 5, 9};
    float want[5 * VOCAB];
    pc_segment *segment = evaluated(w, NULL, 0, w->ids, positions, 5, want);
    pc_span span = {segment, 0, 0, 0};
    pc_stats stats;
    pc_part part = PC_PART_INIT;
    pc_prompt *prompt = NULL;
    pc_sequence *s = joined(w, &span, 1, 10, NULL, 0, &stats);
    const float *got = pc_sequence_logits(s, NULL);
    for (int i = 0; i < VOCAB; i++)
        CHECK(fabsf(got[i] - want[4 * VOCAB + i]) < 1e-4f);
    CHECK_INT(stats.exactness, PC_EXACT);
    pc_sequence_free(s);
    span.lo = 2;
    CHECK_OK(pc_prompt_from_spans(&prompt, w->model, &span, sizeof(pc_span), 1, 12, NULL, 0, NULL));
    CHECK_OK(pc_prompt_get_part(prompt, 0, &part));
    CHECK(part.start == 4 && part.count == 3 && pc_prompt_part_count(prompt) == 1);
    pc_prompt_free(prompt);
    CHECK_STATUS(
        pc_prompt_from_spans(&prompt, w->model, &span, sizeof(pc_span), 1, 9, NULL, 0, NULL),
        PC_ERR_INVALID); /* its last token is there */
    CHECK_STATUS(
        pc_prompt_from_spans(&prompt, w->model, NULL, sizeof(pc_span), 0, 9, NULL, 0, NULL),
        PC_ERR_INVALID);
    CHECK_ERROR_HAS("no spans and no new tokens");
    pc_segment_free(segment);
}

/* Two levels, the second behind the first. */
static void sights(const world *w)
{
    pc_segment *a = level(w, NULL, 0, w->ids, 0, 12), *other = level(w, NULL, 0, w->ids + 1, 0, 12),
               *copy = NULL;
    pc_span first = {a, 0, 0, 0};
    pc_segment *b = level(w, &first, 1, w->ids + 12, 12, 9);
    pc_span second = {b, 12, 0, 0};
    CHECK_INT(exactness(w, (pc_span[]){first, second}, 2), PC_EXACT);
    CHECK_INT(exactness(w, (pc_span[]){second, first}, 2),
              PC_EXACT); /* in another order, at the same positions */
    CHECK_INT(exactness(w, &first, 1), PC_EXACT);
    CHECK_INT(exactness(w, NULL, 0), PC_EXACT);
    CHECK_INT(exactness(w, (pc_span[]){{a, 5, 0, 0}, {b, 17, 0, 0}}, 2),
              PC_EXACT); /* moved together: distances are all that counts */
    CHECK_INT(exactness(w, (pc_span[]){{a, 0, 0, 11}}, 1), PC_EXACT);
    CHECK_INT(exactness(w, (pc_span[]){first, {b, 12, 0, 4}}, 2), PC_EXACT);
    CHECK_INT(exactness(w, &second, 1), PC_APPROXIMATE);
    CHECK_INT(exactness(w, (pc_span[]){{b, 0, 0, 0}, {a, 9, 0, 0}}, 2), PC_APPROXIMATE);
    CHECK_INT(exactness(w, (pc_span[]){first, {b, 13, 0, 0}}, 2), PC_APPROXIMATE);
    CHECK_INT(exactness(w, (pc_span[]){{a, 0, 0, 11}, second}, 2), PC_APPROXIMATE);
    CHECK_INT(exactness(w, (pc_span[]){{a, 0, 1, 0}}, 1), PC_APPROXIMATE);
    CHECK_INT(exactness(w, (pc_span[]){first, {b, 12, 1, 0}}, 2), PC_APPROXIMATE);
    CHECK_INT(exactness(w, (pc_span[]){{other, 0, 0, 0}, second}, 2), PC_APPROXIMATE);
    CHECK_INT(exactness(w, (pc_span[]){first, second, {other, 21, 0, 0}}, 3), PC_APPROXIMATE);
    CHECK_INT(exactness(w, (pc_span[]){first, {a, 12, 0, 0}}, 2), PC_APPROXIMATE);
    /* what has seen a level in a wrong place is exact nowhere */
    pc_segment *c = level(w, (pc_span[]){{b, 0, 0, 0}}, 1, w->ids, 9, 3);
    CHECK_INT(exactness(w, (pc_span[]){{b, 0, 0, 0}, {c, 9, 0, 0}}, 2), PC_APPROXIMATE);
    CHECK_INT(exactness(w, (pc_span[]){{c, 9, 0, 0}}, 1), PC_APPROXIMATE);
    pc_segment_free(c);
    CHECK_OK(pc_segment_copy(&copy, b));
    CHECK_INT(exactness(w, (pc_span[]){first, {copy, 12, 0, 0}}, 2), PC_EXACT);
    pc_segment_free(copy);
    /* however the tokens before it are cut */
    pc_segment *front = level(w, NULL, 0, w->ids, 0, 7),
               *back = level(w, (pc_span[]){{front, 0, 0, 0}}, 1, w->ids + 7, 7, 5);
    CHECK_INT(exactness(w, (pc_span[]){{front, 0, 0, 0}, {back, 7, 0, 0}, second}, 3), PC_EXACT);
    pc_segment_free(front);
    pc_segment_free(back);
    pc_segment_free(a);
    pc_segment_free(b);
    pc_segment_free(other);
}

/* A prompt whose beginning came from the cache, and one computed by pc_prefill. */
static void sources(const world *w)
{
    pc_cache *cache = NULL;
    pc_span spans[ROOM];
    pc_stats stats = PC_STATS_INIT;
    pc_sequence *s;
    size_t count;
    CHECK_OK(pc_cache_new(&cache, w->context, NULL));
    pc_sequence_free(plain(w, LONG, cache));
    s = plain(w, LONG, cache);
    CHECK_OK(pc_sequence_get_stats(s, &stats));
    CHECK_INT(stats.tokens_cached, 128);
    count = spans_of(s, spans);
    CHECK_INT(count, 3);
    pc_sequence *next = joined(w, spans, count, LONG, NULL, 0, &stats);
    CHECK_INT(stats.exactness, PC_EXACT);
    same_logits(next, s);
    pc_sequence_free(next);
    next = joined(w, spans + 1, count - 1, LONG, NULL, 0, &stats); /* without what they have seen */
    CHECK_INT(stats.exactness, PC_APPROXIMATE);
    pc_span own[ROOM];
    size_t own_count = spans_of(next, own);
    CHECK(own_count == 3);
    pc_span last = own[2];
    pc_sequence *after = joined(
        w,
        (pc_span[]){
            spans[0], spans[1], {spans[2].segment, spans[2].start, 0, spans[2].hi - 1}, last},
        4, LONG, NULL, 0, &stats);
    CHECK_INT(stats.exactness, PC_APPROXIMATE); /* it was computed without the first */
    pc_sequence_free(after);
    drop(own, own_count);
    pc_sequence_free(next);
    drop(spans, count);
    pc_sequence_free(s);
    pc_cache_free(cache);
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    pc_input input = {w->ids, 20, NULL};
    pc_segment *segment = NULL;
    o.segments = &segment;
    CHECK_OK(pc_prefill(w->model, &input, sizeof(pc_input), 1, &o, NULL));
    CHECK_INT(exactness(w, (pc_span[]){{segment, 0, 0, 0}}, 1), PC_EXACT);
    pc_segment_free(segment);
}

/* States that were rounded have seen what they have seen, and are approximate all the same. */
static void rounded(void)
{
    world w;
    if (CHECK(start(&w, NULL, PC_DTYPE_I8))) {
        pc_segment *a = level(&w, NULL, 0, w.ids, 0, 12),
                   *b = level(&w, (pc_span[]){{a, 0, 0, 0}}, 1, w.ids + 12, 12, 9);
        CHECK_INT(exactness(&w, (pc_span[]){{a, 0, 0, 0}}, 1), PC_APPROXIMATE);
        CHECK_INT(exactness(&w, (pc_span[]){{a, 0, 0, 0}, {b, 12, 0, 0}}, 2), PC_APPROXIMATE);
        pc_segment_free(a);
        pc_segment_free(b);
    }
    end(&w);
}

static int tries(const world *w)
{
    pc_prompt *prompt = NULL, *more = NULL;
    pc_sequence *s = NULL;
    pc_batch *batch = NULL;
    pc_span spans[ROOM];
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    size_t count = 0;
    o.flags = PC_GENERATE_KEEP;
    int done = pc_prompt_from_tokens(&prompt, w->model, w->ids, 20, NULL) == PC_OK
               && pc_sequence_new(&s, prompt, NULL, &o) == PC_OK
               && pc_batch_new(&batch, w->model, NULL) == PC_OK && pc_batch_add(batch, s) == PC_OK
               && pc_batch_step(batch) >= 0
               && pc_sequence_spans(s, spans, sizeof(pc_span), ROOM, &count) == PC_OK;
    if (done) {
        done = pc_prompt_from_spans(&more, w->model, spans, sizeof(pc_span), count, 20, NULL, 0,
                                    NULL)
               == PC_OK;
        CHECK(done || !more);
        drop(spans, count);
    }
    pc_prompt_free(more);
    pc_prompt_free(prompt);
    pc_sequence_free(s);
    pc_batch_free(batch);
    return done;
}

static void out_of_memory(void)
{
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {0};
        pc_allocator mem = pc_test_allocator(&memory);
        world w;
        int done = 0;
        if (CHECK(start(&w, &mem, PC_DTYPE_F32))) {
            memory.fail_at = memory.calls + at;
            done = tries(&w);
            CHECK(done == (memory.calls < memory.fail_at));
        }
        end(&w);
        CHECK_INT(memory.live_blocks, 0);
        if (done)
            break;
    }
}

enum { LEVEL = 50 }; /* tokens, in one run, less than a page */

/* The states of ids [0, LEVEL) under a key. */
static void put_level(const world *w, pc_cache *cache, const uint8_t key[32], pc_span *span)
{
    pc_sequence *s = plain(w, LEVEL, NULL);
    pc_span spans[ROOM];
    size_t count = spans_of(s, spans);
    *span = spans[0];
    for (size_t i = 1; i < count; i++)
        pc_segment_free(spans[i].segment);
    CHECK_OK(pc_cache_put(cache, key, span->segment, NULL));
    CHECK_OK(pc_cache_flush(cache));
    pc_sequence_free(s);
}

/* Behind a level: the logits of pc_prompt_from_spans and of pc_eval, and exactness. */
static uint32_t behind(const world *w, pc_model *model, const pc_span *span, float *logits)
{
    world other = *w;
    pc_stats stats;
    const int64_t positions[2] = {span->start + (int64_t)span->hi,
                                  span->start + (int64_t)span->hi + 1};
    pc_lane lane = {.spans = span,
                    .span_stride = sizeof *span,
                    .span_count = 1,
                    .tokens = w->ids,
                    .positions = positions,
                    .count = 2};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    pc_sequence *s;
    other.model = model;
    s = joined(&other, span, 1, positions[0], w->ids, 2, &stats);
    if (s && CHECK(pc_sequence_logits(s, NULL) != NULL))
        memcpy(logits, pc_sequence_logits(s, NULL), VOCAB * sizeof *logits);
    pc_sequence_free(s);
    args.lanes = &lane;
    args.lane_stride = sizeof lane;
    args.lane_count = 1;
    args.logits = logits + VOCAB;
    CHECK_OK(pc_eval(model, &args));
    return stats.exactness;
}

static void is_equal_behind(const world *w, pc_model *model, const pc_span *span, const float *want,
                            uint32_t exactness)
{
    static float logits[3 * VOCAB];
    CHECK_INT(behind(w, model, span, logits), exactness);
    CHECK(!memcmp(logits, want, sizeof logits));
}

static void release_nothing(void *user)
{
    ++*(int *)user;
}

/* Memory of an application with the same pages, not aligned, and with rubbish behind them. */
static void from_own_memory(const world *w, const pc_span *span, const float *want)
{
    pc_raw raw = PC_RAW_INIT;
    uint8_t *memory[RANDOM_LAYERS];
    const void *blocks[RANDOM_LAYERS];
    pc_span own = *span;
    pc_segment *wrapped = NULL;
    int released = 0;
    CHECK_OK(pc_segment_raw(span->segment, &raw));
    for (size_t l = 0; l < RANDOM_LAYERS; l++) {
        size_t bytes = (size_t)raw.block_bytes[l], tail = raw.dtype == PC_DTYPE_F32 ? 4 : 0;
        memory[l] = malloc(bytes + 64);
        blocks[l] = memory[l] + (l ? 16 : 0);
        memcpy(memory[l] + (l ? 16 : 0), raw.blocks[l], bytes);
        if (tail) /* the last value of the last page is of no token */
            memset(memory[l] + (l ? 16 : 0) + bytes - tail, 0xff, tail);
    }
    raw.blocks = blocks;
    CHECK_OK(pc_segment_wrap(&wrapped, w->context, &raw, release_nothing, &released));
    own.segment = wrapped;
    is_equal_behind(w, w->model, &own, want, PC_APPROXIMATE);
    pc_segment_free(wrapped);
    CHECK_INT(released, 1);
    for (size_t l = 0; l < RANDOM_LAYERS; l++)
        free(memory[l]);
}

static void is_refused(const world *w, pc_model *model, const pc_span *span)
{
    pc_prompt *prompt = NULL;
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    const int64_t position = span->start + (int64_t)span->hi;
    static float logits[VOCAB];
    pc_lane lane = {.spans = span,
                    .span_stride = sizeof *span,
                    .span_count = 1,
                    .tokens = w->ids,
                    .positions = &position,
                    .count = 1};
    CHECK_STATUS(
        pc_prompt_from_spans(&prompt, model, span, sizeof *span, 1, position, w->ids, 1, NULL),
        PC_ERR_MISMATCH);
    args.lanes = &lane;
    args.lane_stride = sizeof lane;
    args.lane_count = 1;
    args.logits = logits;
    CHECK_STATUS(pc_eval(model, &args), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("lane 0, span 0");
}

/* A level from the cache's tiers. */
static void from_a_cache(const world *w, uint64_t flags, const char *folder)
{
    static const uint8_t key[32] = {8};
    static float want[3 * VOCAB];
    pc_cache_options c = PC_CACHE_OPTIONS_INIT;
    pc_get_info info = PC_GET_INFO_INIT;
    pc_cache *cache = NULL;
    pc_raw expect = PC_RAW_INIT;
    pc_segment *got = NULL;
    pc_span span, loaded;
    world other;
    c.disk_path = folder;
    c.flags = flags | PC_CACHE_ALWAYS_LOAD;
    CHECK_OK(pc_cache_new(&cache, w->context, &c));
    put_level(w, cache, key, &span);
    loaded = span;
    CHECK_INT(behind(w, w->model, &span, want), PC_EXACT);
    CHECK_OK(pc_segment_raw(span.segment, &expect));
    if (CHECK_OK(pc_cache_get(&got, cache, key, &expect, NULL, &info))) {
        CHECK_INT(info.tier, PC_TIER_RAM);
        loaded.segment = got;
        is_equal_behind(w, w->model, &loaded, want, PC_EXACT);
        pc_segment_free(got);
    }
    pc_cache_free(cache);
    CHECK_OK(pc_cache_new(&cache, w->context, &c));
    if (CHECK_OK(pc_cache_get(&got, cache, key, &expect, NULL, &info))) {
        CHECK_INT(info.tier, PC_TIER_DISK);
        loaded.segment = got;
        is_equal_behind(w, w->model, &loaded, want, PC_EXACT);
        if (CHECK(start(&other, NULL, PC_DTYPE_F32))) { /* another handle and context */
            is_equal_behind(w, other.model, &loaded, want, PC_EXACT);
            loaded.segment = span.segment;
            is_equal_behind(w, other.model, &loaded, want, PC_EXACT);
            loaded.segment = got;
            other.model->info.fingerprint[5] ^= 1;
            is_refused(w, other.model, &loaded);
        }
        end(&other);
        if (CHECK(start(&other, NULL, PC_DTYPE_BF16)))
            is_refused(w, other.model, &loaded);
        end(&other);
        pc_segment_free(got);
    }
    from_own_memory(w, &span, want);
    pc_segment_free(span.segment);
    pc_cache_free(cache);
}

int main(void)
{
    const char *folder = pc_test_folder();
    char path[512];
    world w;
    if (CHECK(start(&w, NULL, PC_DTYPE_F32))) {
        continued(&w);
        gaps(&w);
        sights(&w);
        sources(&w);
        snprintf(path, sizeof path, "%s/read", folder);
        from_a_cache(&w, 0, path);
        snprintf(path, sizeof path, "%s/mapped", folder);
        from_a_cache(&w, PC_CACHE_MMAP, path);
    }
    end(&w);
    rounded();
    out_of_memory();
    return pc_test_end();
}
