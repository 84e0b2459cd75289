/* Catches: schema strings, system prompts and requests that make the reader crash, leak or produce
 * a layout that does not fit: request tokens that do not stand right behind the shared ones, a BOS
 * of our own inside, a layout that depends on how it is asked for. An input is a schema string, a
 * system prompt and a request, with a NUL byte between them. */
#include <promptcache/prompt.h>
#include <string.h>

#include "fuzz.h"

static void check_prompt(const pc_schema *schema, const char *text, size_t size)
{
    pc_prompt *prompt, *again;
    pc_part part = PC_PART_INIT, other = PC_PART_INIT;
    int64_t at = 0;
    if (!fuzz_ok(pc_prompt_fill(&prompt, schema, text, size, NULL))) {
        FUZZ_CHECK(!prompt);
        return;
    }
    FUZZ_CHECK(fuzz_ok(pc_prompt_fill(&again, schema, text, size, NULL)));
    FUZZ_CHECK(pc_prompt_part_count(prompt) <= 2
               && pc_prompt_part_count(prompt) == pc_prompt_part_count(again));
    for (size_t p = 0; p < pc_prompt_part_count(prompt); p++) {
        FUZZ_CHECK(pc_prompt_get_part(prompt, p, &part) == PC_OK
                   && pc_prompt_get_part(again, p, &other) == PC_OK);
        FUZZ_CHECK(part.start == at && part.count == other.count
                   && !memcmp(part.tokens, other.tokens, part.count * sizeof *part.tokens));
        FUZZ_CHECK(part.kind
                   == (part.start < pc_schema_length(schema) ? PC_PART_CACHED : PC_PART_TEXT));
        at += (int64_t)part.count;
    }
    pc_prompt_free(prompt);
    pc_prompt_free(again);
}

static void check_schema(const pc_schema *schema)
{
    pc_item text = PC_ITEM_INIT, slot = PC_ITEM_INIT;
    FUZZ_CHECK(pc_schema_item_count(schema) == 2);
    FUZZ_CHECK(pc_schema_get_item(schema, 0, &text) == PC_OK
               && pc_schema_get_item(schema, 1, &slot) == PC_OK);
    FUZZ_CHECK(text.kind == PC_ITEM_TEXT && text.start == 0
               && text.length == pc_schema_length(schema));
    FUZZ_CHECK(slot.kind == PC_ITEM_SLOT && slot.start == text.length && slot.length == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text[3] = {(const char *)data, "", ""};
    size_t length[3] = {size, 0, 0};
    fuzz_model();
    size_t blocks = fuzz_blocks();
    for (int i = 0; i < 2; i++) {
        const char *zero = length[i] ? memchr(text[i], 0, length[i]) : NULL;
        if (!zero)
            break;
        text[i + 1] = zero + 1;
        length[i + 1] = length[i] - (size_t)(zero - text[i]) - 1;
        length[i] = (size_t)(zero - text[i]);
    }
    for (uint64_t chat = 0; chat <= PC_FORMAT_CHAT; chat++) {
        pc_system_format source = PC_SYSTEM_FORMAT_INIT;
        pc_schema *schema;
        source.flags = chat;
        source.format = chat ? NULL : text[0];
        source.format_size = chat ? 0 : length[0];
        source.system = text[1];
        source.system_size = length[1];
        if (fuzz_ok(pc_schema_from_format(&schema, fuzz_model(), &source))) {
            check_schema(schema);
            check_prompt(schema, text[2], length[2]);
        } else {
            FUZZ_CHECK(!schema);
        }
        pc_schema_free(schema);
    }
    fuzz_no_leak(blocks);
    return 0;
}
