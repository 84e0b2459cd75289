/* Sequences that get tokens or lose them. Catches: states that a truncation leaves behind; logits
 * that are not those of a plain prefill of all remaining tokens (forced, sampled, several turns,
 * after a fork); copies that change with each other; text of one turn in another; a model without
 * the operation; wrong states and arguments; leaks when an allocation fails. */
#include "toy_schema.h"
#include <promptcache/prompt.h>
#include <promptcache/batch.h>

/* Pushes a user's message. */
static pc_status say(pc_sequence *s, const char *text)
{
    const pc_message m = {.role = "user", .content = text, .content_size = strlen(text)};
    return pc_sequence_push_messages(s, &m, sizeof m, 1, NULL);
}

enum { MOST_TOKENS = 256 };

typedef struct talk {
    toy_world w;
    pc_schema *schema;
    pc_prompt *prompt;
    pc_batch *batch;
    pc_sequence *s;
} talk;

static pc_generate_options options(uint64_t flags)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.flags = flags;
    o.max_tokens = 6;
    return o;
}

static int start(talk *t, const pc_allocator *mem, int32_t context, const pc_generate_options *o)
{
    static const char system[] = "the word is here, and it was one of the hot";
    pc_system_format r = PC_SYSTEM_FORMAT_INIT;
    memset(t, 0, sizeof *t);
    if (!CHECK(toy_start(&t->w, mem, 0, context, NULL)))
        return 0;
    r.format = "[{__SYS_PROMPT}]{__USR_PROMPT}=";
    r.format_size = strlen(r.format);
    r.system = system;
    r.system_size = strlen(system);
    CHECK_OK(pc_schema_from_format(&t->schema, t->w.model, &r));
    CHECK_OK(pc_prompt_fill(&t->prompt, t->schema, "what is it", 10, NULL));
    CHECK_OK(pc_batch_new(&t->batch, t->w.model, NULL));
    CHECK_OK(pc_sequence_new(&t->s, t->prompt, t->w.cache, o));
    return CHECK_OK(pc_batch_add(t->batch, t->s));
}

static void stop(talk *t)
{
    pc_sequence_free(t->s);
    pc_batch_free(t->batch);
    pc_prompt_free(t->prompt);
    pc_schema_free(t->schema);
    CHECK_INT(pc_toy_count(t->w.toy)->live_sequences, 0);
    toy_end(&t->w);
}

/* All tokens of the prompt, then those behind it but for the `less` last ones. */
static size_t tokens_of(const pc_prompt *prompt, const pc_sequence *s, size_t less, int32_t *out)
{
    size_t n = 0, count;
    const int32_t *behind = pc_sequence_tokens(s, &count);
    for (size_t p = 0; p < pc_prompt_part_count(prompt); p++) {
        pc_part part = PC_PART_INIT;
        CHECK_OK(pc_prompt_get_part(prompt, p, &part));
        memcpy(out + n, part.tokens, part.count * sizeof *out);
        n += part.count;
    }
    memcpy(out + n, behind, (count - less) * sizeof *out);
    return n + count - less;
}

/* The logits behind which its last token was sampled are those of a prefill that knows nothing of
 * sequences. */
static void is_prefill(const talk *t, const pc_sequence *s)
{
    int32_t tokens[MOST_TOKENS];
    int64_t positions[MOST_TOKENS];
    float want[TOY_VOCAB];
    size_t vocab, n = tokens_of(t->prompt, s, 1, tokens);
    const float *got = pc_sequence_logits(s, &vocab);
    for (size_t i = 0; i < n; i++)
        positions[i] = (int64_t)i;
    pc_toy_reference(t->w.toy, tokens, positions, n, want);
    CHECK_INT(vocab, TOY_VOCAB);
    CHECK(got && !memcmp(got, want, sizeof want));
}

static void steps(const talk *t, int count)
{
    for (int i = 0; i < count; i++)
        CHECK(pc_batch_step(t->batch) >= 0);
}

static size_t count_of(const pc_sequence *s)
{
    size_t count;
    pc_sequence_tokens(s, &count);
    return count;
}

static void forced(void)
{
    pc_generate_options o = options(PC_GENERATE_LOGITS);
    int32_t ids[3] = {270, 265, 280};
    pc_stats stats = PC_STATS_INIT;
    size_t vocab = 1;
    talk t;
    if (!start(&t, NULL, 0, &o))
        return;
    CHECK(pc_sequence_logits(t.s, &vocab) == NULL && vocab == 0);
    CHECK_OK(
        pc_sequence_push(t.s, ids, 2)); /* before the first step: the answer begins with them */
    steps(&t, 1);
    CHECK_INT(count_of(t.s), 3);
    CHECK(!memcmp(pc_sequence_tokens(t.s, NULL), ids, 2 * sizeof *ids));
    is_prefill(&t, t.s);
    CHECK_OK(pc_sequence_push(t.s, ids, 3)); /* behind a sampled one */
    steps(&t, 1);
    CHECK_INT(count_of(t.s), 7);
    is_prefill(&t, t.s);
    steps(&t, 1);
    is_prefill(&t, t.s);
    CHECK_OK(pc_sequence_truncate(t.s, 7)); /* override what was sampled last */
    CHECK(pc_sequence_logits(t.s, NULL) == NULL);
    CHECK_OK(pc_sequence_push(t.s, ids + 1, 1));
    steps(&t, 1);
    CHECK_INT(pc_sequence_tokens(t.s, NULL)[7], 265);
    is_prefill(&t, t.s);
    CHECK_OK(pc_sequence_get_stats(t.s, &stats));
    CHECK_INT(stats.tokens_generated, 4);
    CHECK_INT(stats.tokens_prompt, pc_schema_length(t.schema) + 7 + 6);
    CHECK_INT(stats.tokens_cached + stats.tokens_encoded + stats.tokens_repaired + stats.tokens_new,
              stats.tokens_prompt);
    stop(&t);
}

/* Cut to every length and gone on: as if there had never been more. */
static void truncated(void)
{
    pc_generate_options o = options(PC_GENERATE_LOGITS | PC_GENERATE_KEEP);
    int32_t first[6];
    char said[512];
    size_t size;
    talk t;
    if (!start(&t, NULL, 0, &o))
        return;
    while (pc_batch_step(t.batch) == PC_OK)
        ;
    CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_LENGTH);
    memcpy(first, pc_sequence_tokens(t.s, NULL), sizeof first);
    pc_sequence_text(t.s, &size);
    memcpy(said, pc_sequence_text(t.s, NULL), size);
    for (size_t keep = 0; keep <= 6; keep++) {
        size_t now;
        CHECK_OK(pc_sequence_truncate(t.s, keep));
        CHECK_INT(count_of(t.s), keep);
        if (keep == 6)
            break;
        CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_NONE);
        for (size_t i = keep; i < 6; i++) {
            CHECK_STATUS(pc_batch_step(t.batch), i == 5 ? PC_END : PC_OK);
            is_prefill(&t, t.s);
        }
        CHECK(!memcmp(pc_sequence_tokens(t.s, NULL), first, sizeof first));
        pc_sequence_text(t.s, &now);
        CHECK(now == size && !memcmp(pc_sequence_text(t.s, NULL), said, size));
    }
    CHECK_OK(pc_sequence_truncate(t.s, 0));
    CHECK_OK(pc_sequence_truncate(t.s, 0)); /* there is nothing more to lose */
    CHECK_OK(pc_sequence_push(t.s, first + 2, 2));
    steps(&t, 2);
    is_prefill(&t, t.s);
    CHECK_OK(pc_sequence_push(t.s, first, 4));
    CHECK_OK(pc_sequence_truncate(t.s, 6)); /* some of the pushed ones, not computed yet */
    steps(&t, 1);
    CHECK_INT(count_of(t.s), 7);
    is_prefill(&t, t.s);
    stop(&t);
}

/* Turns of a conversation: text and max_tokens are those of the turn, states are those of the
 * whole. */
static void turns(void)
{
    pc_generate_options o = options(PC_GENERATE_LOGITS | PC_GENERATE_KEEP);
    talk t;
    size_t n, size;
    if (!start(&t, NULL, 0, &o))
        return;
    for (int turn = 0; turn < 3; turn++) {
        char text[512];
        while (pc_batch_step(t.batch) == PC_OK)
            ;
        is_prefill(&t, t.s);
        const int32_t *tokens = pc_sequence_tokens(t.s, &n);
        CHECK_INT(n, (size_t)(6 + turn * (6 + 5)));
        CHECK_OK(pc_detokenize(t.w.model, tokens + n - 6, 6, 0, text, sizeof text, &size));
        size_t got;
        const char *final = pc_sequence_text(t.s, &got);
        CHECK(
            got == size
            && !memcmp(final, text, size)); /* ASCII of the toy: nothing is held back at the end */
        CHECK_OK(say(t.s, "and what?"));
        CHECK_INT(count_of(t.s), n + 5); /* the toy's chat template is "none": the text */
        pc_sequence_text(t.s, &got);
        CHECK_INT(got, 0);
        CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_NONE);
    }
    stop(&t);
}

/* A tree: copies of one beginning continue differently, one is truncated behind the fork, the
 * original continues. */
static void tree(void)
{
    pc_generate_options o = options(PC_GENERATE_LOGITS | PC_GENERATE_KEEP);
    pc_sequence *copy[3] = {NULL};
    talk t;
    if (!start(&t, NULL, 0, &o))
        return;
    while (pc_batch_step(t.batch) == PC_OK)
        ;
    for (int i = 0; i < 3; i++) {
        int32_t id = 262 + i;
        CHECK_OK(pc_sequence_fork(&copy[i], t.s, NULL)); /* of a finished one */
        CHECK_INT(pc_sequence_finish(copy[i]), PC_FINISH_LENGTH);
        CHECK_OK(pc_batch_add(t.batch, copy[i]));
        if (i == 2)
            CHECK_OK(pc_sequence_truncate(copy[i], 2));
        CHECK_OK(pc_sequence_push(copy[i], &id, 1));
    }
    steps(&t, 3);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(count_of(copy[i]), i == 2 ? 6 : 10);
        is_prefill(&t, copy[i]);
    }
    CHECK_INT(count_of(t.s), 6);
    CHECK_OK(pc_sequence_push(t.s, NULL, 0)); /* lets it continue */
    CHECK_OK(pc_sequence_truncate(copy[0], 7));
    steps(&t, 2);
    CHECK_INT(count_of(t.s), 8);
    is_prefill(&t, t.s);
    is_prefill(&t, copy[0]);
    is_prefill(&t, copy[1]);
    for (int i = 0; i < 3; i++)
        pc_sequence_free(copy[i]);
    steps(&t, 1);
    is_prefill(&t, t.s);
    stop(&t);
}

/* Without the flag a finished sequence has nothing left; with it, a failed one goes on too. */
static void states(void)
{
    pc_generate_options o = options(0);
    int32_t id = 270, bad = TOY_VOCAB;
    talk t;
    if (!start(&t, NULL, 0, &o))
        return;
    CHECK_OK(pc_sequence_truncate(t.s, 0));
    CHECK_STATUS(pc_sequence_truncate(t.s, 1), PC_ERR_INVALID);
    while (pc_batch_step(t.batch) == PC_OK)
        ;
    CHECK_STATUS(pc_sequence_push(t.s, &id, 1), PC_ERR_STATE);
    CHECK_ERROR_HAS("PC_GENERATE_KEEP");
    CHECK_STATUS(say(t.s, "a"), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_truncate(t.s, 1), PC_ERR_STATE);
    CHECK(pc_sequence_logits(t.s, NULL) == NULL);
    CHECK_STATUS(pc_sequence_push(NULL, &id, 1), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_push(t.s, NULL, 1), PC_ERR_INVALID);
    CHECK_STATUS(say(NULL, "a"), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_push_messages(t.s, NULL, 8, 1, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_truncate(NULL, 0), PC_ERR_INVALID);
    CHECK(pc_sequence_logits(NULL, NULL) == NULL);
    stop(&t);
    o.flags = PC_GENERATE_KEEP;
    if (!start(&t, NULL, 0, &o))
        return;
    CHECK_STATUS(pc_sequence_push(t.s, &bad, 1), PC_ERR_INVALID);
    CHECK_ERROR_HAS("token 0 is 299, the vocabulary has 299");
    pc_toy_count(t.w.toy)->fail_step_at = pc_toy_count(t.w.toy)->step_calls + 2;
    steps(&t, 1);
    CHECK_STATUS(pc_batch_step(t.batch), PC_END);
    CHECK_STATUS(pc_sequence_error(t.s, NULL), PC_ERR_IO);
    CHECK_OK(pc_sequence_push(t.s, &id, 1));
    CHECK_OK(pc_sequence_error(t.s, NULL));
    CHECK_OK(pc_batch_step(t.batch));
    CHECK_INT(count_of(t.s), 3);
    CHECK_OK(pc_sequence_truncate(t.s, 0));
    stop(&t);
}

/* A callback in the middle of a step must not change what the step works on. */
static int32_t meddle(void *user, uint32_t sample, const char *text, size_t size)
{
    talk *t = user;
    pc_sequence *copy = t->s;
    int32_t id = 270;
    (void)sample, (void)text, (void)size;
    CHECK_STATUS(pc_sequence_push(t->s, &id, 1), PC_ERR_STATE);
    CHECK_ERROR_HAS("a step of the sequence is under way");
    CHECK_STATUS(pc_sequence_truncate(t->s, 0), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_fork(&copy, t->s, NULL), PC_ERR_STATE);
    CHECK_ERROR_HAS("a step of the sequence is under way");
    CHECK(!copy);
    CHECK_STATUS(pc_batch_step(t->batch), PC_ERR_STATE);
    return 0;
}

static void callbacks(void)
{
    pc_generate_options o = options(PC_GENERATE_KEEP | PC_GENERATE_LOGITS);
    talk t;
    size_t count;
    pc_span span;
    pc_batch_stats stats = PC_BATCH_STATS_INIT;
    o.on_text = meddle;
    o.on_text_user = &t;
    if (!start(&t, NULL, 0, &o))
        return;
    steps(&t, 3);
    CHECK_INT(count_of(t.s), 3);
    is_prefill(&t, t.s);
    CHECK_STATUS(pc_sequence_spans(t.s, &span, sizeof(pc_span), 1, &count),
                 PC_ERR_UNSUPPORTED); /* of an application's model */
    CHECK_OK(pc_batch_get_stats(t.batch, &stats));
    CHECK_INT(stats.tokens_seen, pc_schema_length(t.schema) + 7 + 2);
    CHECK_INT(stats.tokens_stored, stats.tokens_seen);
    CHECK_STATUS(pc_batch_get_stats(NULL, &stats), PC_ERR_INVALID);
    CHECK_STATUS(pc_batch_get_stats(t.batch, NULL), PC_ERR_INVALID);
    stop(&t);
}

static void limits(void)
{
    pc_generate_options o = options(PC_GENERATE_KEEP);
    int32_t ids[64];
    talk t;
    for (size_t i = 0; i < 64; i++)
        ids[i] = 270;
    if (!start(&t, NULL, 60, &o))
        return;
    CHECK_STATUS(pc_sequence_push(t.s, ids, 64), PC_ERR_LIMIT);
    steps(&t, 1);
    size_t room = 0;
    while (room < 64 && pc_sequence_push(t.s, ids, 1) >= 0)
        room++;
    CHECK(room > 0 && room < 60);
    CHECK_STATUS(pc_sequence_push(t.s, ids, 1), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("the model's context is 60");
    CHECK_STATUS(pc_batch_step(t.batch), PC_END); /* to the last position */
    CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_LENGTH);
    room = count_of(t.s);
    CHECK_OK(pc_sequence_truncate(
        t.s, room)); /* nothing is taken off: there is still no place for the last token */
    CHECK_STATUS(pc_batch_step(t.batch), PC_END);
    CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_LENGTH);
    CHECK_INT(count_of(t.s), room);
    CHECK_OK(pc_sequence_truncate(t.s, room - 2));
    CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_NONE);
    steps(&t, 1);
    CHECK_INT(count_of(t.s), room - 1);
    stop(&t);
}

/* A model that cannot shorten its sequences. */
static void no_truncate(void)
{
    toy_world w;
    pc_model_ops ops = pc_toy_ops();
    pc_prompt *prompt = NULL;
    pc_batch *batch = NULL;
    pc_sequence *s = NULL;
    ops.truncate = NULL;
    if (!CHECK(toy_start_ops(&w, NULL, &ops, 0, 0, NULL)))
        return;
    CHECK_OK(pc_prompt_from_text(&prompt, w.model, "the word", 8, NULL));
    CHECK_OK(pc_batch_new(&batch, w.model, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, NULL, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    for (int i = 0; i < 3; i++)
        CHECK_OK(pc_batch_step(batch));
    CHECK_STATUS(pc_sequence_truncate(s, 1), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("ops.truncate");
    CHECK_INT(count_of(s), 3);
    CHECK_OK(pc_sequence_push(s, (int32_t[]){270, 271}, 2));
    CHECK_OK(pc_sequence_truncate(s, 4)); /* what is not computed yet can go */
    CHECK_OK(pc_batch_step(batch));
    CHECK_INT(count_of(s), 5);
    pc_sequence_free(s);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
    toy_end(&w);
}

/* One that is named must be the tokenizer's. */
static void named_template(pc_context *context)
{
    static const char *const names[] = {"chatml", "llama3", "falcon", "nobody"};
    const pc_status want[] = {PC_ERR_MISMATCH, PC_ERR_MISMATCH, PC_OK, PC_ERR_NOT_FOUND};
    static const char *const cause[] = {"'<|im_start|>'", "'<|begin_of_text|>'", NULL, "'nobody'"};
    pc_model_ops ops = pc_toy_ops();
    for (size_t i = 0; i < 4; i++) {
        pc_model_options options = PC_MODEL_OPTIONS_INIT;
        pc_toy *toy = pc_toy_new(7, 0, 0);
        pc_model *model = NULL;
        options.chat_template = names[i];
        CHECK_STATUS(pc_model_from_ops(&model, context, &ops, toy, pc_toy_free, &options), want[i]);
        if (cause[i])
            CHECK_ERROR_HAS(cause[i]);
        if (!model)
            pc_toy_free(toy); /* it is still ours */
        pc_model_free(model);
    }
}

/* An application's model without a chat template: roles are an error. */
static void no_template(void)
{
    static const char *const tags[] = {"<schema name=\"s\"><system>be kind</system></schema>",
                                       "<schema name=\"s\">\n<system/></schema>",
                                       "<schema name=\"s\"><user>who</user></schema>"};
    static const char asked[] = "<prompt>\n <user>who</user></prompt>";
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_model_ops ops = pc_toy_ops();
    pc_prompt *prompt = NULL;
    pc_schema *schema = NULL;
    pc_sequence *s = NULL;
    pc_system_format relay = PC_SYSTEM_FORMAT_INIT;
    CHECK_OK(pc_context_new(&context, NULL));
    CHECK_OK(pc_model_from_ops(&model, context, &ops, pc_toy_new(7, 0, 0), pc_toy_free, NULL));
    for (size_t i = 0; i < 3; i++) {
        CHECK_STATUS(pc_schema_parse(&schema, model, tags[i], strlen(tags[i]), NULL), PC_ERR_PML);
        CHECK_ERROR_HAS("no chat template");
        CHECK_ERROR_HAS(i == 1 ? "schema:2:1: <system>" : i ? "schema:1:18: <user>" : "<system>");
    }
    relay.flags = PC_FORMAT_CHAT;
    CHECK_STATUS(pc_schema_from_format(&schema, model, &relay), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("no chat template");
    CHECK_OK(pc_schema_parse(&schema, model, "<schema name=\"s\">it was</schema>", 32, NULL));
    CHECK_STATUS(pc_prompt_parse(&prompt, &schema, 1, asked, strlen(asked), NULL), PC_ERR_PML);
    CHECK_ERROR_HAS("prompt:2:2: <user>: the model has no chat template");
    CHECK_OK(pc_prompt_from_text(&prompt, model, "the word", 8, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, NULL, NULL));
    CHECK_STATUS(say(s, "who"), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("no chat template");
    CHECK_ERROR_HAS("chat_template");
    CHECK_INT(count_of(s), 0);
    pc_sequence_free(s);
    pc_schema_free(schema);
    pc_prompt_free(prompt);
    pc_model_free(model);
    named_template(context);
    pc_context_free(context);
}

static void no_memory(void)
{
    for (uint64_t at = 1, more = 1; more; at++) {
        pc_test_memory memory = {0};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc_generate_options o = options(PC_GENERATE_KEEP | PC_GENERATE_LOGITS);
        pc_sequence *copy = NULL;
        talk t;
        if (!start(&t, &mem, 0, &o))
            return;
        steps(&t, 3);
        memory.fail_at = memory.calls + at;
        size_t count = count_of(t.s);
        pc_status status = say(t.s, "and what");
        CHECK(status >= 0 || count_of(t.s) == count);
        if (status >= 0) {
            count = count_of(t.s);
            status = pc_sequence_truncate(t.s, 2);
            CHECK_INT(count_of(t.s), status < 0 ? count : 2);
        }
        if (status >= 0)
            status = pc_sequence_fork(&copy, t.s, NULL);
        if (status >= 0)
            status = pc_sequence_push(copy,
                                      (int32_t[]){270, 271, 272, 273, 274, 275, 276, 277, 278}, 9);
        if (status >= 0)
            status = pc_batch_add(t.batch, copy);
        if (status >= 0)
            status = pc_batch_step(t.batch);
        if (status >= 0)
            status = pc_sequence_error(t.s, NULL);
        if (status >= 0)
            status = pc_sequence_error(copy, NULL);
        more = memory.calls >= memory.fail_at;
        if (more)
            CHECK_STATUS(status, PC_ERR_NOMEM);
        else
            CHECK(status >= 0);
        pc_sequence_free(copy);
        stop(&t);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    forced();
    truncated();
    turns();
    tree();
    states();
    callbacks();
    limits();
    no_truncate();
    no_template();
    no_memory();
    return pc_test_end();
}
