/* The table of the CPU backend. */
#include "attn/cpu/elementwise.h"
#include "attn/cpu/linear.h"

static void *allocate(pc_context *context, size_t floats)
{
    return floats > SIZE_MAX / sizeof(float)
               ? NULL
               : pc__alloc_aligned(&context->mem, floats * sizeof(float), 64);
}

static void release(pc_context *context, void *memory)
{
    pc__free(&context->mem, memory);
}

static const pc__backend cpu = {
    .name = "cpu",
    .allocate = allocate,
    .release = release,
    .linear_new = pc__linear_new,
    .keeps_quantised = pc__linear_keeps_quantised,
    .linear_join = pc__linear_join,
    .linear_free = pc__linear_free,
    .linear_bytes = pc__linear_bytes,
    .linear_run = pc__linear_run,
    .linear_run_all = pc__linear_run_all,
    .linear_run_jobs = pc__linear_run_jobs,
    .rms_norm = pc__rms_norm,
    .layer_norm = pc__layer_norm,
    .activate = pc__activate,
    .gate = pc__gate,
    .add = pc__add,
    .rotate = pc__rotate,
    .store_kv = pc__store_kv,
    .attend = pc__plan_attend,
};

const pc__backend *pc__cpu_backend(void)
{
    return &cpu;
}
