/* Reads messages, runs the chat template over them, and makes tokens of what it writes. */
#include "serve/messages.h"

#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "text/json_file.h"

enum { MOST_MODULES = 999999 };

void pc__module_word(char out[PC__MODULE_WORD + 1], size_t index)
{
    snprintf(out, PC__MODULE_WORD + 1, "mOdule%06uwords+++", (unsigned)index % (MOST_MODULES + 1));
}

/* ------------------------------------------------------------------ reading */

static pc_status check_role(const pc__talk *t, size_t i)
{
    const char *role = t->given[i].role;
    size_t n = role ? strlen(role) : 0;
    for (const char *p = role; p && *p; p++)
        if (!pc__is_letter(*p) && !(*p >= '0' && *p <= '9') && *p != '-')
            n = 0;
    if (n && n <= 32)
        return PC_OK;
    return pc__fail(PC_ERR_INVALID,
                    "%s: the role of message %zu is '%.40s': it has 1 to 32 letters, digits, '_', "
                    "'-'",
                    t->call, i, role ? role : "");
}

/* `kind`: JSON_OBJECT or JSON_ARRAY. NULL gives NULL. */
static pc_status read_json(json_t **out, const char *text, json_type kind, const char *what)
{
    *out = NULL;
    if (!text)
        return PC_OK;
    PC__TRY_RETURN(pc__json_parse(out, text, strlen(text), 0, what));
    if (json_typeof(*out) == kind)
        return PC_OK;
    json_decref(*out);
    *out = NULL;
    return pc__fail(PC_ERR_FORMAT, "%s: not %s", what,
                    kind == JSON_OBJECT ? "an object" : "a list");
}

/* Takes the value. */
static pc_status set_field(json_t *fields, const char *key, json_t *value, const char *what)
{
    if (!value)
        return pc__fail(PC_ERR_INVALID, "%s: %s is not UTF-8", what, key);
    return json_object_set_new(fields, key, value) ? PC_ERR_NOMEM : PC_OK;
}

static pc_status read_fields(json_t **out, const pc_message *m, const char *what)
{
    static const char *const own[] = {"role", "content", "tool_calls", "tool_call_id", "name"};
    char place[160];
    json_t *calls;
    snprintf(place, sizeof place, "%s: fields", what);
    PC__TRY_RETURN(read_json(out, m->fields, JSON_OBJECT, place));
    for (size_t i = 0; *out && i < sizeof own / sizeof *own; i++)
        if (json_object_get(*out, own[i]))
            return pc__fail(PC_ERR_INVALID, "%s: '%s' is set by itself", place, own[i]);
    if (!*out && (m->tool_calls || m->tool_call_id || m->name) && !(*out = json_object()))
        return PC_ERR_NOMEM;
    if (m->name)
        PC__TRY_RETURN(set_field(*out, "name", json_string(m->name), what));
    if (m->tool_call_id)
        PC__TRY_RETURN(set_field(*out, "tool_call_id", json_string(m->tool_call_id), what));
    if (!m->tool_calls)
        return PC_OK;
    snprintf(place, sizeof place, "%s: tool_calls", what);
    PC__TRY_RETURN(read_json(&calls, m->tool_calls, JSON_ARRAY, place));
    return set_field(*out, "tool_calls", calls, what);
}

/* Words for the modules in front of the content. */
static pc_status add_words(pc__talk *t, size_t i)
{
    const pc_message *m = &t->given[i];
    size_t words = m->module_count * PC__MODULE_WORD;
    for (size_t k = 0; k < m->module_count; k++)
        if (!m->modules[k])
            return pc__fail(PC_ERR_INVALID, "%s: message %zu: module %zu is NULL", t->call, i, k);
    if (m->module_count > MOST_MODULES - t->module_count)
        return pc__fail(PC_ERR_LIMIT, "%s: more than %d modules", t->call, MOST_MODULES);
    if (!(t->contents[i] = pc__alloc(t->mem, words + m->content_size + 1)))
        return PC_ERR_NOMEM;
    for (size_t k = 0; k < m->module_count; k++)
        pc__module_word(t->contents[i] + k * PC__MODULE_WORD, t->module_count++);
    if (m->content_size)
        memcpy(t->contents[i] + words, m->content, m->content_size);
    t->contents[i][words + m->content_size] = 0;
    t->messages[i].content = t->contents[i];
    t->more[i].size = words + m->content_size;
    t->more[i].marked = words;
    return PC_OK;
}

static pc_status read_message(pc__talk *t, size_t i)
{
    const pc_message *m = &t->given[i];
    char what[120];
    json_t *fields;
    PC__TRY_RETURN(check_role(t, i));
    PC__TRY_RETURN(pc__check_array(t->call, "content", m->content, m->content_size, 1));
    PC__TRY_RETURN(
        pc__check_array(t->call, "modules", m->modules, m->module_count, sizeof *m->modules));
    t->messages[i] = (pc__jinja_message){m->role, m->content ? m->content : ""};
    t->more[i].size = m->content_size;
    if (m->module_count)
        PC__TRY_RETURN(add_words(t, i));
    t->more[i].no_content = !m->content && !m->module_count && m->tool_calls;
    snprintf(what, sizeof what, "%s: message %zu", t->call, i);
    pc_status status = read_fields(&fields, m, what);
    t->more[i].fields = fields;
    return status;
}

static pc_status read_options(pc__talk *t, const pc_chat_options *options)
{
    char what[120];
    PC__TRY_RETURN(pc__options_read(&t->options, sizeof t->options,
                                    PC__V1_SIZE(pc_chat_options, schema), options,
                                    "pc_chat_options"));
    PC__TRY_RETURN(pc__check_flags("pc_chat_options", t->options.flags, PC_CHAT_NO_ANSWER));
    if (t->options.time < 0)
        return pc__fail(PC_ERR_INVALID, "pc_chat_options: time is %lld",
                        (long long)t->options.time);
    snprintf(what, sizeof what, "%s: tools", t->call);
    PC__TRY_RETURN(read_json(&t->tools, t->options.tools, JSON_ARRAY, what));
    snprintf(what, sizeof what, "%s: variables", t->call);
    return read_json(&t->variables, t->options.variables, JSON_OBJECT, what);
}

pc_status pc__talk_read(pc__talk *t, const pc_allocator *mem, const char *call,
                        const pc_message *messages, size_t stride, size_t count,
                        const pc_chat_options *options)
{
    const void *dense;
    *t = (pc__talk){.mem = mem, .call = call};
    PC__TRY_RETURN(read_options(t, options));
    if (!count)
        return pc__fail(PC_ERR_INVALID, "%s: no messages", call);
    PC__TRY_RETURN(pc__array_in(&dense, &t->copy, mem,
                                PC__ARRAY(call, "messages", pc_message, fields), messages, stride,
                                count));
    t->given = dense;
    t->messages = pc__calloc(mem, count, sizeof *t->messages);
    t->more = pc__calloc(mem, count, sizeof *t->more);
    t->contents = pc__calloc(mem, count, sizeof *t->contents);
    if (!t->messages || !t->more || !t->contents)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        t->count = i + 1; /* that has to be freed */
        PC__TRY_RETURN(read_message(t, i));
    }
    return PC_OK;
}

void pc__talk_free(pc__talk *t)
{
    for (size_t i = 0; i < t->count; i++) {
        json_decref((json_t *)(uintptr_t)t->more[i].fields);
        pc__free(t->mem, t->contents[i]);
    }
    json_decref(t->tools);
    json_decref(t->variables);
    pc__free(t->mem, t->messages);
    pc__free(t->mem, t->more);
    pc__free(t->mem, t->contents);
    pc__free(t->mem, t->copy);
}

pc_status pc__talk_check_plain(const pc__talk *t)
{
    if (!t->module_count && !t->options.schema)
        return PC_OK;
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: modules of a schema are for pc_prompt_from_messages",
                    t->call);
}

/* ------------------------------------------------------------------ writing */

pc_status pc__talk_render(const pc__talk *t, const pc__chat *chat, const pc__jinja_message *before,
                          const pc__jinja_more *more, size_t count, pc__bytes *text,
                          pc__bytes *origins)
{
    size_t all = count + t->count;
    pc__jinja_message *messages = pc__calloc(t->mem, all, sizeof *messages);
    pc__jinja_more *mores = pc__calloc(t->mem, all, sizeof *mores);
    pc_status status = messages && mores ? PC_OK : PC_ERR_NOMEM;
    const pc__jinja_input input = {.messages = messages,
                                   .more = mores,
                                   .count = all,
                                   .generate = !(t->options.flags & PC_CHAT_NO_ANSWER),
                                   .now = t->options.time,
                                   .dated = t->options.time != 0,
                                   .tools = t->tools,
                                   .variables = t->variables,
                                   .origins = origins};
    if (status >= 0 && count) {
        memcpy(messages, before, count * sizeof *messages);
        memcpy(mores, more, count * sizeof *mores);
    }
    if (status >= 0) {
        memcpy(messages + count, t->messages, t->count * sizeof *messages);
        memcpy(mores + count, t->more, t->count * sizeof *mores);
        status = pc__chat_render(chat, t->mem, &input, text);
    }
    pc__free(t->mem, messages);
    pc__free(t->mem, mores);
    return status;
}

size_t pc__origin_run(const pc__bytes *origins, size_t from)
{
    size_t end = from;
    while (end < origins->size && origins->data[end] == origins->data[from])
        end++;
    return end - from;
}

pc_status pc__origin_tokens(const pc__pml_env *env, const pc__bytes *text, const pc__bytes *origins,
                            size_t from, int32_t **tokens, size_t *count)
{
    pc__literal literal = {.env = env};
    pc_status status = PC_OK;
    *tokens = NULL;
    *count = 0;
    for (size_t n; from < text->size && status >= 0; from += n) {
        n = pc__origin_run(origins, from);
        status = pc__literal_add(&literal,
                                 origins->data[from] == PC__ORIGIN_TEMPLATE ? PC__PIECE_TEMPLATE
                                                                            : PC__PIECE_EXACT,
                                 text->data + from, n, 0, 0);
    }
    if (status >= 0 && literal.text.size)
        status = pc__literal_tokens(&literal, tokens, count);
    pc__literal_free(&literal);
    return status;
}

pc_status pc_chat_format(const pc_model *model, const pc_message *messages, size_t message_stride,
                         size_t count, const pc_chat_options *options, char *text, size_t capacity,
                         size_t *size)
{
    PC__HOLD(pc_model, model);
    static const char call[] = "pc_chat_format";
    pc__talk talk;
    if (!model || !size)
        return pc__fail(PC_ERR_INVALID, "%s: model or size is NULL", call);
    PC__TRY_RETURN(pc__check_array(call, "text", text, capacity, 1));
    const pc_allocator *mem = &model->context->mem;
    pc__bytes made = {.mem = mem}, origins = {.mem = mem};
    *size = 0;
    pc_status status = pc__talk_read(&talk, mem, call, messages, message_stride, count, options);
    if (status >= 0)
        status = pc__talk_check_plain(&talk);
    if (status >= 0)
        status = pc__talk_render(&talk, model->chat, NULL, NULL, 0, &made, &origins);
    if (status >= 0) {
        *size = made.size;
        if (made.size > capacity && text)
            status = pc__fail(PC_ERR_LIMIT, "%s: %zu bytes, capacity is %zu", call, made.size,
                              capacity);
        else if (text && made.size)
            memcpy(text, made.data, made.size);
    }
    pc__talk_free(&talk);
    pc__bytes_free(&made);
    pc__bytes_free(&origins);
    return status;
}
