/* Catches: prompts that crash or leak the resolver, that resolve to parts out of order or outside
 * of the schema, or that get past a rule of the language. */
#include <promptcache/prompt.h>
#include <string.h>

#include "fuzz.h"

static const char text[] =
    "<schema name=\"s\">the start "
    "<system>the a b</system>"
    "<module name=\"m\">the <parameter name=\"x\" length=\"5\"/> ab <param name=\"y\" len=\""
    "2\" scaffold=\"a\"/></module>"
    "<union scaffold=\"u2\"><module name=\"u1\">a</module><module name=\"u2\">the the"
    "<union><module name=\"v\">b</module><module name=\"w\">ab ab</module></union></module></union>"
    "<module name=\"n\">a<module name=\"o\">b<module name=\"p\"><parameter name=\"z\" "
    "length=\"1\"/></module></module></module>"
    "<module name=\"c\" cache=\"false\">12</module>the end"
    "<scaffold modules=\"m n\"/><scaffold modules=\"m n/o u2\"/></schema>";

static pc_schema *the_schema(uint64_t flags)
{
    static pc_schema *schemas[2];
    pc_schema_options options = PC_SCHEMA_OPTIONS_INIT;
    pc_schema **schema = &schemas[flags ? 1 : 0];
    options.flags = flags & PC_PML_OVERLAP;
    if (!*schema)
        FUZZ_CHECK(fuzz_ok(pc_schema_parse(schema, fuzz_model(), text, strlen(text), &options)));
    return *schema;
}

static void parse(pc_schema *schema, const char *data, size_t size, uint64_t flags)
{
    pc_prompt_options options = PC_PROMPT_OPTIONS_INIT;
    pc_prompt *prompt;
    pc_part part = PC_PART_INIT;
    int64_t start = 0;
    options.flags = flags;
    if (!fuzz_ok(pc_prompt_parse(&prompt, &schema, 1, data, size, &options))) {
        FUZZ_CHECK(!prompt);
        return;
    }
    for (size_t i = 0; i < pc_prompt_part_count(prompt); i++) {
        FUZZ_CHECK(pc_prompt_get_part(prompt, i, &part) == PC_OK);
        FUZZ_CHECK(part.start >= start && part.path && (part.tokens || !part.count));
        FUZZ_CHECK((part.kind != PC_PART_CACHED && part.kind != PC_PART_UNCACHED)
                   || part.start + (int64_t)part.count <= pc_schema_length(schema));
        start = part.start;
    }
    pc_prompt_free(prompt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pc_schema *plain = the_schema(0), *overlap = the_schema(PC_PML_OVERLAP);
    size_t blocks = fuzz_blocks();
    parse(plain, (const char *)data, size, 0);
    parse(overlap, (const char *)data, size, PC_PML_OVERLAP | PC_PML_COMPACT);
    fuzz_no_leak(blocks);
    return 0;
}
