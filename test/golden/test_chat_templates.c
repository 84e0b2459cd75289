/* Catches: families whose conversations differ by a byte from the published template of their
 * models, as an independent Jinja has run it (chat.json, made by chat_templates.py); templates that
 * are read wrong, or that count as known although they are not. Other people's templates are not in
 * this repository: they are read from ../shared/data/chat-templates if that folder exists. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "chat_vocab.h"
#include "pml/schema_tree.h"
#include "testing.h"

enum { MOST_TOKENS = 64 };

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* A vocabulary of the special tokens that the template's strings hold. */
static pc__tokenizer *vocabulary(const json_t *entry, const char *jinja)
{
    pc__text tokens[MOST_TOKENS] = {{"<unknown>", 9}};
    int32_t types[MOST_TOKENS] = {PC__TOKEN_UNKNOWN};
    pc__vocab vocab = pc_test_vocab(tokens, types, 1);
    pc__tokenizer *t = NULL;
    json_t *special;
    size_t i;
    vocab.chat_template = jinja;
    json_array_foreach(json_object_get(entry, "special"), i, special)
    {
        const char *text = json_string_value(special), *bos = text_of(entry, "bos"),
                   *eos = text_of(entry, "eos");
        if (!CHECK(vocab.count < MOST_TOKENS))
            break;
        if (bos && !strcmp(text, bos))
            vocab.bos = (int32_t)vocab.count;
        if (eos && !strcmp(text, eos))
            vocab.eos = (int32_t)vocab.count;
        types[vocab.count] = PC__TOKEN_CONTROL;
        tokens[vocab.count++] = (pc__text){text, strlen(text)};
    }
    CHECK_OK(pc__tokenizer_from_vocab(&t, &pc__libc_allocator, &vocab));
    return t;
}

static pc_status no_tokens(void *user, const char *text, size_t size, uint64_t flags,
                           int32_t **tokens, size_t *count)
{
    (void)user;
    (void)text;
    (void)flags;
    *count = size ? 1 : 0;
    *tokens = pc__calloc(&pc__libc_allocator, 1, sizeof **tokens);
    return *tokens ? PC_OK : PC_ERR_NOMEM;
}

/* The conversation as PML; an empty <system/> if it has no system prompt. */
static pc__bytes pml_of(const json_t *talk)
{
    pc__bytes pml = {.mem = &pc__libc_allocator};
    json_t *message;
    size_t i;
    pc__bytes_add(&pml, "<schema name=\"s\">", 17);
    if (strcmp(json_string_value(json_array_get(json_array_get(talk, 0), 0)), "system"))
        pc__bytes_add(&pml, "<system/>", 9);
    json_array_foreach(talk, i, message)
    {
        const char *role = json_string_value(json_array_get(message, 0));
        char part[512];
        int n = snprintf(part, sizeof part, "<%s>%s</%s>", role,
                         json_string_value(json_array_get(message, 1)), role);
        pc__bytes_add(&pml, part, (size_t)n);
    }
    pc__bytes_add(&pml, "</schema>", 9);
    return pml;
}

static void compare(const pc__chat *chat, const json_t *talk, const char *want, const char *name,
                    const char *which)
{
    pc__pml_env env = {
        .mem = &pc__libc_allocator, .chat = chat, .tokens = no_tokens, .where = "schema"};
    pc__bytes pml = pml_of(talk);
    pc__schema_tree *tree = NULL;
    const char *got = "";
    pc_status status = pc__schema_tree_parse(&tree, &env, pml.data, pml.size);
    for (size_t i = 0; tree && i < tree->node_count; i++)
        if (tree->nodes[i]->kind == PC__NODE_TEXT)
            got = tree->nodes[i]->text;
    if (!want) /* the template refuses it, or moves the system prompt */
        CHECK(status >= 0 || (chat->no_system && strstr(pml.data, "<system>")));
    else if (!CHECK_OK(status) || !CHECK_STR(got, want))
        fprintf(stderr, "    %s, %s\n", name, which);
    pc__schema_tree_free(tree, &pc__libc_allocator);
    pc__bytes_free(&pml);
}

static void conversations(const pc__chat *chat, const json_t *golden, const json_t *entry,
                          int only_system)
{
    const char *which;
    json_t *text;
    json_object_foreach(json_object_get(entry, "talks"), which, text)
    {
        const json_t *talk = json_object_get(json_object_get(golden, "conversations"), which);
        if (!only_system || !json_is_string(text) || strstr(which, "system"))
            compare(chat, talk, json_string_value(text), text_of(entry, "name"), which);
    }
}

/* An answer ends with the token that closes it. */
static void stops(const pc__chat *chat, const pc__tokenizer *t, const char *eos_text)
{
    int32_t eos = pc__tokenizer_ids(t).eos;
    CHECK(chat->stop_token_count + chat->stop_string_count > 0);
    for (size_t i = 0; i < chat->stop_string_count; i++)
        CHECK(*chat->stop_strings[i]);
    if (eos >= 0 && strstr(chat->pieces.assistant_close, eos_text)) {
        int found = 0;
        for (size_t i = 0; i < chat->stop_token_count; i++)
            found |= chat->stop_tokens[i] == eos;
        CHECK(found);
    }
}

/* A family by its name. "own" beside it: the template is this family's, but for the beginning
 * without a system prompt. */
static void family(const json_t *golden, const json_t *entry, const char *name)
{
    pc__tokenizer *t = vocabulary(entry, NULL);
    pc__chat *chat = NULL;
    if (CHECK_OK(pc__chat_find(&chat, &pc__libc_allocator, t, NULL, name))) {
        conversations(chat, golden, entry, strcmp(name, text_of(entry, "read")) != 0);
        stops(chat, t, text_of(entry, "eos"));
    }
    pc__chat_free(chat, &pc__libc_allocator);
    pc__tokenizer_free(t);
}

/* What is derived from the text. */
static void own_text(const json_t *golden, const json_t *entry, const char *jinja)
{
    const char *read = text_of(entry, "read");
    pc__tokenizer *t = vocabulary(entry, jinja);
    pc__chat *chat = NULL, *named = NULL;
    if (!CHECK_OK(pc__chat_detect(&chat, &pc__libc_allocator, t))) {
        pc__tokenizer_free(t);
        return;
    }
    if (read && !CHECK(!chat->unknown))
        fprintf(stderr, "    %s: %s\n", text_of(entry, "name"), chat->unknown);
    if (!read) {
        if (!CHECK(chat->unknown))
            fprintf(stderr, "    %s\n", text_of(entry, "name"));
        CHECK_STATUS(pc__chat_check_role(chat, "user"), PC_ERR_UNSUPPORTED);
        CHECK_ERROR_HAS("chat_template");
    } else if (!chat->unknown) {
        if (strcmp(read, "own")
            && CHECK_OK(pc__chat_find(&named, &pc__libc_allocator, t, NULL, read)))
            read = named->name; /* a family has several names */
        if (!CHECK_STR(chat->name, read))
            fprintf(stderr, "    %s\n", text_of(entry, "name"));
        conversations(chat, golden, entry, 0);
        stops(chat, t, text_of(entry, "eos"));
    }
    pc__chat_free(named, &pc__libc_allocator);
    pc__chat_free(chat, &pc__libc_allocator);
    pc__tokenizer_free(t);
}

static void published_text(const json_t *golden, const json_t *entry, const char *folder,
                           size_t *count)
{
    char path[512];
    char *jinja;
    size_t size;
    if (!folder || !text_of(entry, "file"))
        return;
    snprintf(path, sizeof path, "%s/%s", folder, text_of(entry, "file"));
    if ((jinja = pc_test_read(path, &size))) {
        own_text(golden, entry, jinja);
        ++*count;
    }
    free(jinja);
}

int main(void)
{
    const char *folder = pc_test_data("data/chat-templates");
    json_error_t error;
    json_t *golden = json_load_file(PC_SOURCE_DIR "/test/golden/chat.json", 0, &error), *entry;
    size_t i, texts = 0;
    if (!CHECK(golden != NULL)) {
        fprintf(stderr, "    %s\n", error.text);
        return pc_test_end();
    }
    json_array_foreach(json_object_get(golden, "templates"), i, entry)
    {
        const char *name = text_of(entry, "family"), *jinja = text_of(entry, "jinja");
        if (name && strcmp(name, "own"))
            family(golden, entry, name);
        if (jinja)
            own_text(golden, entry, jinja);
        published_text(golden, entry, folder, &texts);
    }
    printf(folder ? "%zu published texts read\n" : "not there: data/chat-templates\n", texts);
    json_decref(golden);
    return pc_test_end();
}
