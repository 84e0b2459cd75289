/* Catches: what only some order of calls brings out. Random requests are made, stepped in a batch,
 * forked, shortened, pushed to, cancelled and freed, over schemas whose modules move, are left out
 * and stand over text, with a cache that fills up, in contexts of few cells, few ids and small
 * batches, with K and V of several types, with and without flash attention, with and without a
 * window.
 *
 * Reference: each sequence notes what was asked of it. In the end, its tokens so far are computed
 * once more by the same kind of context that has done nothing else, without cache, in one request
 * per prompt; all logits of the last step must agree. 40 rounds; 1,000 with PC_TEST_LONG=1. */
#include <math.h>

#include "world.h"
#include "write_model.h"

enum { LIVE = 6, STEPS = 60, PROMPT = 1024 };

typedef struct setting {
    uint32_t cells, ids, batch, part;
    enum ggml_type k, v;
    enum llama_flash_attn_type flash;
    float bound; /* relative to the largest logit */
} setting;

static const setting settings[] = {
    {2048, 64, 512, 512, GGML_TYPE_F32, GGML_TYPE_F32, LLAMA_FLASH_ATTN_TYPE_DISABLED, 1e-3f},
    {1024, 12, 12, 5, GGML_TYPE_F32, GGML_TYPE_F32, LLAMA_FLASH_ATTN_TYPE_DISABLED, 1e-3f},
    {512, 16, 64, 16, GGML_TYPE_F32, GGML_TYPE_F32, LLAMA_FLASH_ATTN_TYPE_ENABLED, 5e-3f},
    {1024, 24, 32, 32, GGML_TYPE_F16, GGML_TYPE_F16, LLAMA_FLASH_ATTN_TYPE_DISABLED, 2e-2f},
    {1024, 24, 32, 32, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, LLAMA_FLASH_ATTN_TYPE_ENABLED, 1e-1f},
};

static pc_test_rng rng;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)(pc_test_bits(&rng) % n);
}

static const char *const texts[] = {
    "w1 w2 w3 w4 w5 w6 w7 w8 w9 ",
    "w30 w20 w10 w3 w5 ",
    "w9 w8 w7 ",
    "w11 w12 w13 w14 w15 w16 w17 w18 w19 w20 w21 w22 w23 ",
    "w5 ",
    "w33 w34 w35 w36 w37 w38 ",
};

/* Three modules of six texts, in any order; the prompt has some of them, and perhaps text. */
static void make(char *schema, char *prompt, int gaps)
{
    uint32_t text[3] = {pick(6), pick(6), pick(6)};
    snprintf(schema, PROMPT,
             "<schema name=\"s\">%s<module name=\"a\">%s</module><module name=\"b\">%s</module>"
             "<module name=\"c\">%s</module></schema>",
             pick(2) ? "w40 w39 " : "", texts[text[0]], texts[text[1]], texts[text[2]]);
    snprintf(prompt, PROMPT, "<prompt schema=\"s\">%s%s%s%sw%u w%u</prompt>",
             !gaps || pick(4) ? "<a/>" : "", gaps && !pick(3) ? "w1 w2 " : "",
             !gaps || pick(4) ? "<b/>" : "", !gaps || pick(4) ? "<c/>" : "", pick(40), pick(40));
}

typedef struct live {
    pc_sequence *of;
    char schema[PROMPT], prompt[PROMPT];
    uint32_t encoding;
    float logits[WRITE_VOCAB];
    size_t taken; /* calls of on_logits since the tokens were changed */
} live;

static int32_t take(void *user, uint32_t sample, float *logits, size_t count)
{
    live *l = user;
    (void)sample;
    memcpy(l->logits, logits, count * sizeof *logits);
    l->taken++;
    return 0;
}

static pc_generate_options options_of(live *l, uint32_t tokens)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = tokens;
    o.encoding = l->encoding;
    o.flags = PC_GENERATE_KEEP | PC_GENERATE_IGNORE_END;
    o.on_logits = take;
    o.on_logits_user = l;
    return o;
}

static void begin(const world *w, pc_batch *batch, pc_cache *cache, live *l, int gaps)
{
    static const uint32_t encodings[] = {PC_ENCODE_INDEPENDENT, PC_ENCODE_EXACT, PC_ENCODE_SINK};
    pc_generate_options o;
    pc_prompt *prompt;
    memset(l, 0, sizeof *l);
    l->encoding = encodings[pick(gaps ? 3 : 2)];
    make(l->schema, l->prompt, gaps);
    o = options_of(l, 1 + pick(12));
    if (CHECK_OK(world_prompt(&prompt, w->model, l->schema, l->prompt))
        && CHECK_OK(pc_sequence_new(&l->of, prompt, pick(5) ? cache : NULL, &o)))
        CHECK_OK(pc_batch_add(batch, l->of));
    pc_prompt_free(prompt);
}

static void end(live *l)
{
    pc_sequence_free(l->of);
    l->of = NULL;
}

/* The last logits of a sequence, from a context of its own: the prompt, then its tokens but the
 * last, pushed. */
static void compare(const world *fresh, live *l, float bound)
{
    live again = *l;
    pc_generate_options o = options_of(&again, 1);
    pc_prompt *prompt;
    pc_batch *batch = NULL;
    size_t count;
    const int32_t *tokens = pc_sequence_tokens(l->of, &count);
    float most = 0, largest = 0;
    again.of = NULL;
    if (!count || !l->taken || pc_sequence_error(l->of, NULL) < 0)
        return;
    CHECK_OK(pc_batch_new(&batch, fresh->model, NULL));
    CHECK_OK(world_prompt(&prompt, fresh->model, l->schema, l->prompt));
    CHECK_OK(pc_sequence_new(&again.of, prompt, NULL, &o));
    if (count > 1)
        CHECK_OK(pc_sequence_push(again.of, tokens, count - 1));
    CHECK_OK(pc_batch_add(batch, again.of));
    while (pc_batch_step(batch) == PC_OK)
        continue;
    if (CHECK_OK(pc_sequence_error(again.of, NULL))) {
        for (int i = 0; i < WRITE_VOCAB; i++) {
            most = fmaxf(most, fabsf(again.logits[i] - l->logits[i]));
            largest = fmaxf(largest, fabsf(again.logits[i]));
        }
        if (!CHECK(most <= bound * largest))
            printf("  apart by %.3g, encoding %u\n  %s\n  %s\n", (double)(most / largest),
                   l->encoding, l->schema, l->prompt);
    }
    pc_sequence_free(again.of);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
}

static size_t compared, refused;

static void random_call(world *w, const world *fresh, pc_batch *batch, pc_cache *cache, live *all,
                        const setting *s, int gaps)
{
    live *l = &all[pick(LIVE)], *other = &all[pick(LIVE)];
    uint32_t what = pick(12);
    size_t count;
    pc_status status;
    const char *text = "";
    if (!l->of) {
        begin(w, batch, cache, l, gaps);
        return;
    }
    status = pc_sequence_error(l->of, &text);
    if (status < 0 && status != PC_ERR_CANCELLED) {
        /* too little room, or what the page says is refused */
        refused++;
        if (!CHECK(status == PC_ERR_LIMIT || (gaps && status == PC_ERR_UNSUPPORTED)))
            printf("  %s\n  %s\n  %s\n", text, l->schema, l->prompt);
        end(l);
    } else if (what == 0) {
        compared++;
        compare(fresh, l, s->bound);
        end(l);
    } else if (what == 1 && !other->of && pc_sequence_finish(l->of) != PC_FINISH_NONE) {
        *other = *l;
        other->of = NULL;
        if (pc_sequence_fork(&other->of, l->of, NULL) == PC_OK) {
            pc_generate_options o = options_of(other, 4);
            CHECK_OK(pc_sequence_set_options(other->of, &o));
            CHECK_OK(pc_batch_add(batch, other->of));
        }
    } else if (what == 2 && pc_sequence_finish(l->of) != PC_FINISH_NONE) {
        pc_sequence_tokens(l->of, &count);
        if (count && pc_sequence_truncate(l->of, 1 + pick((uint32_t)count)) == PC_OK)
            l->taken = 0; /* until the next step */
    } else if (what == 3) {
        int32_t more[3] = {262, 270 + (int32_t)pick(20), 280};
        if (pc_sequence_push(l->of, more, 1 + pick(3)) == PC_OK)
            l->taken = 0;
    } else if (what == 4 && !pick(3)) {
        pc_sequence_cancel(l->of);
    } else if (what == 5 && !pick(3)) {
        end(l);
    } else {
        pc_batch_step(batch);
    }
}

static void round_of(const char *path, const setting *s, int gaps)
{
    struct llama_context_params p = world_params(), q;
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    static live all[LIVE];
    pc_cache *cache = NULL;
    pc_batch *batch = NULL;
    world w = {.context = NULL}, fresh = {.context = NULL};
    p.type_k = s->k, p.type_v = s->v, p.flash_attn_type = s->flash;
    q = p;
    q.n_ctx = 1024, q.n_seq_max = 16, q.n_batch = 256;
    p.n_ctx = s->cells, p.n_seq_max = s->ids, p.n_batch = s->batch, p.n_ubatch = s->part;
    memset(all, 0, sizeof all);
    o.ram_bytes = pick(2) ? 0 : 1u << 20;
    if (world_llama(&w, path, &p) && world_llama(&fresh, path, &q)) {
        CHECK_OK(pc_cache_new(&cache, w.context, &o));
        CHECK_OK(pc_batch_new(&batch, w.model, NULL));
        for (int i = 0; i < STEPS; i++)
            random_call(&w, &fresh, batch, cache, all, s, gaps);
        for (int i = 0; i < LIVE; i++)
            end(&all[i]);
        pc_batch_free(batch);
        pc_cache_free(cache);
    }
    world_close(&fresh);
    world_close(&w);
}

int main(void)
{
    const char *plain = write_model("plain", "llama", 2, 0, NULL);
    const char *window = write_model("window", "gemma3", 7, 16, NULL);
    int rounds = getenv("PC_TEST_LONG") ? 1000 : 40;
    enum { KINDS = sizeof settings / sizeof *settings };
    llama_log_set(world_quiet, NULL);
    for (int i = 0; i < rounds; i++) {
        rng.state = (uint64_t)i + 1;
        round_of(i % 4 == 3 ? window : plain, &settings[i % KINDS], i % 4 != 3);
    }
    if (getenv("PC_TEST_VERBOSE"))
        printf("%zu compared, %zu refused\n", compared, refused);
    CHECK(compared > (size_t)rounds);
    return pc_test_end();
}
