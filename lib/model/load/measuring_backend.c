/* Sizes are those of the CPU's panels (attn/kernels.h); test_load_info.c compares them with loaded
 * models. Operations that binding itself runs leave zeros. */
#include "model/load/measuring_backend.h"

#include <string.h>

#include "attn/kernels.h"

typedef struct measured {
    pc_context *context;
    size_t bytes, out;
} measured;

static pc_status new_measured(measured **out, pc__backend *backend, size_t bytes, size_t features)
{
    measured *m = *out = pc__alloc(&backend->context->mem, sizeof *m);
    if (!m)
        return PC_ERR_NOMEM;
    *m = (measured){backend->context, bytes, features};
    return PC_OK;
}

static void free_measured(measured *m)
{
    pc_context *context = m->context;
    pc__free(&context->mem, m);
}

/* Bytes of quantised panels. */
static size_t quantised_bytes(pc__measuring *m, size_t out, size_t in,
                              const pc__weight_source *source)
{
    size_t bytes = (out + PC__PANEL - 1) / PC__PANEL
                   * pc__quantised_panel_bytes(&source->format, in);
    m->quantised_bytes += bytes;
    return bytes;
}

static pc_status linear_new(pc__linear **out, pc__backend *backend, size_t out_features,
                            size_t in_features, uint32_t compute, const pc__weight_source *source,
                            const float *bias)
{
    pc__measuring *m = (pc__measuring *)backend;
    int halves = compute == PC_DTYPE_F32 && source->stored && pc__keeps_halves();
    size_t panels = (out_features + PC__PANEL - 1) / PC__PANEL,
           wide = compute != PC_DTYPE_F32 ? (in_features + 1) / 2 * 4
                  : halves                ? in_features * 2
                                          : in_features * 4;
    if (halves && !source->format.bits)
        m->halves |= 1u << source->stored;
    size_t bytes = source->format.bits ? quantised_bytes(m, out_features, in_features, source)
                                       : panels * PC__PANEL * wide;
    return new_measured((measured **)out, backend, bytes + (bias ? out_features * sizeof *bias : 0),
                        out_features);
}

static pc_status linear_join(pc__backend *backend, pc__linear *const *linears, size_t count,
                             void **block)
{
    (void)backend, (void)linears, (void)count;
    *block = NULL;
    return PC_OK;
}

static void linear_free(pc__linear *linear)
{
    free_measured((measured *)linear);
}

static size_t linear_bytes(const pc__linear *linear)
{
    return ((const measured *)linear)->bytes;
}

static void zero(pc__stream *stream, void *to, size_t bytes)
{
    (void)stream;
    memset(to, 0, bytes);
}

static pc_status linear_run(pc__stream *stream, const pc__linear *const *linears, size_t count,
                            const pc__floats *x, size_t rows, pc__floats *const *y)
{
    (void)x;
    for (size_t i = 0; i < count; i++)
        zero(stream, y[i], rows * ((const measured *)linears[i])->out * sizeof(float));
    return PC_OK;
}

static pc_status table_new(pc__table **out, pc__backend *backend, size_t rows, size_t dim,
                           uint32_t dtype, const pc__weight_source *source)
{
    size_t bytes = source->format.bits
                       ? quantised_bytes((pc__measuring *)backend, rows, dim, source)
                       : rows * dim * (dtype == PC_DTYPE_BF16 || source->stored ? 2 : 4);
    return new_measured((measured **)out, backend, bytes, dim);
}

static pc_status table_of(pc__table **out, pc__backend *backend, const pc__linear *linear)
{
    (void)linear;
    return new_measured((measured **)out, backend, 0, 0);
}

static void table_free(pc__table *table)
{
    free_measured((measured *)table);
}

static size_t table_bytes(const pc__table *table)
{
    return ((const measured *)table)->bytes;
}

static void *take(pc__backend *backend, size_t bytes)
{
    void *memory = pc__alloc_aligned(&backend->context->mem, bytes, 64);
    return memory ? memset(memory, 0, bytes) : NULL;
}

static void give(pc__backend *backend, void *memory)
{
    pc__free(&backend->context->mem, memory);
}

static pc_status stream_new(pc__stream **out, pc__backend *backend)
{
    *out = &((pc__measuring *)backend)->stream;
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

/* Of both kinds. */
static void norm(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                 size_t dim, const pc__norm_weights *weights, pc__floats *y)
{
    (void)x, (void)addend, (void)weights;
    zero(stream, y, rows * dim * sizeof(float));
}

static void free_nothing(pc__backend *backend)
{
    (void)backend;
}

pc_status pc__measuring_begin(pc__measuring *out, pc__backend *real)
{
    *out = (pc__measuring){0};
    out->ops = (pc__backend_ops){.name = real->ops->name,
                                 .free = free_nothing,
                                 .take = take,
                                 .give = give,
                                 .stream_new = stream_new,
                                 .stream_free = stream_free,
                                 .finish = finish,
                                 .copy = copy,
                                 .zero = zero,
                                 .linear_new = linear_new,
                                 .keeps_quantised = real->ops->keeps_quantised,
                                 .linear_join = linear_join,
                                 .linear_free = linear_free,
                                 .linear_bytes = linear_bytes,
                                 .linear_run = linear_run,
                                 .table_new = table_new,
                                 .table_of = real->ops->table_of ? table_of : NULL,
                                 .table_free = table_free,
                                 .table_bytes = table_bytes,
                                 .rms_norm = norm,
                                 .layer_norm = norm,
                                 .disentangled = real->ops->disentangled};
    out->base = (pc__backend){.ops = &out->ops,
                              .parts = real->parts,
                              .context = real->context,
                              .limits = real->limits,
                              .traits = PC__HOST_SEES_MEMORY | PC__SAME_BITS};
    out->stream = (pc__stream){&out->ops, &out->base, real->context};
    return pc__backend_begin(&out->base);
}

void pc__measuring_end(pc__measuring *measuring)
{
    pc__backend_end(&measuring->base);
}
