/* Catches: builders that crash, leak or change by a call that fails; trees of which they make a
 * layout that does not fit; prompts whose parts do not stand in order, or that cannot be made of
 * what was accepted; conversations that the renderer reads beyond their end. Each byte chooses a
 * call or an argument. */
#include <promptcache/prompt.h>
#include <string.h>

#include "fuzz.h"

static const uint8_t *input;
static size_t left;

static uint8_t byte(void)
{
    if (!left)
        return 0;
    left--;
    return *input++;
}

static const char *name(void)
{
    static const char *const names[] = {"a", "b", "c",      "m/n",   "",    "user", "system",
                                        "<", "d", "\xff\n", "union", "a/b", "b/c",  "c/a/b"};
    return names[byte() % (sizeof names / sizeof *names)];
}

static const char *text(size_t *size)
{
    static const char texts[] = "the a \0\f<s><|im_end|>\xff </user>&\n ab ab the";
    size_t from = byte() % sizeof texts;
    *size = byte() % (sizeof texts - from);
    return texts + from;
}

static const char *role(void)
{
    static const char *const roles[] = {"user", "assistant", "system", "tool", "<s>"};
    return roles[byte() % 5];
}

static void add_to_schema(pc_schema_builder *b)
{
    size_t size;
    const char *data, *paths[3];
    switch (byte() % 8) {
    case 0:
    case 1:
        data = text(&size);
        (void)fuzz_ok(
            pc_schema_builder_add_text(b, data, size, byte() % 4 ? 0 : PC_PROMPT_SPECIAL));
        break;
    case 2:
    case 3:
        (void)fuzz_ok(pc_schema_builder_begin_module(b, name(), byte() % 4 == 0));
        break;
    case 4:
        (void)fuzz_ok(pc_schema_builder_begin_union(b, byte() % 2 ? name() : NULL));
        break;
    case 5:
        data = text(&size);
        (void)fuzz_ok(pc_schema_builder_add_parameter(b, name(), byte() % 8, data, size));
        break;
    case 6:
        (void)fuzz_ok(pc_schema_builder_begin_turn(b, role()));
        break;
    default:
        for (int i = 0; i < 3; i++)
            paths[i] = name();
        (void)fuzz_ok(pc_schema_builder_add_scaffold(b, paths, byte() % 4));
    }
    if (byte() % 2)
        (void)fuzz_ok(pc_schema_builder_end(b));
}

static void check_layout(const pc_schema *schema)
{
    int64_t end = pc_schema_length(schema);
    pc_item item = PC_ITEM_INIT;
    for (size_t i = 0; i < pc_schema_item_count(schema); i++) {
        FUZZ_CHECK(pc_schema_get_item(schema, i, &item) == PC_OK);
        FUZZ_CHECK(item.start >= 0 && item.length >= 0 && item.start + item.length <= end);
        FUZZ_CHECK(item.path && item.text[item.text_size] == 0);
    }
}

static void check_prompt(const pc_prompt *prompt)
{
    pc_part part = PC_PART_INIT;
    int64_t start = 0;
    for (size_t i = 0; i < pc_prompt_part_count(prompt); i++) {
        FUZZ_CHECK(pc_prompt_get_part(prompt, i, &part) == PC_OK);
        FUZZ_CHECK(part.start >= start && part.path && (part.tokens || !part.count));
        start = part.start;
    }
}

static void build_prompt(const pc_schema *schema)
{
    pc_prompt_builder *b;
    pc_prompt *prompt;
    size_t size;
    const char *data;
    FUZZ_CHECK(fuzz_ok(pc_prompt_builder_new(&b, schema)));
    for (int i = byte() % 16; i > 0; i--)
        switch (byte() % 5) {
        case 0:
            data = text(&size);
            (void)fuzz_ok(pc_prompt_builder_add_text(b, data, size, 0));
            break;
        case 1:
            data = text(&size);
            (void)fuzz_ok(pc_prompt_builder_add_argument(b, name(), data, size));
            break;
        case 2:
            (void)fuzz_ok(pc_prompt_builder_begin_turn(b, role()));
            break;
        case 3:
            (void)fuzz_ok(pc_prompt_builder_end(b));
            break;
        default:
            (void)fuzz_ok(pc_prompt_builder_use(b, name()));
        }
    while (pc_prompt_builder_end(b) == PC_OK)
        ;
    if (fuzz_ok(pc_prompt_from_builder(&prompt, b, NULL)))
        check_prompt(prompt);
    else
        FUZZ_CHECK(!prompt);
    pc_prompt_free(prompt);
    pc_prompt_builder_free(b);
}

static void talk(const pc_schema *schema)
{
    pc_chat_options o = PC_CHAT_OPTIONS_INIT;
    const char *paths[2] = {name(), name()};
    pc_message m[4] = {{0}};
    pc_prompt *prompt;
    char made[512];
    size_t size, count = 1 + byte() % 4;
    for (size_t i = 0; i < count; i++) {
        m[i].role = role();
        m[i].content = text(&m[i].content_size);
        m[i].name = byte() % 4 ? NULL : name();
        m[i].tool_calls = byte() % 4 ? NULL : "[{\"f\": \"<s>\"}]";
        m[i].modules = paths;
        m[i].module_count = schema && byte() % 2 ? byte() % 3 : 0;
    }
    o.tools = byte() % 2 ? "[{\"n\": 1}]" : NULL;
    o.flags = byte() % 2;
    if (fuzz_ok(pc_chat_format(fuzz_model(), m, sizeof *m, count, &o, made, sizeof made, &size)))
        FUZZ_CHECK(size <= sizeof made);
    o.schema = schema;
    if (fuzz_ok(pc_prompt_from_messages(&prompt, fuzz_model(), m, sizeof *m, count, &o)))
        check_prompt(prompt);
    else
        FUZZ_CHECK(!prompt);
    pc_prompt_free(prompt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pc_schema_builder *b;
    pc_schema *schema, *again;
    const pc_model *model = fuzz_model();
    size_t blocks = fuzz_blocks();
    input = data;
    left = size;
    FUZZ_CHECK(fuzz_ok(pc_schema_builder_new(&b, model, "s", NULL)));
    for (int i = byte() % 32; i > 0; i--)
        add_to_schema(b);
    while (pc_schema_builder_end(b) == PC_OK)
        ;
    if (fuzz_ok(pc_schema_from_builder(&schema, b))) {
        check_layout(schema);
        FUZZ_CHECK(fuzz_ok(pc_schema_from_builder(&again, b)));
        FUZZ_CHECK(pc_schema_length(schema) == pc_schema_length(again));
        pc_schema_free(again);
        build_prompt(schema);
    } else {
        FUZZ_CHECK(!schema);
    }
    talk(schema);
    talk(NULL);
    pc_schema_free(schema);
    pc_schema_builder_free(b);
    fuzz_no_leak(blocks);
    return 0;
}
