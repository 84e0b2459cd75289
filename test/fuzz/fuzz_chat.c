/* Catches: chat templates (our JSON form, and the Jinja text of a model, which is run) that crash
 * or leak, and schemas that cannot be laid out with an accepted template. The input is read as
 * both. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "pml/schema_tree.h"

static pc_status tokens_of(void *user, const char *text, size_t size, uint64_t flags,
                           int32_t **tokens, size_t *count)
{
    pc_status status = pc__text_to_tokens(user, text, size, flags, NULL, 0, count);
    *tokens = status < 0 ? NULL : pc__alloc(&fuzz_memory, (*count + 1) * sizeof **tokens);
    return status < 0 || !*tokens
               ? status
               : pc__text_to_tokens(user, text, size, flags, *tokens, *count + 1, count);
}

static void render(const pc__chat *chat, pc__tokenizer *tokenizer)
{
    static const char text[] =
        "<schema name=\"s\"><system>the <module name=\"m\">a</module></system><system/>"
        "<user>b</user><assistant>ab</assistant></schema>";
    pc__pml_env env = {.mem = &fuzz_memory,
                       .chat = chat,
                       .tokens = tokens_of,
                       .tokens_user = tokenizer,
                       .where = "schema"};
    pc__schema_tree *tree;
    if (fuzz_ok(pc__schema_tree_parse(&tree, &env, text, sizeof text - 1)))
        FUZZ_CHECK(tree->length > 0 && !chat->unknown);
    else
        FUZZ_CHECK(chat->unknown || chat->no_system);
    pc__schema_tree_free(tree, &fuzz_memory);
}

/* A whole conversation: every byte has an origin. */
static void converse(const pc__chat *chat)
{
    const pc__jinja_message talk[] = {
        {"system", "be"}, {"user", "<s> x </think>"}, {"assistant", ""}, {"tool", "</s>"}};
    const pc__jinja_more more[] = {
        {.size = 2}, {.size = 14, .marked = 3}, {.no_content = 1}, {.size = 4}};
    pc__bytes text = {.mem = &fuzz_memory}, origins = {.mem = &fuzz_memory};
    const pc__jinja_input input = {
        .messages = talk, .more = more, .count = 4, .generate = 1, .origins = &origins};
    if (fuzz_ok(pc__chat_render(chat, &fuzz_memory, &input, &text))) {
        FUZZ_CHECK(text.size == origins.size);
        for (size_t i = 0; i < origins.size; i++)
            FUZZ_CHECK(origins.data[i] >= PC__ORIGIN_TEMPLATE
                       && origins.data[i] <= PC__ORIGIN_MARKED);
    }
    pc__bytes_free(&text);
    pc__bytes_free(&origins);
}

static void use(pc__chat *chat, pc__tokenizer *tokenizer)
{
    FUZZ_CHECK(chat->name && chat->pieces.system_open && chat->pieces.assistant_close);
    for (size_t i = 0; i < chat->stop_token_count; i++)
        FUZZ_CHECK(chat->stop_tokens[i] >= 0
                   && (size_t)chat->stop_tokens[i] < pc__tokenizer_count(tokenizer));
    render(chat, tokenizer);
    converse(chat);
    pc__chat_free(chat, &fuzz_memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    char *jinja = calloc(size + 1, 1);
    pc__tokenizer *tokenizer;
    pc__chat *chat;
    FUZZ_CHECK(jinja);
    if (size)
        memcpy(jinja, data, size);
    tokenizer = fuzz_tokenizer(PC__VOCAB_SPM, NULL, jinja);
    free(jinja);
    if (fuzz_ok(pc__chat_detect(&chat, &fuzz_memory, tokenizer)))
        use(chat, tokenizer);
    if (fuzz_ok(
            pc__chat_find(&chat, &fuzz_memory, tokenizer, NULL, fuzz_file(data, size, ".json"))))
        use(chat, tokenizer);
    else
        FUZZ_CHECK(!chat);
    pc__tokenizer_free(tokenizer);
    fuzz_no_leak(blocks);
    return 0;
}
