/* A file is the list of messages, or an object that has it as "messages", and perhaps "tools". */
#include "messages_file.h"

#include <jansson.h>
#include <promptcache/prompt.h>
#include <stdlib.h>
#include <string.h>

/* Texts of the arguments of calls become objects, as templates want them. */
static void parse_arguments(json_t *calls)
{
    json_t *call;
    size_t i;
    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function");
        const char *text = json_string_value(json_object_get(function, "arguments"));
        json_t *arguments = text ? json_loads(text, 0, NULL) : NULL;
        if (arguments)
            json_object_set_new(function, "arguments", arguments);
    }
}

/* The text of a member, which is taken away; *out NULL: there is none. 0: it is something else. */
static int take_text(json_t *message, const char *key, const char **out, size_t *size,
                     json_t **owner)
{
    *owner = json_incref(json_object_get(message, key));
    *out = json_string_value(*owner);
    *size = json_string_length(*owner);
    json_object_del(message, key);
    return !*owner || json_is_string(*owner) || json_is_null(*owner);
}

enum { ROLE, CONTENT, NAME, CALL_ID, TEXTS };
typedef struct text_of_message {
    json_t *owner[TEXTS];
    char *calls, *fields;
} text_of_message;

/* Borrows from `t`. 0: it is no message. */
static int read_message(json_t *from, pc_message *m, text_of_message *t)
{
    size_t size;
    json_t *calls = json_object_get(from, "tool_calls");
    if (!json_is_object(from) || !take_text(from, "role", &m->role, &size, &t->owner[ROLE])
        || !m->role
        || !take_text(from, "content", &m->content, &m->content_size, &t->owner[CONTENT])
        || !take_text(from, "name", &m->name, &size, &t->owner[NAME])
        || !take_text(from, "tool_call_id", &m->tool_call_id, &size, &t->owner[CALL_ID]))
        return 0;
    parse_arguments(calls);
    if (json_is_array(calls) && json_array_size(calls))
        m->tool_calls = t->calls = json_dumps(calls, 0);
    json_object_del(from, "tool_calls");
    if (json_object_size(from))
        m->fields = t->fields = json_dumps(from, 0);
    return 1;
}

static int make_prompt(pc_prompt **out, const pc_model *model, json_t *root, const char *shown_path)
{
    json_t *list = json_is_array(root) ? root : json_object_get(root, "messages");
    json_t *tools = json_object_get(root, "tools");
    size_t count = json_array_size(list), bad = 0;
    pc_message *messages = calloc(count + 1, sizeof *messages);
    text_of_message *texts = calloc(count + 1, sizeof *texts);
    pc_chat_options options = PC_CHAT_OPTIONS_INIT;
    char *tools_text = json_is_array(tools) && json_array_size(tools) ? json_dumps(tools, 0) : NULL;
    int code = -1;
    if (!messages || !texts)
        code = plain_error("out of memory");
    else if (!count)
        code = plain_error("%s: no messages", shown_path);
    options.tools = tools_text;
    while (code < 0 && bad < count
           && read_message(json_array_get(list, bad), &messages[bad], &texts[bad]))
        bad++;
    if (code < 0 && bad < count)
        code = plain_error("%s: message %zu: role and content are texts", shown_path, bad);
    if (code < 0
        && pc_prompt_from_messages(out, model, messages, sizeof *messages, count, &options) < 0)
        code = input_error("messages", NULL);
    for (size_t i = 0; texts && i < count; i++) {
        for (size_t k = 0; k < TEXTS; k++)
            json_decref(texts[i].owner[k]);
        free(texts[i].calls);
        free(texts[i].fields);
    }
    free(texts);
    free(messages);
    free(tools_text);
    return code;
}

int load_messages(pc_prompt **out, const pc_model *model, const char *path)
{
    const char *shown_path = strcmp(path, "-") ? path : "standard input";
    size_t size;
    json_error_t error;
    char *text = read_text(path, TEXT_BYTES, &size);
    if (!text)
        return EXIT_INPUT;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!root)
        return plain_error("%s:%d:%d: %s", shown_path, error.line, error.column, error.text);
    int code = make_prompt(out, model, root, shown_path);
    json_decref(root);
    return code;
}
