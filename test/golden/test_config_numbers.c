/* Catches: a number of a configuration that is used before it is checked. Every number of every
 * configuration at hand, of the golden models and of the fuzzers' corpus, becomes huge, negative,
 * zero and fractional in turn: whatever the sanitizers see, readers that take long, and a refusal
 * without a text are faults. */
#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <promptcache/admin.h>

#include "base/mem.h"
#include "model/load/arch.h"
#include "testing.h"

static const char *const values[] = {"0",          "1",         "-1",    "1.5",
                                     "1025",       "100000000", "1e300", "2147483647",
                                     "2147483648", "1e-300",    "-1e40", "9223372036854775807",
                                     "4294967295", "-0.5"};
enum { VALUES = sizeof values / sizeof *values };

static size_t tried;

/* Reads the configuration as it stands in memory. */
static void read_text(const json_t *all, const char *name)
{
    char *text = json_dumps(all, JSON_COMPACT);
    clock_t start = clock();
    pc__arch arch;
    pc_status status = pc__arch_from_json(&arch, &pc__libc_allocator, text, strlen(text), name);
    if (!CHECK(status >= 0 ? pc__arch_check(&arch, name) == PC_OK : *pc_error_text() != 0))
        fprintf(stderr, "%s\n", text);
    if (!CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 1.0))
        fprintf(stderr, "%s\n", text);
    pc__arch_clear(&pc__libc_allocator, &arch);
    free(text);
    tried++;
}

static void vary(json_t *all, json_t *inside, const char *name);

/* Puts every value in the place of one that `put` writes and that was `before`. */
static void vary_one(json_t *all, json_t *inside, const char *key, size_t index, json_t *before,
                     const char *name)
{
    if (json_is_object(before) || json_is_array(before)) {
        vary(all, before, name);
        return;
    }
    if (!json_is_number(before))
        return;
    json_incref(before);
    for (size_t v = 0; v < VALUES; v++) {
        json_t *value = json_loads(values[v], JSON_DECODE_ANY, NULL);
        CHECK(!(key ? json_object_set_new(inside, key, value)
                    : json_array_set_new(inside, index, value)));
        read_text(all, name);
    }
    CHECK(!(key ? json_object_set_new(inside, key, before)
                : json_array_set_new(inside, index, before)));
}

static void vary(json_t *all, json_t *inside, const char *name)
{
    const char *key;
    json_t *value;
    void *next;
    size_t i;
    if (json_is_array(inside)) {
        for (i = 0; i < json_array_size(inside) && i < 3; i++)
            vary_one(all, inside, NULL, i, json_array_get(inside, i), name);
        return;
    }
    json_object_foreach_safe(inside, next, key, value)
    {
        vary_one(all, inside, key, 0, value, name);
    }
}

static void vary_file(const char *path, const char *name)
{
    json_t *all = json_load_file(path, 0, NULL);
    if (json_is_object(all))
        vary(all, all, name);
    json_decref(all);
}

static void vary_golden(const char *path, const char *name)
{
    char config[1024];
    snprintf(config, sizeof config, "%s/%s/config.json", path, name);
    vary_file(config, name);
}

static void vary_corpus(const char *path, const char *name)
{
    char config[1024];
    snprintf(config, sizeof config, "%s/%s", path, name);
    vary_file(config, name);
}

static void each_entry(const char *path, void (*use)(const char *path, const char *name))
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            use(path, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

/* The whole way of `info`: a golden folder whose configuration has a hundred million layers. */
static void too_many_layers(const char *golden)
{
    char path[1024];
    const char *folder = pc_test_folder();
    pc_model_file *file = NULL;
    pc_context *context = NULL;
    pc_model_file_info info = PC_MODEL_FILE_INFO_INIT;
    snprintf(path, sizeof path, "%s/deepseek_v2/config.json", golden);
    json_t *all = json_load_file(path, 0, NULL);
    if (!CHECK(all))
        return;
    json_object_set_new(all, "num_hidden_layers", json_integer(100000000));
    snprintf(path, sizeof path, "%s/config.json", folder);
    CHECK(!json_dump_file(all, path, 0));
    json_decref(all);
    CHECK_OK(pc_context_new(&context, NULL));
    if (CHECK_OK(pc_model_file_open(&file, context, folder, NULL))) {
        CHECK_OK(pc_model_file_get_info(file, &info));
        CHECK_INT(info.refusal, PC_ERR_FORMAT);
        CHECK(strstr(info.reason, "'num_hidden_layers' is 100000000, expected a number of layers "
                                  "from 1 to 1024"));
    }
    pc_model_file_free(file);
    pc_context_free(context);
}

int main(void)
{
    const char *golden = pc_test_data("golden");
    each_entry(PC_SOURCE_DIR "/test/fuzz/corpus/config", vary_corpus);
    CHECK(tried > 1000);
    if (golden) {
        too_many_layers(golden);
        each_entry(golden, vary_golden);
    }
    printf("%zu configurations\n", tried);
    return pc_test_end();
}
