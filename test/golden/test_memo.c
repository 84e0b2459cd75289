/* Catches: a memo that forgets, or uses another prompt's maps without saying so; hits and misses of
 * one batch that affect each other; a memo that is used for another model, kind or length; a bucket
 * that stays open after its loss has grown; a training that cannot be cancelled and resumed;
 * statistics that do not balance. */
#include <promptcache/bench.h>
#include <promptcache/extend.h>
#include <promptcache/memo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden_lanes.h"
#include "testing.h"

enum { PROMPTS = 48, TOKENS = 20, VOCAB = 300 };

typedef struct prompts {
    int32_t tokens[PROMPTS][2 * TOKENS];
    pc_input inputs[PROMPTS];
} prompts;

/* Families of prompts that differ in few tokens. */
static void make(prompts *p, uint64_t seed, size_t tokens)
{
    pc_test_rng rng = {seed};
    for (int i = 0; i < PROMPTS; i++) {
        pc_test_rng family = {1000 + (uint64_t)i % 6};
        for (size_t t = 0; t < tokens; t++) {
            p->tokens[i][t] = (int32_t)(pc_test_bits(&family) % VOCAB);
            if (pc_test_bits(&rng) % 8 == 0)
                p->tokens[i][t] = (int32_t)(pc_test_bits(&rng) % VOCAB);
        }
        p->tokens[i][3] = (int32_t)(seed * PROMPTS + (uint64_t)i) % VOCAB; /* no prompt twice */
        p->inputs[i] = (pc_input){p->tokens[i], tokens, NULL};
    }
}

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_model_info info;
    pc_memo *memo;
    char folder[300];
    float *full, *reused; /* [PROMPTS][hidden] */
    pc_memo_result results[PROMPTS];
    int disabled;
} world;

static void on_disabled(void *user, uint32_t bucket, double loss, double limit)
{
    world *w = user;
    CHECK(loss > limit);
    CHECK_INT(bucket, 0);
    w->disabled++;
}

static void open_memo(world *w, uint64_t flags)
{
    static const uint32_t lengths[] = {24, 48};
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    o.flags = flags;
    o.bucket_tokens = lengths;
    o.bucket_count = 2;
    o.verify_share = 0.25;
    o.on_disabled = on_disabled;
    o.disabled_user = w;
    CHECK_OK(pc_memo_open(&w->memo, w->model, w->folder, &o));
}

static void start(world *w, const char *model)
{
    const char *path = pc_test_data(model);
    memset(w, 0, sizeof *w);
    w->info = (pc_model_info)PC_MODEL_INFO_INIT;
    CHECK_OK(pc_context_new(&w->context, NULL));
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    o.compute = PC_DTYPE_F32;
    CHECK_OK(pc_model_load(&w->model, w->context, path, &o));
    CHECK_OK(pc_model_get_info(w->model, &w->info));
    snprintf(w->folder, sizeof w->folder, "%s/%s", pc_test_folder(), strrchr(model, '/') + 1);
    w->full = calloc(PROMPTS, (size_t)w->info.hidden * sizeof *w->full);
    w->reused = calloc(PROMPTS, (size_t)w->info.hidden * sizeof *w->reused);
    open_memo(w, 0);
}

static void end(world *w)
{
    pc_memo_free(w->memo);
    pc_model_free(w->model);
    pc_context_free(w->context);
    free(w->full);
    free(w->reused);
}

enum { NEAREST = 1 << 30 }; /* of the prefill: no threshold */

static pc_prefill_stats prefill(world *w, const prompts *p, size_t count, pc_memo *memo,
                                uint64_t flags, float *to)
{
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    pc_prefill_stats s = PC_PREFILL_STATS_INIT;
    o.memo = memo;
    o.flags = flags & ~(uint64_t)NEAREST;
    static const double nearest = -INFINITY;
    o.threshold = flags & NEAREST ? &nearest : NULL;
    o.embeddings = to;
    o.results = w->results;
    o.result_stride = sizeof(pc_memo_result);
    CHECK_OK(pc_prefill(w->model, p->inputs, sizeof(pc_input), count, &o, &s));
    CHECK_INT(s.inputs, count);
    return s;
}

static double apart(const world *w, size_t i)
{
    size_t n = (size_t)w->info.hidden;
    double dot = 0, a = 0, b = 0;
    for (size_t d = 0; d < n; d++) {
        double x = (double)w->full[i * n + d], y = (double)w->reused[i * n + d];
        dot += x * y;
        a += x * x;
        b += y * y;
    }
    return 1 - dot / sqrt(a * b);
}

static pc_memo_stats balanced(world *w)
{
    pc_memo_stats s = PC_MEMO_STATS_INIT;
    CHECK_OK(pc_memo_get_stats(w->memo, &s));
    CHECK_INT(s.stored, s.live + s.evicted + s.removed + s.damaged);
    CHECK_INT(s.lookups, s.hits + s.misses);
    return s;
}

static pc_memo_bucket bucket(world *w, size_t index)
{
    pc_memo_bucket b = PC_MEMO_BUCKET_INIT;
    CHECK_OK(pc_memo_get_bucket(w->memo, index, &b));
    return b;
}

/* All outputs of a prefill, in one block. */
typedef struct outputs {
    float *embeddings, *logits; /* NULL: the model has none */
    size_t bytes;
} outputs;

static size_t logits_of(const world *w)
{
    return w->info.bidirectional ? 0 : (size_t)w->info.vocab; /* the golden encoders have no head */
}

static outputs all_outputs(world *w, const prompts *p, pc_memo *memo, uint64_t flags, uint32_t pool)
{
    size_t hidden = (size_t)w->info.hidden, logits = logits_of(w);
    outputs out = {.bytes = PROMPTS * (hidden + logits) * sizeof(float)};
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    out.embeddings = calloc(1, out.bytes);
    out.logits = logits ? out.embeddings + PROMPTS * hidden : NULL;
    o.memo = memo;
    o.flags = flags;
    o.pool = pool;
    o.embeddings = out.embeddings;
    o.logits = out.logits;
    o.results = w->results;
    o.result_stride = sizeof(pc_memo_result);
    CHECK_OK(pc_prefill(w->model, p->inputs, sizeof(pc_input), PROMPTS, &o, NULL));
    return out;
}

static void compare_outputs(world *w, const prompts *p, uint64_t flags, uint32_t pool,
                            uint32_t reuse)
{
    outputs full = all_outputs(w, p, NULL, flags, pool),
            kept = all_outputs(w, p, w->memo, flags, pool);
    int same = !memcmp(full.embeddings, kept.embeddings, full.bytes);
    CHECK_INT(same, reuse == PC_REUSE_OUTPUT);
    for (int i = 0; i < PROMPTS; i++) {
        CHECK_INT(w->results[i].reuse, reuse);
        CHECK_INT(w->results[i].exactness, reuse == PC_REUSE_OUTPUT ? PC_EXACT : PC_APPROXIMATE);
        CHECK(w->results[i].similarity == 1 && w->results[i].record >= 0
              && w->results[i].reason == PC_REASON_NONE);
        CHECK_INT(w->results[i].layers, reuse == PC_REUSE_OUTPUT ? 0 : w->info.layers);
    }
    free(full.embeddings);
    free(kept.embeddings);
}

/* Stored outputs equal computed ones bit for bit; outputs that were not stored are computed. */
static void outputs_come_back(world *w, const prompts *known)
{
    uint32_t other = w->info.bidirectional ? PC_POOL_FIRST : PC_POOL_MEAN;
    pc_memo_stats before = balanced(w), after;
    pc_prefill_stats s = prefill(w, known, PROMPTS, w->memo, 0, w->reused);
    CHECK_INT(s.hits, PROMPTS);
    CHECK_INT(s.output_hits, PROMPTS);
    CHECK(!memcmp(w->full, w->reused, PROMPTS * (size_t)w->info.hidden * sizeof(float)));
    after = balanced(w);
    CHECK_INT(after.output_hits - before.output_hits, PROMPTS);
    CHECK_INT(after.hits - before.hits, PROMPTS);
    CHECK_INT(after.outputs, PROMPTS);
    compare_outputs(w, known, 0, PC_POOL_DEFAULT, PC_REUSE_OUTPUT);
    compare_outputs(w, known, PC_PREFILL_NORMALIZE, PC_POOL_DEFAULT, PC_REUSE_OUTPUT);
    compare_outputs(w, known, 0, other, PC_REUSE_MAPS);
    compare_outputs(w, known, PC_PREFILL_MAPS, PC_POOL_DEFAULT, PC_REUSE_MAPS);
}

/* Remembered prompts are found by their tokens, and their own maps give their own result.
 * Everything else is a miss with a reason. */
static void known_and_unknown(world *w, const prompts *known, const prompts *others)
{
    pc_prefill_stats s;
    CHECK_OK(pc_memo_add(w->memo, known->inputs, sizeof(pc_input), PROMPTS, NULL));
    CHECK_OK(
        pc_memo_add(w->memo, known->inputs, sizeof(pc_input), PROMPTS, NULL)); /* nothing new */
    CHECK_INT(balanced(w).live, PROMPTS);
    CHECK_INT(bucket(w, 0).records, PROMPTS);
    s = prefill(w, known, PROMPTS, NULL, 0, w->full);
    CHECK_INT(s.hits, 0);
    outputs_come_back(w, known);
    s = prefill(w, known, PROMPTS, w->memo, PC_PREFILL_MAPS, w->reused);
    CHECK_INT(s.hits, PROMPTS);
    CHECK_INT(s.output_hits, 0);
    for (int i = 0; i < PROMPTS; i++) {
        CHECK_INT(w->results[i].exactness, PC_APPROXIMATE);
        CHECK_INT(w->results[i].reuse, PC_REUSE_MAPS);
        CHECK_INT(w->results[i].reason, PC_REASON_NONE);
        CHECK(w->results[i].similarity == 1);
        CHECK(apart(w, (size_t)i) < 1e-5);
    }
    s = prefill(w, others, PROMPTS, w->memo, 0, w->reused);
    CHECK_INT(s.hits, 0);
    for (int i = 0; i < PROMPTS; i++)
        CHECK_INT(w->results[i].reason, PC_REASON_UNTRAINED);
}

static int32_t stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    int *left = user;
    (void)what, (void)done, (void)total;
    return --*left <= 0;
}

static void train(world *w)
{
    pc_memo_work work = PC_MEMO_WORK_INIT;
    int left = 3;
    work.epochs = 4;
    work.progress = stop;
    work.progress_user = &left;
    CHECK_STATUS(pc_memo_train(w->memo, &work), PC_ERR_CANCELLED);
    CHECK_INT(bucket(w, 0).trained, 0);
    work.progress = NULL;
    CHECK_OK(pc_memo_train(w->memo, &work));
    CHECK_INT(bucket(w, 0).trained, 1);
    CHECK_INT(bucket(w, 0).open, 0);
    CHECK_INT(bucket(w, 1).trained, 0);
}

/* The threshold decides; misses in a mixed batch equal those without a memo. */
static void thresholds(world *w, const prompts *others)
{
    size_t n = (size_t)w->info.hidden, hits = 0;
    pc_prefill_stats s;
    double middle;
    prefill(w, others, PROMPTS, NULL, 0, w->full);
    s = prefill(w, others, PROMPTS, w->memo, NEAREST, w->reused);
    CHECK_INT(s.hits, PROMPTS);
    middle = w->results[PROMPTS / 2].similarity;
    CHECK(middle < 1);
    CHECK_OK(pc_memo_set_threshold(w->memo, 0, middle, PC_LOSS_COSINE, 0, NULL));
    s = prefill(w, others, PROMPTS, w->memo, 0, w->reused);
    for (size_t i = 0; i < PROMPTS; i++) {
        int hit = w->results[i].reason == PC_REASON_NONE;
        CHECK_INT(hit, w->results[i].similarity >= middle);
        CHECK(hit || w->results[i].reason == PC_REASON_UNLIKE);
        if (!hit || w->results[i].verified) {
            CHECK_INT(w->results[i].exactness, PC_EXACT);
            same_rows(w->context, "a miss beside hits", w->reused + i * n, w->full + i * n, n,
                      2e-5);
        } else {
            CHECK(memcmp(w->full + i * n, w->reused + i * n, n * sizeof(float)) != 0);
        }
        hits += (size_t)hit;
    }
    CHECK_INT(s.hits, hits);
    CHECK(hits > 0 && hits < PROMPTS);
    CHECK(balanced(w).verified >= hits / 5);
    CHECK_OK(pc_memo_set_threshold(w->memo, 0, 2, PC_LOSS_COSINE, 0, NULL));
    s = prefill(w, others, PROMPTS, w->memo, 0, w->reused);
    CHECK_INT(s.hits, 0);
}

/* All inputs are hits; the worst loss is known and can be forbidden. */
static void hits_keep_their_limit(world *w, const prompts *others)
{
    pc_memo_work work = PC_MEMO_WORK_INIT;
    pc_memo_bucket all = bucket(w, 0), some, opened;
    double sum = 0, worst = 0;
    prefill(w, others, PROMPTS, NULL, 0, w->full);
    prefill(w, others, PROMPTS, w->memo, NEAREST, w->reused);
    for (size_t i = 0; i < PROMPTS; i++) {
        sum += apart(w, i);
        worst = fmax(worst, apart(w, i));
    }
    CHECK(fabs(all.hit_loss - sum / (double)PROMPTS) < 1e-6
          && fabs(all.hit_loss_worst - worst) < 1e-6);
    CHECK(all.hit_loss_high <= worst && all.hit_loss_high >= all.hit_loss && all.hit_limit == 8);
    work.limit = 2;
    work.hit_limit = worst / 2;
    CHECK_OK(pc_memo_tune(w->memo, others->inputs, sizeof(pc_input), PROMPTS, &work));
    some = bucket(w, 0);
    CHECK(!some.open
          || (some.hit_loss_worst <= work.hit_limit
              && some.tuned_hit_rate < 1)); /* with few hits, none may exceed it */
    CHECK(some.hit_limit == work.hit_limit);
    work.hit_limit = -1;
    CHECK_OK(pc_memo_tune(w->memo, others->inputs, sizeof(pc_input), PROMPTS, &work));
    CHECK(bucket(w, 0).tuned_hit_rate == 1 && bucket(w, 0).hit_limit < 0);
    work.hit_percentile = 101;
    CHECK_STATUS(pc_memo_tune(w->memo, others->inputs, sizeof(pc_input), PROMPTS, &work),
                 PC_ERR_INVALID);
    CHECK_OK(pc_memo_set_threshold(w->memo, 0, 0.5, PC_LOSS_COSINE, 0.1,
                                   &all)); /* measured values are stored */
    pc_memo_free(w->memo);
    open_memo(w, 0);
    opened = bucket(w, 0);
    CHECK(opened.hit_loss == all.hit_loss && opened.hit_loss_high == all.hit_loss_high
          && opened.hit_loss_worst == all.hit_loss_worst && opened.hit_percentile == 95);
}

/* A bucket that is tuned to a loss closes itself when verified hits lose more. */
static void tuned(world *w, const prompts *others)
{
    pc_memo_work work = PC_MEMO_WORK_INIT;
    double sum = 0;
    pc_memo_bucket b;
    work.limit = 0.01;
    CHECK_OK(pc_memo_tune(w->memo, others->inputs, sizeof(pc_input), PROMPTS, &work));
    b = bucket(w, 0);
    CHECK(!b.open || (b.tuned_loss <= work.limit && b.tuned_hit_rate > 0));
    CHECK(b.hit_limit == 4 * work.limit && b.hit_percentile == 95);
    CHECK(!b.open
          || (b.hit_loss_high <= b.hit_limit && b.hit_loss_worst >= b.hit_loss_high
              && b.hit_loss >= b.tuned_loss));
    prefill(w, others, PROMPTS, NULL, 0, w->full);
    prefill(w, others, PROMPTS, w->memo, 0, w->reused);
    for (size_t i = 0; i < PROMPTS; i++)
        sum += apart(w, i);
    CHECK(sum / (double)PROMPTS <= work.limit);
    work.limit = 2; /* all similar prompts */
    CHECK_OK(pc_memo_tune(w->memo, others->inputs, sizeof(pc_input), PROMPTS, &work));
    CHECK_INT(bucket(w, 0).open, 1);
    CHECK(bucket(w, 0).tuned_hit_rate == 1);
    hits_keep_their_limit(w, others);
    CHECK_OK(pc_memo_set_threshold(w->memo, 0, -1e9, PC_LOSS_COSINE, 0, NULL));
    work.limit = 0;
    CHECK_OK(pc_memo_tune(w->memo, others->inputs, sizeof(pc_input), PROMPTS, &work));
    b = bucket(w, 0);
    CHECK_INT(b.open, 0);
    CHECK_INT(b.reason, PC_REASON_UNLIKE);
}

static pc_status prefill_states(world *w, const prompts *p, pc_memo *memo, const int32_t *layers,
                                pc_segment **segments, float *to)
{
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    o.memo = memo;
    o.map_layers = layers;
    o.segments = segments;
    o.embeddings = to;
    return pc_prefill(w->model, p->inputs, sizeof(pc_input), PROMPTS, &o, NULL);
}

static float farthest(const world *w, const pc_segment *a, const pc_segment *b)
{
    size_t n = (size_t)w->info.kv_heads * TOKENS * (size_t)w->info.head_dim;
    float *x = calloc(4 * n, sizeof *x), most = 0;
    for (int32_t l = 0; l < w->info.layers; l++) {
        CHECK_OK(pc_segment_read(a, l, 0, x, x + n));
        CHECK_OK(pc_segment_read(b, l, 0, x + 2 * n, x + 3 * n));
        for (size_t i = 0; i < 2 * n; i++)
            most = fmaxf(most, fabsf(x[i] - x[2 * n + i]));
    }
    free(x);
    return most;
}

/* Decodes after a prefill with another prompt's maps: keys are computed afterwards, and are as
 * close to the full computation as the maps were. */
static void decoding_goes_on(world *w, const prompts *known)
{
    pc_segment *full[PROMPTS], *reused[PROMPTS];
    pc_prompt *prompt = NULL;
    pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    pc_status status = prefill_states(w, known, NULL, NULL, full, w->full);
    if (status == PC_ERR_UNSUPPORTED) { /* an encoder */
        CHECK_ERROR_HAS("encoder");
        return;
    }
    CHECK_OK(status);
    CHECK_OK(prefill_states(w, known, w->memo, NULL, reused, w->reused));
    for (int i = 0; i < PROMPTS; i++)
        CHECK(farthest(w, full[i], reused[i]) < 1e-2f);
    g.max_tokens = 5;
    CHECK_OK(pc_prompt_from_spans(&prompt, w->model, &(pc_span){reused[3], 0, 0, 0},
                                  sizeof(pc_span), 1, TOKENS, known->tokens[3], 1, NULL));
    CHECK_OK(pc_generate(prompt, NULL, &g, &stats));
    CHECK_INT(stats.tokens_generated, 5);
    pc_prompt_free(prompt);
    for (int i = 0; i < PROMPTS; i++) {
        pc_segment_free(full[i]);
        pc_segment_free(reused[i]);
    }
}

/* Layers that use other layers' maps: own maps change nothing, others do; the resulting states are
 * complete. */
static void layers_share(world *w, const prompts *p)
{
    size_t bytes = PROMPTS * (size_t)w->info.hidden * sizeof(float);
    const int32_t own[] = {0, 1, 2, 3}, lazy[] = {0, 0, 0, 2}, ahead[] = {0, 2, 2, 3};
    pc_segment *segments[PROMPTS];
    prefill(w, p, PROMPTS, NULL, 0, w->full);
    CHECK_OK(prefill_states(w, p, NULL, own, NULL, w->reused));
    CHECK(!memcmp(w->full, w->reused, bytes));
    CHECK_OK(prefill_states(w, p, NULL, lazy, NULL, w->reused));
    CHECK(memcmp(w->full, w->reused, bytes) != 0);
    CHECK_STATUS(prefill_states(w, p, NULL, ahead, NULL, w->reused), PC_ERR_INVALID);
    CHECK_STATUS(prefill_states(w, p, w->memo, own, NULL, w->reused), PC_ERR_INVALID);
    if (prefill_states(w, p, NULL, lazy, segments, w->reused) == PC_OK)
        for (int i = 0; i < PROMPTS; i++) {
            CHECK(farthest(w, segments[i], segments[i]) == 0); /* all keys are there */
            pc_segment_free(segments[i]);
        }
}

static void opened_again(world *w, const prompts *known, const prompts *others)
{
    pc_memo_bucket before, after;
    pc_memo *second = NULL;
    CHECK_OK(pc_memo_set_threshold(w->memo, 0, 0.5, PC_LOSS_COSINE, 0, NULL));
    before = bucket(w, 0);
    prefill(w, others, PROMPTS, w->memo, NEAREST, w->full);
    CHECK_STATUS(pc_memo_open(&second, w->model, w->folder, NULL), PC_AGAIN);
    CHECK(!second);
    pc_memo_free(w->memo);
    open_memo(w, PC_MEMO_READ_ONLY);
    after = bucket(w, 0);
    CHECK(!memcmp(&before, &after, sizeof before));
    CHECK_STATUS(pc_memo_add(w->memo, known->inputs, sizeof(pc_input), PROMPTS, NULL),
                 PC_ERR_STATE);
    prefill(w, others, PROMPTS, w->memo, NEAREST, w->reused);
    CHECK(!memcmp(w->full, w->reused, PROMPTS * (size_t)w->info.hidden * sizeof(float)));
    pc_memo_free(w->memo);
    open_memo(w, 0);
    CHECK_INT(balanced(w).live, PROMPTS);
}

static void other_lengths(world *w, const prompts *shorter, const prompts *longest)
{
    pc_prefill_stats s = prefill(w, shorter, PROMPTS, w->memo, NEAREST, w->reused);
    CHECK_INT(s.hits, 0);
    CHECK_INT(w->results[0].reason, PC_REASON_LENGTH);
    s = prefill(w, longest, PROMPTS, w->memo, NEAREST, w->reused);
    CHECK_INT(s.hits, 0);
    CHECK_INT(w->results[0].reason, PC_REASON_UNTRAINED);
}

static void another_model(world *w, const char *other)
{
    pc_model *model = NULL;
    pc_memo *memo = NULL;
    prompts p;
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    CHECK_OK(pc_model_load(&model, w->context, pc_test_data(other), NULL));
    CHECK_STATUS(pc_memo_open(&memo, model, w->folder, NULL), PC_ERR_MISMATCH);
    CHECK(!memo);
    make(&p, 5, TOKENS);
    o.memo = w->memo;
    CHECK_STATUS(pc_prefill(model, p.inputs, sizeof(pc_input), 1, &o, NULL), PC_ERR_MISMATCH);
    pc_model_free(model);
}

static void damaged(world *w)
{
    char path[400];
    size_t size;
    char *data;
    pc_memo_free(w->memo);
    w->memo = NULL;
    snprintf(path, sizeof path, "%s/memo.pcm", w->folder);
    data = pc_test_read(path, &size);
    for (size_t i = 0; i < size; i += 7) {
        data[i] ^= 16;
        pc_test_write(path, data, size);
        CHECK_STATUS(pc_memo_open(&w->memo, w->model, w->folder, NULL), PC_ERR_FORMAT);
        data[i] ^= 16;
    }
    pc_test_write(path, data, size);
    free(data);
    snprintf(path, sizeof path, "%s/projector-24.pcp", w->folder);
    data = pc_test_read(path, &size);
    data[size / 2] ^= 1;
    pc_test_write(path, data, size);
    free(data);
    open_memo(w, 0);
    CHECK_INT(bucket(w, 0).trained, 0);
    CHECK_INT(balanced(w).live, PROMPTS);
}

static void whole_life(const char *model, const char *other)
{
    static prompts known, others, shorter, longest;
    world w;
    start(&w, model);
    make(&known, 1, TOKENS);
    make(&others, 2, TOKENS);
    make(&shorter, 4, TOKENS - 1);
    make(&longest, 5, 2 * TOKENS);
    known_and_unknown(&w, &known, &others);
    decoding_goes_on(&w, &known);
    layers_share(&w, &others);
    train(&w);
    thresholds(&w, &others);
    tuned(&w, &others);
    opened_again(&w, &known, &others);
    other_lengths(&w, &shorter, &longest);
    another_model(&w, other);
    damaged(&w);
    end(&w);
}

/* Looks every layer up for itself (AttnCache-f). The threshold decides how many layers use maps;
 * without any, nothing changes by a bit. Prompts are found again after reopening; states after a
 * hit have all keys. */
static void by_layer(const char *model)
{
    static prompts known, others;
    world w;
    size_t bytes, some = 0, most = 0;
    pc_segment *segments[PROMPTS];
    pc_memo_work work = PC_MEMO_WORK_INIT;
    double middle;
    start(&w, model);
    pc_memo_free(w.memo);
    snprintf(w.folder + strlen(w.folder), 8, "-f");
    open_memo(&w, PC_MEMO_LAYERS);
    bytes = PROMPTS * (size_t)w.info.hidden * sizeof(float);
    make(&known, 1, TOKENS);
    make(&others, 2, TOKENS);
    CHECK_OK(pc_memo_add(w.memo, known.inputs, sizeof(pc_input), PROMPTS / 2, NULL));
    work.epochs = 2;
    CHECK_STATUS(pc_memo_train(w.memo, &work), PC_ERR_STATE); /* too few records */
    CHECK_OK(pc_memo_add(w.memo, known.inputs, sizeof(pc_input), PROMPTS, NULL));
    CHECK_OK(pc_memo_train(w.memo, &work));
    CHECK_STATUS(pc_memo_tune(w.memo, others.inputs, sizeof(pc_input), PROMPTS, NULL),
                 PC_ERR_UNSUPPORTED);
    prefill(&w, &others, PROMPTS, NULL, 0, w.full);
    prefill(&w, &others, PROMPTS, w.memo, 0, w.reused);
    CHECK(!memcmp(w.full, w.reused, bytes)); /* closed */
    CHECK_INT(prefill(&w, &others, PROMPTS, w.memo, NEAREST, w.reused).hits, PROMPTS);
    for (int i = 0; i < PROMPTS; i++)
        CHECK_INT(w.results[i].layers, w.info.layers);
    CHECK(memcmp(w.full, w.reused, bytes) != 0);
    middle = w.results[7].similarity;
    CHECK_OK(pc_memo_set_threshold(w.memo, 0, middle, PC_LOSS_COSINE, 1, NULL));
    prefill(&w, &others, PROMPTS, w.memo, 0, w.reused);
    for (int i = 0; i < PROMPTS; i++) {
        some += w.results[i].layers > 0 && w.results[i].layers < (uint32_t)w.info.layers;
        most += w.results[i].layers;
        CHECK_INT(w.results[i].reason, w.results[i].layers ? PC_REASON_NONE : PC_REASON_UNLIKE);
        CHECK_INT(w.results[i].exactness,
                  w.results[i].layers && !w.results[i].verified ? PC_APPROXIMATE : PC_EXACT);
    }
    CHECK(some > 0 && most > 0);
    CHECK(balanced(&w).verified > 0);
    CHECK_INT(prefill(&w, &known, PROMPTS, w.memo, PC_PREFILL_MAPS, w.reused).hits, PROMPTS);
    CHECK_INT(w.results[0].layers, w.info.layers); /* the same tokens: all layers at once */
    prefill(&w, &known, PROMPTS, NULL, 0, w.full);
    CHECK_INT(prefill(&w, &known, PROMPTS, w.memo, 0, w.reused).output_hits, PROMPTS);
    CHECK(!memcmp(w.full, w.reused, bytes));
    if (prefill_states(&w, &others, w.memo, NULL, segments, w.full) == PC_OK)
        for (int i = 0; i < PROMPTS; i++) {
            CHECK(farthest(&w, segments[i], segments[i]) == 0);
            pc_segment_free(segments[i]);
        }
    prefill(&w, &others, PROMPTS, w.memo, NEAREST, w.full);
    pc_memo_free(w.memo);
    open_memo(&w, 0); /* the flag is stored */
    prefill(&w, &others, PROMPTS, w.memo, NEAREST, w.reused);
    CHECK(!memcmp(w.full, w.reused, bytes));
    end(&w);
}

int main(void)
{
    whole_life("golden/bert", "golden/llama_gqa");
    whole_life("golden/llama_gqa", "golden/bert");
    by_layer("golden/bert");
    by_layer("golden/llama_gqa");
    return pc_test_end();
}
