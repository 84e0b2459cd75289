/* Chat templates by name and from JSON; which one a model uses. chat_jinja.c derives a model's own.
 */
#include "text/chat.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "text/json_file.h"

static const char *const keys[PC__CHAT_PIECES] = {
    "system_open", "system_close", "system_empty",   "user_open",
    "user_close",  "generation",   "assistant_open", "assistant_close"};

void pc__chat_free(pc__chat *chat, const pc_allocator *mem)
{
    if (!chat)
        return;
    for (size_t i = 0; i < PC__CHAT_PIECES; i++)
        pc__free(mem, (void *)(uintptr_t)chat->pieces.list[i]);
    pc__free(mem, chat->name);
    pc__free(mem, chat->unknown);
    pc__free(mem, chat->no_system);
    for (size_t i = 0; chat->stop_strings && i < chat->stop_string_count; i++)
        pc__free(mem, chat->stop_strings[i]);
    pc__free(mem, chat->stop_strings);
    pc__free(mem, chat->stop_tokens);
    pc__free(mem, chat->jinja);
    pc__free(mem, chat->bos);
    pc__free(mem, chat->eos);
    pc__free(mem, chat);
}

static size_t list_size(const char *const *list, size_t most)
{
    size_t n = 0;
    while (n < most && list[n])
        n++;
    return n;
}

static pc_status copy_pieces(pc__chat *chat, const pc_allocator *mem, const pc__chat_template *form)
{
    if (!(chat->name = pc__strndup(mem, form->name, strcspn(form->name, " "))))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < PC__CHAT_PIECES; i++)
        if (!(chat->pieces.list[i] = pc__strdup(mem, form->pieces.list[i])))
            return PC_ERR_NOMEM;
    chat->system_joins_user = form->system_joins_user;
    return PC_OK;
}

static pc_status copy_stops(pc__chat *chat, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                            const pc__chat_template *form)
{
    size_t strings = list_size(form->stop_strings, PC__CHAT_STOPS),
           tokens = list_size(form->stop_tokens, PC__CHAT_STOPS);
    chat->stop_strings = pc__calloc(mem, strings, sizeof *chat->stop_strings);
    chat->stop_tokens = pc__calloc(mem, tokens, sizeof *chat->stop_tokens);
    if (!chat->stop_strings || !chat->stop_tokens)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < strings; i++)
        if (!(chat->stop_strings[chat->stop_string_count++] = pc__strdup(mem,
                                                                         form->stop_strings[i])))
            return PC_ERR_NOMEM;
    for (size_t i = 0; i < tokens && tokenizer; i++) {
        int32_t id = pc__token_find(tokenizer, form->stop_tokens[i], strlen(form->stop_tokens[i]));
        if (id >= 0)
            chat->stop_tokens[chat->stop_token_count++] = id;
    }
    return PC_OK;
}

pc_status pc__chat_new(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                       const pc__chat_template *form)
{
    pc__chat *chat = pc__calloc(mem, 1, sizeof *chat);
    pc_status status = chat ? copy_pieces(chat, mem, form) : PC_ERR_NOMEM;
    *out = NULL;
    if (status >= 0)
        status = copy_stops(chat, mem, tokenizer, form);
    if (status < 0) {
        pc__chat_free(chat, mem);
        return status;
    }
    *out = chat;
    return PC_OK;
}

/* ------------------------------------------------------------------ JSON */

/* Borrowed from the JSON text; ends with NULL. */
static pc_status string_list(const json_t *root, const char *key, const char *path,
                             const char *out[PC__CHAT_STOPS])
{
    json_t *list = json_object_get(root, key), *item;
    size_t i;
    if (list && !json_is_array(list))
        return pc__fail(PC_ERR_FORMAT, "%s: %s is not a list", path, key);
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item) || i >= PC__CHAT_STOPS)
            return pc__fail(PC_ERR_FORMAT,
                            "%s: %s: item %zu is not a string, or there are more than %d", path,
                            key, i, PC__CHAT_STOPS);
        if (!json_string_length(item))
            return pc__fail(PC_ERR_FORMAT, "%s: %s: item %zu is empty", path, key, i);
        out[i] = json_string_value(item);
    }
    return PC_OK;
}

static pc_status check_keys(const json_t *root, const char *path)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        int known = !strcmp(key, "stop_strings") || !strcmp(key, "stop_tokens")
                    || (!strcmp(key, "name") && json_is_string(value))
                    || (!strcmp(key, "system_joins_user") && json_is_boolean(value));
        for (size_t i = 0; i < PC__CHAT_PIECES; i++)
            known |= !strcmp(key, keys[i]) && json_is_string(value);
        if (!known)
            return pc__fail(PC_ERR_FORMAT,
                            "%s: key '%s' is unknown, or its value has the wrong type", path, key);
    }
    return PC_OK;
}

static pc_status from_json(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                           const json_t *root, const char *path)
{
    pc__chat_template form = {.name = json_string_value(json_object_get(root, "name"))};
    pc_status status = check_keys(root, path);
    if (!form.name)
        form.name = path;
    form.system_joins_user = json_is_true(json_object_get(root, "system_joins_user"));
    for (size_t i = 0; i < PC__CHAT_PIECES; i++) {
        const char *text = json_string_value(json_object_get(root, keys[i]));
        form.pieces.list[i] = text ? text : "";
    }
    if (status < 0 || (status = string_list(root, "stop_strings", path, form.stop_strings)) < 0
        || (status = string_list(root, "stop_tokens", path, form.stop_tokens)) < 0)
        return status;
    for (size_t i = 0; i < PC__CHAT_STOPS && form.stop_tokens[i] && tokenizer; i++)
        if (pc__token_find(tokenizer, form.stop_tokens[i], strlen(form.stop_tokens[i])) < 0)
            return pc__fail(PC_ERR_FORMAT, "%s: stop token '%s' is no token of the model", path,
                            form.stop_tokens[i]);
    return pc__chat_new(out, mem, tokenizer, &form);
}

static pc_status load_json(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                           const char *path)
{
    json_t *root;
    PC__TRY_RETURN(pc__json_file(&root, mem, path, 1 << 20, 0));
    pc_status status = json_is_object(root) ? from_json(out, mem, tokenizer, root, path)
                                            : pc__fail(PC_ERR_FORMAT, "%s: not an object", path);
    json_decref(root);
    return status;
}

/* ------------------------------------------------------------------ families */

const pc__chat_template *pc__chat_family(const char *name)
{
    for (size_t i = 0; i < pc__chat_family_count; i++)
        if (pc__is_listed(pc__chat_families[i].name, name))
            return &pc__chat_families[i];
    return NULL;
}

static size_t letter_count(const char *name)
{
    size_t n = 0;
    while (name[n] >= 'a' && name[n] <= 'z')
        n++;
    return n;
}

/* Each family by its first name, a common prefix once, to fit an error text: "llama2/3/4". */
static void list_families(char *out, size_t size)
{
    size_t n = 0;
    *out = 0;
    for (size_t i = 0; i < pc__chat_family_count && n < size; i++) {
        const char *name = pc__chat_families[i].name,
                   *last = i ? pc__chat_families[i - 1].name : "";
        size_t same = letter_count(name), whole = strcspn(name, " ");
        int goes_on = same == letter_count(last) && !strncmp(name, last, same);
        n += (size_t)snprintf(out + n, size - n, "%s%.*s",
                              !i        ? ""
                              : goes_on ? "/"
                                        : ", ",
                              (int)(whole - (goes_on ? same : 0)), name + (goes_on ? same : 0));
    }
}

/* Without a family's special tokens its template would be plain characters to the model. */
static pc_status check_tokens(const pc__chat_template *form, const pc__tokenizer *tokenizer,
                              const char *name)
{
    for (size_t i = 0; i < sizeof form->tokens / sizeof *form->tokens && form->tokens[i]; i++)
        if (pc__token_find(tokenizer, form->tokens[i], strlen(form->tokens[i])) < 0)
            return pc__fail(PC_ERR_MISMATCH,
                            "chat template '%s' is not for this model: its vocabulary has no token "
                            "'%s'",
                            name, form->tokens[i]);
    return PC_OK;
}

pc_status pc__chat_check_role(const pc__chat *chat, const char *role)
{
    const char *why = chat->unknown             ? chat->unknown
                      : !strcmp(role, "system") ? chat->no_system
                                                : NULL;
    char list[256];
    if (!why)
        return PC_OK;
    list_families(list, sizeof list);
    return pc__fail(PC_ERR_UNSUPPORTED,
                    "%s; write the text without chat tags, or name a template (--chat-template, "
                    "pc_model_options.chat_template): FILE.json, %s",
                    why, list);
}

static pc_status make_unknown(pc__chat **out, const pc_allocator *mem,
                              const pc__tokenizer *tokenizer, const char *why)
{
    pc_status status = pc__chat_new(out, mem, tokenizer, &pc__chat_families[0]);
    if (status >= 0 && !((*out)->unknown = pc__strdup(mem, why))) {
        pc__chat_free(*out, mem);
        *out = NULL;
        status = PC_ERR_NOMEM;
    }
    return status;
}

/* The size of the first whole characters within `most` bytes. */
static int whole_characters(const char *text, int most)
{
    int n = 0;
    while (n < most && text[n])
        n++;
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* `whose`: what error texts call it. Of a text that was given on purpose (`given`), failures of the
 * interpreter are errors. */
static pc_status from_jinja(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                            const pc__chat_ends *ends, const char *jinja, const char *whose,
                            int given)
{
    char why[112] = "", text[224];
    pc_status status = pc__chat_from_jinja(out, mem, tokenizer, ends, jinja, why, sizeof why);
    if (status != PC_MISS)
        return status;
    snprintf(text, sizeof text, "%s (\"%.*s%s\") is not known: %s", whose,
             whole_characters(jinja, 32), jinja, jinja[whole_characters(jinja, 32)] ? "..." : "",
             why);
    PC__TRY_RETURN(make_unknown(out, mem, tokenizer, text));
    status = pc__chat_keep_jinja(*out, mem, tokenizer, ends, jinja);
    if (status >= 0 || (status != PC_ERR_NOMEM && !given))
        return PC_OK;
    pc__chat_free(*out, mem);
    *out = NULL;
    return status == PC_ERR_NOMEM ? status : pc__fail_in(status, "%s", whose);
}

pc_status pc__chat_detect(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer)
{
    const char *jinja = tokenizer ? pc__tokenizer_chat_template(tokenizer) : NULL;
    *out = NULL;
    if (!jinja)
        return make_unknown(out, mem, tokenizer, "the model has no chat template");
    return from_jinja(out, mem, tokenizer, NULL, jinja, "the model's own chat template", 0);
}

static int has_end(const char *name, const char *end)
{
    return strlen(name) > strlen(end) && !strcmp(name + strlen(name) - strlen(end), end);
}

static pc_status load_jinja(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                            const pc__chat_ends *ends, const char *path)
{
    char *text, whose[200];
    size_t size;
    PC__TRY_RETURN(pc__file_read(mem, path, 1 << 20, &text, &size));
    snprintf(whose, sizeof whose, "chat template %.160s", path);
    pc_status status = memchr(text, 0, size)
                           ? pc__fail(PC_ERR_FORMAT, "%s: it has a byte 0", whose)
                           : from_jinja(out, mem, tokenizer, ends, text, whose, 1);
    pc__free(mem, text);
    return status;
}

pc_status pc__chat_find(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                        const pc__chat_ends *ends, const char *name)
{
    const pc__chat_template *form = pc__chat_family(name);
    char list[256];
    *out = NULL;
    if (strstr(name, "{{") || strstr(name, "{%"))
        return from_jinja(out, mem, tokenizer, ends, name, "the chat template that was given", 1);
    if (has_end(name, ".json"))
        return load_json(out, mem, tokenizer, name);
    if (has_end(name, ".jinja"))
        return load_jinja(out, mem, tokenizer, ends, name);
    if (!form) {
        list_families(list, sizeof list);
        return pc__fail(PC_ERR_NOT_FOUND,
                        "chat template '%s' is not known; known names: %s; or give the path of a "
                        ".json or .jinja file, or Jinja text",
                        name, list);
    }
    if (tokenizer)
        PC__TRY_RETURN(check_tokens(form, tokenizer, name));
    return pc__chat_new(out, mem, tokenizer, form);
}
