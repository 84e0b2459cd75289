/* Prompts of conversations. */
#include <string.h>

#include "pml/builder.h"
#include "serve/messages.h"
#include "serve/prompt.h"

typedef struct conversion {
    const pc__talk *talk;
    pc_prompt **out;
    const pc_model *model;
    pc__pml_env env;
    pc__bytes text, origins; /* as the template writes it */
    pc__builder b;
    size_t modules; /* placed so far */
} conversion;

/* Without a schema: a list of tokens. */
static pc_status plain_prompt(conversion *c)
{
    int32_t *tokens;
    size_t count;
    PC__TRY_RETURN(pc__origin_tokens(&c->env, &c->text, &c->origins, 0, &tokens, &count));
    return pc__prompt_own_tokens(c->out, c->model, tokens, count);
}

/* Path of module `index` of all messages. */
static const char *module_path(const pc__talk *t, size_t index)
{
    size_t i = 0;
    for (; index >= t->given[i].module_count; i++)
        index -= t->given[i].module_count;
    return t->given[i].modules[index];
}

static pc_status altered(const conversion *c)
{
    return pc__fail(PC_ERR_UNSUPPORTED,
                    "%s: the chat template alters, drops, moves or repeats a message with modules",
                    c->talk->call);
}

/* References in place of marked words. */
static pc_status add_modules(conversion *c, const char *words, size_t size)
{
    char word[PC__MODULE_WORD + 1];
    pc__element *last;
    if (size % PC__MODULE_WORD)
        return altered(c);
    for (size_t at = 0; at < size; at += PC__MODULE_WORD) {
        pc__module_word(word, c->modules);
        if (c->modules == c->talk->module_count || memcmp(words + at, word, PC__MODULE_WORD) != 0)
            return altered(c);
        PC__TRY_RETURN(
            pc__builder_use(&c->b, c->talk->call, module_path(c->talk, c->modules++), &last));
    }
    return PC_OK;
}

/* The template around modules of a schema that has no turns itself. */
static pc_status add_rendered(conversion *c)
{
    for (size_t at = 0, n; at < c->text.size; at += n) {
        n = pc__origin_run(&c->origins, at);
        PC__TRY_RETURN(c->origins.data[at] == PC__ORIGIN_MARKED
                           ? add_modules(c, c->text.data + at, n)
                           : pc__builder_add_text(
                               &c->b, c->talk->call, c->text.data + at, n,
                               c->origins.data[at] == PC__ORIGIN_TEMPLATE ? PC_PROMPT_SPECIAL : 0));
    }
    return c->modules == c->talk->module_count ? PC_OK : altered(c);
}

/* Turns behind those of the schema, made of the template's pieces. */
static pc_status add_turns(conversion *c)
{
    const pc__talk *t = c->talk;
    pc__element *last;
    if (t->tools || t->variables || t->options.time || t->options.flags)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: the schema has turns; behind them, tools, variables, a time and flags "
                        "are not possible",
                        t->call);
    for (size_t i = 0; i < t->count; i++) {
        const pc_message *m = &t->given[i];
        if (t->more[i].fields)
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "%s: message %zu: the schema has turns; behind them, messages have no "
                            "further members",
                            t->call, i);
        PC__TRY_RETURN(pc__builder_begin_turn(&c->b, t->call, m->role));
        for (size_t k = 0; k < m->module_count; k++)
            PC__TRY_RETURN(pc__builder_use(&c->b, t->call, m->modules[k], &last));
        PC__TRY_RETURN(pc__builder_add_text(&c->b, t->call, m->content, m->content_size, 0));
        PC__TRY_RETURN(pc__builder_end(&c->b, t->call));
    }
    return PC_OK;
}

static pc_status schema_prompt(conversion *c, const pc_schema *schema)
{
    pc__resolved *resolved;
    int has_turns = schema->tree->turn_count != 0;
    PC__TRY_RETURN(has_turns ? add_turns(c) : add_rendered(c));
    PC__TRY_RETURN(pc__resolve_elements(&resolved, &c->env, schema->tree, c->b.root,
                                        !has_turns && c->model->info.relocatable));
    return pc__prompt_from_resolved(c->out, schema, resolved);
}

static pc_status convert(conversion *c, const pc_schema *schema)
{
    const pc__talk *t = c->talk;
    if (!schema && t->module_count)
        return pc__fail(PC_ERR_INVALID,
                        "%s: a message names modules, but pc_chat_options.schema is NULL", t->call);
    if (schema && schema->model != c->model)
        return pc__fail(PC_ERR_MISMATCH, "%s: the schema is of another model", t->call);
    if (schema && schema->tree->slot)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: the schema is a format, whose slot takes one text (pc_prompt_fill)",
                        t->call);
    if (!schema || !schema->tree->turn_count)
        PC__TRY_RETURN(pc__talk_render(t, c->model->chat, NULL, NULL, 0, &c->text, &c->origins));
    if (!schema)
        return plain_prompt(c);
    PC__TRY_RETURN(pc__builder_start(&c->b, t->mem, "prompt", "messages"));
    pc_status status = schema_prompt(c, schema);
    pc__builder_free(&c->b);
    return status;
}

pc_status pc_prompt_from_messages(pc_prompt **out, const pc_model *model,
                                  const pc_message *messages, size_t message_stride, size_t count,
                                  const pc_chat_options *options)
{
    PC__HOLD(pc_model, model);
    static const char call[] = "pc_prompt_from_messages";
    pc__talk talk;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "%s: out is NULL", call);
    *out = NULL;
    if (!model)
        return pc__fail(PC_ERR_INVALID, "%s: model is NULL", call);
    const pc_allocator *mem = &model->context->mem;
    conversion c = {.talk = &talk, .out = out, .model = model};
    c.text.mem = c.origins.mem = mem;
    pc__pml_env_of(&c.env, model, "messages");
    pc_status status = pc__talk_read(&talk, mem, call, messages, message_stride, count, options);
    if (status >= 0) {
        const pc_schema *schema = talk.options.schema;
        PC__HOLD(pc_schema, schema);
        status = convert(&c, schema);
    }
    pc__talk_free(&talk);
    pc__bytes_free(&c.text);
    pc__bytes_free(&c.origins);
    return status;
}
