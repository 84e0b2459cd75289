/* Catches: damaged chat templates that load, or are refused without file and cause; failed
 * allocations that leak while a template is found or a schema is laid out with it. */
#include <stdlib.h>
#include <string.h>

#include "pml/schema_tree.h"
#include "testing.h"
#include "text/chat.h"

static const char *write_file(const void *data, size_t size)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/chat.json", pc_test_folder());
    remove(path);
    pc_test_write(path, data, size);
    return path;
}

static const char chat_text[] =
    "{\"name\":\"own\",\"system_open\":\"<s>a\",\"system_close\":\"b\",\"system_empty\":\"<s>\","
    "\"user_open\":\"t\",\"user_close\":\"h<x>\",\"assistant_open\":\"e\","
    "\"assistant_close\":\"ab\","
    "\"stop_strings\":[\"a\",\"b\"],\"stop_tokens\":[\"<s>\"]}";

static pc__tokenizer *small_vocabulary(const pc_allocator *mem)
{
    static const pc__text tokens[] = {{"<unk>", 5}, {"<s>", 3},          {"<x>", 3}, {"a", 1},
                                      {"b", 1},     {"ab", 2},           {"t", 1},   {"h", 1},
                                      {"e", 1},     {"\xe2\x96\x81", 3}, {"th", 2}};
    static const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1};
    const pc__vocab vocab = {.kind = PC__VOCAB_SPM,
                             .where = "vocabulary",
                             .count = 11,
                             .tokens = tokens,
                             .types = types,
                             .bos = 1,
                             .eos = -1,
                             .unk = 0,
                             .pad = -1,
                             .sep = -1,
                             .cls = -1,
                             .add_bos = -1,
                             .add_eos = -1,
                             .add_space_prefix = -1};
    pc__tokenizer *t = NULL;
    CHECK_OK(pc__tokenizer_from_vocab(&t, mem, &vocab));
    return t;
}

static void chat_fault(const pc__tokenizer *t, const void *text, size_t size, const char *cause)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    pc__chat *chat = (pc__chat *)(uintptr_t)8;
    CHECK_STATUS(pc__chat_find(&chat, &mem, t, NULL, write_file(text, size)), PC_ERR_FORMAT);
    CHECK(!chat && !memory.live_blocks);
    CHECK_ERROR_HAS("chat.json");
    CHECK_ERROR_HAS(cause);
}

static void chat_faults(void)
{
    static const struct {
        const char *text, *cause;
    } faults[] = {
        {"", "chat.json: the file is empty"},
        {"[]", "chat.json: not an object"},
        {"[{\"name\":\"a\"}]", "chat.json: not an object"},
        {"\"chatml\"", "expected"},
        {"{\"sytem_open\":\"\"}", "'sytem_open'"},
        {"{\"user_open\":5}", "'user_open'"},
        {"{\"user_open\":null}", "'user_open'"},
        {"{\"user_open\":\"a\",\"user_open\":\"b\"}", "duplicate"},
        {"{\"stop_strings\":\"a\"}", "stop_strings is not a list"},
        {"{\"stop_tokens\":{}}", "stop_tokens is not a list"},
        {"{\"stop_strings\":[\"a\",5]}", "stop_strings: item 1"},
        {"{\"stop_strings\":[\"\"]}", "chat.json: stop_strings: item 0 is empty"},
        {"{\"stop_strings\":[\"a\",\"\"]}", "chat.json: stop_strings: item 1 is empty"},
        {"{\"stop_tokens\":[\"\"]}", "chat.json: stop_tokens: item 0 is empty"},
        {"{\"stop_strings\":[\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\","
         "\"a\","
         "\"a\",\"a\",\"a\",\"a\",\"a\"]}",
         "16"},
        {"{\"stop_tokens\":[\"<nobody>\"]}", "'<nobody>'"},
        {"{\"name\":\"\xff\"}", "decode byte 0xff"},
    };
    pc__tokenizer *t = small_vocabulary(&pc__libc_allocator);
    pc__chat *chat = (pc__chat *)(uintptr_t)8;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        chat_fault(t, faults[i].text, strlen(faults[i].text), faults[i].cause);
    for (size_t size = 0; size + 1 < sizeof chat_text; size++)
        chat_fault(t, chat_text, size, "chat.json:");
    CHECK_STATUS(pc__chat_find(&chat, &pc__libc_allocator, t, NULL, "nobody"), PC_ERR_NOT_FOUND);
    CHECK(!chat);
    CHECK_ERROR_HAS("'nobody'");
    CHECK_ERROR_HAS("chatml");
    CHECK_STATUS(pc__chat_find(&chat, &pc__libc_allocator, t, NULL, "no/such.json"),
                 PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("no/such.json");
    CHECK_STATUS(pc__chat_find(&chat, &pc__libc_allocator, t, NULL, ""), PC_ERR_NOT_FOUND);
    pc__tokenizer_free(t);
}

typedef struct world {
    pc_allocator mem;
    pc__tokenizer *tokenizer;
} world;

static pc_status tokens_of(void *user, const char *text, size_t size, uint64_t flags,
                           int32_t **tokens, size_t *count)
{
    const world *w = user;
    pc_status status = pc__text_to_tokens(w->tokenizer, text, size, flags, NULL, 0, count);
    *tokens = NULL;
    if (status < 0)
        return status;
    *tokens = pc__alloc(&w->mem, (*count + 1) * sizeof **tokens);
    if (!*tokens)
        return PC_ERR_NOMEM;
    status = pc__text_to_tokens(w->tokenizer, text, size, flags, *tokens, *count + 1, count);
    if (status < 0) {
        pc__free(&w->mem, *tokens);
        *tokens = NULL;
    }
    return status;
}

/* Finds the template and lays out a schema with it. */
static pc_status render(world *w, const char *name)
{
    static const char text[] =
        "<schema name=\"s\"><system>the <module name=\"m\">ab</module></system>"
        "<system/><user>a</user><assistant>b</assistant></schema>";
    pc__chat *chat;
    pc__schema_tree *tree;
    pc_status status = pc__chat_find(&chat, &w->mem, w->tokenizer, NULL, name);
    pc__pml_env env = {
        .mem = &w->mem, .chat = chat, .tokens = tokens_of, .tokens_user = w, .where = "schema"};
    if (status < 0) {
        CHECK(!chat);
        return status;
    }
    status = pc__schema_tree_parse(&tree, &env, text, sizeof text - 1);
    if (status < 0)
        CHECK(!tree);
    pc__schema_tree_free(tree, &w->mem);
    pc__chat_free(chat, &w->mem);
    return status;
}

static void chat_no_memory(void)
{
    char path[256];
    const char *const names[] = {"falcon", path};
    snprintf(path, sizeof path, "%s", write_file(chat_text, sizeof chat_text - 1));
    for (size_t i = 0; i < 2; i++) {
        pc_test_memory memory = {0};
        world w = {.mem = pc_test_allocator(&memory)};
        w.tokenizer = small_vocabulary(&w.mem);
        int64_t live = memory.live_blocks;
        uint64_t failures = 0;
        for (int more = w.tokenizer != NULL; more;) {
            uint64_t start = memory.calls, at = start + ++failures;
            memory.fail_at = at;
            pc_status status = render(&w, names[i]);
            more = memory.calls >= at;
            if (more)
                CHECK_STATUS(status, PC_ERR_NOMEM);
            else
                CHECK_OK(status);
            CHECK_INT(memory.live_blocks, live);
        }
        CHECK(failures > 50);
        pc__tokenizer_free(w.tokenizer);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    chat_faults();
    chat_no_memory();
    return pc_test_end();
}
