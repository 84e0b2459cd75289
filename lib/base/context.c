/* A context: options checked, the thread pool, the log. Owns the pool and costs measured for it. */
#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sched.h>

#include "base/environment.h"
#include "base/process.h"
#include "base/task.h"
#include "base/threads.h"

static uint32_t usable_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    return CPU_COUNT(&set) > 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

/* The name of the backend: the option, else that of the environment, else none. */
static const char *backend_of(const pc_context_options *o)
{
    const char *name = o->backend ? o->backend : pc__environment(PC__ENV_BACKEND);
    return name ? name : "";
}

static pc_status check_context_options(const pc_context_options *o)
{
    if (o->threads > 4096)
        return pc__fail(PC_ERR_INVALID, "pc_context_options: %u threads are more than 4096",
                        o->threads);
    if (o->backend && !pc__is_backend_name(o->backend))
        return pc__fail(PC_ERR_INVALID,
                        "pc_context_options: backend '%.40s': no backend has such a name",
                        o->backend);
    return pc__environment_check();
}

/* "cuda:1" is device 1 of the backend "cuda". The option `device` may say so, too. */
static pc_status read_backend(pc_context *context, const pc_context_options *o)
{
    const char *name = backend_of(o), *colon = strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    memcpy(context->backend_name, name, length);
    context->device = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : o->device;
    if (o->device && o->device != context->device)
        return pc__fail(PC_ERR_INVALID, "pc_context_options: device is %u, but backend is '%s'",
                        o->device, name);
    return PC_OK;
}

/* Fills `copy`; without an allocator of the application it is the C library's. */
static pc_status read_allocator(pc_allocator *copy, const pc_allocator *given)
{
    *copy = pc__libc_allocator;
    if (!given)
        return PC_OK;
    PC__TRY_RETURN(pc__options_read(copy, sizeof *copy, PC__V1_SIZE(pc_allocator, free), given,
                                    "pc_allocator"));
    if (!copy->alloc || !copy->free)
        return pc__fail(PC_ERR_INVALID,
                        "pc_context_options: the allocator needs both alloc and free");
    return PC_OK;
}

pc_status pc_context_new(pc_context **out, const pc_context_options *options)
{
    pc_context_options o;
    pc_allocator read;
    const pc_allocator *mem = &read;
    pc_context *context;
    pc_status status = PC_OK;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_context_new: out is NULL");
    *out = NULL;
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_context_options, backend), options,
                                    "pc_context_options"));
    PC__TRY_RETURN(check_context_options(&o));
    PC__TRY_RETURN(read_allocator(&read, o.allocator));
    context = pc__calloc(mem, 1, sizeof *context);
    if (!context)
        return PC_ERR_NOMEM;
    atomic_init(&context->references, 1);
    context->process = pc__process();
    context->mem = *mem;
    context->log = o.log;
    context->log_user = o.log_user;
    context->parallel_for = o.parallel_for;
    context->parallel_user = o.parallel_user;
    context->threads = o.threads ? o.threads : usable_cores();
    status = read_backend(context, &o);
    if (status >= 0 && !context->parallel_for && context->threads > 1)
        status = pc__pool_new(&context->pool, &context->mem, context->threads - 1);
    if (status >= 0 && pc__context_open_backend)
        status = pc__context_open_backend(context);
    if (status < 0)
        pc__context_unref(context);
    else
        *out = context;
    return status;
}

pc_context *pc__context_ref(pc_context *context)
{
    atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
    return context;
}

/* The driver of a device is of no use in a child after fork(). */
static int may_free_backend(const pc_context *context)
{
    return !*context->backend_name || !strcmp(context->backend_name, "cpu")
           || pc__is_own_process(context->process);
}

void pc__context_unref(pc_context *context)
{
    if (context && atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) == 1) {
        pc_allocator mem = context->mem;
        void *next;
        pc__runners_free(atomic_load(&context->runners));
        if (context->free_backend && may_free_backend(context))
            context->free_backend(context->backend);
        pc__pool_free(context->pool);
        for (size_t i = 0; i < PC__WORK_BLOCKS; i++)
            pc__free(&mem, atomic_load(&context->work[i]));
        for (void *block = atomic_load(&context->own_costs); block; block = next) {
            memcpy(&next, block, sizeof next);
            pc__free(&mem, block);
        }
        pc__free(&mem, context);
    }
}

void pc_context_free(pc_context *context)
{
    pc__context_unref(context);
}

void pc__log(const pc_context *context, uint32_t level, const char *format, ...)
{
    char rough[1024], line[512];
    va_list args;
    if (!context || !context->log)
        return;
    va_start(args, format);
    vsnprintf(rough, sizeof rough, format, args);
    va_end(args);
    pc__printable(rough, strlen(rough), line, sizeof line);
    context->log(context->log_user, level, line);
}
