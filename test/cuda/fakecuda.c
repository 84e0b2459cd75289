/* The backend "cuda" as a plug-in module for tests: on the fake device, whose kernels run on the
 * model of the machine. Any test program runs on it: PC_BACKEND=fakecuda, and PC_MODULES names the
 * module's folder. When the last of its contexts is freed, whatever was not given back and every
 * report of the model ends the program. PC_TEST_CUDA_MEMORY: bytes that a context may have. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/backend_cuda.h"
#include "base/module.h"
#include "fake_cuda.h"
#include "fake_kernels.h"

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static size_t open_count;
static pc__backend_ops fake; /* the backend's own, but for `free` */
static void (*free_cuda)(pc__backend *backend);

static void begin(void)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    static int known;
    options.late_us = 10;
    options.memory = (size_t)2 << 30;
    if (!known++)
        pc_fake_kernels_add();
    pc_fake_start(&options);
}

static void end(void)
{
    int left = pc_fake_end();
    if (!left)
        return;
    fprintf(stderr, "fakecuda: %d things were not given back, or reports of the model\n", left);
    abort();
}

static void free_fake(pc__backend *backend)
{
    pthread_mutex_lock(&guard);
    free_cuda(backend);
    if (!--open_count)
        end();
    pthread_mutex_unlock(&guard);
}

static pc_status open_locked(pc__backend **out, pc_context *context)
{
    const char *limit = getenv("PC_TEST_CUDA_MEMORY");
    if (!open_count)
        begin();
    pc_status status = pc__cuda_backend_new(out, context, limit ? strtoull(limit, NULL, 10) : 0);
    if (status < 0) {
        if (!open_count)
            end();
        return status;
    }
    open_count++;
    free_cuda = (*out)->ops->free;
    fake = *(*out)->ops;
    fake.name = "fakecuda";
    fake.free = free_fake;
    (*out)->ops = &fake;
    return PC_OK;
}

static pc_status open_fake(pc__backend **out, pc_context *context)
{
    pthread_mutex_lock(&guard);
    pc_status status = open_locked(out, context);
    pthread_mutex_unlock(&guard);
    return status;
}

static pc_status start(const pc__module_host *host, const void **table)
{
    static const pc__backend_module module = {open_fake};
    pc__module_join(host);
    *table = &module;
    return PC_OK;
}

PC__MODULE(fakecuda) = {pc__module_version, pc__module_build, start};
