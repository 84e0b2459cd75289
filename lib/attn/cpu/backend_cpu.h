/* Operations of the CPU backend; contract: attn/backend.h. Its memory is the host's, so they cast
 * pc__floats to float. Work is spread over threads only where that pays. */
#ifndef PC_ATTN_CPU_BACKEND_CPU_H
#define PC_ATTN_CPU_BACKEND_CPU_H

#include "attn/backend.h"

static inline float *pc__cpu_floats(pc__floats *x)
{
    return (float *)x;
}

static inline const float *pc__cpu_values(const pc__floats *x)
{
    return (const float *)x;
}

/* Work items of a thread have about so many elements. */
enum { PC__THREAD_ELEMENTS = 1 << 14 };

/* backend_cpu_rows.c */
pc_status pc__cpu_table_new(pc__table **out, pc__backend *backend, size_t rows, size_t dim,
                            uint32_t dtype, const pc__weight_source *source);
pc_status pc__cpu_table_of(pc__table **out, pc__backend *backend, const pc__linear *linear);
void pc__cpu_table_free(pc__table *table);
size_t pc__cpu_table_bytes(const pc__table *table);
void pc__cpu_look_up(pc__stream *stream, const pc__table *table, const uint32_t *row, size_t rows,
                     int add, pc__floats *x);
void pc__cpu_gather(pc__stream *stream, const pc__floats *x, const uint32_t *row, size_t rows,
                    size_t dim, pc__floats *y);
void pc__cpu_neighbours(pc__stream *stream, const pc__row_range *ranges, size_t count, size_t taps,
                        size_t dim, const pc__floats *x, pc__floats *y);
/* Rotates k in place, as `rope` and `positions` say. */
void pc__cpu_rotate_keys(pc_context *context, const pc__kv_rows *rows);
void pc__cpu_store_kv(pc__stream *stream, const pc__kv_rows *rows);

/* backend_cpu_pointwise.c */
void pc__cpu_rms_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                      size_t dim, const pc__norm_weights *weights, pc__floats *y);
void pc__cpu_layer_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                        size_t dim, const pc__norm_weights *weights, pc__floats *y);
void pc__cpu_scale_rows(pc__stream *stream, const float *factors, size_t rows, size_t dim,
                        pc__floats *x);
void pc__cpu_pointwise(pc__stream *stream, pc__pointwise what, float a, pc__floats *x,
                       size_t count);
void pc__cpu_activate(pc__stream *stream, pc__activation activation, pc__floats *x, size_t count);
void pc__cpu_gate(pc__stream *stream, const pc__gating *gating, pc__floats *x, const pc__floats *up,
                  size_t count);
void pc__cpu_add(pc__stream *stream, pc__floats *x, const pc__floats *y, size_t count);

/* backend_cpu_heads.c */
pc_status pc__cpu_linear_heads(pc__stream *stream, pc__linear *const *linears, size_t heads,
                               size_t rows, const pc__head_rows *x, const pc__head_rows *y);
void pc__cpu_columns(pc__stream *stream, const pc__floats *x, size_t x_stride, size_t rows,
                     size_t width, pc__floats *y, size_t y_stride);

/* backend_cpu_latent.c */
void pc__cpu_open_latents(pc__stream *stream, const pc__latent_pages *pages);
void pc__cpu_fill_heads(pc__stream *stream, const pc__latent_pages *pages);

/* backend_cpu_experts.c */
size_t pc__cpu_experts_scratch(const pc__backend *backend, const pc__expert_config *config,
                               size_t hidden, size_t rows);
pc_status pc__cpu_experts(pc__stream *stream, const pc__expert_layer *layer, const pc__floats *x,
                          size_t rows, pc__floats *scratch, pc__floats *routes, pc__floats *y);

#endif
