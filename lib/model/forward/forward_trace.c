/* Passes intermediate results of a pass to its trace function, lane by lane. Works on copies only,
 * so a traced pass computes the same. */
#include <string.h>

#include "model/forward/heads.h"
#include "model/forward/forward_maps.h"

void pc__emit_trace(const pc__pass *pass, const char *name, int32_t layer, size_t lane,
                    const int64_t *shape, uint32_t rank, const float *data)
{
    pc_trace trace = {0};
    trace.struct_size = sizeof trace;
    trace.name = name;
    trace.layer = layer;
    trace.lane = (uint32_t)lane;
    trace.rank = rank;
    memcpy(trace.shape, shape, rank * sizeof *shape);
    trace.data = data;
    pass->trace(pass->trace_user, &trace);
}

/* Values of all rows of the block for the host. *own: to free. */
static const float *show_rows(const pc__forward_work *work, const pc__floats *rows, size_t dim,
                              void **own)
{
    return pc__stream_show(work->stream, rows, work->rows * dim, own);
}

pc_status pc__trace_rows(const pc__forward_work *work, const char *name, int32_t layer,
                         const pc__floats *rows, size_t width)
{
    const pc__pass *pass = work->pass;
    size_t first, count;
    const float *shown;
    void *own;
    if (!pass->trace)
        return PC_OK;
    if (!(shown = show_rows(work, rows, width, &own)))
        return PC_ERR_NOMEM;
    for (size_t lane = 0; lane < pc__lane_count(pass); lane++) {
        pc__lane_rows(pass, lane, &first, &count);
        int64_t shape[2] = {(int64_t)count, (int64_t)width};
        if (count)
            pc__emit_trace(pass, name, layer, lane, shape, 2, shown + first * width);
    }
    pc__free(&work->native->context->mem, own);
    return PC_OK;
}

/* Rows of K or V to [kv_head][token][dim]. */
static void by_head(const float *from, size_t count, size_t heads, size_t dim, float *out)
{
    for (size_t h = 0; h < heads; h++)
        for (size_t t = 0; t < count; t++)
            memcpy(out + (h * count + t) * dim, from + (t * heads + h) * dim, dim * sizeof *out);
}

/* Traced keys are rotated by their absolute position, whatever their run is. */
static void rotate_keys(const pc__forward_work *work, const pc__rotation *rope, size_t first,
                        size_t count, float *keys, float *cosine)
{
    const pc__kv_shape *shape = &work->native->shape;
    size_t dim = (size_t)shape->k_dim;
    float *sine = cosine + dim;
    for (size_t t = 0; rope && t < count; t++) {
        pc__rope_angles(rope, work->pass->rows[first + t].position, cosine, sine);
        pc__rope_rotate(rope, cosine, sine, keys + t * dim, (size_t)shape->kv_heads, count * dim);
    }
}

/* K before and after rotation, unless its map was given, and V of one lane. */
static void trace_lane_keys(const pc__forward_work *work, int32_t layer, size_t lane,
                            const float *k, const float *v, float *scratch)
{
    const pc__pass *pass = work->pass;
    const pc__kv_shape *shape = &work->native->shape;
    size_t heads = (size_t)shape->kv_heads, k_dim = (size_t)shape->k_dim,
           v_dim = (size_t)shape->v_dim, first, count;
    pc__lane_rows(pass, lane, &first, &count);
    int64_t k_shape[3] = {(int64_t)heads, (int64_t)count, (int64_t)k_dim};
    int64_t v_shape[3] = {(int64_t)heads, (int64_t)count, (int64_t)v_dim};
    float *keys = scratch + 2 * k_dim, *values = keys + count * heads * k_dim;
    if (!count)
        return;
    if (!pc__forward_maps_given(work, lane)) {
        by_head(k + first * heads * k_dim, count, heads, k_dim, keys);
        pc__emit_trace(pass, "k_pre", layer, lane, k_shape, 3, keys);
        rotate_keys(work, pc__native_layer_rope(work->native, layer, work->rope), first, count,
                    keys, scratch);
        pc__emit_trace(pass, "k", layer, lane, k_shape, 3, keys);
    }
    by_head(v + first * heads * v_dim, count, heads, v_dim, values);
    pc__emit_trace(pass, "v", layer, lane, v_shape, 3, values);
}

pc_status pc__trace_keys(const pc__forward_work *work, int32_t layer)
{
    const pc_allocator *mem = &work->native->context->mem;
    const pc__kv_shape *shape = &work->native->shape;
    size_t heads = (size_t)shape->kv_heads, k_dim = (size_t)shape->k_dim,
           v_dim = (size_t)shape->v_dim;
    void *own_k = NULL, *own_v = NULL;
    if (!work->pass->trace)
        return PC_OK;
    float *scratch = pc__calloc(mem, work->rows * heads * (k_dim + v_dim) + 2 * k_dim,
                                sizeof *scratch);
    const float *k = scratch ? show_rows(work, work->k, heads * k_dim, &own_k) : NULL,
                *v = k ? show_rows(work, work->v, heads * v_dim, &own_v) : NULL;
    for (size_t lane = 0; v && lane < pc__lane_count(work->pass); lane++)
        trace_lane_keys(work, layer, lane, k, v, scratch);
    pc__free(mem, own_k);
    pc__free(mem, own_v);
    pc__free(mem, scratch);
    return v ? PC_OK : PC_ERR_NOMEM;
}

/* Number of keys in the spans of a row, visible or not. */
static size_t keys_of(const pc__rows *rows, size_t row)
{
    size_t keys = 0;
    for (size_t i = rows->first[row]; i < rows->first[row + 1]; i++)
        keys += rows->spans[i].kv->tokens;
    return keys;
}

/* The maps of one lane: [head][query][key]. row_map is scratch for one row. */
static pc_status lane_map(const pc__forward_work *work, const pc__attn_layer *layer, size_t first,
                          size_t count, size_t keys, float *map, float *row_map)
{
    size_t heads = (size_t)layer->heads;
    for (size_t t = 0; t < count; t++) {
        if (keys_of(&work->pass->attend, first + t) != keys)
            return pc__fail(PC_ERR_INVALID,
                            "a trace of attention maps needs the same spans in every row of a lane "
                            "(row %zu differs)",
                            first + t);
        PC__TRY_RETURN(work->stream->ops->attention_map(work->stream, work->plan, layer, work->q,
                                                        first + t, work->lse, row_map));
        PC__TRY_RETURN(work->stream->ops->finish(work->stream));
        for (size_t h = 0; h < heads; h++)
            memcpy(map + (h * count + t) * keys, row_map + h * keys, keys * sizeof *map);
    }
    return PC_OK;
}

pc_status pc__trace_maps(const pc__forward_work *work, const pc__attn_layer *layer)
{
    const pc__pass *pass = work->pass;
    const pc_allocator *mem = &work->native->context->mem;
    size_t heads = (size_t)layer->heads, first, count;
    pc_status status = PC_OK;
    for (size_t lane = 0; pass->trace && lane < pc__lane_count(pass) && status >= 0; lane++) {
        pc__lane_rows(pass, lane, &first, &count);
        if (!count || pc__forward_maps_given(work, lane))
            continue;
        size_t keys = keys_of(&pass->attend, first);
        int64_t shape[3] = {(int64_t)heads, (int64_t)count, (int64_t)keys};
        float *map = pc__calloc(mem, heads * (count + 1) * keys + 1, sizeof *map);
        if (!map)
            return PC_ERR_NOMEM;
        status = lane_map(work, layer, first, count, keys, map, map + heads * count * keys);
        if (status >= 0)
            pc__emit_trace(pass, "probs", layer->layer, lane, shape, 3, map);
        pc__free(mem, map);
    }
    return status;
}

pc_status pc__trace_routes(const pc__forward_work *work, int32_t layer)
{
    const pc__pass *pass = work->pass;
    const pc__expert_config *experts = &work->native->arch.experts;
    size_t all = (size_t)experts->count, used = (size_t)experts->used, first, count;
    const float *logits, *numbers, *weights;
    void *own;
    if (!pass->trace)
        return PC_OK;
    if (!(logits = show_rows(work, work->routes, all + 2 * used, &own)))
        return PC_ERR_NOMEM;
    numbers = logits + work->rows * all;
    weights = numbers + work->rows * used;
    for (size_t lane = 0; lane < pc__lane_count(pass); lane++) {
        pc__lane_rows(pass, lane, &first, &count);
        int64_t shape[2] = {(int64_t)count, experts->count};
        if (!count)
            continue;
        pc__emit_trace(pass, "router_logits", layer, lane, shape, 2, logits + first * all);
        shape[1] = experts->used;
        pc__emit_trace(pass, "router_topk_idx", layer, lane, shape, 2, numbers + first * used);
        pc__emit_trace(pass, "router_topk_weight", layer, lane, shape, 2, weights + first * used);
    }
    pc__free(&work->native->context->mem, own);
    return PC_OK;
}

void pc__trace_map(const pc__forward_work *work, int32_t layer, size_t lane, size_t tokens,
                   const float *map)
{
    int64_t shape[3] = {work->native->arch.heads, (int64_t)tokens, (int64_t)tokens};
    pc__emit_trace(work->pass, "probs", layer, lane, shape, 3, map);
}

pc_status pc__trace_heads(pc__forward_work *work)
{
    const pc__native *native = work->native;
    const pc__pass *pass = work->pass;
    size_t hidden = (size_t)native->arch.hidden, first, count;
    int64_t width = native->arch.hidden, classes = (int64_t)native->encoder.classes;
    void *own = NULL;
    pc_status status = PC_ERR_NOMEM;
    if (!pass->trace || !native->encoder.pool)
        return PC_OK;
    float *pooled = pc__calloc(&native->context->mem, hidden + native->encoder.classes,
                               sizeof *pooled);
    const float *x = pooled ? show_rows(work, pc__residual_x(work), hidden, &own) : NULL;
    if (!x)
        goto done;
    status = PC_OK;
    for (size_t lane = 0; lane < pc__lane_count(pass); lane++) {
        pc__lane_rows(pass, lane, &first, &count);
        if (!count)
            continue;
        PC__TRY(pc__head_pooled(native, x + first * hidden, 1, pooled), done);
        pc__emit_trace(pass, "pooled", 0, lane, &width, 1, pooled);
        if (!classes)
            continue;
        PC__TRY(pc__head_logits(native, pooled, 1, pooled + hidden), done);
        pc__emit_trace(pass, "logits", 0, lane, &classes, 1, pooled + hidden);
    }
done:
    pc__free(&native->context->mem, own);
    pc__free(&native->context->mem, pooled);
    return status;
}
