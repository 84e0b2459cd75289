/* The built-in families as a table, own ones from JSON. */
#include "text/chat.h"

#include <jansson.h>
#include <string.h>

#include "base/file.h"

typedef struct family {
    const char *name;
    const char *system_open, *system_close, *system_empty, *user_open, *user_close;
    const char *assistant_open, *assistant_close;
    const char *stop_strings[3], *stop_tokens[3];
} family;

#define DEEPSEEK_END "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"

static const family families[] = {
    {"none", "", "", "", "", "", "", "", {0}, {0}},
    {"llama2", "<s>[INST] <<SYS>>\n", "<</SYS>>\n\n", "<s>[INST] ", "", "[/INST]", "",
     "</s><s> [INST] ", {"</s>"}, {"</s>"}},
    {"mistral", "<s>[INST] ", "\n\n", "<s>[INST] ", "", "[/INST]", "", "</s>[INST] ", {0},
     {"</s>"}},
    {"llama3", "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>",
     "<|begin_of_text|>", "<|start_header_id|>user<|end_header_id|>\n\n",
     "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "", "<|eot_id|>", {0},
     {"<|eot_id|>", "<|end_of_text|>"}},
    {"chatml", "<|im_start|>system\n", "<|im_end|>\n", "", "<|im_start|>user\n",
     "<|im_end|>\n<|im_start|>assistant\n", "", "<|im_end|>\n", {0},
     {"<|im_end|>", "<|endoftext|>"}},
    {"falcon", "", "\n\n", "", "User: ", "\n\nAssistant:", " ", "\n\n",
     {"<|endoftext|>", "\nUser"}, {"<|endoftext|>"}},
    {"phi3", "<|system|>\n", "<|end|>\n", "", "<|user|>\n", "<|end|>\n<|assistant|>\n", "",
     "<|end|>\n", {0}, {"<|end|>", "<|endoftext|>"}},
    {"gemma", "<bos><start_of_turn>user\n", "\n\n", "<bos>", "<start_of_turn>user\n",
     "<end_of_turn>\n<start_of_turn>model\n", "", "<end_of_turn>\n", {0},
     {"<end_of_turn>", "<eos>"}},
    {"zephyr", "<|system|>\n", "</s>\n", "", "<|user|>\n", "</s>\n<|assistant|>\n", "",
     "</s>\n", {0}, {"</s>"}},
    {"vicuna", "", " ", "", "USER: ", " ASSISTANT:", " ", "</s>", {"USER:"}, {"</s>"}},
    {"alpaca", "", "\n\n", "", "### Instruction:\n", "\n\n### Response:\n", "", "\n\n",
     {"### Instruction:"}, {"</s>"}},
    {"deepseek", "", "\n\n", "", "User: ", "\n\nAssistant:", "", DEEPSEEK_END, {0},
     {DEEPSEEK_END}},
};
enum { FAMILIES = sizeof families / sizeof *families };

void pc__chat_free(pc__chat *chat, const pc_allocator *mem)
{
    if (!chat)
        return;
    char *texts[] = {chat->name,           chat->system_open,    chat->system_close,
                     chat->system_empty,   chat->user_open,      chat->user_close,
                     chat->assistant_open, chat->assistant_close};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        pc__free(mem, texts[i]);
    for (size_t i = 0; chat->stop_strings && i < chat->stop_string_count; i++)
        pc__free(mem, chat->stop_strings[i]);
    pc__free(mem, chat->stop_strings);
    pc__free(mem, chat->stop_tokens);
    pc__free(mem, chat);
}

/* Copies texts in the order of pc__chat: name first. */
static pc_status copy_texts(pc__chat *chat, const pc_allocator *mem, const char *const text[8])
{
    char **to[] = {&chat->name,           &chat->system_open,    &chat->system_close,
                   &chat->system_empty,   &chat->user_open,      &chat->user_close,
                   &chat->assistant_open, &chat->assistant_close};
    for (size_t i = 0; i < 8; i++)
        if (!(*to[i] = pc__strdup(mem, text[i])))
            return PC_ERR_NOMEM;
    return PC_OK;
}

static pc_status copy_stops(pc__chat *chat, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                            const char *const *strings, size_t string_count,
                            const char *const *tokens, size_t token_count)
{
    chat->stop_strings = pc__calloc(mem, string_count, sizeof *chat->stop_strings);
    chat->stop_tokens = pc__calloc(mem, token_count, sizeof *chat->stop_tokens);
    if (!chat->stop_strings || !chat->stop_tokens)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < string_count; i++)
        if (!(chat->stop_strings[chat->stop_string_count++] = pc__strdup(mem, strings[i])))
            return PC_ERR_NOMEM;
    for (size_t i = 0; i < token_count && tokenizer; i++) {
        int32_t id = pc__token_find(tokenizer, tokens[i], strlen(tokens[i]));
        if (id >= 0)
            chat->stop_tokens[chat->stop_token_count++] = id;
    }
    return PC_OK;
}

static pc_status make(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                      const family *f)
{
    const char *const text[] = {f->name,           f->system_open,    f->system_close,
                                f->system_empty,   f->user_open,      f->user_close,
                                f->assistant_open, f->assistant_close};
    size_t strings = 0, tokens = 0;
    pc__chat *chat = pc__calloc(mem, 1, sizeof *chat);
    pc_status status = chat ? copy_texts(chat, mem, text) : PC_ERR_NOMEM;
    *out = NULL;
    while (strings < 3 && f->stop_strings[strings])
        strings++;
    while (tokens < 3 && f->stop_tokens[tokens])
        tokens++;
    if (status >= 0)
        status = copy_stops(chat, mem, tokenizer, f->stop_strings, strings, f->stop_tokens, tokens);
    if (status < 0) {
        pc__chat_free(chat, mem);
        return status;
    }
    *out = chat;
    return PC_OK;
}

static pc_status string_list(const json_t *root, const char *key, const char *path,
                             const char **out, size_t *count)
{
    json_t *list = json_object_get(root, key), *item;
    size_t i;
    *count = 0;
    if (list && !json_is_array(list))
        return pc__fail(PC_ERR_FORMAT, "%s: %s is not a list", path, key);
    json_array_foreach(list, i, item) {
        if (!json_is_string(item) || i >= 16)
            return pc__fail(PC_ERR_FORMAT, "%s: %s: item %zu is not a string, or more than 16",
                            path, key, i);
        if (!json_string_length(item))
            return pc__fail(PC_ERR_FORMAT, "%s: %s: item %zu is empty", path, key, i);
        out[(*count)++] = json_string_value(item);
    }
    return PC_OK;
}

static pc_status from_json(pc__chat *chat, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                           const json_t *root, const char *path)
{
    static const char *const keys[] = {"name",           "system_open",    "system_close",
                                       "system_empty",   "user_open",      "user_close",
                                       "assistant_open", "assistant_close"};
    const char *text[8], *strings[16], *tokens[16], *key;
    size_t n, m;
    json_t *value;
    pc_status status;
    json_object_foreach((json_t *)(uintptr_t)root, key, value) {
        int known = !strcmp(key, "stop_strings") || !strcmp(key, "stop_tokens");
        for (size_t i = 0; i < 8; i++)
            known |= !strcmp(key, keys[i]) && json_is_string(value);
        if (!known)
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is not known, or not a string", path, key);
    }
    for (size_t i = 0; i < 8; i++) {
        value = json_object_get(root, keys[i]);
        text[i] = value ? json_string_value(value) : i ? "" : path;
    }
    if ((status = string_list(root, "stop_strings", path, strings, &n)) < 0 ||
        (status = string_list(root, "stop_tokens", path, tokens, &m)) < 0 ||
        (status = copy_texts(chat, mem, text)) < 0)
        return status;
    for (size_t i = 0; i < m && tokenizer; i++)
        if (pc__token_find(tokenizer, tokens[i], strlen(tokens[i])) < 0)
            return pc__fail(PC_ERR_FORMAT, "%s: stop token '%s' is no token of the model", path,
                            tokens[i]);
    return copy_stops(chat, mem, tokenizer, strings, n, tokens, m);
}

static pc_status load(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                      const char *path)
{
    char *data;
    size_t size;
    json_error_t error;
    json_t *root;
    pc__chat *chat;
    pc_status status = pc__file_read(mem, path, 1 << 20, &data, &size);
    if (status < 0)
        return status;
    root = json_loadb(data, size, JSON_REJECT_DUPLICATES, &error);
    pc__free(mem, data);
    if (!size)
        return pc__fail(PC_ERR_FORMAT, "%s: the file is empty", path);
    if (!root)
        return pc__fail(PC_ERR_FORMAT, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return pc__fail(PC_ERR_FORMAT, "%s: not an object", path);
    }
    chat = pc__calloc(mem, 1, sizeof *chat);
    status = chat ? from_json(chat, mem, tokenizer, root, path) : PC_ERR_NOMEM;
    json_decref(root);
    if (status < 0) {
        pc__chat_free(chat, mem);
        return status;
    }
    *out = chat;
    return PC_OK;
}

pc_status pc__chat_find(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                        const char *name)
{
    size_t n = strlen(name);
    char list[256] = "";
    *out = NULL;
    if (n > 5 && !strcmp(name + n - 5, ".json"))
        return load(out, mem, tokenizer, name);
    for (size_t i = 0; i < FAMILIES; i++)
        if (!strcmp(families[i].name, name) || (i == 1 && !strcmp(name, "codellama")) ||
            (i == 4 && !strcmp(name, "qwen2")))
            return make(out, mem, tokenizer, &families[i]);
    for (size_t i = 0; i < FAMILIES; i++) {
        strncat(list, i ? ", " : "", sizeof list - strlen(list) - 1);
        strncat(list, families[i].name, sizeof list - strlen(list) - 1);
    }
    return pc__fail(
        PC_ERR_NOT_FOUND,
        "chat template '%s' is not known; known names: %s; or give the path of a .json file", name,
        list);
}

/* Templates that write each message as <|role|>CONTENT<|end|> (one literal before, one behind):
 * what stands there is read off. */
static pc_status role_tags(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer,
                           const char *jinja)
{
    const char *close = strstr(jinja, "['content'] + '"),
               *end = close ? strchr(close + 15, '\'') : NULL;
    char open[3][64], tail[32], user_close[96], system[96], bos[32] = "";
    static const char *const roles[] = {"system", "user", "assistant"};
    if (!end || (size_t)(end - close - 15) >= sizeof tail)
        return PC_MISS;
    snprintf(tail, sizeof tail, "%.*s", (int)(end - close - 15), close + 15);
    for (size_t i = 0; i < 3; i++)
        snprintf(open[i], sizeof open[i], "<|%s|>", roles[i]);
    if (strstr(jinja, "bos_token") && tokenizer && pc__token_bos(tokenizer) >= 0) {
        pc__text text = pc__token_bytes(tokenizer, pc__token_bos(tokenizer));
        snprintf(bos, sizeof bos, "%.*s", (int)text.size, text.data);
    }
    snprintf(system, sizeof system, "%s%s", bos, open[0]);
    snprintf(user_close, sizeof user_close, "%s%s", tail, open[2]);
    family f = {"role-tags", system, tail, bos, open[1], user_close, "", tail, {0}, {tail}};
    return make(out, mem, tokenizer, &f);
}

pc_status pc__chat_detect(pc__chat **out, const pc_allocator *mem, const pc__tokenizer *tokenizer)
{
    static const struct {
        const char *mark, *family;
    } marks[] = {{"<|im_start|>", "chatml"},     {"<|start_header_id|>", "llama3"},
                 {"<start_of_turn>", "gemma"},   {"<<SYS>>", "llama2"},
                 {"[INST]", "mistral"},          {"<|user|>\\n", "phi3"},
                 {"### Instruction:", "alpaca"}, {"USER: ", "vicuna"},
                 {"User: ", "deepseek"}};
    const char *jinja = tokenizer ? pc__tokenizer_chat_template(tokenizer) : NULL;
    pc_status status;
    *out = NULL;
    if (!jinja)
        return pc__chat_find(out, mem, tokenizer, "none");
    if (strstr(jinja, "'<|' + m") && (status = role_tags(out, mem, tokenizer, jinja)) != PC_MISS)
        return status;
    if (strstr(jinja, "<|user|>") && strstr(jinja, "eos_token"))
        return pc__chat_find(out, mem, tokenizer, "zephyr");
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(jinja, marks[i].mark))
            return pc__chat_find(out, mem, tokenizer, marks[i].family);
    return pc__chat_find(out, mem, tokenizer, "none");
}
