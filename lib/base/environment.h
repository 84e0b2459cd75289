/* The variables of the environment that the library reads: all of them, and nowhere else
 * (test/abi/rules.py). A program that runs with other rights than its user's (setuid, setgid, file
 * capabilities: AT_SECURE) reads none, because its user could lead it to libraries and files of
 * his own. Outside libraries read variables of their own. */
#ifndef PC_BASE_ENVIRONMENT_H
#define PC_BASE_ENVIRONMENT_H

#include "base/fail.h"

typedef enum pc__variable {
    PC__ENV_BACKEND,    /* PC_BACKEND: of contexts that name none */
    PC__ENV_COSTS,      /* PC_COSTS: "builtin", or the file of measured costs */
    PC__ENV_CPU_MASK,   /* PC_CPU_MASK: base/cpu_mask.h */
    PC__ENV_LINEAR,     /* PC_LINEAR: "own" or "onednn" */
    PC__ENV_MODULES,    /* PC_MODULES: folders, separated by colons */
    PC__ENV_CACHE_HOME, /* XDG_CACHE_HOME: the user's, as is the next one */
    PC__ENV_HOME,
    PC__ENV_COUNT
} pc__variable;

/* Its value. NULL: unset, empty, or not to be read. */
const char *pc__environment(pc__variable variable);
/* PC_ERR_INVALID if a variable of the library has a value that means nothing: the text names it,
 * its value and what is allowed. pc_context_new calls this, so that a misspelt value is an error
 * and nothing runs otherwise than it says. */
pc_status pc__environment_check(void);

/* 1: a backend may be called so: lower case, digits, '_', then perhaps ':' and a device's number.
 */
int pc__is_backend_name(const char *value);

#endif
