/* Functions of the application that fail. Catches: an error text that does not name the function,
 * that loses what the function has said by pc_error_set, or that repeats what another one said;
 * text that is delivered in pieces which divide a character. */
#include "toy_schema.h"

#include <promptcache/admin.h>
#include <promptcache/batch.h>

static const char *words; /* what failing functions say; NULL: nothing */

static pc_status fail(void)
{
    if (words)
        pc_error_set(words);
    return PC_ERR_IO;
}

/* ------------------------------------------------------------- operations of a model */

static pc_status no_describe(void *user, pc_model_info *info)
{
    (void)user, (void)info;
    return fail();
}

static pc_status no_tokenize(void *user, const char *text, size_t size, uint64_t flags,
                             int32_t *tokens, size_t capacity, size_t *count)
{
    (void)user, (void)text, (void)size, (void)flags, (void)tokens, (void)capacity, (void)count;
    return fail();
}

static pc_status no_detokenize(void *user, const int32_t *tokens, size_t count, uint64_t flags,
                               char *text, size_t capacity, size_t *size)
{
    (void)user, (void)tokens, (void)count, (void)flags, (void)text, (void)capacity, (void)size;
    return fail();
}

static pc_status no_encode(void *user, const pc_encode_args *args, void **segments)
{
    (void)user, (void)args, (void)segments;
    return fail();
}

static pc_status no_size(void *user, void *segment, uint64_t *bytes)
{
    (void)user, (void)segment, (void)bytes;
    return fail();
}

static pc_status no_sequence_new(void *user, const pc_sequence_args *args, void **sequence)
{
    (void)user, (void)args, (void)sequence;
    return fail();
}

static pc_status no_attach(void *user, void *sequence, const pc_span *placement)
{
    (void)user, (void)sequence, (void)placement;
    return fail();
}

static pc_status no_fork(void *user, void *sequence, void **copy)
{
    (void)user, (void)sequence, (void)copy;
    return fail();
}

static pc_status no_step(void *user, const pc_step_args *args)
{
    (void)user, (void)args;
    return fail();
}

static pc_status no_deviation(void *user, const pc_deviation_args *args, float *score)
{
    (void)user, (void)args, (void)score;
    return fail();
}

static pc_status no_truncate(void *user, void *sequence, size_t count)
{
    (void)user, (void)sequence, (void)count;
    return fail();
}

/* The toy with one operation that fails. */
static pc_model_ops without(const char *name)
{
    pc_model_ops ops = pc_toy_ops();
#define NOT(op)             \
    if (!strcmp(name, #op)) \
    ops.op = no_##op
    NOT(describe);
    NOT(tokenize);
    NOT(detokenize);
    NOT(encode);
    NOT(size);
    NOT(sequence_new);
    NOT(attach);
    NOT(fork);
    NOT(step);
    NOT(deviation);
    NOT(truncate);
#undef NOT
    return ops;
}

static int start(toy_world *w, const pc_model_ops *ops)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    memset(w, 0, sizeof *w);
    o.threads = 1;
    w->toy = pc_toy_new(7, 0, 0);
    CHECK_OK(pc_context_new(&w->context, &o));
    pc_status status = pc_model_from_ops(&w->model, w->context, ops, w->toy, pc_toy_free, NULL);
    if (status < 0)
        pc_toy_free(w->toy);
    if (status >= 0)
        status = pc_cache_new(&w->cache, w->context, NULL);
    if (status >= 0)
        status = pc_schema_parse(&w->schema, w->model, toy_schema, strlen(toy_schema), NULL);
    return status;
}

/* Everything that a request may ask of a model: two samples, repair by deviation, a step back. */
static pc_status everything(const char *missing)
{
    toy_world w;
    pc_model_ops ops = without(missing);
    pc_prompt *prompt = NULL;
    pc_batch *batch = NULL;
    pc_sequence *s = NULL;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    static const char text[] = "<prompt schema=\"t\"><a x=\"some\"/><b/>what is it?</prompt>";
    pc_status status = start(&w, &ops);
    o.max_tokens = 4;
    o.samples = 2;
    o.repair = PC_REPAIR_TOP;
    o.repair_percent = 20;
    if (status >= 0)
        status = pc_prompt_parse(&prompt, &w.schema, 1, text, sizeof text - 1, NULL);
    if (status >= 0)
        status = pc_generate(prompt, w.cache, &o, NULL);
    o.samples = 1;
    o.flags = PC_GENERATE_KEEP;
    if (status >= 0 && (status = pc_sequence_new(&s, prompt, w.cache, &o)) >= 0
        && (status = pc_batch_new(&batch, w.model, NULL)) >= 0
        && (status = pc_batch_add(batch, s)) >= 0)
        while ((status = pc_batch_step(batch)) == PC_OK)
            ;
    if (status >= 0)
        status = pc_sequence_error(s, NULL);
    if (status >= 0)
        status = pc_sequence_truncate(s, 1);
    pc_sequence_free(s);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
    toy_end(&w);
    return status;
}

static void operations(void)
{
    static const char *const names[] = {"describe", "tokenize",     "detokenize", "encode",
                                        "size",     "sequence_new", "attach",     "fork",
                                        "step",     "deviation",    "truncate"};
    char want[128];
    words = NULL;
    CHECK_OK(everything(""));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        words = "the device\nwas lost";
        CHECK_STATUS(everything(names[i]), PC_ERR_IO);
        snprintf(want, sizeof want, "the application's model: %s: the device was lost", names[i]);
        CHECK_ERROR_HAS(want);
        words = NULL;
        CHECK_STATUS(everything(names[i]), PC_ERR_IO);
        snprintf(want, sizeof want,
                 "the application's model: %s: input or output failed (PC_ERR_IO)", names[i]);
        CHECK_ERROR_HAS(want);
    }
}

/* What a function says before it succeeds is no reason for anything; an application that says
 * nothing about its tokens has none. */
static pc_status chatty_describe(void *user, pc_model_info *info)
{
    (void)user;
    CHECK_INT(info->token_bos & info->token_eos & info->token_unk & info->token_pad, -1);
    CHECK_INT(info->vocab, 0);
    info->vocab = TOY_VOCAB;
    pc_error_set("all went well");
    return PC_OK;
}

static pc_status chatty_tokenize(void *user, const char *text, size_t size, uint64_t flags,
                                 int32_t *tokens, size_t capacity, size_t *count)
{
    (void)user, (void)text, (void)size, (void)flags, (void)tokens, (void)capacity, (void)count;
    return PC_ERR_STATE;
}

static void not_of_another(void)
{
    pc_model_ops ops = pc_toy_ops();
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_toy *toy = pc_toy_new(7, 0, 0);
    size_t count;
    ops.describe = chatty_describe;
    ops.tokenize = chatty_tokenize;
    CHECK_OK(pc_context_new(&context, NULL));
    CHECK_OK(pc_model_from_ops(&model, context, &ops, toy, pc_toy_free, NULL));
    CHECK_STATUS(pc_tokenize(model, "x", 1, 0, NULL, 0, &count), PC_ERR_STATE);
    CHECK_ERROR_HAS("the application's model: tokenize: not possible in this state (PC_ERR_STATE)");
    pc_model_free(model);
    pc_context_free(context);
}

/* --------------------------------------------------------------- other callbacks */

static int32_t no_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)user, (void)sample, (void)text, (void)size;
    return fail();
}

static int32_t not_wanted(void *user)
{
    int32_t *asked = user;
    if (++*asked < 3)
        return 0;
    (void)fail();
    return 1;
}

static int32_t no_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)what, (void)done, (void)total;
    (void)fail();
    return 1;
}

/* One request with these options, by pc_generate or as one of two in a batch. */
static pc_status request(pc_generate_options o, int batched)
{
    toy_world w;
    pc_batch *batch = NULL;
    pc_sequence *s[2] = {NULL, NULL};
    pc_generate_options plain = PC_GENERATE_OPTIONS_INIT;
    pc_status status = PC_OK;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return PC_ERR_INTERNAL;
    pc_prompt *prompt = toy_prompt(&w,
                                   "<prompt schema=\"t\"><a x=\"some\"/><b/>what is it?</prompt>");
    o.max_tokens = plain.max_tokens = 8;
    if (batched) {
        CHECK_OK(pc_batch_new(&batch, w.model, NULL));
        CHECK_OK(pc_sequence_new(&s[0], prompt, w.cache, &plain));
        CHECK_OK(pc_sequence_new(&s[1], prompt, w.cache, &o));
        CHECK_OK(pc_batch_add(batch, s[0]));
        CHECK_OK(pc_batch_add(batch, s[1]));
        while (!pc_sequence_finish(s[1]))
            CHECK_OK(pc_batch_step(batch));
        CHECK_INT(pc_sequence_finish(s[1]), o.cancelled ? PC_FINISH_CANCELLED : PC_FINISH_ERROR);
        CHECK_INT(pc_sequence_finish(s[0]), PC_FINISH_NONE);
        status = pc_sequence_error(s[1], NULL);
    } else {
        status = pc_generate(prompt, w.cache, &o, NULL);
    }
    pc_sequence_free(s[0]);
    pc_sequence_free(s[1]);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
    toy_end(&w);
    return status;
}

static void callbacks(void)
{
    for (int batched = 0; batched < 2; batched++) {
        pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
        int32_t asked = 0;
        o.on_text = no_text;
        words = "the client has gone";
        CHECK_STATUS(request(o, batched), PC_ERR_IO);
        CHECK_STR(pc_error_text(), "on_text: the client has gone");
        words = NULL;
        CHECK_STATUS(request(o, batched), PC_ERR_IO);
        CHECK_STR(pc_error_text(), "on_text: input or output failed (PC_ERR_IO)");
        o.on_text = NULL;
        o.cancelled = not_wanted;
        o.cancel_user = &asked;
        words = "shutting down";
        CHECK_STATUS(request(o, batched), PC_ERR_CANCELLED);
        CHECK_ERROR_HAS(": shutting down");
        words = NULL;
        asked = 0;
        CHECK_STATUS(request(o, batched), PC_ERR_CANCELLED);
        CHECK(!strstr(pc_error_text(), "shutting down"));
    }
}

static void progress(void)
{
    static const char *const said[] = {"a signal came", NULL};
    const char *path = PC_SOURCE_DIR "/README.md";
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    for (int i = 0; i < 2; i++) {
        pc_encode_options e = PC_ENCODE_OPTIONS_INIT;
        pc_calibrate_options c = PC_CALIBRATE_OPTIONS_INIT;
        uint8_t id[32];
        words = said[i];
        e.progress = c.progress = no_progress;
        c.path = "";
        CHECK_STATUS(pc_schema_encode(w.schema, w.cache, &e), PC_ERR_CANCELLED);
        CHECK_STR(pc_error_text() + strlen("pc_schema_encode: cancelled after 0 of 8"),
                  words ? ": a signal came" : "");
        CHECK_STATUS(pc_calibrate(w.context, &c), PC_ERR_CANCELLED);
        CHECK_STR(pc_error_text(), words ? "cancelled while measuring 1 rows: a signal came"
                                         : "cancelled while measuring 1 rows");
        CHECK_STATUS(pc_fingerprint_files(id, &path, 1, no_progress, NULL), PC_ERR_CANCELLED);
        CHECK_INT(strstr(pc_error_text(), ": a signal came") != NULL, words != NULL);
    }
    toy_end(&w);
}

/* --------------------------------------------------------------- whole characters */

/* Every character of two, three and four bytes is divided into tokens of one byte each, among words
 * and bytes that are not UTF-8. */
static const char script[] = "na\xc3\xafve \xe2\x82\xac"
                             "5 \xf0\x9f\x98\x80! \xe6\xb0\xb4\xf0\x9f\x92\xa7 \xc3\xa9";
static const char unfinished[] = "ok \xf0\x9f\x98"; /* an end that never comes */
static const char *to_say;
static size_t said_bytes;

static pc_status scripted_step(void *user, const pc_step_args *args)
{
    pc_model_ops ops = pc_toy_ops();
    pc_status status = ops.step(user, args);
    if (status < 0)
        return status;
    unsigned char next = (unsigned char)to_say[said_bytes++];
    for (int t = 0; t < TOY_VOCAB; t++)
        args->logits[t] = t == (next ? TOY_BYTES + next : TOY_EOS) ? 100.0f : 0.0f;
    return PC_OK;
}

typedef struct pieces {
    char text[256];
    size_t size, count;
} pieces;

/* The bytes of a character come together, so that each piece can be decoded alone. */
static int whole_characters(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        unsigned char c = (unsigned char)text[at++];
        for (int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0; more; more--)
            if (at == size || ((unsigned char)text[at++] & 0xc0) != 0x80)
                return 0;
    }
    return size > 0;
}

static int32_t keep(void *user, uint32_t sample, const char *text, size_t size)
{
    pieces *p = user;
    (void)sample;
    CHECK(whole_characters(text, size) && ((unsigned char)text[0] & 0xc0) != 0x80);
    memcpy(p->text + p->size, text, size);
    p->size += size;
    p->count++;
    return 0;
}

static void say(const char *text, const char *want, size_t characters, uint32_t max_tokens)
{
    toy_world w;
    pc_model_ops ops = pc_toy_ops();
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pieces p = {.size = 0};
    ops.step = scripted_step;
    if (!CHECK_OK(start(&w, &ops)))
        return;
    pc_prompt *prompt = toy_prompt(&w, "<prompt schema=\"t\"><b/>what is it?</prompt>");
    o.on_text = keep;
    o.on_text_user = &p;
    o.max_tokens = max_tokens;
    to_say = text;
    said_bytes = 0;
    CHECK_OK(pc_generate(prompt, w.cache, &o, NULL));
    CHECK_STR(p.text, want);
    CHECK_INT(p.count, characters); /* as soon as each is there */
    pc_prompt_free(prompt);
    toy_end(&w);
}

static void characters(void)
{
    say(script, script, 16, 100);
    say(unfinished, "ok ", 3, 100);
    say(script, "na", 2, 3); /* max_tokens in the middle of one */
}

int main(void)
{
    operations();
    not_of_another();
    callbacks();
    progress();
    characters();
    return pc_test_end();
}
