/* Plug-in modules: parts of the library that need large outside libraries, each in a shared object
 * of its own (libpromptcache_NAME.so). A module is opened when it is first needed, once a process,
 * and stays open. A part that is linked into a static library has the same table without a file.
 *
 * The file is looked for in the folders of PC_MODULES (base/environment.h), then beside this
 * library, then in the folder promptcache/ beside it. The first file of the name decides, also if
 * it cannot be used. A file that is no whole shared object is not loaded (base/shared_object.h).
 *
 * Library and module must be of the same version and build: they share structs, and the module has
 * hidden copies of the library's code, with static variables of its own. Only the error text is
 * the library's: `start` passes the host to pc__module_join.
 *
 * What a module NAME (1 to 31 of a-z, 0-9 and _) consists of:
 *   - a header that both sides include, with the struct of its table;
 *   - PC__MODULE(NAME) = {pc__module_version, pc__module_build, start}, the one symbol that the
 *     shared object exports;
 *   - `extern const pc__module *const pc__linked_NAME`, which the library's caller passes to
 *     pc__module_open. cmake/modules.cmake defines it: the module where it is linked in, else NULL.
 *     For a module that is never linked in the caller passes NULL;
 *   - promptcache_module(NAME …) in CMake.
 * The caller looks its table up once, not per call. */
#ifndef PC_BASE_MODULE_H
#define PC_BASE_MODULE_H

#include "base/fail.h"

typedef struct pc__module_host {           /* what the library gives a module */
    pc__error_state *(*error_state)(void); /* pc__fail_state */
} pc__module_host;

/* The first two members stay where they are in all versions. */
typedef struct pc__module {
    const char *version; /* pc__module_version */
    const char *build;   /* pc__module_build */
    /* Sets *table, a pointer to the module's struct of functions, valid for good. A failure is a
     * negative status with an error text; the module then counts as missing. Runs once a process
     * unless the library is unloaded and loaded again. */
    pc_status (*start)(const pc__module_host *host, const void **table);
} pc__module;

#define PC__MODULE(name)                                                              \
    extern __attribute__((visibility("default"))) const pc__module pc__module_##name; \
    const pc__module pc__module_##name

/* Of the code that this is linked with. The build is a digest of the sources of which modules have
 * copies, and of the compiler (cmake/module_build.cmake). */
extern const char pc__module_version[], pc__module_build[];

/* For `start` in a module that has a copy of base/fail.c: error texts are the library's from here.
 * Does nothing in a module that is linked in. */
void pc__module_join(const pc__module_host *host);

typedef struct pc__module_found { /* valid for good */
    const void *table;            /* NULL: `reason` says why there is none */
    const char *path;             /* of the file; "": linked in, or no file was found */
    const char *reason;           /* one line that names file and cause; "": none is needed */
} pc__module_found;

/* Opens the module of this name, or gives what an earlier call has found. `linked`: the module
 * that is linked in, or NULL. Never NULL. Blocks while a file is loaded. For any thread. */
const pc__module_found *pc__module_open(const char *name, const pc__module *linked);

/* The same as a status: PC_OK with *table, or PC_ERR_UNSUPPORTED with the reason as error text. */
pc_status pc__module_table(const void **table, const char *name, const pc__module *linked);

#endif
