/* Catches: a sequence that loses or gains tokens when it is forked, truncated, pushed to, or
 * stepped beside others; a micro-batch that ends in the middle of a run; ids or cells that run out
 * without a clear error, or that are not given back; a step that fails, or is cancelled, and leaves
 * the sequence changed; a copy that fails half way; answers after all this that are not those of
 * the library's own model.
 *
 * llama_decode and llama_state_seq_set_data are wrapped, to fail on order. */
#include "world.h"

int32_t __real_llama_decode(struct llama_context *memory, struct llama_batch batch);
int32_t __wrap_llama_decode(struct llama_context *memory, struct llama_batch batch);
size_t __real_llama_state_seq_set_data(struct llama_context *memory, const uint8_t *data,
                                       size_t size, llama_seq_id id);
size_t __wrap_llama_state_seq_set_data(struct llama_context *memory, const uint8_t *data,
                                       size_t size, llama_seq_id id);

static struct {
    int decodes, fail_at, result, after; /* after: computes, then says that it failed */
    int puts, fail_put;
} order;

int32_t __wrap_llama_decode(struct llama_context *memory, struct llama_batch batch)
{
    int32_t real = 0;
    if (++order.decodes != order.fail_at)
        return __real_llama_decode(memory, batch);
    if (order.after)
        real = __real_llama_decode(memory, batch);
    return real ? real : order.result;
}

size_t __wrap_llama_state_seq_set_data(struct llama_context *memory, const uint8_t *data,
                                       size_t size, llama_seq_id id)
{
    return ++order.puts == order.fail_put ? 0
                                          : __real_llama_state_seq_set_data(memory, data, size, id);
}

enum { MOST = 64 };

/* One talk: what each sequence said, one after the other. */
typedef struct talk {
    int32_t tokens[MOST];
    size_t count;
} talk;

static void note(talk *t, const pc_sequence *s)
{
    size_t count;
    const int32_t *tokens = pc_sequence_tokens(s, &count);
    for (size_t i = 0; i < count && t->count < MOST; i++)
        t->tokens[t->count++] = tokens[i];
}

static pc_status run(pc_batch *batch)
{
    pc_status status;
    while ((status = pc_batch_step(batch)) == PC_OK)
        continue;
    return status;
}

static const char facts[] =
    "<schema name=\"facts\">Use the notes. <module name=\"a\">The desk of Peter Novak is 368. "
    "</module><union><module name=\"b\">The phone of Rosa Silva is 205. </module><module "
    "name=\"c\">The job of Anna Reed is engineer. </module></union><module name=\"d\">The team of "
    "Clara Holt is research. The desk of Clara Holt is 417. </module></schema>";
static const char *const questions[] = {
    "<prompt schema=\"facts\"><a/><b/><d/>The phone of Rosa Silva is</prompt>",
    "<prompt schema=\"facts\"><a/>The desk of<c/>The job of Anna Reed is</prompt>",
    "<prompt schema=\"facts\"><d/>The team of Clara Holt is</prompt>",
};

static pc_prompt *make(const pc_model *model, const char *schema_text, const char *text)
{
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    if (CHECK_OK(pc_schema_parse(&schema, model, schema_text, strlen(schema_text), NULL)))
        CHECK_OK(pc_prompt_parse(&prompt, &schema, 1, text, strlen(text), NULL));
    pc_schema_free(schema);
    return prompt;
}

static pc_generate_options keep(uint32_t tokens)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = tokens;
    o.flags = PC_GENERATE_KEEP | PC_GENERATE_IGNORE_END;
    return o;
}

/* Three requests in a batch, one of them forked, another one shortened, both pushed to. */
static void talk_to(const pc_model *model, pc_cache *cache, talk *t)
{
    pc_generate_options o = keep(6);
    pc_sequence *s[4] = {NULL};
    pc_batch *batch = NULL;
    const int32_t *own;
    int32_t more[3];
    size_t count;
    t->count = 0;
    CHECK_OK(pc_batch_new(&batch, model, NULL));
    for (int i = 0; i < 3; i++) {
        pc_prompt *prompt = make(model, facts, questions[i]);
        CHECK_OK(pc_sequence_new(&s[i], prompt, cache, &o));
        CHECK_OK(pc_batch_add(batch, s[i]));
        pc_prompt_free(prompt);
    }
    CHECK_STATUS(run(batch), PC_END);
    CHECK_OK(pc_sequence_fork(&s[3], s[0], NULL));
    own = pc_sequence_tokens(s[1], &count);
    for (int i = 0; i < 3; i++)
        more[i] = own[i];
    CHECK_OK(pc_sequence_push(s[3], more, 3));
    CHECK_OK(pc_sequence_truncate(s[1], 2));
    CHECK_OK(pc_sequence_push(s[1], more + 1, 2));
    CHECK_OK(pc_batch_add(batch, s[3]));
    CHECK_STATUS(run(batch), PC_END);
    CHECK_OK(pc_sequence_truncate(s[0], 3));
    CHECK_STATUS(run(batch), PC_END);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(pc_sequence_error(s[i], NULL));
        note(t, s[i]);
        pc_sequence_free(s[i]);
    }
    pc_batch_free(batch);
}

static int same(const talk *a, const talk *b)
{
    return a->count == b->count && !memcmp(a->tokens, b->tokens, a->count * sizeof *a->tokens);
}

static const char *file; /* the demo model in fp32 */
/* of the own model: all of talk_to, and the first question alone */
static talk expected, expected_answer;

static pc_cache *cache_of(const world *w, uint64_t bytes)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.ram_bytes = bytes;
    CHECK_OK(pc_cache_new(&cache, w->context, &o));
    return cache;
}

static void test_talk(uint32_t n_batch, uint32_t n_seq_max)
{
    struct llama_context_params p = world_params();
    world w = {.context = NULL};
    talk t;
    p.n_batch = n_batch;
    p.n_ubatch = n_batch < 16 ? 5 : 16;
    p.n_seq_max = n_seq_max;
    if (world_llama(&w, file, &p)) {
        pc_cache *cache = cache_of(&w, 0);
        for (int i = 0; i < 2; i++) {
            talk_to(w.model, cache, &t);
            CHECK(same(&t, &expected));
        }
        pc_cache_free(cache);
        talk_to(w.model, NULL, &t);
        CHECK(same(&t, &expected));
    }
    world_close(&w);
}

/* ------------------------------------------------------------- too little */

static pc_status answer(const pc_model *model, pc_cache *cache, const char *schema,
                        const char *question, talk *t)
{
    pc_generate_options o = keep(6);
    pc_prompt *prompt = make(model, schema, question);
    pc_sequence *s = NULL;
    pc_batch *batch = NULL;
    pc_status status;
    t->count = 0;
    CHECK_OK(pc_batch_new(&batch, model, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, cache, &o));
    CHECK_OK(pc_batch_add(batch, s));
    run(batch);
    status = pc_sequence_error(s, NULL);
    if (status >= 0)
        note(t, s);
    pc_sequence_free(s);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
    return status;
}

/* Eight ids, of which six are left for shelves and sequences. Every schema begins at position 0, so
 * no two share a shelf: the library has to release segments of earlier ones. */
static void test_few_ids(void)
{
    struct llama_context_params p = world_params();
    world w = {.context = NULL};
    char schema[200];
    talk t;
    p.n_seq_max = 8;
    if (world_llama(&w, file, &p)) {
        pc_cache *cache = cache_of(&w, 0);
        pc_sequence *s[10] = {NULL};
        pc_generate_options o = keep(2);
        pc_batch *batch = NULL;
        size_t good = 0, full = 0;
        for (int i = 0; i < 20; i++) {
            snprintf(schema, sizeof schema,
                     "<schema name=\"x\"><module name=\"m\">The desk of "
                     "Peter Novak is %d. </module></schema>",
                     100 + i);
            CHECK_OK(answer(w.model, cache, schema, "<prompt schema=\"x\"><m/>The desk is</prompt>",
                            &t));
        }
        CHECK(w.stats.ids <= 6);
        /* ten requests at once: those without an id say so, the others are answered */
        CHECK_OK(pc_batch_new(&batch, w.model, NULL));
        for (int i = 0; i < 10; i++) {
            pc_prompt *prompt = make(w.model, facts, questions[i % 3]);
            CHECK_OK(pc_sequence_new(&s[i], prompt, cache, &o));
            CHECK_OK(pc_batch_add(batch, s[i]));
            pc_prompt_free(prompt);
        }
        run(batch);
        for (int i = 0; i < 10; i++) {
            const char *text = "";
            pc_status status = pc_sequence_error(s[i], &text);
            good += status == PC_OK;
            full += status == PC_ERR_LIMIT && strstr(text, "sequence ids") != NULL;
            pc_sequence_free(s[i]);
        }
        CHECK(good >= 2);
        CHECK_INT(good + full, 10);
        pc_batch_free(batch);
        CHECK_OK(answer(w.model, cache, facts, questions[0], &t));
        CHECK(same(&t, &expected_answer));
        pc_cache_free(cache);
    }
    world_close(&w);
}

static void test_few_cells(void)
{
    struct llama_context_params p = world_params();
    world w = {.context = NULL};
    char schema[4000], small[200];
    talk t;
    p.n_ctx = 256;
    strcpy(schema, "<schema name=\"x\"><module name=\"m\">");
    for (int i = 0; i < 40; i++)
        strcat(schema, "The desk of Peter Novak is 368. ");
    strcat(schema, "</module></schema>");
    if (world_llama(&w, file, &p)) {
        pc_cache *cache = cache_of(&w, 0);
        CHECK_STATUS(
            answer(w.model, cache, schema, "<prompt schema=\"x\"><m/>The desk is</prompt>", &t),
            PC_ERR_LIMIT);
        CHECK_ERROR_HAS("256 cells");
        for (int i = 0; i < 30; i++) { /* these fit one by one, all of them do not */
            snprintf(small, sizeof small,
                     "<schema name=\"x\"><module name=\"m\">The desk of Peter "
                     "Novak is %d. The team is %d. </module></schema>",
                     i, i);
            CHECK_OK(
                answer(w.model, cache, small, "<prompt schema=\"x\"><m/>The desk</prompt>", &t));
        }
        talk_to(w.model, cache, &t);
        CHECK(same(&t, &expected));
        pc_cache_free(cache);
    }
    world_close(&w);
}

/* --------------------------------------------------------------- failures */

/* Every call of llama_decode fails once, in three ways; then the same sequence goes on. */
static void fail_each(world *w, int result, int after)
{
    talk want, t;
    pc_cache *cache = cache_of(w, 0);
    CHECK_OK(answer(w->model, cache, facts, questions[1], &want));
    pc_cache_free(cache);
    for (int at = 1;; at++) {
        pc_generate_options o = keep(6);
        pc_prompt *prompt = make(w->model, facts, questions[1]);
        pc_sequence *s = NULL;
        pc_batch *batch = NULL;
        pc_status status;
        cache = cache_of(w, 0);
        t.count = 0;
        CHECK_OK(pc_batch_new(&batch, w->model, NULL));
        CHECK_OK(pc_sequence_new(&s, prompt, cache, &o));
        CHECK_OK(pc_batch_add(batch, s));
        order.decodes = 0, order.fail_at = at, order.result = result, order.after = after;
        run(batch);
        order.fail_at = 0;
        status = pc_sequence_error(s, NULL);
        if (order.decodes < at)
            CHECK_OK(status);
        else if (result == 1) /* the library may have made room and called again */
            CHECK(status == PC_ERR_LIMIT || status == PC_OK);
        else
            CHECK_INT(status, result == 2 ? PC_ERR_CANCELLED : PC_ERR_INTERNAL);
        if (status < 0) {
            CHECK_OK(pc_sequence_push(s, NULL, 0));
            pc_sequence_set_options(s, &o);
            CHECK_STATUS(run(batch), PC_END);
            CHECK_OK(pc_sequence_error(s, NULL));
        }
        note(&t, s);
        CHECK(t.count >= want.count
              && !memcmp(t.tokens, want.tokens, want.count * sizeof *want.tokens));
        pc_sequence_free(s);
        pc_batch_free(batch);
        pc_prompt_free(prompt);
        pc_cache_free(cache);
        CHECK(world_is_empty(w));
        if (order.decodes < at)
            break;
    }
}

static void test_failures(void)
{
    struct llama_context_params p = world_params();
    world w = {.context = NULL};
    talk t;
    if (world_llama(&w, file, &p)) {
        fail_each(&w, -3, 0);
        fail_each(&w, -3, 1); /* cells of the call are still there */
        fail_each(&w, 2, 1);
        fail_each(&w, 1, 0);
        CHECK(w.stats.undone > 0);
        /* states that do not go in */
        for (int at = 1; at < 12; at++) {
            pc_cache *cache = cache_of(&w, 0);
            order.puts = 0, order.fail_put = at;
            answer(w.model, cache, facts, questions[1], &t);
            order.fail_put = 0;
            talk_to(w.model, cache, &t);
            CHECK(same(&t, &expected));
            pc_cache_free(cache);
            CHECK(world_is_empty(&w));
        }
    }
    world_close(&w);
}

/* ----------------------------------------------------------- cancellation */

static int32_t stop_after(void *user)
{
    return --*(int *)user < 0;
}

static void test_cancel(void)
{
    struct llama_context_params p = world_params();
    world w = {.context = NULL};
    talk want, t;
    size_t cancelled = 0;
    if (world_llama(&w, file, &p)) {
        CHECK_OK(answer(w.model, NULL, facts, questions[0], &want));
        for (int polls = 0; polls < 400; polls = polls * 5 / 4 + 1) {
            pc_generate_options o = keep(6);
            pc_prompt *prompt = make(w.model, facts, questions[0]);
            pc_sequence *s = NULL;
            pc_batch *batch = NULL;
            int left = polls;
            o.cancelled = stop_after;
            o.cancel_user = &left;
            t.count = 0;
            CHECK_OK(pc_batch_new(&batch, w.model, NULL));
            CHECK_OK(pc_sequence_new(&s, prompt, NULL, &o));
            CHECK_OK(pc_batch_add(batch, s));
            run(batch);
            if (pc_sequence_finish(s) == PC_FINISH_CANCELLED) {
                cancelled++;
                left = 1 << 30;
                CHECK_OK(pc_sequence_push(s, NULL, 0));
                CHECK_STATUS(run(batch), PC_END);
            }
            note(&t, s);
            CHECK(t.count >= want.count
                  && !memcmp(t.tokens, want.tokens, want.count * sizeof *want.tokens));
            pc_sequence_free(s);
            pc_batch_free(batch);
            pc_prompt_free(prompt);
            CHECK(world_is_empty(&w));
        }
        CHECK(cancelled > 5);
    }
    world_close(&w);
}

int main(void)
{
    const char *path = world_file("models/demo/demo.gguf");
    struct llama_context_params p = world_params();
    pc_cache *cache;
    world w;
    file = path ? world_in_fp32(path) : NULL;
    if (!file || !world_open(&w, file, &p))
        return pc_test_end();
    cache = cache_of(&w, 0);
    talk_to(w.own, cache, &expected);
    CHECK(expected.count > 20);
    CHECK_OK(answer(w.own, cache, facts, questions[0], &expected_answer));
    pc_cache_free(cache);
    world_close(&w);
    test_talk(512, 256);
    test_talk(12, 12);
    test_few_ids();
    test_few_cells();
    test_failures();
    test_cancel();
    return pc_test_end();
}
