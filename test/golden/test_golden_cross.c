/* Catches: a request that crosses the length at which dynamic NTK or LongRoPE change their
 * frequencies and does not equal one pass with the frequencies of the length that it may reach; a
 * RoPE regime that is not reported, or that a request leaves without an error; states of one regime
 * that are used in another; a model for longer texts than it was trained for that refuses them.
 * The golden case `cross` has the variants `pinned` (frequencies of one length throughout), `fresh`
 * (requests for every length) and `shared` (several in one batch). They are compared with
 * pc_generate, sequences, batches of several regimes, and levels made by hand or taken from the
 * cache. */
#include <promptcache/cache.h>
#include <promptcache/prompt.h>
#include <promptcache/batch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "golden_lanes.h"
#include "model/load/safetensors.h"

enum { PROMPT = 32, ORIGINAL = 36, LONGEST = 40, ROWS = LONGEST - PROMPT + 1, VOCAB = 96 };

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_model_info info;
    pc__weights *file;
    int dynamic;
} world;

static int32_t *ints(const world *w, const char *name, size_t *count)
{
    float *values = golden_floats(w->file, name, count);
    int32_t *out = calloc(*count + 1, sizeof *out);
    CHECK(values != NULL);
    for (size_t i = 0; values && i < *count; i++)
        out[i] = (int32_t)values[i];
    free(values);
    return out;
}

/* Row `row` of a golden tensor of logits. */
static void near_row(const world *w, const char *name, size_t row, const float *got)
{
    size_t count, vocab = (size_t)w->info.vocab;
    float *want = golden_floats(w->file, name, &count);
    char what[64];
    snprintf(what, sizeof what, "%s row %zu", name, row);
    if (CHECK(want && got && count >= (row + 1) * vocab))
        near_all(what, got, want + row * vocab, vocab, 2e-4, 1, NULL);
    free(want);
}

static pc_generate_options options(uint32_t max_tokens, uint64_t rope_regime_length)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.flags = PC_GENERATE_KEEP | PC_GENERATE_LOGITS;
    o.max_tokens = max_tokens;
    o.rope_regime_length = rope_regime_length;
    return o;
}

static pc_sequence *sequence(const world *w, const int32_t *ids, size_t count, pc_cache *cache,
                             const pc_generate_options *o)
{
    pc_prompt *prompt = NULL;
    pc_sequence *s = NULL;
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, ids, count, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, cache, o));
    pc_prompt_free(prompt);
    return s;
}

static pc_status step(const world *w, pc_sequence *s)
{
    pc_batch *batch = NULL;
    pc_status status;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    status = pc_batch_step(batch);
    if (status >= 0 && pc_sequence_error(s, NULL) < 0)
        status = pc_sequence_error(s, NULL);
    pc_batch_free(batch);
    return status;
}

static uint64_t regime_of(const pc_sequence *s, uint64_t *length)
{
    pc_stats stats = PC_STATS_INIT;
    CHECK_OK(pc_sequence_get_stats(s, &stats));
    *length = stats.rope_regime_length;
    return stats.rope_regime;
}

/* Replaces the token that was sampled last. */
static void force(pc_sequence *s, int32_t token)
{
    size_t count;
    pc_sequence_tokens(s, &count);
    CHECK_OK(pc_sequence_truncate(s, count - 1));
    CHECK_OK(pc_sequence_push(s, &token, 1));
}

/* A folder with the model and a tokenizer of one token a character, so that answers can be read. */
static void with_tokenizer(const char *name, char *folder, size_t size)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    char path[600], from[600], text[4096];
    size_t n;
    snprintf(folder, size, "%s/%s", pc_test_folder(), name);
    CHECK(!mkdir(folder, 0700));
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "golden/%s/%s", name, files[i]);
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        CHECK(!symlink(pc_test_data(from), path));
    }
    n = (size_t)snprintf(
        text, sizeof text,
        "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"\xC4\xA0\":0,\"\xC4\x8A\":1");
    for (int i = 2; i < VOCAB; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ",\"%s%c\":%d",
                              i == 3 || i == 61 ? "\\" : "", '!' + i - 2, i);
    n += (size_t)snprintf(
        text + n, sizeof text - n,
        "}},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"decoder\":{\"type\":\"ByteLevel\"}}");
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    pc_test_write(path, text, n);
}

static char letter(int32_t id)
{
    return id == 0 ? ' ' : id == 1 ? '\n' : (char)('!' + id - 2);
}

/* The prompt fits into the original length, its answer exceeds it: as if all had been computed at
 * once for the whole length. */
static void generated(const world *w, const int32_t *ids)
{
    size_t count;
    int32_t *want = ints(w, "cross/greedy_pinned", &count);
    pc_generate_options o = options((uint32_t)count, 0);
    pc_prompt *prompt = NULL;
    pc_cache *cache = NULL;
    CHECK_OK(pc_cache_new(&cache, w->context, NULL));
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, ids, PROMPT, NULL));
    for (int again = 0; again < 2; again++) {
        pc_test_text text = {{0}, 0};
        pc_stats stats = PC_STATS_INIT;
        o.flags = 0;
        o.on_text = pc_test_collect;
        o.on_text_user = &text;
        CHECK_OK(pc_generate(prompt, again ? cache : NULL, &o, &stats));
        CHECK(stats.tokens_generated == count && text.size == count
              && stats.finish == PC_FINISH_LENGTH);
        CHECK(stats.exactness == PC_EXACT);
        for (size_t i = 0; i < count && i < text.size; i++)
            CHECK_INT(text.data[i], letter(want[i]));
        CHECK_INT(stats.rope_regime_length, LONGEST);
        CHECK_INT(stats.rope_regime, w->dynamic ? LONGEST : 2);
    }
    pc_prompt_free(prompt);
    pc_cache_free(cache);
    free(want);
}

/* The same with the golden tokens in place of sampled ones: every row of logits. */
static void forced(const world *w, const int32_t *ids)
{
    pc_generate_options o = options(LONGEST - PROMPT, 0);
    pc_sequence *s = sequence(w, ids, PROMPT, NULL, &o);
    for (size_t row = 0; row < ROWS; row++) {
        CHECK(step(w, s) >= 0);
        near_row(w, "cross/logits_pinned", row, pc_sequence_logits(s, NULL));
        if (row + 1 < ROWS)
            force(s, ids[PROMPT + row]);
    }
    pc_sequence_free(s);
}

/* A request for every length, all in one batch. */
static void fresh(const world *w, const int32_t *ids)
{
    pc_sequence *s[ROWS];
    pc_batch *batch = NULL;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    for (size_t i = 0; i < ROWS; i++) {
        pc_generate_options o = options(2, PROMPT + i);
        s[i] = sequence(w, ids, PROMPT + i, NULL, &o);
        CHECK_OK(pc_batch_add(batch, s[i]));
    }
    CHECK(pc_batch_step(batch) >= 0);
    for (size_t i = 0; i < ROWS; i++) {
        uint64_t length, regime = regime_of(s[i], &length), n = PROMPT + i;
        near_row(w, "cross/logits_fresh", i, pc_sequence_logits(s[i], NULL));
        CHECK_INT(length, n);
        CHECK_INT(regime, n <= ORIGINAL ? 1 : w->dynamic ? n : 2);
    }
    while (pc_batch_step(batch)
           == PC_OK) /* those that may grow do so, beside requests of other regimes */
        ;
    for (size_t i = 0; i < ROWS; i++) {
        size_t count;
        pc_sequence_tokens(s[i], &count);
        CHECK_INT(count, PROMPT + i < ORIGINAL || (!w->dynamic && PROMPT + i > ORIGINAL) ? 2 : 1);
        CHECK(pc_sequence_finish(s[i]) != PC_FINISH_ERROR);
        pc_sequence_free(s[i]);
    }
    pc_batch_free(batch);
}

/* A request that would leave its regime gets an error. */
static void growth(const world *w, const int32_t *ids)
{
    pc_generate_options o = options(100, ORIGINAL);
    pc_sequence *s = sequence(w, ids, PROMPT, NULL, &o);
    size_t count;
    while (step(w, s) == PC_OK)
        ;
    pc_sequence_tokens(s, &count);
    CHECK_INT(count, ORIGINAL - PROMPT + 1); /* the last one is never computed */
    CHECK_INT(pc_sequence_finish(s), PC_FINISH_LENGTH);
    CHECK_STATUS(pc_sequence_push(s, ids, 1), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("rope_regime_length");
    pc_sequence_free(s);
    o = options(2, 0); /* may reach 34: as trained, which goes to 36 */
    s = sequence(w, ids, PROMPT, NULL, &o);
    while (step(w, s) == PC_OK)
        ;
    CHECK_STATUS(pc_sequence_push(s, ids, 3), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("3 tokens behind position 34, but the RoPE regime for a length "
                    "of 34 ends at 36");
    CHECK_OK(pc_sequence_push(s, ids, 2));
    CHECK_STATUS(step(w, s), PC_END);
    pc_sequence_free(s);
    o = options(2, 0); /* tokens pushed before the first step count too */
    s = sequence(w, ids, PROMPT, NULL, &o);
    CHECK_OK(pc_sequence_push(s, ids + PROMPT, 4));
    CHECK(step(w, s) >= 0);
    CHECK_INT(regime_of(s, &(uint64_t){0}), w->dynamic ? PROMPT + 6 : 2);
    pc_sequence_free(s);
    o = options(2, 10);
    s = sequence(w, ids, ORIGINAL + 2, NULL, &o);
    CHECK_STATUS(step(w, s), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("for a length of 10 ends at 36");
    pc_sequence_free(s);
    s = sequence(w, ids, PROMPT, NULL, &o);
    CHECK_STATUS(pc_sequence_push(s, ids, 5), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("rope_regime_length");
    pc_sequence_free(s);
}

/* Levels made by hand have the regime of their segments. */
static void levels(const world *w, const int32_t *ids)
{
    pc_generate_options o = options(LONGEST - PROMPT, 0);
    pc_sequence *s = sequence(w, ids, PROMPT, NULL, &o), *next = NULL;
    pc_span spans[4];
    pc_prompt *prompt = NULL;
    size_t count;
    uint64_t length;
    CHECK(step(w, s) >= 0);
    CHECK_OK(pc_sequence_spans(s, spans, sizeof(pc_span), 4, &count));
    CHECK_OK(pc_prompt_from_spans(&prompt, w->model, spans, sizeof(pc_span), count, PROMPT,
                                  ids + PROMPT, 3, NULL));
    o = options(2, 0);
    CHECK_OK(pc_sequence_new(&next, prompt, NULL, &o));
    CHECK(step(w, next) >= 0);
    near_row(w, "cross/logits_pinned", 3, pc_sequence_logits(next, NULL));
    CHECK_INT(regime_of(next, &length), w->dynamic ? LONGEST : 2);
    pc_sequence_free(next);
    o = options(2, 20); /* another regime */
    CHECK_OK(pc_sequence_new(&next, prompt, NULL, &o));
    CHECK_STATUS(step(w, next), PC_ERR_MISMATCH);
    pc_sequence_free(next);
    for (size_t i = 0; i < count; i++)
        pc_segment_free(spans[i].segment);
    pc_prompt_free(prompt);
    pc_sequence_free(s);
}

static pc_stats ask(pc_schema *schema, pc_cache *cache, const int32_t *ids,
                    const pc_generate_options *o)
{
    pc_stats stats = PC_STATS_INIT;
    pc_prompt *prompt = NULL;
    CHECK_OK(pc_prompt_fill_tokens(&prompt, schema, ids, 8, NULL));
    CHECK_OK(pc_generate(prompt, cache, o, &stats));
    pc_prompt_free(prompt);
    return stats;
}

/* Only requests of the same regime find the states of a schema, which can be encoded for several
 * regimes beforehand. */
static void cached(const world *w, const int32_t *ids)
{
    enum { SHARED = 24 };
    pc_system_format source = PC_SYSTEM_FORMAT_INIT;
    pc_encode_options ahead = PC_ENCODE_OPTIONS_INIT;
    pc_schema *schema = NULL;
    pc_cache *cache = NULL;
    pc_stats stats;
    source.tokens = ids;
    source.token_count = SHARED;
    CHECK_OK(pc_cache_new(&cache, w->context, NULL));
    CHECK_OK(pc_schema_from_format(&schema, w->model, &source));
    pc_generate_options near = options(2, 0), far = options(8, 0), chosen = options(2, 40);
    near.flags = far.flags = chosen.flags = 0;
    CHECK_OK(pc_schema_encode(schema, cache, &ahead));
    stats = ask(schema, cache, ids + SHARED, &near);
    CHECK(stats.tokens_cached == SHARED && stats.rope_regime == 1
          && stats.rope_regime_length == 34);
    stats = ask(schema, cache, ids + SHARED, &far);
    CHECK(stats.tokens_cached == 0 && stats.tokens_encoded == SHARED
          && stats.rope_regime_length == 40);
    stats = ask(schema, cache, ids + SHARED, &far);
    CHECK(stats.tokens_cached == SHARED && stats.tokens_encoded == 0);
    stats = ask(schema, cache, ids + SHARED,
                &chosen); /* the caller asks for the regime of the longer one */
    CHECK(stats.tokens_cached == SHARED && stats.rope_regime_length == 40);
    CHECK_OK(pc_cache_clear(cache));
    ahead.rope_regime_length = 40;
    CHECK_OK(pc_schema_encode(schema, cache, &ahead));
    stats = ask(schema, cache, ids + SHARED, &far);
    CHECK_INT(stats.tokens_cached, SHARED);
    pc_schema_free(schema);
    pc_cache_free(cache);
}

/* The chains of a tree as requests of one batch, with the regime of the golden case. */
static void shared(const world *w)
{
    static const int parent[] = {0, 1, 0, 1, 0};
    pc_sequence *s[5];
    pc_batch *batch = NULL;
    pc_cache *cache = NULL;
    size_t count, vocab = (size_t)w->info.vocab;
    pc_generate_options o = options(1, 48);
    CHECK_OK(pc_cache_new(&cache, w->context, NULL));
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    for (int l = 0; l < 5; l++) {
        int32_t chain[64], *part;
        size_t n = 0;
        char name[3][32] = {"shared/root_ids", "", ""};
        snprintf(name[1], sizeof name[1], "shared/mid%d_ids", parent[l]);
        snprintf(name[2], sizeof name[2], "shared/leaf%d_ids", l);
        for (int i = 0; i < 3; i++) {
            part = ints(w, name[i], &count);
            memcpy(chain + n, part, count * sizeof *chain);
            n += count;
            free(part);
        }
        s[l] = sequence(w, chain, n, cache, &o);
        CHECK_OK(pc_batch_add(batch, s[l]));
    }
    CHECK_STATUS(pc_batch_step(batch), PC_END);
    for (size_t l = 0; l < 5; l++) {
        near_row(w, "shared/logits", l, pc_sequence_logits(s[l], &vocab));
        pc_sequence_free(s[l]);
    }
    pc_batch_free(batch);
    pc_cache_free(cache);
}

static int open_world(world *w, pc_context *context, const char *name, const char *folder)
{
    char path[128];
    memset(w, 0, sizeof *w);
    w->context = context;
    w->info = (pc_model_info)PC_MODEL_INFO_INIT;
    snprintf(path, sizeof path, "golden/%s/golden.safetensors", name);
    if (!CHECK_OK(pc__safetensors_open(&w->file, &context->mem, pc_test_data(path))))
        return 0;
    snprintf(path, sizeof path, "golden/%s", name);
    return CHECK_OK(pc_model_load(&w->model, context, folder ? folder : pc_test_data(path), NULL))
           && CHECK_OK(pc_model_get_info(w->model, &w->info));
}

static void close_world(world *w)
{
    pc_model_free(w->model);
    pc__weights_free(w->file);
}

static void crossing(pc_context *context, const char *name)
{
    world w;
    char folder[512];
    size_t count;
    int32_t *ids;
    with_tokenizer(name, folder, sizeof folder);
    if (open_world(&w, context, name, folder)) {
        ids = ints(&w, "cross/ids", &count);
        w.dynamic = !strncmp(name, "llama", 5);
        CHECK_INT(w.info.context_length, w.dynamic ? 0 : 144);
        CHECK(count == LONGEST && w.info.vocab == VOCAB);
        generated(&w, ids);
        forced(&w, ids);
        fresh(&w, ids);
        growth(&w, ids);
        levels(&w, ids);
        cached(&w, ids);
        shared(&w);
        free(ids);
    }
    close_world(&w);
}

/* Logits after `count` tokens in one pass. */
static float *evaluated(const world *w, const int32_t *ids, size_t count, uint64_t regime)
{
    size_t vocab = (size_t)w->info.vocab;
    float *all = calloc(count * vocab, sizeof *all), *last = calloc(vocab, sizeof *last);
    int64_t positions[256];
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    pc_lane all_of_it = {NULL, 0, ids, positions, count, NULL, 0};
    for (size_t i = 0; i < count; i++)
        positions[i] = (int64_t)i;
    args.lanes = &all_of_it;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.rope_regime_length = regime;
    args.logits = all;
    CHECK_OK(pc_eval(w->model, &args));
    memcpy(last, all + (count - 1) * vocab, vocab * sizeof *last);
    free(all);
    return last;
}

/* Grown token by token from `from` to `to`: equal to one pass of that length. */
static void grown(const world *w, const int32_t *ids, size_t from, size_t to)
{
    pc_generate_options o = options((uint32_t)(to - from), 0);
    pc_sequence *s = sequence(w, ids, from, NULL, &o);
    float *want = evaluated(w, ids, to, to);
    uint64_t length;
    for (size_t n = from; n <= to; n++) {
        CHECK(step(w, s) >= 0);
        if (n < to)
            force(s, ids[n]);
    }
    near_all("grown", pc_sequence_logits(s, NULL), want, (size_t)w->info.vocab, 2e-4, 1, NULL);
    regime_of(s, &length);
    CHECK_INT(length, w->dynamic || w->info.context_length == 128 ? to : 0);
    pc_sequence_free(s);
    free(want);
}

/* A request that is all longer than the model's training length. */
static void beyond(pc_context *context, const char *name, int32_t context_length)
{
    world w;
    int32_t ids[256];
    size_t count;
    if (open_world(&w, context, name, NULL)) {
        int32_t *plain = ints(&w, "plain/ids", &count);
        pc_generate_options o = options(2, count);
        pc_sequence *s = sequence(&w, plain, count, NULL, &o);
        w.dynamic = !context_length;
        CHECK_INT(w.info.context_length, context_length);
        for (size_t i = 0; i < 256; i++)
            ids[i] = plain[i % count];
        CHECK(step(&w, s) >= 0);
        near_row(&w, "plain/logits", count - 1, pc_sequence_logits(s, NULL));
        pc_sequence_free(s);
        shared(&w);
        grown(&w, ids, 10, 39);
        if (context_length != 128)
            grown(&w, ids, 250, 256); /* linear: up to its end */
        free(plain);
    }
    close_world(&w);
}

int main(void)
{
    pc_context *context;
    if (!CHECK_OK(pc_context_new(&context, NULL)))
        return pc_test_end();
    crossing(context, "llama_rope_dynamic_cross");
    crossing(context, "phi3_longrope_cross");
    beyond(context, "llama_rope_dynamic", 0);
    beyond(context, "llama_rope_linear", 256);
    beyond(context, "phi3_longrope_long", 128);
    pc_context_free(context);
    return pc_test_end();
}
