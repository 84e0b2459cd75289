/* Runs chat templates as the library does, for a comparison with another Jinja. Each line of the
 * input is a JSON object: template, messages (lists of role, content and perhaps further members),
 * bos, eos, generate, perhaps tools and variables. Each line of
 * the output is one, too: "made", or "refused" with the cause. With "chat": true the conversation
 * is written as PML, whose chat tags become pieces of the template; a template of which there are
 * none is "unknown". */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "chat_vocab.h"
#include "pml/resolve.h"
#include "testing.h"

enum { MOST_MESSAGES = 256 };

static const char *text_of(const json_t *line, const char *key)
{
    return json_string_value(json_object_get(line, key));
}

static const char *part_of(const json_t *line, size_t message, size_t part)
{
    return json_string_value(
        json_array_get(json_array_get(json_object_get(line, "messages"), message), part));
}

/* ------------------------------------------------------------------ the template alone */

/* Role, content, and perhaps an object of further members. */
static void add_message(const json_t *line, size_t i, pc__jinja_message *message,
                        pc__jinja_more *more)
{
    const json_t *m = json_array_get(json_object_get(line, "messages"), i);
    *message = (pc__jinja_message){part_of(line, i, 0), part_of(line, i, 1)};
    more->no_content = !message->content;
    more->size = message->content ? strlen(message->content) : 0;
    more->fields = json_array_get(m, 2);
}

static pc_status run(const json_t *line, pc__bytes *out)
{
    pc__jinja_message messages[MOST_MESSAGES];
    pc__jinja_more more[MOST_MESSAGES] = {{0}};
    const json_t *tools = json_object_get(line, "tools");
    size_t count = json_array_size(json_object_get(line, "messages"));
    pc__jinja_input input = {.messages = messages,
                             .bos = text_of(line, "bos"),
                             .eos = text_of(line, "eos"),
                             .generate = json_is_true(json_object_get(line, "generate")),
                             .more = more,
                             .tools = json_is_array(tools) ? tools : NULL,
                             .variables = json_object_get(line, "variables")};
    const char *text = text_of(line, "template");
    pc__jinja *jinja = NULL;
    for (size_t i = 0; i < count && i < MOST_MESSAGES; i++)
        add_message(line, i, &messages[input.count++], &more[i]);
    pc_status status = pc__jinja_new(&jinja, out->mem, text ? text : "");
    if (status >= 0)
        status = pc__jinja_run(jinja, out, &input);
    pc__jinja_free(jinja);
    return status;
}

/* ------------------------------------------------------------------ its pieces, in PML */

static pc_status read_chat(const json_t *line, const pc_allocator *mem, pc__chat **out)
{
    const char *bos = text_of(line, "bos"), *eos = text_of(line, "eos");
    pc__text tokens[3] = {{"<unknown>", 9}};
    const int32_t types[] = {PC__TOKEN_UNKNOWN, PC__TOKEN_CONTROL, PC__TOKEN_CONTROL};
    pc__vocab vocab = pc_test_vocab(tokens, types, 1);
    pc__tokenizer *tokenizer = NULL;
    vocab.chat_template = text_of(line, "template");
    if (bos) {
        vocab.bos = (int32_t)vocab.count;
        tokens[vocab.count++] = pc__text_of(bos);
    }
    if (eos && bos && !strcmp(eos, bos)) {
        vocab.eos = vocab.bos;
    } else if (eos) {
        vocab.eos = (int32_t)vocab.count;
        tokens[vocab.count++] = pc__text_of(eos);
    }
    pc_status status = pc__tokenizer_from_vocab(&tokenizer, mem, &vocab);
    if (status >= 0)
        status = pc__chat_detect(out, mem, tokenizer);
    pc__tokenizer_free(tokenizer);
    return status;
}

static void add_escaped(pc__bytes *out, const char *text)
{
    for (; *text; text++)
        if (*text == '<' || *text == '&' || *text == '>')
            pc__bytes_add_text(out, *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : "&amp;");
        else
            pc__bytes_add(out, text, 1);
}

/* The system prompt in the schema, the rest in the prompt. */
static void write_pml(const json_t *line, pc__bytes *schema, pc__bytes *prompt)
{
    size_t count = json_array_size(json_object_get(line, "messages"));
    pc__bytes_add_text(schema, "<schema name=\"s\">");
    pc__bytes_add_text(prompt, "<prompt schema=\"s\">");
    if (strcmp(part_of(line, 0, 0), "system"))
        pc__bytes_add_text(schema, "<system/>");
    for (size_t i = 0; i < count; i++) {
        const char *role = part_of(line, i, 0);
        pc__bytes *to = !i && !strcmp(role, "system") ? schema : prompt;
        pc__bytes_add_text(to, "<");
        pc__bytes_add_text(to, role);
        pc__bytes_add_text(to, ">");
        add_escaped(to, part_of(line, i, 1));
        pc__bytes_add_text(to, "</");
        pc__bytes_add_text(to, role);
        pc__bytes_add_text(to, ">");
    }
    pc__bytes_add_text(schema, "</schema>");
    pc__bytes_add_text(prompt, "</prompt>");
}

static pc_status say(const pc__chat *chat, const json_t *line, pc__bytes *out)
{
    const pc_allocator *mem = out->mem;
    pc__pml_env env = {.mem = mem,
                       .chat = chat,
                       .tokens = pc_test_byte_tokens,
                       .tokens_user = (void *)(uintptr_t)mem,
                       .where = "pml"};
    pc__bytes schema = {.mem = mem}, prompt = {.mem = mem};
    pc__schema_tree *tree = NULL;
    pc__resolved *resolved = NULL;
    write_pml(line, &schema, &prompt);
    pc_status status = pc__schema_tree_parse(&tree, &env, schema.data, schema.size);
    if (status >= 0)
        status = pc__resolve(&resolved, &env, tree, prompt.data, prompt.size);
    for (size_t p = 0; status >= 0 && p < resolved->part_count; p++)
        for (size_t i = 0; i < resolved->parts[p].count; i++)
            pc__bytes_add(out, &(char){(char)resolved->parts[p].tokens[i]}, 1);
    pc__resolved_free(resolved, mem);
    pc__schema_tree_free(tree, mem);
    pc__bytes_free(&schema);
    pc__bytes_free(&prompt);
    return status;
}

/* What was read of the template last: the next line may have the same. */
static pc__chat *chat;
static char *last;

static void forget(const pc_allocator *mem)
{
    pc__chat_free(chat, mem);
    free(last);
    chat = NULL;
    last = NULL;
}

static pc_status converse(const json_t *line, pc__bytes *out, json_t *answer)
{
    const char *text = text_of(line, "template");
    pc_status status = PC_OK;
    if (!last || strcmp(last, text)) {
        forget(out->mem);
        last = strdup(text);
        status = read_chat(line, out->mem, &chat);
    }
    if (status >= 0 && chat->unknown)
        json_object_set_new(answer, "unknown", json_string(chat->unknown));
    else if (status >= 0)
        status = say(chat, line, out);
    return status;
}

int main(void)
{
    char *text = NULL;
    size_t size = 0;
    while (getline(&text, &size, stdin) > 0) {
        pc__bytes out = {.mem = &pc__libc_allocator};
        json_t *line = json_loads(text, 0, NULL), *answer = json_object();
        pc_status status = !line ? PC_ERR_INVALID
                           : json_is_true(json_object_get(line, "chat"))
                               ? converse(line, &out, answer)
                               : run(line, &out);
        if (status < 0)
            json_object_set_new(answer, "refused", json_string(pc_error_text()));
        else
            json_object_set_new(answer, "made", json_stringn(out.data ? out.data : "", out.size));
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(answer);
        json_decref(line);
        pc__bytes_free(&out);
    }
    forget(&pc__libc_allocator);
    free(text);
    return 0;
}
