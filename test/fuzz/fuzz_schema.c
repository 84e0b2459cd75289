/* Catches: PML text that makes the schema reader crash, leak, take memory without bound, or lay a
 * schema out so that its parts do not fit each other. */
#include "fuzz.h"
#include <promptcache/prompt.h>

static void check_layout(const pc_schema *schema)
{
    int64_t end = pc_schema_length(schema);
    pc_item item = PC_ITEM_INIT;
    FUZZ_CHECK(end >= 0 && *pc_schema_name(schema));
    for (size_t i = 0; i < pc_schema_item_count(schema); i++) {
        FUZZ_CHECK(pc_schema_get_item(schema, i, &item) == PC_OK);
        FUZZ_CHECK(item.start >= 0 && item.length >= 0 && item.start + item.length <= end);
        FUZZ_CHECK(item.path && item.text && item.kind >= PC_ITEM_MODULE
                   && item.kind <= PC_ITEM_PARAMETER);
    }
}

static void parse(const char *text, size_t size, uint64_t flags, uint32_t max_tokens)
{
    pc_schema_options options = PC_SCHEMA_OPTIONS_INIT;
    pc_schema *schema;
    options.flags = flags;
    options.max_tokens = max_tokens;
    if (fuzz_ok(pc_schema_parse(&schema, fuzz_model(), text, size, &options)))
        check_layout(schema);
    else
        FUZZ_CHECK(!schema);
    pc_schema_free(schema);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_model();
    size_t blocks = fuzz_blocks();
    parse((const char *)data, size, 0, 0);
    parse((const char *)data, size, PC_PML_COMPACT | PC_PML_OVERLAP, 5);
    fuzz_no_leak(blocks);
    return 0;
}
