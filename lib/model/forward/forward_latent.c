/* Latent attention: queries, latents and results of a block (forward_latent.h). */
#include "model/forward/forward_latent.h"

#include "model/forward/forward_expand.h"

typedef struct latent_sizes {
    size_t heads, head, rank, q_rank, plain, rotated, k_dim, v_dim;
} latent_sizes;

static latent_sizes sizes_of(const pc__arch *arch)
{
    const pc__latent_config *l = &arch->latent;
    return (latent_sizes){(size_t)arch->heads,
                          (size_t)arch->head_dim,
                          (size_t)l->rank,
                          (size_t)l->q_rank,
                          (size_t)l->plain,
                          (size_t)l->rotated,
                          (size_t)l->rotated + (size_t)l->rank,
                          (size_t)arch->v_dim};
}

void pc__latent_lay_out(pc__forward_work *work, pc__floats *slab, size_t *used)
{
    latent_sizes s = sizes_of(&work->native->arch);
    size_t rows = work->capacity;
    work->latent.narrow_q = pc__floats_carve(slab, used, rows * s.q_rank);
    work->latent.q = pc__floats_carve(slab, used, rows * s.heads * s.head);
    work->latent.kv = pc__floats_carve(slab, used, rows * s.k_dim);
    work->latent.values = pc__floats_carve(slab, used, rows * s.heads * s.v_dim);
}

/* The norms of narrow queries and latents. */
static void norm_rows(const pc__forward_work *work, const pc__native_norm *norm, pc__floats *x)
{
    const pc__norm_weights weights = {norm->gain, NULL, norm->vectors,
                                      work->native->arch.latent.norm_eps};
    work->stream->ops->rms_norm(work->stream, x, NULL, work->rows, norm->dim, &weights, x);
}

/* latent.q: queries of all heads, [heads][plain, rotated]; latent.kv: [latent, rotated part]. */
static pc_status project(pc__forward_work *work, const pc__native_layer *weights)
{
    int narrow = weights->latent.q_a != NULL;
    const pc__linear *const all[] = {narrow ? weights->latent.q_a : weights->q,
                                     weights->latent.kv_a};
    pc__floats *const to[] = {narrow ? work->latent.narrow_q : work->latent.q, work->latent.kv};
    PC__TRY_RETURN(work->stream->ops->linear_run(work->stream, all, 2, work->h, work->rows, to));
    if (!narrow)
        return PC_OK;
    norm_rows(work, &weights->q_norm, work->latent.narrow_q);
    return pc__stream_linear(work->stream, weights->q, work->latent.narrow_q, work->rows,
                             work->latent.q);
}

/* v = latents; k = [rotated part, latent]. */
static pc_status split_latents(pc__forward_work *work, int32_t layer)
{
    const pc__backend_ops *ops = work->stream->ops;
    latent_sizes s = sizes_of(&work->native->arch);
    ops->columns(work->stream, work->latent.kv, s.k_dim, work->rows, s.rank, work->v, s.rank);
    PC__TRY_RETURN(pc__trace_rows(work, "latent_raw", layer, work->v, s.rank));
    norm_rows(work, &work->native->layers[layer].k_norm, work->v);
    PC__TRY_RETURN(pc__trace_rows(work, "latent", layer, work->v, s.rank));
    ops->columns(work->stream, pc__floats_at(work->latent.kv, s.rank), s.k_dim, work->rows,
                 s.rotated, work->k, s.k_dim);
    ops->columns(work->stream, work->v, s.rank, work->rows, s.rank,
                 pc__floats_at(work->k, s.rotated), s.k_dim);
    return PC_OK;
}

/* q of row `to_row` on = [rotated part, plain part times the key projection of its head] of rows of
 * the block. */
static pc_status absorb_queries(pc__forward_work *work, int32_t layer, pc__row_range rows,
                                size_t to_row)
{
    const pc__backend_ops *ops = work->stream->ops;
    latent_sizes s = sizes_of(&work->native->arch);
    pc__floats *q = pc__floats_at(work->q, to_row * s.heads * s.k_dim);
    const pc__head_rows from = {pc__floats_at(work->latent.q, rows.first * s.heads * s.head),
                                s.head, s.heads * s.head},
                        to = {pc__floats_at(q, s.rotated), s.k_dim, s.heads * s.k_dim};
    ops->columns(work->stream, pc__floats_at(from.at, s.plain), s.head, rows.count * s.heads,
                 s.rotated, q, s.k_dim);
    return ops->linear_heads(work->stream, work->native->layers[layer].latent.k_b, s.heads,
                             rows.count, &from, &to);
}

pc_status pc__latent_keys(pc__forward_work *work, int32_t layer)
{
    latent_sizes s = sizes_of(&work->native->arch);
    PC__TRY_RETURN(project(work, &work->native->layers[layer]));
    PC__TRY_RETURN(split_latents(work, layer));
    PC__TRY_RETURN(pc__trace_expanded(work, layer));
    work->stream->ops->store_kv(work->stream, &(pc__kv_rows){.runs = work->runs,
                                                             .slots = work->slots,
                                                             .layer = layer,
                                                             .rows = work->rows,
                                                             .k = work->k,
                                                             .k_stride = s.k_dim,
                                                             .rope = work->rope,
                                                             .positions = work->rope_positions});
    return PC_OK;
}

/* Values of rows of the block from results in the space of the latents, of row `from_row` on. */
static pc_status project_results(pc__forward_work *work, int32_t layer, pc__row_range rows,
                                 size_t from_row)
{
    latent_sizes s = sizes_of(&work->native->arch);
    const pc__head_rows from = {pc__floats_at(work->attended, from_row * s.heads * s.rank), s.rank,
                                s.heads * s.rank},
                        to = {pc__floats_at(work->latent.values, rows.first * s.heads * s.v_dim),
                              s.v_dim, s.heads * s.v_dim};
    return work->stream->ops->linear_heads(work->stream, work->native->layers[layer].latent.v_b,
                                           s.heads, rows.count, &from, &to);
}

/* Attention of absorbed queries to latents, `attended` of the rows one behind the other. */
static pc_status attend_latents(pc__forward_work *work, const pc__attn_layer *what)
{
    pc__stream *stream = work->stream;
    if (work->pass->skips_attention) {
        latent_sizes s = sizes_of(&work->native->arch);
        stream->ops->zero(stream, work->attended, work->rows * s.heads * s.rank * sizeof(float));
        return PC_OK;
    }
    PC__TRY_RETURN(
        stream->ops->attend(stream, work->plan, what, work->q, work->attended, work->lse));
    return pc__trace_maps(work, what);
}

pc_status pc__latent_attention(pc__forward_work *work, const pc__attn_layer *what)
{
    pc__row_range range;
    size_t rows = 0;
    for (size_t at = 0; (range = pc__expand_next(work, 0, &at)).count; rows += range.count)
        PC__TRY_RETURN(absorb_queries(work, what->layer, range, rows));
    if (rows)
        PC__TRY_RETURN(attend_latents(work, what));
    rows = 0;
    for (size_t at = 0; (range = pc__expand_next(work, 0, &at)).count; rows += range.count)
        PC__TRY_RETURN(project_results(work, what->layer, range, rows));
    return pc__expand_attend(work, what);
}

pc_status pc__latent_output(pc__forward_work *work, int32_t layer)
{
    return pc__stream_linear(work->stream, work->native->layers[layer].o, work->latent.values,
                             work->rows, work->y);
}
