/* The list of the library's plug-in modules, for applications. */
#include "serve/plugin.h"

#include <promptcache/admin.h>

#include "base/options.h"

typedef struct plugin {
    const char *name;
    const pc__module *const *linked; /* NULL: not built; *linked NULL: a file */
} plugin;

static const plugin plugins[] = {{"onednn", PC__PLUGIN_ONEDNN},
                                 {"faiss", PC__PLUGIN_FAISS},
                                 {"remote", PC__PLUGIN_REMOTE},
                                 {"cuda", PC__PLUGIN_CUDA},
                                 {"xgrammar", PC__PLUGIN_XGRAMMAR}};

pc_status pc_plugin_get(size_t index, pc_plugin_info *info)
{
    const size_t count = sizeof plugins / sizeof *plugins;
    pc_plugin_info i = PC_PLUGIN_INFO_INIT;
    if (!info)
        return pc__fail(PC_ERR_INVALID, "pc_plugin_get: info is NULL");
    if (index >= count)
        return pc__fail(PC_ERR_NOT_FOUND, "pc_plugin_get: plug-in module %zu of %zu", index, count);
    i.name = plugins[index].name;
    i.path = i.reason = "";
    i.state = PC_PLUGIN_NOT_BUILT;
    if (plugins[index].linked) {
        const pc__module_found *found = pc__module_open(i.name, *plugins[index].linked);
        i.path = found->path;
        i.reason = found->reason;
        i.state = !found->table  ? PC_PLUGIN_MISSING
                  : *found->path ? PC_PLUGIN_LOADED
                                 : PC_PLUGIN_INSIDE;
    }
    return pc__result_write(info, PC__V1_SIZE(pc_plugin_info, reserved), &i, sizeof i,
                            "pc_plugin_info");
}
