/* Reads the file of tasks, and refuses what it does not know. */
#include "task_templates.h"

#include <stdlib.h>
#include <string.h>

#include "documents.h"
#include "json_lines.h"
#include "score.h"

static const char context_slot[] = "{context}", input_slot[] = "{input}";

typedef struct reading {
    const char *path, *name; /* of the file, of the data set */
} reading;

static int fault(const reading *r, const char *key, const char *cause)
{
    return plain_error("%s: %s: %s: %s", r->path, shown(r->name), key, cause);
}

/* The index of the text in a list that ends with NULL; -1: not there. */
static int index_of(const char *text, const char *const *list)
{
    for (int i = 0; text && list[i]; i++)
        if (!strcmp(list[i], text))
            return i;
    return -1;
}

static int read_prompt(const reading *r, const json_t *value, task_template *t)
{
    const char *text = json_string_value(value), *slot = text ? strstr(text, context_slot) : NULL;
    const char *input = text ? strstr(text, input_slot) : NULL;
    if (!text)
        return fault(r, "prompt", "a text is needed");
    if (!slot)
        return fault(r, "prompt", "it has no {context}");
    t->before = text;
    t->before_size = (size_t)(slot - text);
    t->behind = slot + strlen(context_slot);
    if (strstr(t->behind, context_slot))
        return fault(r, "prompt", "{context} is there twice");
    return input && input < slot ? fault(r, "prompt", "{input} must stand behind {context}")
                                 : EXIT_OK;
}

static int read_stops(const reading *r, const json_t *value, task_template *t)
{
    t->stop_count = json_array_size(value);
    if (!json_is_array(value) || t->stop_count > TASK_STOPS)
        return fault(r, "stop", "a list of at most 8 texts is needed");
    for (size_t i = 0; i < t->stop_count; i++)
        if (!(t->stops[i] = json_string_value(json_array_get(value, i))) || !*t->stops[i])
            return fault(r, "stop", "its members must be texts that are not empty");
    return EXIT_OK;
}

static int read_member(const reading *r, const char *key, const json_t *value, task_template *t)
{
    static const char *const chats[] = {"message", "turns", "plain", NULL};
    const char *text = json_string_value(value);
    json_int_t number = json_integer_value(value);
    if (!strcmp(key, "prompt"))
        return read_prompt(r, value, t);
    if (!strcmp(key, "stop"))
        return read_stops(r, value, t);
    if (!strcmp(key, "metric"))
        return (t->metric = index_of(text, score_names)) < 0
                   ? fault(r, key, "it is none of " SCORE_CHOICES)
                   : EXIT_OK;
    if (!strcmp(key, "chat"))
        return (t->chat = index_of(text, chats)) < 0
                   ? fault(r, key, "it is none of message turns plain")
                   : EXIT_OK;
    if (!strcmp(key, "documents"))
        return !(t->documents = text) || !*text || *text == '#'
                   ? fault(r, key, "whole, paragraphs, or the beginning of a line is needed")
                   : EXIT_OK;
    if (!strcmp(key, "max_tokens")) {
        t->max_tokens = (uint32_t)number;
        return number < 1 || number > 1 << 20
                   ? fault(r, key, "a number from 1 to 1048576 is needed")
                   : EXIT_OK;
    }
    if (!strcmp(key, "answer"))
        return !(t->answer = text) || !*text ? fault(r, key, "a regular expression is needed")
                                             : EXIT_OK;
    if (strcmp(key, "first_line") != 0)
        return fault(r, shown(key), "there is no such key");
    t->first_line = json_is_true(value);
    return json_is_boolean(value) ? EXIT_OK : fault(r, key, "true or false is needed");
}

static int read_task(const char *path, const char *name, json_t *task, int with_metric,
                     task_template *t)
{
    const reading r = {path, name};
    const char *key;
    json_t *value;
    int code = EXIT_OK;
    *t = (task_template){.name = name, .documents = documents_whole, .metric = -1};
    if (!json_is_object(task))
        return plain_error("%s: %s: an object is needed", path, shown(name));
    json_object_foreach(task, key,
                        value) if ((code = read_member(&r, key, value, t)) != EXIT_OK) return code;
    if (!t->before || (with_metric && t->metric < 0) || !t->max_tokens)
        return plain_error("%s: %s: prompt%s and max_tokens are needed", path, shown(name),
                           with_metric ? ", metric" : "");
    return EXIT_OK;
}

static int read_tasks(task_templates *t, const char *path, const char *text, int with_metric)
{
    json_error_t error;
    const char *name;
    json_t *task;
    int code = EXIT_OK;
    if (!(t->file = json_loads(text, JSON_REJECT_DUPLICATES, &error)))
        return plain_error("%s:%d: %s", path, error.line, error.text);
    if (!json_is_object(t->file) || !json_object_size(t->file))
        return plain_error("%s: an object with a member for each data set is needed", path);
    t->digest = text_digest(TEXT_DIGEST, text);
    if (!(t->items = calloc(json_object_size(t->file), sizeof *t->items)))
        return plain_error("%s: out of memory", path);
    json_object_foreach(t->file, name, task) if ((code = read_task(path, name, task, with_metric,
                                                                   &t->items[t->count++]))
                                                 != EXIT_OK) break;
    return code;
}

int templates_read(task_templates *t, const char *path, int with_metric)
{
    size_t size;
    char *text = read_text(path, TEXT_BYTES, &size);
    int code = EXIT_INPUT;
    *t = (task_templates){.file = NULL};
    if (text && strlen(text) < size)
        code = plain_error("%s: a NUL byte", path);
    else if (text)
        code = read_tasks(t, path, text, with_metric);
    free(text);
    return code;
}

void templates_free(task_templates *t)
{
    json_decref(t->file);
    free(t->items);
    *t = (task_templates){.file = NULL};
}

const task_template *templates_find(const task_templates *t, const char *dataset)
{
    size_t n = strlen(dataset);
    for (size_t i = 0; i < t->count; i++)
        if (!strcmp(t->items[i].name, dataset))
            return &t->items[i];
    for (size_t i = 0; n > 2 && !strcmp(dataset + n - 2, "_e") && i < t->count; i++)
        if (strlen(t->items[i].name) == n - 2 && !memcmp(t->items[i].name, dataset, n - 2))
            return &t->items[i];
    return NULL;
}
