/* Catches: an answer from the prompt's own remembered maps that differs from the full
 * computation's; a hit that does not say that it is one, or whose states are cached, shared or
 * taken for exact; a miss that differs from a run without a memo; a memo that is asked although
 * exact states exist, or not asked without a reason; hits that are never verified; a sequence after
 * a hit that cannot be truncated, forked or passed on; a memo that is freed too early. */
#include <promptcache/memo.h>
#include <promptcache/cache.h>
#include <promptcache/batch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "baseline.h"
#include "testing.h"
#include "toy_model.h"

enum { PROMPTS = 36, TOKENS = 75, LONGER = 90, VOCAB = 90, ANSWER = 12 };

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_model_info info;
    pc_memo *memo;
    pc_cache *cache;
    int32_t tokens[2 * PROMPTS][TOKENS]; /* the first half is remembered */
    const char *name;                    /* of the model */
    int disabled;
} world;

/* The answer of a sequence, with the logits of every step. */
typedef struct said {
    int32_t tokens[ANSWER];
    size_t count;
    float *logits; /* [ANSWER][vocab] */
    pc_stats stats;
} said;

static void on_disabled(void *user, uint32_t bucket, double loss, double limit)
{
    (void)bucket;
    CHECK(loss > limit);
    ((world *)user)->disabled++;
}

static pc_memo *memo_in(world *w, const char *name, uint64_t flags, double verify)
{
    static const uint32_t lengths[] = {TOKENS, LONGER};
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    pc_memo *memo = NULL;
    char folder[300];
    snprintf(folder, sizeof folder, "%s/%s-%s", pc_test_folder(), w->name, name);
    o.flags = flags;
    o.bucket_tokens = lengths;
    o.bucket_count = 2;
    o.verify_share = verify;
    o.on_disabled = on_disabled;
    o.disabled_user = w;
    CHECK_OK(pc_memo_open(&memo, w->model, folder, &o));
    return memo;
}

static void remember(world *w, pc_memo *memo, int train)
{
    pc_input inputs[PROMPTS];
    pc_memo_work work = PC_MEMO_WORK_INIT;
    for (int i = 0; i < PROMPTS; i++)
        inputs[i] = (pc_input){w->tokens[i], TOKENS, NULL};
    work.epochs = 2;
    CHECK_OK(pc_memo_add(memo, inputs, sizeof(pc_input), PROMPTS, NULL));
    if (train)
        CHECK_OK(pc_memo_train(memo, &work));
}

static void start(world *w, const char *model)
{
    pc_test_rng rng = {11};
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    char name[64];
    memset(w, 0, sizeof *w);
    w->info = (pc_model_info)PC_MODEL_INFO_INIT;
    snprintf(name, sizeof name, "golden/%s", model);
    w->name = model;
    o.compute = PC_DTYPE_F32;
    CHECK_OK(pc_context_new(&w->context, NULL));
    CHECK_OK(pc_model_load(&w->model, w->context, pc_test_data(name), &o));
    CHECK_OK(pc_model_get_info(w->model, &w->info));
    CHECK_OK(pc_cache_new(&w->cache, w->context, NULL));
    for (int i = 0; i < 2 * PROMPTS; i++)
        for (int t = 0; t < TOKENS; t++)
            w->tokens[i][t] = (int32_t)(pc_test_bits(&rng) % VOCAB);
}

static void end(world *w)
{
    pc_memo_free(w->memo);
    pc_cache_free(w->cache);
    pc_model_free(w->model);
    pc_context_free(w->context);
}

static const double nearest = -INFINITY, same_only = 1;

static pc_generate_options with(pc_memo *memo, const double *threshold)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = ANSWER;
    o.memo = memo;
    o.memo_threshold = threshold;
    return o;
}

static pc_sequence *sequence_of(world *w, int prompt, pc_cache *cache, pc_generate_options o)
{
    pc_prompt *p = NULL;
    pc_sequence *s = NULL;
    o.flags = PC_GENERATE_LOGITS | PC_GENERATE_KEEP;
    CHECK_OK(pc_prompt_from_tokens(&p, w->model, w->tokens[prompt], TOKENS, NULL));
    CHECK_OK(pc_sequence_new(&s, p, cache, &o));
    pc_prompt_free(p);
    return s;
}

/* Steps it to its end, from where it is. */
static void step_all(world *w, pc_sequence *s, said *out)
{
    pc_batch *batch = NULL;
    size_t vocab = (size_t)w->info.vocab, n;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    for (pc_status status = PC_OK; status == PC_OK && !pc_sequence_finish(s);) {
        const float *logits;
        status = pc_batch_step(batch);
        CHECK(status >= 0);
        pc_sequence_tokens(s, &n);
        logits = pc_sequence_logits(s, NULL);
        if (status >= 0 && CHECK(n && n <= ANSWER && logits))
            memcpy(out->logits + (n - 1) * vocab, logits, vocab * sizeof *logits);
    }
    const int32_t *tokens = pc_sequence_tokens(s, &out->count);
    memcpy(out->tokens, tokens, out->count * sizeof *tokens);
    out->stats = (pc_stats)PC_STATS_INIT;
    CHECK_OK(pc_sequence_get_stats(s, &out->stats));
    const pc_stats *t = &out->stats;
    CHECK_INT(t->tokens_prompt, t->tokens_cached + t->tokens_encoded + t->tokens_repaired
                                    + t->tokens_new + t->tokens_memo);
    pc_batch_free(batch);
}

static said say(world *w, int prompt, pc_cache *cache, pc_generate_options o)
{
    said out = {.logits = calloc(ANSWER, (size_t)w->info.vocab * sizeof(float))};
    pc_sequence *s = sequence_of(w, prompt, cache, o);
    step_all(w, s, &out);
    pc_sequence_free(s);
    return out;
}

static void drop(said *s)
{
    free(s->logits);
}

/* The largest difference of logits, relative to the largest logit, up to the first different token.
 * That token may differ only where the two most likely ones are that close. */
static double apart(const world *w, const said *a, const said *b)
{
    size_t vocab = (size_t)w->info.vocab, steps = 0;
    double most = 0, top = 1;
    while (steps < a->count && steps < b->count
           && (!steps || a->tokens[steps - 1] == b->tokens[steps - 1]))
        steps++;
    for (size_t i = 0; i < steps * vocab; i++) {
        most = fmax(most, fabs((double)a->logits[i] - (double)b->logits[i]));
        top = fmax(top, fabs((double)a->logits[i]));
    }
    if (steps && a->tokens[steps - 1] != b->tokens[steps - 1]) {
        const float *l = a->logits + (steps - 1) * vocab;
        CHECK((double)(l[a->tokens[steps - 1]] - l[b->tokens[steps - 1]]) <= 2 * most);
    }
    return most / top;
}

static int is_same(const world *w, const said *a, const said *b)
{
    return a->count == b->count && !memcmp(a->tokens, b->tokens, a->count * sizeof *a->tokens)
           && !memcmp(a->logits, b->logits, a->count * (size_t)w->info.vocab * sizeof *a->logits);
}

static uint64_t kept(const world *w)
{
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_get_stats(w->cache, &s));
    CHECK_INT(s.refused, 0);
    return s.stored;
}

static void check_hit(const world *w, const said *s)
{
    CHECK_INT(s->stats.exactness, PC_APPROXIMATE);
    CHECK_INT(s->stats.tokens_memo, TOKENS);
    CHECK_INT(s->stats.memo_reason, PC_REASON_NONE);
    CHECK_INT(s->stats.memo_layers, w->info.layers);
    CHECK_INT(s->stats.memo_verified, 0);
    CHECK(s->stats.memo_record >= 0);
    CHECK(s->stats.seconds_prefill > 0 && s->stats.seconds_ttft > 0);
}

static void check_exact(const said *s, uint32_t reason)
{
    CHECK_INT(s->stats.exactness, PC_EXACT);
    CHECK_INT(s->stats.tokens_memo, 0);
    CHECK_INT(s->stats.memo_reason, reason);
}

/* The maps are the prompt's own, in fp16. */
static void own_maps(const char *model)
{
    static world w;
    start(&w, model);
    w.memo = memo_in(&w, "own", 0, -1);
    remember(&w, w.memo, 0);
    for (int i = 0; i < 4; i++) {
        said full = say(&w, i, NULL, with(NULL, NULL)),
             hit = say(&w, i, w.cache, with(w.memo, NULL));
        double far = apart(&w, &full, &hit);
        printf("%s: logits at most %.2g apart, %d tokens\n", model, far, (int)hit.count);
        CHECK(far <= 1e-3); /* spacing of fp16 at 1 */
        CHECK(hit.count > 0);
        check_hit(&w, &hit);
        CHECK(hit.stats.memo_similarity == 1);
        CHECK_INT(full.stats.memo_record, -1);
        check_exact(&full, PC_REASON_NONE);
        drop(&full);
        drop(&hit);
    }
    CHECK_INT(kept(&w), 0);
    end(&w);
}

/* With another prompt's maps it answers, says so, and shares its states with nobody. A miss equals
 * a run without a memo. Where the cache has exact states, or reuse is off, the memo is not asked.
 */
static void other_maps(world *w)
{
    int p = PROMPTS + 3;
    pc_generate_options o;
    said full = say(w, p, NULL, with(NULL, NULL)), hit, miss, again;
    hit = say(w, p, w->cache, with(w->memo, &nearest));
    check_hit(w, &hit);
    CHECK(hit.stats.memo_similarity < 1);
    CHECK_INT(hit.count, ANSWER);
    CHECK(apart(w, &full, &hit) > 1e-3);
    CHECK_INT(kept(w), 0);
    drop(&hit);
    o = with(w->memo, &nearest);
    o.bench = pc_test_baseline(PC_BASELINE_PREFILL);
    again = say(w, p, w->cache, o);
    check_exact(&again, PC_REASON_NOT_WANTED);
    drop(&again);
    o.bench = pc_test_baseline(PC_BASELINE_NONE);
    o.repair = PC_REPAIR_FULL;
    again = say(w, p, w->cache, o);
    check_exact(&again, PC_REASON_REPAIR);
    drop(&again);
    miss = say(w, p, w->cache, with(w->memo, &same_only));
    check_exact(&miss, PC_REASON_UNLIKE);
    CHECK(is_same(w, &full, &miss));
    CHECK_INT(miss.stats.tokens_cached, 0);
    CHECK(miss.stats.memo_record >= 0);
    CHECK_INT(kept(w), 1);
    drop(&miss);
    again = say(w, p, w->cache, with(w->memo, &nearest));
    check_exact(&again, PC_REASON_AT_HAND);
    CHECK(is_same(w, &full, &again));
    CHECK(again.stats.tokens_cached > 0);
    drop(&again);
    drop(&full);
}

/* Exact states in tiers below RAM come first, too. */
static void on_disk(world *w)
{
    char folder[300];
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    snprintf(folder, sizeof folder, "%s/states", pc_test_folder());
    o.disk_path = folder;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    for (int round = 0; round < 3; round++) {
        pc_cache *cache = NULL;
        said s;
        CHECK_OK(pc_cache_new(&cache, w->context, &o));
        s = say(w, PROMPTS + 4, cache, with(round ? w->memo : NULL, &nearest));
        check_exact(&s, round ? PC_REASON_AT_HAND : PC_REASON_NONE);
        CHECK_INT(s.stats.tokens_tier[PC_TIER_DISK] > 0, round > 0);
        drop(&s);
        s = say(w, PROMPTS + 4, cache, with(NULL, NULL)); /* used entries are written */
        drop(&s);
        CHECK_OK(pc_cache_flush(cache));
        pc_cache_free(cache);
    }
}

/* Verifies every hit: the answer is the full computation's, and is not stored. When hits lose more
 * than the bucket was tuned for, it closes. */
static void verified(world *w)
{
    uint64_t before = kept(w);
    pc_memo *memo = memo_in(w, "verified", 0, 1);
    pc_memo_stats s = PC_MEMO_STATS_INIT;
    int hits = 0;
    remember(w, memo, 1);
    CHECK_OK(pc_memo_set_threshold(memo, 0, -1e9, PC_LOSS_COSINE, 1e-9, NULL));
    for (int p = PROMPTS + 8; p < PROMPTS + 20 && !w->disabled; p++, hits++) {
        said full = say(w, p, NULL, with(NULL, NULL)), hit = say(w, p, w->cache, with(memo, NULL));
        check_exact(&hit, PC_REASON_NONE);
        CHECK_INT(hit.stats.memo_verified, 1);
        CHECK_INT(hit.stats.memo_layers, w->info.layers);
        CHECK(hit.stats.memo_loss > 0);
        CHECK(apart(w, &full, &hit) <= 1e-5);
        CHECK_INT(kept(w), before);
        drop(&full);
        drop(&hit);
    }
    CHECK_INT(w->disabled, 1);
    CHECK_OK(pc_memo_get_stats(memo, &s));
    CHECK_INT(s.verified, hits);
    CHECK_INT(s.hits, hits);
    said late = say(w, PROMPTS + 30, w->cache, with(memo, NULL));
    check_exact(&late, PC_REASON_DRIFT);
    CHECK_INT(kept(w), before + 1);
    CHECK_OK(pc_memo_get_stats(memo, &s));
    CHECK_INT(s.misses, 1);
    drop(&late);
    pc_memo_free(memo);
}

/* A sequence after a hit is not exact, says so, and callers learn it. */
static void handed_on(world *w, pc_sequence *s)
{
    pc_span spans[4];
    pc_prompt *p = NULL;
    pc_stats stats = PC_STATS_INIT;
    pc_generate_options o = with(w->memo, NULL);
    size_t count;
    CHECK_OK(pc_sequence_spans(s, spans, sizeof(pc_span), 4, &count));
    for (size_t i = 0; i < count; i++) {
        pc_raw raw = PC_RAW_INIT;
        CHECK_OK(pc_segment_raw(spans[i].segment, &raw));
        CHECK_INT(raw.lossy, 1);
    }
    CHECK_INT(spans[0].hi, TOKENS + ANSWER - 1);
    CHECK_OK(pc_prompt_from_spans(&p, w->model, spans, sizeof(pc_span), count, TOKENS + ANSWER,
                                  w->tokens[0], 3, NULL));
    CHECK_OK(pc_generate(p, w->cache, &o, &stats));
    CHECK_INT(stats.exactness, PC_APPROXIMATE);
    CHECK_INT(stats.memo_reason, PC_REASON_PARTS);
    CHECK_INT(stats.memo_record, -1);
    for (size_t i = 0; i < count; i++)
        pc_segment_free(spans[i].segment);
    pc_prompt_free(p);
}

/* Truncates, forks, and steps it beside an exact one; the memo can be freed meanwhile. */
static void goes_on(world *w)
{
    size_t vocab = (size_t)w->info.vocab;
    said first = {.logits = calloc(ANSWER, vocab * sizeof(float))},
         second = {.logits = calloc(ANSWER, vocab * sizeof(float))};
    pc_memo *memo = memo_in(w, "gone", 0, -1);
    remember(w, memo, 0);
    pc_sequence *s = sequence_of(w, 5, w->cache, with(memo, NULL)), *copy = NULL;
    pc_memo_free(memo);
    step_all(w, s, &first);
    check_hit(w, &first);
    memo = memo_in(w, "gone", 0, -1); /* its folder is free */
    pc_memo_free(memo);
    handed_on(w, s);
    for (size_t keep = 0; keep < 5;
         keep += 4) { /* at 0 the prompt's last token is computed again with attention */
        CHECK_OK(pc_sequence_truncate(s, keep));
        step_all(w, s, &second);
        CHECK(apart(w, &first, &second) <= 1e-3);
        CHECK_INT(second.count, ANSWER);
    }
    CHECK_OK(pc_sequence_truncate(s, 6));
    CHECK_OK(pc_sequence_fork(&copy, s, NULL));
    step_all(w, copy, &first);
    step_all(w, s, &second);
    CHECK_INT(first.count, second.count);
    CHECK(!memcmp(first.tokens, second.tokens, sizeof first.tokens));
    CHECK(!memcmp(first.logits + 6 * vocab, second.logits + 6 * vocab,
                  (ANSWER - 6) * vocab * sizeof(float)));
    check_hit(w, &second);
    pc_sequence_free(s);
    pc_sequence_free(copy);
    drop(&first);
    drop(&second);
}

/* Once the prompt is computed, options name the memo that it was made with, or none. */
static void memo_stays(world *w)
{
    pc_generate_options there = with(w->memo, NULL), none = with(NULL, NULL);
    there.flags = none.flags = PC_GENERATE_LOGITS | PC_GENERATE_KEEP;
    for (int i = 0; i < 2; i++) {
        pc_sequence *s = sequence_of(w, 7, NULL, i ? there : none), *copy = NULL;
        said to = {.count = 0};
        to.logits = calloc(ANSWER * (size_t)w->info.vocab, sizeof *to.logits);
        CHECK_OK(pc_sequence_set_options(s, &none));
        CHECK_OK(pc_sequence_set_options(s, i ? &there : &none));
        step_all(w, s, &to);
        CHECK_STATUS(pc_sequence_set_options(s, &there), i ? PC_OK : PC_ERR_STATE);
        if (!i)
            CHECK_ERROR_HAS("memo cannot change any more");
        CHECK_OK(pc_sequence_set_options(s, &none));
        CHECK_OK(pc_sequence_fork(&copy, s, NULL));
        CHECK_STATUS(pc_sequence_set_options(copy, &there), i ? PC_OK : PC_ERR_STATE);
        pc_sequence_free(copy);
        pc_sequence_free(s);
        drop(&to);
    }
}

/* One with maps and one without, in one batch. */
static void together(world *w)
{
    said alone[2] = {say(w, 7, NULL, with(w->memo, NULL)),
                     say(w, PROMPTS + 7, NULL, with(NULL, NULL))};
    pc_sequence *both[2] = {sequence_of(w, 7, NULL, with(w->memo, NULL)),
                            sequence_of(w, PROMPTS + 7, NULL, with(w->memo, NULL))};
    pc_batch *batch = NULL;
    pc_status status = PC_OK;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    for (int i = 0; i < 2; i++)
        CHECK_OK(pc_batch_add(batch, both[i]));
    while (status == PC_OK)
        status = pc_batch_step(batch);
    CHECK_INT(status, PC_END);
    for (int i = 0; i < 2; i++) {
        size_t n;
        const int32_t *tokens = pc_sequence_tokens(both[i], &n);
        CHECK_INT(n, alone[i].count);
        CHECK(!memcmp(tokens, alone[i].tokens, n * sizeof *tokens));
        pc_sequence_free(both[i]);
        drop(&alone[i]);
    }
    pc_batch_free(batch);
}

/* Looks every layer up for itself. */
static void by_layer(world *w)
{
    uint64_t before = kept(w);
    int p = PROMPTS + 22;
    pc_memo *memo = memo_in(w, "layers", PC_MEMO_LAYERS, -1);
    said full = say(w, p, NULL, with(NULL, NULL)), hit, miss;
    remember(w, memo, 1);
    hit = say(w, p, w->cache, with(memo, &nearest));
    check_hit(w, &hit);
    miss = say(w, p, w->cache, with(memo, &same_only));
    check_exact(&miss, PC_REASON_UNLIKE);
    CHECK(apart(w, &full, &miss) <= 1e-5);
    CHECK_INT(kept(w), before);
    drop(&full);
    drop(&hit);
    drop(&miss);
    pc_memo_free(memo);
}

static void refusals(world *w)
{
    pc_model *other = NULL, *host = NULL;
    pc_prompt *p = NULL;
    pc_model_ops ops = pc_toy_ops();
    pc_generate_options o = with(w->memo, &(double){2}), memo = with(w->memo, NULL);
    pc_stats stats = PC_STATS_INIT;
    pc_sequence *sequence = NULL;
    CHECK_OK(pc_prompt_from_tokens(&p, w->model, w->tokens[0], LONGER, NULL));
    CHECK_STATUS(pc_generate(p, NULL, &o, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("memo_threshold");
    o.memo_threshold = &(double){NAN};
    CHECK_STATUS(pc_generate(p, NULL, &o, NULL), PC_ERR_INVALID);
    CHECK_OK(pc_generate(p, NULL, &memo, &stats)); /* a bucket without records */
    CHECK_INT(stats.memo_reason, PC_REASON_UNTRAINED);
    memo.salts = &(pc_salt){0, "tenant", 6}; /* one tenant could get another's maps */
    memo.salt_stride = sizeof(pc_salt);
    memo.salt_count = 1;
    CHECK_STATUS(pc_generate(p, NULL, &memo, NULL), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("salts");
    CHECK_STATUS(pc_sequence_new(&sequence, p, NULL, &memo), PC_ERR_UNSUPPORTED);
    memo.salt_count = 0;
    memo.salts = NULL;
    memo.salt_stride = sizeof(pc_salt);
    pc_prompt_free(p);
    CHECK_OK(pc_model_load(&other, w->context, pc_test_data("golden/gpt2"), NULL));
    CHECK_OK(pc_prompt_from_tokens(&p, other, w->tokens[0], TOKENS, NULL));
    CHECK_STATUS(pc_generate(p, NULL, &memo, NULL), PC_ERR_MISMATCH);
    pc_prompt_free(p);
    pc_model_free(other);
    CHECK_OK(pc_model_from_ops(&host, w->context, &ops, pc_toy_new(1, 0, 0), pc_toy_free, NULL));
    CHECK_OK(pc_prompt_from_tokens(&p, host, (const int32_t[]){1, 2, 3}, 3, NULL));
    CHECK_STATUS(pc_generate(p, NULL, &memo, NULL), PC_ERR_UNSUPPORTED);
    pc_prompt_free(p);
    pc_model_free(host);
}

int main(void)
{
#if defined(__SANITIZE_THREAD__) /* which has the same number of threads for all */
    static const char *const models[] = {"llama_gqa", "mixtral"};
#else
    static const char *const models[] = {"llama_gqa", "mistral_swa", "gpt2",
                                         "bloom",     "mixtral",     "falcon_rw"};
#endif
    static world w;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        own_maps(models[i]);
    start(&w, "llama_gqa");
    w.memo = memo_in(&w, "others", 0, -1);
    remember(&w, w.memo, 1);
    other_maps(&w);
    on_disk(&w);
    verified(&w);
    goes_on(&w);
    memo_stays(&w);
    together(&w);
    by_layer(&w);
    refusals(&w);
    end(&w);
    return pc_test_end();
}
