/* The attention sublayer: projects queries, keys and values, rotates keys relative to their run and
 * stores them, attends by the plan, projects the result. Also computes the keys of runs whose maps
 * were given, afterwards. */
#include "attn/disentangled_attention.h"
#include "model/forward/forward_latent.h"
#include "model/forward/forward_maps.h"

/* MPT's clip_qkv */
static void clip_values(const pc__forward_work *work, pc__floats *x, size_t count)
{
    float limit = work->native->arch.qkv_clip;
    if (limit > 0)
        work->stream->ops->pointwise(work->stream, PC__CLIP, limit, x, count);
}

/* Norms the heads of queries or keys, x of `rows` rows, `width` floats each. */
static void norm_heads(const pc__forward_work *work, int32_t layer, const pc__native_norm *norm,
                       pc__floats *x, size_t rows, size_t width)
{
    const pc__arch *arch = &work->native->arch;
    if (norm->gain && !(arch->qk_norm == PC__QK_PLAIN && pc__layer_in(&arch->unrotated, layer)))
        pc__apply_norm(work, norm, x, rows * width / norm->dim, x);
}

static void scale_queries(const pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                          pc__floats *q, size_t width)
{
    const pc__arch *arch = &work->native->arch;
    if (arch->query_scale.scale != 0
        && (!arch->query_scale.unrotated_only || pc__layer_in(&arch->unrotated, layer)))
        work->stream->ops->scale_rows(work->stream, work->query_factors + first, rows, width, q);
}

pc_status pc__attention_project(pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                                int values_only)
{
    const pc__native *native = work->native;
    const pc__native_layer *weights = &native->layers[layer];
    size_t q = (size_t)native->arch.heads * (size_t)native->shape.k_dim,
           k = (size_t)native->shape.kv_heads * (size_t)native->shape.k_dim,
           v = (size_t)native->shape.kv_heads * (size_t)native->shape.v_dim;
    const pc__linear *const all[] = {weights->v, weights->q, weights->k};
    pc__floats *const to[] = {pc__floats_at(work->v, first * v), pc__floats_at(work->q, first * q),
                              pc__floats_at(work->k, first * k)};
    const size_t width[] = {v, q, k};
    size_t count = values_only ? 1 : 3;
    PC__TRY_RETURN(work->stream->ops->linear_run(
        work->stream, all, count, pc__floats_at(work->h, first * (size_t)native->arch.hidden), rows,
        to));
    for (size_t i = 0; i < count; i++)
        clip_values(work, to[i], rows * width[i]);
    if (values_only)
        return PC_OK;
    norm_heads(work, layer, &weights->q_norm, to[1], rows, q);
    norm_heads(work, layer, &weights->k_norm, to[2], rows, k);
    scale_queries(work, layer, first, rows, to[1], q);
    return PC_OK;
}

/* Writes keys, which are rotated, and values into the runs. k, v: of row `first`, or NULL. */
static void store_rows(const pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                       pc__floats *k, const pc__floats *v)
{
    const pc__kv_shape *shape = &work->native->shape;
    const pc__kv_rows stored = {.runs = work->runs + first,
                                .slots = work->slots + first,
                                .layer = layer,
                                .rows = rows,
                                .k = k,
                                .v = v,
                                .k_stride = (size_t)shape->kv_heads * (size_t)shape->k_dim,
                                .v_stride = (size_t)shape->kv_heads * (size_t)shape->v_dim,
                                .rope = pc__native_layer_rope(work->native, layer, work->rope),
                                .positions = work->rope_positions + first};
    work->stream->ops->store_kv(work->stream, &stored);
}

void pc__attention_store(pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                         int values_only)
{
    const pc__kv_shape *shape = &work->native->shape;
    size_t at = first * (size_t)shape->kv_heads;
    store_rows(work, layer, first, rows,
               values_only ? NULL : pc__floats_at(work->k, at * (size_t)shape->k_dim),
               pc__floats_at(work->v, at * (size_t)shape->v_dim));
}

pc__attn_layer pc__attention_layer(const pc__forward_work *work, int32_t layer)
{
    const pc__arch *arch = &work->native->arch;
    pc__attn_layer out = {0};
    out.layer = layer;
    out.heads = arch->heads;
    out.window = pc__layer_in(&arch->windowed, layer) ? arch->window : 0;
    out.chunk = pc__layer_in(&arch->chunked, layer) ? arch->chunk : 0;
    out.scale = work->native->scale / (float)(arch->scale_by_layer ? layer + 1 : 1);
    out.soft_cap = arch->attention_cap;
    out.slopes = work->native->slopes;
    out.sinks = work->native->layers[layer].sinks;
    out.rope = pc__native_layer_rope(work->native, layer, work->rope);
    return out;
}

pc_status pc__attention_keys(pc__forward_work *work, int32_t layer)
{
    if (work->native->shape.latent)
        return pc__latent_keys(work, layer);
    PC__TRY_RETURN(pc__attention_project(work, layer, 0, work->rows, 0));
    PC__TRY_RETURN(pc__trace_keys(work, layer));
    pc__attention_store(work, layer, 0, work->rows, 0);
    return PC_OK;
}

/* Lanes whose maps are given are left out; maps: [lane][head][row][key] for a trace, or NULL. */
static pc_status run_disentangled(pc__forward_work *work, int32_t layer, const uint8_t *left_out,
                                  float *maps)
{
    const pc__disentangled_rows rows = {.layer = layer,
                                        .scale = work->native->scale,
                                        .count = work->rows,
                                        .positions = work->rope_positions,
                                        .lanes = work->lanes,
                                        .left_out = left_out,
                                        .lane_count = work->lane_count,
                                        .q = work->q,
                                        .k = work->k,
                                        .v = work->v,
                                        .out = work->attended,
                                        .maps = maps};
    return work->stream->ops->disentangled(work->stream, work->native->encoder.relative, &rows);
}

/* Passes the maps of the block's lanes on. */
static void show_maps(const pc__forward_work *work, int32_t layer, const float *maps)
{
    for (size_t i = 0; i < work->lane_count; i++) {
        size_t tokens = work->lanes[i].count, lane = work->first_lane + i;
        if (work->pass->trace && !pc__forward_maps_given(work, lane))
            pc__trace_map(work, layer, lane, tokens, maps);
        pc__forward_maps_record(work, lane, layer, maps);
        maps += (size_t)work->native->arch.heads * tokens * tokens;
    }
}

pc_status pc__attention_disentangled(pc__forward_work *work, int32_t layer, const uint8_t *left_out)
{
    const pc_allocator *mem = &work->native->context->mem;
    size_t keys = 0;
    float *maps = NULL;
    pc_status status;
    for (size_t i = 0; i < work->lane_count; i++)
        keys += work->lanes[i].count * work->lanes[i].count;
    if ((work->pass->trace || pc__forward_maps_recorded(work, layer))
        && !(maps = pc__calloc(mem, keys, (size_t)work->native->arch.heads * sizeof *maps)))
        return PC_ERR_NOMEM;
    status = run_disentangled(work, layer, left_out, maps);
    if (status >= 0 && maps)
        show_maps(work, layer, maps);
    pc__free(mem, maps);
    return status;
}

/* Computes `attended` as the pass and the model ask for. */
static pc_status attend_layer(pc__forward_work *work, const pc__attn_layer *what)
{
    pc__stream *stream = work->stream;
    if (work->pass->maps)
        return pc__forward_maps_attend(work, what);
    PC__TRY_RETURN(pc__attention_keys(work, what->layer));
    if (work->native->shape.latent)
        return pc__latent_attention(work, what);
    if (work->pass->skips_attention) {
        stream->ops->zero(stream, work->attended,
                          work->rows * (size_t)what->heads * (size_t)work->native->shape.v_dim
                              * sizeof(float));
        return PC_OK;
    }
    if (work->native->encoder.relative)
        return pc__attention_disentangled(work, what->layer, NULL);
    PC__TRY_RETURN(
        stream->ops->attend(stream, work->plan, what, work->q, work->attended, work->lse));
    return pc__trace_maps(work, what);
}

pc_status pc__attention_sublayer(pc__forward_work *work, int32_t layer)
{
    pc__attn_layer what = pc__attention_layer(work, layer);
    PC__TRY_RETURN(attend_layer(work, &what));
    if (work->native->shape.latent)
        return pc__latent_output(work, layer);
    return pc__stream_linear(work->stream, work->native->layers[layer].o, work->attended,
                             work->rows, work->y);
}

static pc_status complete_layer(pc__forward_work *work, int32_t layer, const float *inputs)
{
    const pc__native *native = work->native;
    size_t width = (size_t)native->shape.kv_heads * (size_t)native->shape.k_dim,
           count = work->rows * (size_t)native->arch.hidden;
    const pc__floats *x = pc__stream_input(work->stream, inputs, count);
    pc_status status = x ? pc__stream_linear(work->stream, native->layers[layer].k, x, work->rows,
                                             work->k)
                         : PC_ERR_NOMEM,
              finished;
    if (status >= 0) {
        clip_values(work, work->k, work->rows * width);
        norm_heads(work, layer, &native->layers[layer].k_norm, work->k, work->rows, width);
        store_rows(work, layer, 0, work->rows, work->k, NULL);
    }
    finished = work->stream->ops->finish(work->stream);
    pc__stream_input_end(work->stream, x, inputs);
    return status < 0 ? status : finished;
}

pc_status pc__complete_keys(const pc_model *model, pc__kv *run, const float *inputs,
                            const uint8_t *missing)
{
    const pc__native *native = model->native;
    pc__forward_work work = {.native = native, .rows = run->tokens, .capacity = run->tokens};
    size_t each = run->tokens * (size_t)native->arch.hidden;
    pc_status status;
    if (!run->values_only || !run->tokens)
        return PC_OK;
    PC__TRY(pc__reserve_work(&work, run->tokens * (size_t)native->shape.kv_heads
                                        * (size_t)native->shape.k_dim),
            done);
    work.k = work.slab;
    for (size_t t = 0; t < run->tokens; t++) {
        work.runs[t] = run;
        work.slots[t] = t;
        work.rope_positions[t] = pc__kv_relative(run, t);
    }
    PC__TRY(pc__native_rope(native, run->rope_regime, &work.rope, &work.own_rope), done);
    for (int32_t l = 0; l < native->arch.layers; l++)
        if (!missing || missing[l])
            PC__TRY(complete_layer(&work, l, inputs + (size_t)l * each), done);
    run->values_only = 0;
done:
    pc__release_work(&work);
    return status;
}
