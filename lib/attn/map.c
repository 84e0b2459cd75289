/* Packs attention maps, and multiplies them with values on all threads. */
#include "attn/map.h"

#include <string.h>

#include "attn/half.h"
#include "attn/kernels.h"
#include "base/fail.h"
#include "base/threads.h"

static size_t weights_per_head(const pc__map_shape *shape)
{
    return pc__map_row_at(shape, shape->tokens);
}

/* Where the scales of a U8 map begin, in bytes. */
static size_t scales_at(const pc__map_shape *shape)
{
    return ((size_t)shape->heads * weights_per_head(shape) + 3) & ~(size_t)3;
}

size_t pc__map_bytes(const pc__map_shape *shape)
{
    size_t heads = (size_t)shape->heads, each;
    if (shape->format > PC_MAP_U8 || shape->heads <= 0 || shape->tokens >= (size_t)1 << 24)
        return 0; /* so that a head has less than 2^48 weights */
    each = weights_per_head(shape) * pc__map_weight_bytes(shape->format) + 4 + shape->tokens * 4;
    if (each > SIZE_MAX / heads)
        return 0;
    if (shape->format != PC_MAP_U8)
        return heads * weights_per_head(shape) * pc__map_weight_bytes(shape->format);
    return scales_at(shape) + heads * shape->tokens * sizeof(float);
}

/* Offset of the scale of a row. */
static size_t scale_offset(const pc__map_shape *shape, size_t head, size_t row)
{
    return scales_at(shape) + (head * shape->tokens + row) * sizeof(float);
}

static float pack_bytes(const float *weights, size_t count, uint8_t *out)
{
    float most = 0.0f, steps;
    for (size_t i = 0; i < count; i++)
        most = weights[i] > most ? weights[i] : most;
    steps = most > 0.0f ? 255.0f / most : 0.0f;
    for (size_t i = 0; i < count; i++) {
        float x = weights[i] * steps + 0.5f;
        x = x > 0.0f ? x : 0.0f; /* NaN too */
        out[i] = (uint8_t)(x < 255.0f ? x : 255.0f);
    }
    return most / 255.0f;
}

void pc__map_pack_row(const pc__map_shape *shape, size_t head, size_t row, const float *weights,
                      void *out)
{
    size_t at = head * weights_per_head(shape) + pc__map_row_at(shape, row),
           count = pc__map_row_keys(shape, row);
    if (shape->format == PC_MAP_F32) {
        memcpy((float *)out + at, weights, count * sizeof *weights);
    } else if (shape->format == PC_MAP_F16) {
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)out)[at + i] = pc__half_from(weights[i]);
    } else {
        float scale = pack_bytes(weights, count, (uint8_t *)out + at);
        memcpy((uint8_t *)out + scale_offset(shape, head, row), &scale, sizeof scale);
    }
}

void pc__map_pack(const pc__map_shape *shape, const float *dense, void *out)
{
    if (shape->format == PC_MAP_U8 && shape->tokens) /* the padding between weights and scales */
        memset((uint8_t *)out + scales_at(shape) - 4, 0, 4);
    for (size_t head = 0; head < (size_t)shape->heads; head++)
        for (size_t row = 0; row < shape->tokens; row++, dense += shape->tokens)
            pc__map_pack_row(shape, head, row, dense, out);
}

/* Rows of a work item: of one head, or of several heads if maps are short. */
enum { ITEM_ROWS = 96 };

typedef struct map_application {
    const pc__map_lane *lanes;
    size_t count, *first; /* [count + 1] items before each lane */
    int32_t layer;
    float *out;
    const pc__kernels *kernels;
} map_application;

static size_t lane_blocks(const pc__map_lane *lane) /* of one head */
{
    return (lane->shape.tokens + ITEM_ROWS - 1) / ITEM_ROWS;
}

static size_t item_heads(const pc__map_lane *lane) /* of one item */
{
    return lane->shape.tokens && lane->shape.tokens < ITEM_ROWS ? ITEM_ROWS / lane->shape.tokens
                                                                : 1;
}

static pc__map_task map_task_of(const pc__map_lane *lane, int32_t layer, size_t head)
{
    const pc__map_shape *shape = &lane->shape;
    const pc__kv_shape *kv = &lane->kv->shape;
    size_t page = pc__kv_page_bytes(kv), kv_heads = (size_t)kv->kv_heads;
    return (pc__map_task){
        .format = shape->format,
        .causal = shape->causal,
        .tokens = shape->tokens,
        .weights = (const uint8_t *)lane->map
                   + head * weights_per_head(shape) * pc__map_weight_bytes(shape->format),
        .scale = shape->format == PC_MAP_U8
                     ? (const uint8_t *)lane->map + scale_offset(shape, head, 0)
                     : NULL,
        .values = lane->kv->layer[layer] + head / ((size_t)shape->heads / kv_heads) * page
                  + pc__kv_k_bytes(kv),
        .page_stride = kv_heads * page,
        .v_dim = (size_t)kv->v_dim,
    };
}

static void apply_block(const map_application *a, const pc__map_lane *lane, size_t head,
                        size_t block)
{
    pc__map_task task = map_task_of(lane, a->layer, head);
    size_t left;
    task.first = block * ITEM_ROWS;
    left = lane->shape.tokens - task.first;
    task.rows = left < ITEM_ROWS ? left : ITEM_ROWS;
    task.out_stride = (size_t)lane->shape.heads * task.v_dim;
    task.out = a->out + (lane->first_row + task.first) * task.out_stride + head * task.v_dim;
    pc__map_of(a->kernels, lane->kv->shape.dtype)(&task);
}

/* A work item: a block of rows of one head, long rows first, or all rows of several heads. */
static void apply_item(void *arg, size_t item)
{
    const map_application *a = arg;
    size_t lane = 0, last = a->count;
    while (last - lane > 1) {
        size_t middle = (lane + last) / 2;
        *(a->first[middle] <= item ? &lane : &last) = middle;
    }
    const pc__map_lane *l = &a->lanes[lane];
    size_t blocks = lane_blocks(l), each = item_heads(l), head, end;
    item -= a->first[lane];
    head = item / blocks * each;
    end = head + each < (size_t)l->shape.heads ? head + each : (size_t)l->shape.heads;
    for (; head < end; head++)
        apply_block(a, l, head, blocks - 1 - item % blocks);
}

pc_status pc__check_map_lanes(const pc__map_lane *lanes, size_t count, int32_t layer)
{
    for (size_t i = 0; i < count; i++) {
        const pc__map_shape *shape = &lanes[i].shape;
        const pc__kv *kv = lanes[i].kv;
        if (!pc__map_bytes(shape) && shape->tokens)
            return pc__fail(PC_ERR_MISMATCH, "map of lane %zu: format %u, %d heads, %zu tokens", i,
                            shape->format, shape->heads, shape->tokens);
        if (shape->heads % kv->shape.kv_heads || shape->tokens > kv->tokens || layer < 0
            || layer >= kv->shape.layers)
            return pc__fail(PC_ERR_MISMATCH,
                            "map of lane %zu: %d heads, %zu tokens, layer %d; its run has %d K/V "
                            "heads, %zu tokens, %d layers",
                            i, shape->heads, shape->tokens, layer, kv->shape.kv_heads, kv->tokens,
                            kv->shape.layers);
        if (shape->heads != lanes[0].shape.heads || kv->shape.v_dim != lanes[0].kv->shape.v_dim)
            return pc__fail(
                PC_ERR_MISMATCH, "map of lane %zu: %d heads of %d values, of lane 0 %d of %d", i,
                shape->heads, kv->shape.v_dim, lanes[0].shape.heads, lanes[0].kv->shape.v_dim);
        if (kv->shape.dtype == PC_DTYPE_I8)
            return pc__fail(PC_ERR_UNSUPPORTED, "map of lane %zu: its run is in int8", i);
    }
    return PC_OK;
}

void pc__map_apply_plain(const float *weights, size_t tokens, size_t first, size_t rows,
                         const float *values, size_t v_dim, float *out, size_t out_stride)
{
    /* values in fp32 lie in a page as in a plain matrix */
    pc__map_task task = {.format = PC_MAP_F32,
                         .tokens = tokens,
                         .weights = weights,
                         .first = first,
                         .rows = rows,
                         .values = (const uint8_t *)values,
                         .page_stride = PC__PAGE * v_dim * sizeof *values,
                         .v_dim = v_dim,
                         .out = out,
                         .out_stride = out_stride};
    pc__map_of(pc__kernels_get(), PC_DTYPE_F32)(&task);
}

pc_status pc__map_apply(pc_context *context, const pc__map_lane *lanes, size_t count, int32_t layer,
                        float *out)
{
    map_application a = {
        .lanes = lanes, .count = count, .layer = layer, .out = out, .kernels = pc__kernels_get()};
    PC__TRY_RETURN(pc__check_map_lanes(lanes, count, layer));
    if (!count)
        return PC_OK;
    a.first = pc__calloc(&context->mem, count + 1, sizeof *a.first);
    if (!a.first)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        a.first[i + 1] = a.first[i]
                         + lane_blocks(&lanes[i])
                               * (((size_t)lanes[i].shape.heads + item_heads(&lanes[i]) - 1)
                                  / item_heads(&lanes[i]));
    pc__parallel(context, a.first[count], apply_item, &a);
    pc__free(&context->mem, a.first);
    return PC_OK;
}
