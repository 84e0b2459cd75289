/* Passes intermediate results of a pass to its trace function, lane by lane. Works on copies only,
 * so a traced pass computes the same. */
#include <string.h>

#include "model/forward/heads.h"
#include "model/forward/forward_maps.h"

static void emit_trace(const pc__pass *pass, const char *name, int32_t layer, size_t lane,
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

void pc__trace_rows(const pc__forward_work *work, const char *name, int32_t layer,
                    const float *rows)
{
    const pc__pass *pass = work->pass;
    size_t hidden = (size_t)work->native->arch.hidden, first, count;
    for (size_t lane = 0; pass->trace && lane < pc__lane_count(pass); lane++) {
        pc__lane_rows(pass, lane, &first, &count);
        int64_t shape[2] = {(int64_t)count, (int64_t)hidden};
        if (count)
            emit_trace(pass, name, layer, lane, shape, 2, rows + first * hidden);
    }
}

/* Rows of K or V to [kv_head][token][dim]. */
static void by_head(const float *rows, size_t count, size_t heads, size_t dim, float *out)
{
    for (size_t h = 0; h < heads; h++)
        for (size_t t = 0; t < count; t++)
            memcpy(out + (h * count + t) * dim, rows + (t * heads + h) * dim, dim * sizeof *out);
}

/* Traced keys are rotated by their absolute position, whatever their run is. */
static void rotate_keys(const pc__forward_work *work, size_t first, size_t count, float *keys,
                        float *cosine)
{
    const pc__kv_shape *shape = &work->native->shape;
    size_t dim = (size_t)shape->k_dim;
    float *sine = cosine + dim;
    for (size_t t = 0; work->rope && t < count; t++) {
        pc__rope_angles(work->rope, work->pass->rows[first + t].position, cosine, sine);
        pc__rope_rotate(work->rope, cosine, sine, keys + t * dim, (size_t)shape->kv_heads,
                        count * dim);
    }
}

pc_status pc__trace_keys(const pc__forward_work *work, int32_t layer)
{
    const pc__pass *pass = work->pass;
    const pc_allocator *mem = &work->native->context->mem;
    const pc__kv_shape *shape = &work->native->shape;
    size_t heads = (size_t)shape->kv_heads, k_dim = (size_t)shape->k_dim,
           v_dim = (size_t)shape->v_dim, first, count;
    float *copy;
    if (!pass->trace)
        return PC_OK;
    copy = pc__calloc(mem, work->rows * heads * (k_dim + v_dim) + 2 * k_dim, sizeof *copy);
    if (!copy)
        return PC_ERR_NOMEM;
    for (size_t lane = 0; lane < pc__lane_count(pass); lane++) {
        pc__lane_rows(pass, lane, &first, &count);
        int64_t k_shape[3] = {(int64_t)heads, (int64_t)count, (int64_t)k_dim};
        int64_t v_shape[3] = {(int64_t)heads, (int64_t)count, (int64_t)v_dim};
        float *keys = copy + 2 * k_dim, *values = keys + count * heads * k_dim;
        if (!count)
            continue;
        if (!pc__forward_maps_given(work, lane))
            by_head(work->k + first * heads * k_dim, count, heads, k_dim, keys);
        by_head(work->v + first * heads * v_dim, count, heads, v_dim, values);
        if (!pc__forward_maps_given(work, lane)) {
            emit_trace(pass, "k_pre", layer, lane, k_shape, 3, keys);
            rotate_keys(work, first, count, keys, copy);
            emit_trace(pass, "k", layer, lane, k_shape, 3, keys);
        }
        emit_trace(pass, "v", layer, lane, v_shape, 3, values);
    }
    pc__free(mem, copy);
    return PC_OK;
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
        PC__TRY_RETURN(pc__plan_map(work->plan, layer, work->q, first + t, work->lse, row_map));
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
            emit_trace(pass, "probs", layer->layer, lane, shape, 3, map);
        pc__free(mem, map);
    }
    return status;
}

pc_status pc__trace_routes(const pc__forward_work *work, int32_t layer)
{
    const pc__pass *pass = work->pass;
    const pc_allocator *mem = &work->native->context->mem;
    const pc__expert_config *experts = &work->native->arch.experts;
    size_t all = (size_t)experts->count, used = (size_t)experts->used, first, count;
    float *numbers;
    if (!pass->trace)
        return PC_OK;
    numbers = pc__calloc(mem, work->rows * used, sizeof *numbers);
    if (!numbers)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < work->rows * used; i++)
        numbers[i] = (float)work->routes.chosen[i];
    for (size_t lane = 0; lane < pc__lane_count(pass); lane++) {
        pc__lane_rows(pass, lane, &first, &count);
        int64_t shape[2] = {(int64_t)count, experts->count};
        if (!count)
            continue;
        emit_trace(pass, "router_logits", layer, lane, shape, 2, work->routes.logits + first * all);
        shape[1] = experts->used;
        emit_trace(pass, "router_topk_idx", layer, lane, shape, 2, numbers + first * used);
        emit_trace(pass, "router_topk_weight", layer, lane, shape, 2,
                   work->routes.weight + first * used);
    }
    pc__free(mem, numbers);
    return PC_OK;
}

void pc__trace_map(const pc__forward_work *work, int32_t layer, size_t lane, size_t tokens,
                   const float *map)
{
    int64_t shape[3] = {work->native->arch.heads, (int64_t)tokens, (int64_t)tokens};
    emit_trace(work->pass, "probs", layer, lane, shape, 3, map);
}

pc_status pc__trace_heads(const pc__forward_work *work)
{
    const pc__native *native = work->native;
    const pc__pass *pass = work->pass;
    size_t hidden = (size_t)native->arch.hidden, first, count;
    int64_t width = native->arch.hidden, classes = (int64_t)native->encoder.classes;
    float *pooled;
    pc_status status = PC_OK;
    if (!pass->trace || !native->encoder.pool)
        return PC_OK;
    pooled = pc__calloc(&native->context->mem, hidden + native->encoder.classes, sizeof *pooled);
    if (!pooled)
        return PC_ERR_NOMEM;
    for (size_t lane = 0; lane < pc__lane_count(pass); lane++) {
        pc__lane_rows(pass, lane, &first, &count);
        if (!count)
            continue;
        PC__TRY(pc__head_pooled(native, work->x + first * hidden, 1, pooled), done);
        emit_trace(pass, "pooled", 0, lane, &width, 1, pooled);
        if (!classes)
            continue;
        PC__TRY(pc__head_logits(native, pooled, 1, pooled + hidden), done);
        emit_trace(pass, "logits", 0, lane, &classes, 1, pooled + hidden);
    }
done:
    pc__free(&native->context->mem, pooled);
    return status;
}
