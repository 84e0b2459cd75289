/* Catches: a kind of pooling that is taken for another, several at once, ignored steps, paths
 * outside of the model's folder, damaged files, leaks. */
#include "model/load/sentence_config.h"

#include <promptcache/memo.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "testing.h"

#define PREFIX "sentence_transformers.models."
#define POOLING "{\"path\":\"1_Pooling\",\"type\":\"" PREFIX "Pooling\"}"
#define FIRST "{\"path\":\"\",\"type\":\"" PREFIX "Transformer\"}"

static const pc_allocator *memory;

static void write_file(const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", pc_test_folder(), name);
    if (text)
        pc_test_write(path, text, strlen(text));
    else
        remove(path);
}

static pc_status read(const char *modules, const char *pooling, const char *limit, pc__pooling *out)
{
    write_file("modules.json", modules);
    write_file("1_Pooling/config.json", pooling);
    write_file("sentence_bert_config.json", limit);
    return pc__sentence_config(out, memory, pc_test_folder());
}

static void good(void)
{
    pc__pooling p = {9, 9, 9};
    CHECK_OK(
        read(NULL, NULL, "{\"max_seq_length\":7}", &p)); /* no modules.json: not such a model */
    CHECK(!p.pool && !p.normalize && !p.max_tokens);
    CHECK_OK(read("[" FIRST "," POOLING "]",
                  "{\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":false}", NULL,
                  &p));
    CHECK(p.pool == PC_POOL_MEAN && !p.normalize && !p.max_tokens);
    CHECK_OK(read("[" FIRST "," POOLING ",{\"path\":\"2_Normalize\",\"type\":\"" PREFIX
                  "Normalize\"}]",
                  "{\"pooling_mode_cls_token\":true}", "{\"max_seq_length\":256}", &p));
    CHECK(p.pool == PC_POOL_FIRST && p.normalize == 1 && p.max_tokens == 256);
    CHECK_OK(read("[" FIRST "," POOLING "]", "{\"pooling_mode\":\"lasttoken\"}",
                  "{\"max_seq_length\":null}", &p));
    CHECK(p.pool == PC_POOL_LAST && !p.max_tokens);
}

static void bad(void)
{
    static const struct {
        const char *modules, *pooling;
        pc_status want;
        const char *says;
    } rows[] = {
        {"[" FIRST "," POOLING "]", "{\"pooling_mode_max_tokens\":true}", PC_ERR_UNSUPPORTED,
         "1_Pooling"},
        {"[" FIRST "," POOLING "]",
         "{\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":true}", PC_ERR_UNSUPPORTED,
         "exactly one of"},
        {"[" FIRST "," POOLING "]", "{}", PC_ERR_UNSUPPORTED, "pooling"},
        {"[" FIRST "," POOLING "]", NULL, PC_ERR_NOT_FOUND, "1_Pooling/config.json"},
        {"[" FIRST "," POOLING "]", "{", PC_ERR_FORMAT, "config.json:1:1: "},
        {"[" FIRST ",{\"path\":\"2_Dense\",\"type\":\"" PREFIX "Dense\"}]", NULL,
         PC_ERR_UNSUPPORTED, "Dense"},
        {"[{\"path\":\"0_T\",\"type\":\"" PREFIX "Transformer\"}]", NULL, PC_ERR_UNSUPPORTED,
         "Transformer"},
        {"[{\"path\":\"../other\",\"type\":\"" PREFIX "Pooling\"}]", NULL, PC_ERR_FORMAT,
         "modules.json"},
        {"[{\"path\":\"/etc\",\"type\":\"" PREFIX "Pooling\"}]", NULL, PC_ERR_FORMAT,
         "modules.json"},
        {"[7]", NULL, PC_ERR_FORMAT, "modules.json"},
        {"{}", NULL, PC_ERR_FORMAT, "not a list"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pc__pooling p = {9, 9, 9};
        CHECK_STATUS(read(rows[i].modules, rows[i].pooling, NULL, &p), rows[i].want);
        CHECK_ERROR_HAS(rows[i].says);
        CHECK(!p.pool && !p.normalize && !p.max_tokens);
    }
}

static void failing_memory(void)
{
    pc_status status = PC_ERR_NOMEM;
    for (uint64_t fail = 1; status < 0 && fail < 100; fail++) {
        pc_test_memory counted = {.fail_at = fail};
        pc_allocator mem = pc_test_allocator(&counted);
        pc__pooling p;
        status = pc__sentence_config(&p, &mem, pc_test_folder());
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        CHECK_INT(counted.live_blocks, 0);
    }
    CHECK_OK(status);
}

int main(void)
{
    pc_context *context;
    char path[4096];
    if (!CHECK_OK(pc_context_new(&context, NULL)))
        return pc_test_end();
    memory = &context->mem;
    snprintf(path, sizeof path, "%s/1_Pooling", pc_test_folder());
    mkdir(path, 0700);
    bad();
    good();
    failing_memory();
    pc_context_free(context);
    return pc_test_end();
}
