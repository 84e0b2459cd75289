/* The CPU backend: its instance, its memory, and the operations that other files compute. Every
 * operation takes effect before it returns, so that a stream has nothing to wait for. */
#include "attn/cpu/backend_cpu.h"

#include <string.h>

#include "attn/cpu/linear.h"
#include "attn/disentangled_attention.h"
#include "base/work.h"

typedef struct cpu_backend {
    pc__backend base;
    pc__stream stream; /* for all: it has no state */
} cpu_backend;

static void free_backend(pc__backend *backend)
{
    pc_context *context = backend->context;
    pc__free(&context->mem, backend);
}

static void *take(pc__backend *backend, size_t bytes)
{
    return pc__work_take(backend->context, bytes);
}

static void give(pc__backend *backend, void *memory)
{
    pc__work_give(backend->context, memory);
}

static pc_status stream_new(pc__stream **out, pc__backend *backend)
{
    *out = &((cpu_backend *)backend)->stream;
    return PC_OK;
}

static void stream_free(pc__stream *stream)
{
    (void)stream;
}

static pc_status finish(pc__stream *stream)
{
    (void)stream;
    return PC_OK;
}

static void copy(pc__stream *stream, void *to, const void *from, size_t bytes)
{
    (void)stream;
    memcpy(to, from, bytes);
}

static void zero(pc__stream *stream, void *to, size_t bytes)
{
    (void)stream;
    memset(to, 0, bytes);
}

static int multiplies_bf16(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16");
#else
    return 0;
#endif
}

static uint32_t default_compute(const pc__backend *backend, uint32_t weights)
{
    (void)backend;
    return weights != PC_DTYPE_F32 && multiplies_bf16() ? PC_DTYPE_BF16 : PC_DTYPE_F32;
}

static pc_status linear_new(pc__linear **out, pc__backend *backend, size_t out_features,
                            size_t in_features, uint32_t compute, const pc__weight_source *source,
                            const float *bias)
{
    return pc__linear_new(out, backend->context, out_features, in_features, compute, source, bias);
}

static int keeps_quantised(const pc__backend *backend)
{
    (void)backend;
    return pc__linear_keeps_quantised();
}

static pc_status linear_join(pc__backend *backend, pc__linear *const *linears, size_t count,
                             void **block)
{
    return pc__linear_join(backend->context, linears, count, block);
}

static pc_status linear_run(pc__stream *stream, const pc__linear *const *linears, size_t count,
                            const pc__floats *x, size_t rows, pc__floats *const *y)
{
    float *to[PC__LINEARS_AT_ONCE];
    (void)stream;
    for (size_t i = 0; i < count; i++)
        to[i] = pc__cpu_floats(y[i]);
    return pc__linear_run_all(linears, count, pc__cpu_values(x), rows, to);
}

static pc_status attend(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                        const pc__floats *q, pc__floats *out, pc__floats *lse)
{
    (void)stream;
    return pc__plan_attend(plan, layer, pc__cpu_values(q), pc__cpu_floats(out),
                           pc__cpu_floats(lse));
}

static pc_status attention_map(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                               const pc__floats *q, size_t row, const pc__floats *lse, float *prob)
{
    (void)stream;
    return pc__plan_map(plan, layer, pc__cpu_values(q), row, pc__cpu_values(lse), prob);
}

static pc_status apply_maps(pc__stream *stream, const pc__map_lane *lanes, size_t count,
                            int32_t layer, pc__floats *out)
{
    return pc__map_apply(stream->context, lanes, count, layer, pc__cpu_floats(out));
}

static pc_status record_maps(pc__stream *stream, const pc__attn_layer *layer,
                             const pc__map_out *lanes, size_t count, const pc__floats *q,
                             const pc__floats *lse)
{
    return pc__record_maps(stream->context, layer, lanes, count, pc__cpu_values(q),
                           pc__cpu_values(lse));
}

static const pc__backend_ops cpu = {
    .name = "cpu",
    .free = free_backend,
    .take = take,
    .give = give,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .finish = finish,
    .copy = copy,
    .zero = zero,
    .default_compute = default_compute,
    .linear_new = linear_new,
    .keeps_quantised = keeps_quantised,
    .linear_join = linear_join,
    .linear_free = pc__linear_free,
    .linear_bytes = pc__linear_bytes,
    .linear_run = linear_run,
    .linear_heads = pc__cpu_linear_heads,
    .packs_panels = 1,
    .open_latents = pc__cpu_open_latents,
    .fill_heads = pc__cpu_fill_heads,
    .table_new = pc__cpu_table_new,
    .table_of = pc__cpu_table_of,
    .table_free = pc__cpu_table_free,
    .table_bytes = pc__cpu_table_bytes,
    .look_up = pc__cpu_look_up,
    .pointwise = pc__cpu_pointwise,
    .gather = pc__cpu_gather,
    .columns = pc__cpu_columns,
    .neighbours = pc__cpu_neighbours,
    .rms_norm = pc__cpu_rms_norm,
    .layer_norm = pc__cpu_layer_norm,
    .scale_rows = pc__cpu_scale_rows,
    .activate = pc__cpu_activate,
    .gate = pc__cpu_gate,
    .add = pc__cpu_add,
    .experts_scratch = pc__cpu_experts_scratch,
    .experts = pc__cpu_experts,
    .store_kv = pc__cpu_store_kv,
    .attend = attend,
    .attention_map = attention_map,
    .apply_maps = apply_maps,
    .record_maps = record_maps,
    .disentangled = pc__disentangled_attend,
};

pc_status pc__cpu_backend_new(pc__backend **out, pc_context *context)
{
    cpu_backend *b = pc__calloc(&context->mem, 1, sizeof *b);
    *out = NULL;
    if (!b)
        return PC_ERR_NOMEM;
    b->base = (pc__backend){.ops = &cpu,
                            .parts = PC__PART_ALL,
                            .context = context,
                            .limits = pc__cpu_plan_limits,
                            .traits = PC__HOST_SEES_MEMORY | PC__SAME_BITS,
                            .stream = &b->stream};
    b->stream = (pc__stream){&cpu, &b->base, context};
    *out = &b->base;
    return PC_OK;
}
