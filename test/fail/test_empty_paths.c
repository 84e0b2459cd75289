/* Catches: an empty path that the system answers for ("No such file"), that counts as the working
 * folder, or that is taken for no path at all, in any public call that takes one. */
#include <promptcache/admin.h>
#include <promptcache/extend.h>
#include <promptcache/memo.h>
#include <promptcache/prompt.h>

#include "toy_schema.h"

static void refused(pc_status status, const char *what)
{
    if (!CHECK_STATUS(status, PC_ERR_INVALID) || !CHECK_ERROR_HAS("a path is needed"))
        printf("%s\n", what);
}
#define REFUSED(call) refused(call, #call)

int main(void)
{
    toy_world w;
    pc_model *model = NULL;
    pc_model_file *file = NULL;
    pc_folder *folder = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_cache *cache = NULL;
    pc_model_options packed = PC_MODEL_OPTIONS_INIT;
    pc_schema_options based = PC_SCHEMA_OPTIONS_INIT;
    pc_cache_options disk = PC_CACHE_OPTIONS_INIT;
    pc_system_format source = PC_SYSTEM_FORMAT_INIT;
    const char *empty = "";
    uint8_t fingerprint[32];
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return pc_test_end();
    REFUSED(pc_model_load(&model, w.context, "", NULL));
    REFUSED(pc_model_file_open(&file, w.context, "", NULL));
    packed.packed_weights = "";
    REFUSED(pc_model_load(&model, w.context, "model.gguf", &packed));
    REFUSED(pc_schema_load(&schema, w.model, "", NULL));
    based.base_folder = "";
    REFUSED(pc_schema_parse(&schema, w.model, toy_schema, strlen(toy_schema), &based));
    source.system = "s";
    source.system_size = 1;
    source.format_file = "";
    REFUSED(pc_schema_from_format(&schema, w.model, &source));
    source.format_file = source.system = NULL;
    source.system_size = 0;
    source.system_file = "";
    REFUSED(pc_schema_from_format(&schema, w.model, &source));
    REFUSED(pc_prompt_load(&prompt, &w.schema, 1, "", NULL));
    disk.disk_path = "";
    REFUSED(pc_cache_new(&cache, w.context, &disk));
    REFUSED(pc_folder_open(&folder, w.context, "", NULL));
    REFUSED(pc_fingerprint_files(fingerprint, &empty, 1, NULL, NULL));
    CHECK(!model && !file && !schema && !prompt && !cache && !folder);
    toy_end(&w);
    return pc_test_end();
}
