/* The structs of the calls for folders of records, by the rules of doc/abi.md, on a folder that a
 * cache has filled. Catches what test_options_abi.c catches, for these. */
#include <promptcache/admin.h>
#include <promptcache/extend.h>
#include <promptcache/cache.h>
#include <string.h>

#include "options_rules.h"
#include "testing.h"

static pc_context *context;
static pc_folder *folder;
static char path[512];
static const pc_folder_options init = PC_FOLDER_OPTIONS_INIT;

static pc_status use_options(const void *options)
{
    pc_folder *out = folder;
    pc_status status = pc_folder_open(&out, context, path, options);
    CHECK((status >= 0) == (out != NULL));
    pc_folder_free(out);
    return status;
}

static pc_status fill_info(void *result)
{
    return pc_folder_get(folder, 0, result);
}

static const pc_read_case read_case = PC_READ_CASE(pc_folder_options, use_options, &init, 24,
                                                   PC_NO_FIELD, PC_FIELD(pc_folder_options, flags),
                                                   0, 1);
static const pc_write_case write_case = {"pc_record_info", fill_info, sizeof(pc_record_info), 384};

static void fill_folder(void)
{
    static uint8_t model[32] = {1}, key[32] = {2}, memory[64];
    static void *const blocks[1] = {memory};
    static const uint64_t block_bytes[1] = {sizeof memory};
    static const int32_t tokens[2] = {1, 2};
    pc_raw raw = PC_RAW_INIT;
    pc_put_options put = PC_PUT_OPTIONS_INIT;
    pc_cache_options options = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    pc_segment *segment = NULL;
    options.disk_path = path;
    raw.model = model;
    raw.layout = PC_LAYOUT_APPLICATION;
    raw.tokens = tokens;
    raw.token_count = 2;
    raw.blocks = (const void *const *)blocks;
    raw.block_bytes = block_bytes;
    raw.block_count = 1;
    put.cost_seconds = 10;
    if (CHECK_OK(pc_cache_new(&cache, context, &options))
        && CHECK_OK(pc_segment_wrap(&segment, context, &raw, NULL, NULL))
        && CHECK_OK(pc_cache_put(cache, key, segment, &put)))
        CHECK_OK(pc_cache_flush(cache));
    pc_segment_free(segment);
    pc_cache_free(cache);
}

int main(void)
{
    snprintf(path, sizeof path, "%s/records", pc_test_folder());
    if (CHECK_OK(pc_context_new(&context, NULL))) {
        fill_folder();
        if (CHECK_OK(pc_folder_open(&folder, context, path, NULL))
            && CHECK_INT(pc_folder_count(folder), 1)) {
            pc_check_read(&read_case);
            pc_check_write(&write_case);
        }
    }
    pc_folder_free(folder);
    pc_context_free(context);
    return pc_test_end();
}
