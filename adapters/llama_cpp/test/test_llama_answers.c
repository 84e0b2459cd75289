/* Catches: an adapter whose answers differ from those of the library's own model of the same file:
 * random schemas (nested modules, unions, parameters, modules that a prompt leaves out, so that
 * positions are left out, and texts that stand elsewhere in another schema) and random prompts,
 * with a cache that fills up, and after the context was made anew with all states from a folder.
 *
 * How answers are judged. Both sides compute in fp32 and sum in another order. All logits of each
 * token are compared as long as the answers are the same so far: none may differ by more than BOUND
 * of the largest. That is ten times what was measured (PC_TEST_VERBOSE=1 prints it), and a
 * thousandth of what a wrong position of one module does. So greedy tokens differ only where two
 * logits are that close; behind such a tie the answers may go their own ways. There may be few.
 *
 * With quantised weights llama.cpp rounds activations, and our models compute otherwise. There the
 * answers to plain prompts, whose states are exact, are compared with llama.cpp's own, from a
 * context without the adapter. A difference in the last bit can round an activation to the next of
 * 255 steps, so llama.cpp differs from itself when it takes a prompt in other pieces. That is
 * measured first, and the adapter may differ twice as much, with ties in proportion. */
#include <math.h>
#include <promptcache/sampling.h>

#include "world.h"

enum { PROMPTS = 50, TOKENS = 8, MOST_TIES = 3 };
static const float BOUND = 1e-3f;

static const char *const words[] = {
    "The ",   "desk ",   "of ",    "Peter ", "Novak ",     "is ",   "368. ",
    "phone ", "Rosa ",   "Silva ", "205. ",  "Employee: ", "job ",  "nurse. ",
    "hobby ", "chess. ", "team ",  "What ",  "engineer. ", "Anna ",
};
/* For models of 256 positions whose words are single letters. */
static const char *const letters[] = {"a", "b", "c ", "d", "e ", "f", "g", "h. "};
static int small;

typedef struct answer {
    int32_t tokens[TOKENS];
    size_t count, rows;
    float *logits; /* [rows][vocab] */
    pc_stats stats;
} answer;

static pc_test_rng rng;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)(pc_test_bits(&rng) % n);
}

static void put(char *out, const char *text)
{
    strcat(out, text);
}

static void put_words(char *out, uint32_t most)
{
    for (uint32_t i = 0, n = 1 + pick(most); i < n; i++)
        put(out, small ? letters[pick(8)] : words[pick(sizeof words / sizeof *words)]);
}

/* Texts that several schemas have, at other places: they are moved. */
static char shared_text[6][512];

/* Modules a (with a nested one and a parameter), b, a union of c and d, and e. */
static void make_schema(char *out)
{
    strcpy(out, "<schema name=\"s\">");
    if (pick(2))
        put_words(out, 6);
    put(out, "<module name=\"a\">");
    put_words(out, 12);
    put(out, "<module name=\"n\">");
    put_words(out, 8);
    put(out, "</module><param name=\"p\" len=\"8\"/>");
    put_words(out, 8);
    put(out, "</module><module name=\"b\">");
    put(out, shared_text[pick(6)]);
    put(out, "</module><union><module name=\"c\">");
    put_words(out, 20);
    put(out, "</module><module name=\"d\">");
    put_words(out, 10);
    put(out, "</module></union><module name=\"e\">");
    put_words(out, 40);
    put(out, "</module></schema>");
}

static void make_prompt(char *out)
{
    strcpy(out, "<prompt schema=\"s\">");
    if (pick(4)) {
        put(out, !pick(2) ? "<a>" : small ? "<a p=\"ab\">" : "<a p=\"desk \">");
        put(out, pick(2) ? "<n/></a>" : "</a>");
    }
    if (pick(3))
        put(out, "<b/>");
    if (!pick(3))
        put_words(out, 4);
    if (pick(3))
        put(out, pick(2) ? "<c/>" : "<d/>");
    if (pick(2))
        put(out, "<e/>");
    put_words(out, 10);
    put(out, "</prompt>");
}

static int32_t note_logits(void *user, uint32_t sample, float *logits, size_t count)
{
    answer *a = user;
    (void)sample;
    if (a->rows < TOKENS)
        memcpy(a->logits + a->rows++ * count, logits, count * sizeof *logits);
    return 0;
}

static int32_t note_token(void *user, const pc_token *token)
{
    answer *a = user;
    a->tokens[a->count++] = token->token;
    return 0;
}

static pc_status ask(const pc_prompt *prompt, pc_cache *cache, uint32_t encoding, answer *a)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    a->count = a->rows = 0;
    a->stats = (pc_stats)PC_STATS_INIT;
    o.max_tokens = TOKENS;
    o.encoding = encoding;
    o.flags = PC_GENERATE_IGNORE_END;
    o.on_logits = note_logits;
    o.on_token = note_token;
    o.on_logits_user = o.on_token_user = a;
    return pc_generate(prompt, cache, &o, &a->stats);
}

typedef struct score {
    size_t answers, tokens, ties;
    float worst; /* of all differences, relative to the largest logit */
} score;

static void compare(const answer *a, const answer *b, size_t vocab, float bound, score *s)
{
    s->answers++;
    CHECK_INT(a->count, b->count);
    for (size_t t = 0; t < a->count && t < b->count; t++) {
        const float *x = a->logits + t * vocab, *y = b->logits + t * vocab;
        float largest = 0, difference = 0;
        for (size_t i = 0; i < vocab; i++) {
            largest = fmaxf(largest, fabsf(y[i]));
            difference = fmaxf(difference, fabsf(x[i] - y[i]));
        }
        CHECK(difference <= bound * largest);
        s->worst = fmaxf(s->worst, difference / largest);
        s->tokens++;
        if (a->tokens[t] != b->tokens[t]) {
            s->ties++;
            return;
        }
    }
}

/* ----------------------------------------------------------------- cases */

typedef struct request {
    char schema[4096], prompt[2048];
    uint32_t encoding;
    answer own;
} request;

static pc_status ask_pml(const pc_model *model, pc_cache *cache, const request *r, answer *a)
{
    pc_prompt *prompt;
    pc_status status = world_prompt(&prompt, model, r->schema, r->prompt);
    if (status >= 0)
        status = ask(prompt, cache, r->encoding, a);
    pc_prompt_free(prompt);
    return status;
}

/* One round over all requests. */
static void round_of(world *w, request *r, size_t count, const char *folder, const char *name,
                     int cached)
{
    static const uint32_t encodings[] = {PC_ENCODE_INDEPENDENT, PC_ENCODE_SINK, PC_ENCODE_JOINT,
                                         PC_ENCODE_EXACT};
    pc_model_info info = PC_MODEL_INFO_INIT;
    pc_cache *cache = world_disk_cache(w, folder);
    answer a = {.count = 0};
    score s = {0, 0, 0, 0};
    pc_model_get_info(w->model, &info);
    a.logits = malloc(TOKENS * (size_t)info.vocab * sizeof *a.logits);
    for (size_t i = 0; i < count; i++) {
        r[i].encoding = encodings[i % 4];
        if (!CHECK_OK(ask_pml(w->model, cache, &r[i], &a))) {
            printf("%s\n%s\n", r[i].schema, r[i].prompt);
            continue;
        }
        CHECK(!cached || !a.stats.tokens_encoded);
        if (cached == 2 && i % 4 != 3)
            CHECK(a.stats.tokens_tier[PC_TIER_DISK] + a.stats.tokens_tier[PC_TIER_RAM]
                  == a.stats.tokens_cached);
        compare(&a, &r[i].own, (size_t)info.vocab, BOUND, &s);
    }
    CHECK(s.ties <= MOST_TIES);
    if (getenv("PC_TEST_VERBOSE"))
        printf("  %s: %zu answers, %zu tokens, worst logit %.1e of the largest, %zu ties; shared "
               "%llu, copied %llu, renamed %llu cells, %llu decodes\n",
               name, s.answers, s.tokens, (double)s.worst, s.ties,
               (unsigned long long)w->stats.cells_shared, (unsigned long long)w->stats.cells_copied,
               (unsigned long long)w->stats.cells_renamed, (unsigned long long)w->stats.decodes);
    free(a.logits);
    pc_cache_free(cache);
}

static void test_prompts(const char *file)
{
    const char *path = world_in_fp32(file);
    static request requests[PROMPTS];
    struct llama_context_params p = world_params();
    pc_model_info info = PC_MODEL_INFO_INIT;
    const char *folder = world_folder();
    pc_cache *cache = NULL;
    pc_status status;
    world w;
    if (!path || !world_open(&w, path, &p))
        return;
    pc_model_get_info(w.own, &info);
    CHECK_OK(pc_cache_new(&cache, w.context, NULL));
    for (size_t i = 0; i < 6; i++) {
        *shared_text[i] = 0;
        put_words(shared_text[i], 30);
    }
    for (size_t i = 0; i < PROMPTS; i++) {
        request *r = &requests[i];
        r->encoding = (uint32_t[]){PC_ENCODE_INDEPENDENT, PC_ENCODE_SINK, PC_ENCODE_JOINT,
                                   PC_ENCODE_EXACT}[i % 4];
        r->own.logits = malloc(TOKENS * (size_t)info.vocab * sizeof *r->own.logits);
        do { /* some are too long for the model */
            make_schema(r->schema);
            make_prompt(r->prompt);
            status = ask_pml(w.own, cache, r, &r->own);
        } while (status == PC_ERR_LIMIT);
        CHECK_OK(status);
    }
    pc_cache_free(cache);
    round_of(&w, requests, PROMPTS, folder, "first", 0);
    world_close_llama(&w);
    if (world_llama(&w, path, &p))
        round_of(&w, requests, PROMPTS, folder, "after a restart", 2);
    for (size_t i = 0; i < PROMPTS; i++)
        free(requests[i].own.logits);
    world_close(&w);
}

/* ------------------------------------------ against llama.cpp's own decode */

/* The tokens in pieces, then one by one. */
static void decode_plainly(struct llama_context *c, const int32_t *tokens, int count, int piece,
                           int vocab, answer *a)
{
    struct llama_batch batch = llama_batch_init(512, 0, 1);
    int32_t next[TOKENS + 1];
    int at = 0;
    a->count = a->rows = 0;
    llama_memory_clear(llama_get_memory(c), true);
    while (a->count < TOKENS) {
        const float *logits;
        int given = at >= count ? 1 : count - at < piece ? count - at : piece, best = 0;
        batch.n_tokens = given;
        for (int i = 0; i < given; i++) {
            batch.token[i] = at >= count ? next[a->count] : tokens[at + i];
            batch.pos[i] = at + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = i + 1 == given;
        }
        if (!CHECK_INT(llama_decode(c, batch), 0))
            break;
        at += given;
        if (at < count)
            continue;
        logits = llama_get_logits_ith(c, -1);
        memcpy(a->logits + a->rows++ * (size_t)vocab, logits, (size_t)vocab * sizeof *logits);
        for (int i = 1; i < vocab; i++)
            if (logits[i] > logits[best])
                best = i;
        a->tokens[a->count] = best;
        next[++a->count] = best;
    }
    llama_batch_free(batch);
}

enum { PLAIN = 25, LONGEST = 180, SHARED = 70 };

typedef struct plain_prompts {
    int32_t tokens[PLAIN][LONGEST];
    int count[PLAIN];
} plain_prompts;

/* Of 100 to 180 tokens, the first 70 of them the same. */
static void make_plain(plain_prompts *all, int vocab)
{
    for (int i = 0; i < PLAIN; i++) {
        all->count[i] = 100 + (int)pick(LONGEST - 100);
        for (int k = 0; k < all->count[i]; k++)
            all->tokens[i][k] = i && k < SHARED ? all->tokens[0][k]
                                                : 260 + (int32_t)pick((uint32_t)vocab - 260);
    }
}

static void show(const char *what, const score *s)
{
    if (getenv("PC_TEST_VERBOSE"))
        printf("  %s: %zu answers, %zu tokens, worst logit %.1e of the largest, %zu ties\n", what,
               s->answers, s->tokens, (double)s->worst, s->ties);
}

static void compare_plain(world *w, struct llama_context *plain, int vocab, answer *a, answer *b)
{
    static plain_prompts all;
    pc_cache *cache = world_disk_cache(w, NULL);
    score itself = {0, 0, 0, 0}, adapter = {0, 0, 0, 0};
    uint64_t cached = 0;
    make_plain(&all, vocab);
    for (int i = 0; i < PLAIN; i++) {
        decode_plainly(plain, all.tokens[i], all.count[i], 512, vocab, a);
        decode_plainly(plain, all.tokens[i], all.count[i], 50, vocab, b);
        compare(a, b, (size_t)vocab, 1, &itself);
    }
    for (int i = 0; i < PLAIN; i++) {
        pc_prompt *prompt = NULL;
        decode_plainly(plain, all.tokens[i], all.count[i], 512, vocab, b);
        CHECK_OK(
            pc_prompt_from_tokens(&prompt, w->model, all.tokens[i], (size_t)all.count[i], NULL));
        if (CHECK_OK(ask(prompt, cache, 0, a)))
            compare(a, b, (size_t)vocab, 2 * itself.worst, &adapter);
        cached += a->stats.tokens_cached;
        CHECK_INT(a->stats.exactness, PC_EXACT);
        pc_prompt_free(prompt);
    }
    CHECK(cached >= (PLAIN - 1) * 64);
    CHECK(itself.worst < 0.1f);
    CHECK(adapter.ties <= 2 * itself.ties + MOST_TIES);
    show("llama.cpp and itself", &itself);
    show("llama.cpp and the adapter", &adapter);
    pc_cache_free(cache);
}

static void test_plain(const char *path)
{
    struct llama_context_params p = world_params();
    struct llama_context *plain;
    pc_model_info info = PC_MODEL_INFO_INIT;
    answer a = {.count = 0}, b = {.count = 0};
    world w = {.context = NULL};
    p.type_k = p.type_v = GGML_TYPE_F16;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_AUTO;
    if (!world_llama(&w, path, &p))
        return;
    plain = llama_init_from_model(w.weights, p);
    CHECK_OK(pc_model_get_info(w.model, &info));
    a.logits = malloc(TOKENS * (size_t)info.vocab * sizeof *a.logits);
    b.logits = malloc(TOKENS * (size_t)info.vocab * sizeof *b.logits);
    compare_plain(&w, plain, info.vocab, &a, &b);
    free(a.logits);
    free(b.logits);
    llama_free(plain);
    world_close(&w);
}

int main(void)
{
    static const char *const quantised[] = {"models/demo/demo.gguf", "golden/gguf/llama-q8_0.gguf",
                                            "golden/gguf/llama-q4_k.gguf",
                                            "golden/gguf/llama-q6_k.gguf"};
    static const char *const files[] = {"models/demo/demo.gguf", "golden/gguf/llama-f32.gguf",
                                        "golden/gguf/llama-f16.gguf",
                                        "golden/gguf/llama-bf16.gguf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = world_file(files[i]);
        if (!path)
            continue;
        if (getenv("PC_TEST_VERBOSE"))
            printf("%s\n", files[i]);
        rng.state = i + 1;
        small = i > 0;
        test_prompts(path);
    }
    for (size_t i = 0; i < sizeof quantised / sizeof *quantised; i++) {
        const char *path = world_file(quantised[i]);
        if (path && getenv("PC_TEST_VERBOSE"))
            printf("%s\n", quantised[i]);
        if (path)
            test_plain(path);
    }
    return pc_test_end();
}
