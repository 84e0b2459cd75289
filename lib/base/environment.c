/* Reads and checks the environment's variables by a table. */
#include "base/environment.h"

#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/cpu_mask.h"

/* A backend may be a module of any name (base/module.h). */
int pc__is_backend_name(const char *value)
{
    size_t name = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789_"),
           digits = value[name] == ':' ? strspn(value + name + 1, "0123456789") : 0;
    if (!name || name >= PC__BACKEND_NAME)
        return 0;
    return !value[name] || (digits && digits < 10 && !value[name + 1 + digits]);
}

/* The slash tells a path from a misspelt word. */
static int is_costs(const char *value)
{
    return !strcmp(value, "builtin") || strchr(value, '/');
}

static int is_level(const char *value)
{
    return pc__cpu_level(value) < PC__CPU_LEVELS;
}

static int is_linear(const char *value)
{
    return !strcmp(value, "own") || !strcmp(value, "onednn");
}

static const struct variable {
    const char *name;
    int (*means_something)(const char *value); /* NULL: every value does */
    const char *otherwise;                     /* what is wrong with a value that does not */
} variables[PC__ENV_COUNT] = {
    [PC__ENV_BACKEND] = {"PC_BACKEND", pc__is_backend_name,
                         "neither cpu nor the name of a backend module such as cuda or cuda:1"},
    [PC__ENV_COSTS] = {"PC_COSTS", is_costs,
                       "neither builtin nor a path with a slash, such as ./FILE"},
    [PC__ENV_CPU_MASK] = {"PC_CPU_MASK", is_level,
                          "none of c, avx2, avx512, avx512vnni, avx512bf16, amx"},
    [PC__ENV_LINEAR] = {"PC_LINEAR", is_linear, "none of own, onednn"},
    [PC__ENV_MODULES] = {"PC_MODULES", NULL, NULL},
    [PC__ENV_CACHE_HOME] = {"XDG_CACHE_HOME", NULL, NULL},
    [PC__ENV_HOME] = {"HOME", NULL, NULL},
};

const char *pc__environment(pc__variable variable)
{
    const char *value = secure_getenv(variables[variable].name);
    return value && *value ? value : NULL;
}

pc_status pc__environment_check(void)
{
    for (unsigned i = 0; i < PC__ENV_COUNT; i++) {
        const struct variable *v = &variables[i];
        const char *value = v->means_something ? pc__environment((pc__variable)i) : NULL;
        if (value && !v->means_something(value))
            return pc__fail(PC_ERR_INVALID, "the environment's %s is '%.40s', which is %s", v->name,
                            value, v->otherwise);
    }
    return PC_OK;
}
