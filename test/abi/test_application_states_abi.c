/* The structs of the calls for an application's own states (keys, segments around its memory, put
 * and get), by the rules of doc/abi.md. Catches what test_options_abi.c catches, for these. */
#include <promptcache/extend.h>
#include <promptcache/cache.h>
#include <string.h>

#include "options_rules.h"
#include "testing.h"

static pc_context *context;
static pc_cache *cache;
static pc_segment *segment;
static uint8_t model[32] = {1}, key[32] = {2}, memory[64];
static void *const blocks[1] = {memory};
static const uint64_t block_bytes[1] = {sizeof memory};
static const int32_t tokens[2] = {1, 2};
static pc_key_parts parts = PC_KEY_PARTS_INIT;
static pc_key_segment_args of_segment = PC_KEY_SEGMENT_ARGS_INIT;
static pc_raw raw = PC_RAW_INIT;
static const pc_put_options put_init = PC_PUT_OPTIONS_INIT;
static const pc_get_options get_init = PC_GET_OPTIONS_INIT;
static const pc_find_options find_init = PC_FIND_OPTIONS_INIT;
static const pc_remove_options remove_init = PC_REMOVE_OPTIONS_INIT;

static pc_status use_parts(const void *options)
{
    uint8_t base[32];
    return pc_key_base(base, options);
}

static pc_status use_segment(const void *options)
{
    uint8_t made[32];
    return pc_key_segment(made, options);
}

static pc_status use_wrap(const void *options)
{
    pc_segment *out = segment;
    pc_status status = pc_segment_wrap(&out, context, options, NULL, NULL);
    CHECK((status >= 0) == (out != NULL));
    pc_segment_free(out);
    return status;
}

static pc_status use_expect(const void *options)
{
    pc_segment *out = segment;
    pc_status status = pc_cache_get(&out, cache, key, options, 0, NULL);
    CHECK((status == PC_OK) == (out != NULL));
    pc_segment_free(out);
    return status;
}

static pc_status use_put(const void *options)
{
    return pc_cache_put(cache, key, segment, options);
}

static pc_status use_get(const void *options)
{
    pc_segment *out = segment;
    pc_status status = pc_cache_get(&out, cache, key, &raw, options, NULL);
    CHECK((status == PC_OK) == (out != NULL));
    pc_segment_free(out);
    return status;
}

static pc_status use_find(const void *options)
{
    size_t found;
    return pc_cache_find(cache, key, 1, &found, NULL, options);
}

static pc_status use_remove(const void *options)
{
    static const uint8_t nobody[32] = {77};
    return pc_cache_remove(cache, nobody, 1, NULL, options);
}

static pc_status fill_raw(void *result)
{
    return pc_segment_raw(segment, result);
}

static pc_status fill_info(void *result)
{
    pc_segment *out;
    pc_status status = pc_cache_get(&out, cache, key, &raw, 0, result);
    pc_segment_free(out);
    return status;
}

static const pc_read_case read_cases[] = {
    PC_READ_CASE(pc_key_parts, use_parts, &parts, 72, PC_NO_FIELD, PC_NO_FIELD, 0, 0),
    PC_READ_CASE(pc_key_segment_args, use_segment, &of_segment, 64, PC_NO_FIELD, PC_NO_FIELD, 0, 0),
    PC_READ_CASE(pc_raw, use_wrap, &raw, 136, PC_NO_FIELD, PC_NO_FIELD, 0, 0),
    PC_READ_CASE(pc_raw, use_expect, &raw, 136, PC_NO_FIELD, PC_NO_FIELD, 0, 0),
    PC_READ_CASE(pc_put_options, use_put, &put_init, 72, PC_FIELD(pc_put_options, reserved),
                 PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_get_options, use_get, &get_init, 32, PC_NO_FIELD, PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_find_options, use_find, &find_init, 24, PC_NO_FIELD, PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_remove_options, use_remove, &remove_init, 16, PC_NO_FIELD, PC_NO_FIELD, 0, 1),
};

static const pc_write_case write_cases[] = {
    {"pc_raw", fill_raw, sizeof(pc_raw), 136},
    {"pc_get_info", fill_info, sizeof(pc_get_info), 32},
};

int main(void)
{
    parts.model = raw.model = model;
    of_segment.base = key;
    raw.layout = PC_LAYOUT_APPLICATION;
    raw.tokens = tokens;
    raw.token_count = 2;
    raw.blocks = (const void *const *)blocks;
    raw.block_bytes = block_bytes;
    raw.block_count = 1;
    if (CHECK_OK(pc_context_new(&context, NULL)) && CHECK_OK(pc_cache_new(&cache, context, NULL))
        && CHECK_OK(pc_segment_wrap(&segment, context, &raw, NULL, NULL))
        && CHECK_OK(pc_cache_put(cache, key, segment, NULL))) {
        for (size_t i = 0; i < sizeof read_cases / sizeof *read_cases; i++)
            pc_check_read(&read_cases[i]);
        for (size_t i = 0; i < sizeof write_cases / sizeof *write_cases; i++)
            pc_check_write(&write_cases[i]);
    }
    pc_segment_free(segment);
    pc_cache_free(cache);
    pc_context_free(context);
    return pc_test_end();
}
