/* Schemas and prompts that the tests of serving share, with the toy model. */
#ifndef PC_TOY_SCHEMA_H
#define PC_TOY_SCHEMA_H

#include <string.h>

#include "testing.h"
#include "toy_model.h"

typedef struct toy_world {
    pc_context *context;
    pc_toy *toy; /* owned by the model */
    pc_model *model;
    pc_cache *cache;
    pc_schema *schema;
} toy_world;

static const char toy_schema[] =
    "<schema name=\"t\">the word is here. "
    "<module name=\"a\">it was one of the hot <parameter name=\"x\" length=\"6\"/> and that is "
    "all</module>"
    "<module name=\"b\">some other word from there, he can be out</module>"
    "<union>"
    "<module name=\"u1\">you are at this one</module>"
    "<module name=\"u2\">they had his word for it but not as they are</module>"
    "</union>"
    "<module name=\"n\">we can <module name=\"in\">have some</module> with this</module>"
    " all of it"
    "<module name=\"c\" cache=\"false\">by the way, this is said anew</module>"
    "<scaffold modules=\"a b\"/>"
    "</schema>";

/* `ops`: the toy's, or with some of them replaced. `chat`: the chat template. */
static inline int toy_start_all(toy_world *w, const pc_allocator *mem, const pc_model_ops *ops,
                                int learned, int32_t context_length, const char *chat,
                                const char *schema)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_model_options plain = PC_MODEL_OPTIONS_INIT;
    pc_status status;
    plain.chat_template = chat;
    memset(w, 0, sizeof *w);
    o.allocator = mem;
    o.threads = 1;
    w->toy = pc_toy_new(7, learned, context_length);
    status = pc_context_new(&w->context, &o);
    if (status >= 0)
        status = pc_model_from_ops(&w->model, w->context, ops, w->toy, pc_toy_free, &plain);
    if (status < 0)
        pc_toy_free(w->toy);
    if (status >= 0)
        status = pc_cache_new(&w->cache, w->context, NULL);
    if (status >= 0 && schema)
        status = pc_schema_parse(&w->schema, w->model, schema, strlen(schema), NULL);
    if (status < 0)
        fprintf(stderr, "%s\n", pc_error_text());
    return status >= 0;
}

/* Chat tags add nothing. */
static inline int toy_start_ops(toy_world *w, const pc_allocator *mem, const pc_model_ops *ops,
                                int learned, int32_t context_length, const char *schema)
{
    return toy_start_all(w, mem, ops, learned, context_length, "none", schema);
}

static inline int toy_start_chat(toy_world *w, const pc_allocator *mem, const char *chat,
                                 const char *schema)
{
    pc_model_ops ops = pc_toy_ops();
    return toy_start_all(w, mem, &ops, 0, 0, chat, schema);
}

static inline int toy_start(toy_world *w, const pc_allocator *mem, int learned,
                            int32_t context_length, const char *schema)
{
    pc_model_ops ops = pc_toy_ops();
    return toy_start_ops(w, mem, &ops, learned, context_length, schema);
}

static inline void toy_end(toy_world *w)
{
    pc_schema_free(w->schema);
    pc_cache_free(w->cache);
    pc_model_free(w->model);
    pc_context_free(w->context);
    memset(w, 0, sizeof *w);
}

static inline pc_prompt *toy_prompt(const toy_world *w, const char *text)
{
    pc_prompt *prompt = NULL;
    if (!CHECK_OK(
            pc_prompt_parse(&prompt, (pc_schema *const *)&w->schema, 1, text, strlen(text), NULL)))
        fprintf(stderr, "    %s\n", text);
    return prompt;
}

/* The result of a generation. */
typedef struct toy_answer {
    pc_status status;
    pc_stats stats;
    char text[8][2048]; /* by sample */
    size_t size[8];
    int stop_after; /* pieces of text of all samples; 0: never */
} toy_answer;

static inline int32_t toy_keep(void *user, uint32_t sample, const char *text, size_t size)
{
    toy_answer *a = user;
    CHECK(sample < 8 && size > 0 && a->size[sample] + size < sizeof a->text[0]);
    memcpy(a->text[sample] + a->size[sample], text, size);
    a->size[sample] += size;
    return a->stop_after && !--a->stop_after;
}

static inline toy_answer toy_generate(const pc_prompt *prompt, pc_cache *cache,
                                      pc_generate_options o)
{
    toy_answer a;
    memset(&a, 0, sizeof a);
    a.stats.struct_size = sizeof a.stats;
    o.on_text = toy_keep;
    o.on_text_user = &a;
    a.status = pc_generate(prompt, cache, &o, &a.stats);
    return a;
}

#endif
