/* Finds, checks and opens plug-in modules, and remembers what it found: a table with one row for
 * each name, under one lock. */
#include "base/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/shared_object.h"

enum { MOST_MODULES = 16, NAME = 32, PATH = 1024, REASON = 512, FOLDERS = 320 };

typedef struct row {
    char name[NAME], path[PATH], reason[REASON];
    pc__module_found found;
} row;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static row rows[MOST_MODULES]; /* guarded by `lock` until a row is filled, constant afterwards */
static size_t row_count;

/* Sets the reason: one line. */
__attribute__((format(printf, 2, 3))) static void refuse(row *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->reason, sizeof r->reason, format, args);
    va_end(args);
    for (char *c = r->reason; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127)
            *c = ' ';
}

void pc__module_join(const pc__module_host *host)
{
    if (host->error_state != pc__fail_state)
        pc__fail_share(host->error_state);
}

/* ------------------------------------------------------------ where files may lie */

/* The real path of the file that holds this code: the library, or a program that has it inside.
 * 0: not known. */
static int path_of_library(char path[PATH_MAX])
{
    struct link_map *map = NULL;
    Dl_info info;
    if (!dladdr1(&lock, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return 0;
    /* The program's own name may be relative to a folder that it has left since. */
    return realpath(*map->l_name ? map->l_name : "/proc/self/exe", path) != NULL;
}

typedef struct search {
    row *row;
    char folders[FOLDERS]; /* where it was looked for, for the reason */
} search;

static void note_folder(search *s, const char *folder, size_t size)
{
    size_t used = strlen(s->folders);
    snprintf(s->folders + used, sizeof s->folders - used, "%s%.*s", used ? ", " : "", (int)size,
             folder);
}

/* 1: `folder` has the file; row->path names it. */
static int look_in(search *s, const char *folder, size_t size)
{
    row *r = s->row;
    if (!size)
        return 0;
    note_folder(s, folder, size);
    int n = snprintf(r->path, sizeof r->path, "%.*s/libpromptcache_%s.so", (int)size, folder,
                     r->name);
    if (n > 0 && (size_t)n < sizeof r->path && !access(r->path, F_OK))
        return 1;
    r->path[0] = 0;
    return 0;
}

static int look_in_list(search *s, const char *folders)
{
    while (folders) {
        const char *end = strchr(folders, ':');
        if (look_in(s, folders, end ? (size_t)(end - folders) : strlen(folders)))
            return 1;
        folders = end ? end + 1 : NULL;
    }
    return 0;
}

static int look_beside_library(search *s)
{
    char path[PATH_MAX + sizeof "/promptcache"];
    if (!path_of_library(path))
        return 0;
    *strrchr(path, '/') = 0;
    if (look_in(s, path, strlen(path)))
        return 1;
    strcat(path, "/promptcache");
    return look_in(s, path, strlen(path));
}

/* ------------------------------------------------------------ opening */

/* 1: of our version and build. */
static int fits(row *r, const pc__module *module)
{
    if (!module->version || !module->build || !module->start)
        refuse(r, "the plug-in module %s names no version, build or start", r->path);
    else if (strcmp(module->version, pc__module_version) != 0)
        refuse(r, "the plug-in module %s is of version %.30s, the library of version %s", r->path,
               module->version, pc__module_version);
    else if (strcmp(module->build, pc__module_build) != 0)
        refuse(r,
               "the plug-in module %s is of build %.64s, the library of build %s (both of "
               "version %s)",
               r->path, module->build, pc__module_build, pc__module_version);
    return !*r->reason;
}

static void start(row *r, const pc__module *module)
{
    static const pc__module_host host = {pc__fail_state};
    const void *table = NULL;
    pc_status status = module->start(&host, &table);
    if (status >= 0 && table)
        r->found.table = table;
    else
        refuse(r, "the plug-in module %s cannot start: %s", *r->path ? r->path : r->name,
               status < 0 ? pc_error_text() : "it has no table");
}

/* The handle is not closed: what the module starts, such as threads of its libraries, lives on. */
static void open_file(row *r)
{
    char symbol[NAME + sizeof "pc__module_"];
    const pc__module *module;
    void *handle;
    if (pc__shared_object_check(r->path) < 0) {
        refuse(r, "the plug-in module cannot be loaded: %s", pc_error_text());
        return;
    }
    handle = dlopen(r->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        refuse(r, "the plug-in module %s cannot be loaded: %s", r->path, dlerror());
        return;
    }
    snprintf(symbol, sizeof symbol, "pc__module_%s", r->name);
    module = dlsym(handle, symbol);
    if (!module)
        refuse(r, "the plug-in module %s has no symbol %s", r->path, symbol);
    else if (fits(r, module))
        start(r, module);
}

static void fill_row(row *r, const pc__module *linked)
{
    search s = {.row = r};
    if (linked)
        start(r, linked);
    else if (look_in_list(&s, pc__environment(PC__ENV_MODULES)) || look_beside_library(&s))
        open_file(r);
    else
        refuse(r,
               "the plug-in module libpromptcache_%s.so was not found in %s (PC_MODULES may name "
               "its folder)",
               r->name, s.folders);
}

static row *new_row(const char *name, const pc__module *linked)
{
    row *r = &rows[row_count++];
    pc__error_state before = *pc__fail_state();
    snprintf(r->name, sizeof r->name, "%s", name);
    r->found = (pc__module_found){.path = r->path, .reason = r->reason};
    fill_row(r, linked);
    *pc__fail_state() = before; /* the caller decides whether a missing module is an error */
    return r;
}

const pc__module_found *pc__module_open(const char *name, const pc__module *linked)
{
    static const pc__module_found no_name = {NULL, "",
                                             "the name of a plug-in module is 1 to 31 of a-z, 0-9 "
                                             "and _"};
    static const pc__module_found full = {NULL, "", "too many names of plug-in modules were used"};
    const pc__module_found *found = NULL;
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (!size || name[size] || size >= NAME)
        return &no_name;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < row_count && !found; i++)
        if (!strcmp(rows[i].name, name))
            found = &rows[i].found;
    if (!found)
        found = row_count < MOST_MODULES ? &new_row(name, linked)->found : &full;
    pthread_mutex_unlock(&lock);
    return found;
}

pc_status pc__module_table(const void **table, const char *name, const pc__module *linked)
{
    const pc__module_found *found = pc__module_open(name, linked);
    *table = found->table;
    return found->table ? PC_OK : pc__fail(PC_ERR_UNSUPPORTED, "%s", found->reason);
}
