/* The struct of a context, its log, and its reference count: objects may be freed in any order. */
#ifndef PC_BASE_CONTEXT_H
#define PC_BASE_CONTEXT_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/fail.h"
#include "base/hold.h"
#include "base/mem.h"
#include "base/options.h"

typedef struct pc__thread_pool pc__thread_pool;

enum { PC__WORK_BLOCKS = 6, PC__BACKEND_NAME = 32 };

struct pc_context {
    atomic_size_t references;
    pid_t process; /* that made it */
    pc_allocator mem;
    pc_log_fn log;
    void *log_user;
    pc_parallel_for_fn parallel_for; /* the application's, or NULL */
    void *parallel_user;
    uint32_t threads; /* >= 1 */
    char backend_name[PC__BACKEND_NAME];
    uint32_t device;             /* which of the backend's devices */
    struct pc__backend *backend; /* attn/backend.h; NULL: a program without backends */
    void (*free_backend)(struct pc__backend *backend);
    pc__thread_pool *pool;                 /* NULL: the application has its own, or threads is 1 */
    _Atomic(void *) work[PC__WORK_BLOCKS]; /* base/work.h; NULL: none */
    atomic_size_t work_next;
    _Atomic(const struct pc__cost_table *) costs; /* attn/costs.h; NULL: not read yet */
    _Atomic(void *) own_costs; /* blocks to free; each begins with a pointer to the next */
    _Atomic(struct pc__runners *) runners; /* base/task.h; NULL: there was no task */
};

/* attn/backend.c: opens the backend. Weak: unit tests of this folder do without backends. */
pc_status pc__context_open_backend(pc_context *context) __attribute__((weak));

pc_context *pc__context_ref(pc_context *context); /* returns it */
void pc__context_unref(pc_context *context);      /* NULL does nothing */
PC__HOLDABLE(pc_context, pc__context_ref, pc__context_unref)

void pc__log(const pc_context *context, uint32_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
