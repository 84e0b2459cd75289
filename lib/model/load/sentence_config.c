/* Reads modules.json and what it names. */
#include "model/load/sentence_config.h"

#include <promptcache/embed.h>
#include <string.h>

#include "base/fail.h"
#include "base/file.h"
#include "text/json_file.h"

enum { LIMIT = 1 << 20 };

static const struct {
    const char *flag, *name; /* older and newer spelling */
    uint32_t pool;
} poolings[] = {{"pooling_mode_mean_tokens", "mean", PC_POOL_MEAN},
                {"pooling_mode_cls_token", "cls", PC_POOL_FIRST},
                {"pooling_mode_lasttoken", "lasttoken", PC_POOL_LAST},
                {"pooling_mode_max_tokens", "max", PC_POOL_DEFAULT},
                {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", PC_POOL_DEFAULT},
                {"pooling_mode_weightedmean_tokens", "weightedmean", PC_POOL_DEFAULT}};

/* Reads how tokens are pooled: exactly one pooling, and a known one. */
static pc_status read_pooling(pc__pooling *out, const pc_allocator *mem, const char *folder,
                              const char *path)
{
    char *inside = pc__path_join(mem, folder, path);
    const char *name;
    json_t *config;
    size_t count = 0;
    pc_status status = inside ? pc__json_in_folder(&config, mem, inside, "config.json", LIMIT, 0)
                              : PC_ERR_NOMEM;
    if (status == PC_OK) {
        name = json_string_value(json_object_get(config, "pooling_mode"));
        for (size_t i = 0; i < sizeof poolings / sizeof *poolings; i++) {
            if (name ? strcmp(name, poolings[i].name) != 0
                     : !json_is_true(json_object_get(config, poolings[i].flag)))
                continue;
            out->pool = poolings[i].pool;
            count++;
        }
        if (count != 1 || out->pool == PC_POOL_DEFAULT)
            status = pc__fail(
                PC_ERR_UNSUPPORTED,
                "%s/config.json: pooling must be exactly one of mean, first (cls) and last token",
                inside);
        json_decref(config);
    } else if (status == PC_ERR_NOT_FOUND) {
        status = pc__fail(PC_ERR_NOT_FOUND,
                          "%s/config.json: modules.json names this file, but it is missing",
                          inside);
    }
    pc__free(mem, inside);
    return status;
}

static pc_status read_module(pc__pooling *out, const pc_allocator *mem, const char *folder,
                             const json_t *module)
{
    const char *type = json_string_value(json_object_get(module, "type")),
               *path = json_string_value(json_object_get(module, "path")), *kind;
    if (!type || !path || strstr(path, "..") || *path == '/')
        return pc__fail(PC_ERR_FORMAT, "%s/modules.json: a module lacks a type or a path", folder);
    kind = strrchr(type, '.') ? strrchr(type, '.') + 1 : type;
    if (!strcmp(kind, "Transformer") && !*path)
        return PC_OK;
    if (!strcmp(kind, "Pooling"))
        return read_pooling(out, mem, folder, path);
    if (strcmp(kind, "Normalize"))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s/modules.json: modules of type '%.80s' are not supported", folder, type);
    out->normalize = 1;
    return PC_OK;
}

static pc_status read_limit(pc__pooling *out, const pc_allocator *mem, const char *folder)
{
    json_t *config;
    int64_t most;
    pc_status status = pc__json_in_folder(&config, mem, folder, "sentence_bert_config.json", LIMIT,
                                          0);
    if (status < 0)
        return status == PC_ERR_NOT_FOUND ? PC_OK : status;
    if (pc__json_integer(json_object_get(config, "max_seq_length"), 1, INT32_MAX, &most))
        out->max_tokens = (uint32_t)most;
    json_decref(config);
    return PC_OK;
}

pc_status pc__sentence_config(pc__pooling *out, const pc_allocator *mem, const char *folder)
{
    json_t *modules = NULL, *module;
    size_t i;
    pc_status status = pc__json_in_folder(&modules, mem, folder, "modules.json", LIMIT, 0);
    *out = (pc__pooling){0};
    if (status < 0)
        return status == PC_ERR_NOT_FOUND ? PC_OK : status;
    if (!json_is_array(modules))
        status = pc__fail(PC_ERR_FORMAT, "%s/modules.json: the file is not a list", folder);
    json_array_foreach(modules, i, module) if (status >= 0)
        status = read_module(out, mem, folder, module);
    json_decref(modules);
    if (status >= 0)
        status = read_limit(out, mem, folder);
    if (status < 0)
        *out = (pc__pooling){0};
    return status;
}
