/* Catches: option structs of another version, or of garbage, that are read or written beyond their
 * size, or that pass the checks of a public call. The first byte of an input chooses the struct,
 * the rest are its bytes. The caller promises that pointers are valid, so they are set to NULL. */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "fuzz.h"

/* The caller's struct: exactly as many bytes as its struct_size says, so that a sanitizer sees
 * every read beyond. */
static void *given(const uint8_t *data, size_t size, size_t v1)
{
    size_t stated = 0;
    uint8_t *copy;
    memcpy(&stated, data, size < sizeof stated ? size : sizeof stated);
    stated %= 4096;
    if (stated < sizeof stated)
        stated = v1;
    copy = calloc(stated, 1);
    FUZZ_CHECK(copy);
    memcpy(copy, data, size < stated ? size : stated);
    memcpy(copy, &stated, sizeof stated);
    return copy;
}

static void no_pointer(void *options, size_t offset)
{
    size_t stated;
    memcpy(&stated, options, sizeof stated);
    if (offset < stated) /* a part of the pointer is read too */
        memset((char *)options + offset, 0,
               stated - offset < sizeof(void *) ? stated - offset : sizeof(void *));
}

static void read_any(const void *options, size_t known, size_t v1)
{
    uint8_t *out = malloc(known);
    size_t stated, told;
    pc_status status;
    FUZZ_CHECK(out);
    memcpy(&stated, options, sizeof stated);
    status = pc__options_read(out, known, v1, options, "options");
    FUZZ_CHECK(fuzz_ok(status) || stated < v1 || stated > known);
    memcpy(&told, out, sizeof told);
    FUZZ_CHECK(status < 0 || told == known);
    FUZZ_CHECK(status < 0
               || !memcmp(out + sizeof told, (const char *)options + sizeof told,
                          (stated < known ? stated : known) - sizeof told));
    free(out);
}

static void write_any(void *result, size_t v1)
{
    uint8_t from[64];
    size_t stated, after;
    memset(from, 0x5a, sizeof from);
    memcpy(&stated, result, sizeof stated);
    FUZZ_CHECK(fuzz_ok(pc__result_write(result, v1, from, sizeof from, "result"))
               == (stated >= v1));
    memcpy(&after, result, sizeof after);
    FUZZ_CHECK(after == stated);
}

static void context(void *options)
{
    pc_context *c;
    no_pointer(options, offsetof(pc_context_options, allocator));
    no_pointer(options, offsetof(pc_context_options, log));
    no_pointer(options, offsetof(pc_context_options, parallel_for));
    no_pointer(options, offsetof(pc_context_options, backend));
    pc_context_options *o = options;
    if (o->struct_size >= sizeof *o && o->threads > 4 && o->threads <= 4096)
        o->threads = 4; /* so many threads are allowed, but slow to start */
    if (!fuzz_ok(pc_context_new(&c, options)))
        FUZZ_CHECK(!c);
    pc_context_free(c);
}

static void cache(void *options)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *c;
    pc_cache *made;
    static const size_t pointers[] = {
        offsetof(pc_cache_options, salt),     offsetof(pc_cache_options, disk_path),
        offsetof(pc_cache_options, remote),   offsetof(pc_cache_options, codecs),
        offsetof(pc_cache_options, seal_key), offsetof(pc_cache_options, on_event),
        offsetof(pc_cache_options, on_bytes)};
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++)
        no_pointer(options, pointers[i]);
    o.allocator = &fuzz_memory;
    o.threads = 1;
    FUZZ_CHECK(fuzz_ok(pc_context_new(&c, &o)));
    if (!fuzz_ok(pc_cache_new(&made, c, options)))
        FUZZ_CHECK(!made);
    pc_cache_free(made);
    pc_context_free(c);
}

static const char schema_text[] = "<schema name=\"s\">the <module name=\"m\">a b</module></schema>";

static void schema(void *options)
{
    pc_schema *made;
    no_pointer(options, offsetof(pc_schema_options, base_folder));
    if (!fuzz_ok(
            pc_schema_parse(&made, fuzz_model(), schema_text, sizeof schema_text - 1, options)))
        FUZZ_CHECK(!made);
    pc_schema_free(made);
}

/* The model cannot compute: whatever the options are, this ends with an error, at the latest there.
 */
static void generate(void *options)
{
    static const char text[] = "<prompt schema=\"s\"><m/>the</prompt>";
    pc_stats stats = PC_STATS_INIT;
    pc_schema *made;
    pc_prompt *prompt;
    no_pointer(options, offsetof(pc_generate_options, stop_tokens));
    no_pointer(options, offsetof(pc_generate_options, stop_strings));
    no_pointer(options, offsetof(pc_generate_options, on_text));
    no_pointer(options, offsetof(pc_generate_options, salts));
    no_pointer(options, offsetof(pc_generate_options, memo));
    no_pointer(options, offsetof(pc_generate_options, cancelled));
    FUZZ_CHECK(
        fuzz_ok(pc_schema_parse(&made, fuzz_model(), schema_text, sizeof schema_text - 1, NULL)));
    FUZZ_CHECK(fuzz_ok(pc_prompt_parse(&prompt, &made, 1, text, sizeof text - 1, NULL)));
    FUZZ_CHECK(!fuzz_ok(pc_generate(prompt, NULL, options, &stats)));
    pc_prompt_free(prompt);
    pc_schema_free(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *options;
    size_t blocks;
    if (!size)
        return 0;
    fuzz_model();
    blocks = fuzz_blocks();
    options = given(data + 1, size - 1, 40);
    switch (data[0] % 6) {
    case 0:
        read_any(options, 72, 40);
        break;
    case 1:
        write_any(options, 24);
        break;
    case 2:
        context(options);
        break;
    case 3:
        cache(options);
        break;
    case 4:
        schema(options);
        break;
    default:
        generate(options);
    }
    free(options);
    fuzz_no_leak(blocks);
    return 0;
}
