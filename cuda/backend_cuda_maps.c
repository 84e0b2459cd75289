/* Launches maps times values, and the recording of maps. Lanes of one format and shape share a
 * launch; maps and tables lie in scratch memory of the stream. */
#include <string.h>

#include "cuda/backend_cuda_angles.h"
#include "cuda/backend_cuda_attend.h"
#include "cuda/backend_cuda_dense.h"
#include "cuda/backend_cuda_plan.h"
#include "cuda/device_tables.h"
#include "cuda/kernels/maps.h"

_Static_assert((int)PC__CUDA_KV_PAGE == PC__PAGE, "pages differ");

/* A lane in either direction. */
typedef struct map_lane {
    pc__map_shape shape;
    const pc__kv *kv;
    size_t first_row;
    int64_t start;           /* to record */
    const int64_t *distance; /* to record */
    size_t map_at;           /* in `maps` */
    size_t pages_at, relative_at, seen_at, distance_at;
    int launched;
} map_lane;

typedef struct device_maps {
    pc__cuda_backend *backend;
    pc__stream *base;
    pc__cuda_stream *stream; /* of `base` */
    map_lane *lanes;
    size_t count;
    const pc__attn_layer *layer; /* to record; else only its number counts */
    int records;
    pc__cuda_tables tables;
    size_t lanes_at, blocks_at;
    size_t slopes_at; /* to record */
    void *memory, *maps, *rotated;
    size_t map_bytes;
} device_maps;

static const pc__kv_device *device_of(const pc__kv *kv)
{
    return atomic_load_explicit(&((pc__kv *)(uintptr_t)kv)->device, memory_order_acquire);
}

static uint32_t blocks_of(const map_lane *lane)
{
    return (uint32_t)((lane->shape.tokens + PC__CUDA_MAP_ROWS - 1) / PC__CUDA_MAP_ROWS);
}

static size_t pages_of(const map_lane *lane)
{
    return (lane->shape.tokens + PC__PAGE - 1) / PC__PAGE;
}

static uint32_t map_format_of(uint32_t format)
{
    return format == PC_MAP_F32   ? PC__CUDA_MAP_F32
           : format == PC_MAP_F16 ? PC__CUDA_MAP_F16
                                  : PC__CUDA_MAP_U8;
}

/* ------------------------------------------------------------------ tables */

/* 1: the layer hides keys of rows. */
static int hides(const device_maps *w)
{
    return w->records && (w->layer->window > 0 || w->layer->chunk > 0);
}

static void lay_out_lane(device_maps *w, map_lane *lane)
{
    size_t tokens = lane->shape.tokens;
    lane->map_at = w->map_bytes;
    w->map_bytes += (pc__map_bytes(&lane->shape) + 63) / 64 * 64;
    lane->pages_at = pc__cuda_tables_add(&w->tables, pages_of(lane), sizeof(uint64_t));
    if (hides(w))
        lane->seen_at = pc__cuda_tables_add(&w->tables, 2 * tokens, sizeof(uint32_t));
    if (!w->records || !w->layer->slopes)
        return;
    lane->distance_at = pc__cuda_tables_add(&w->tables, tokens, sizeof(int64_t));
    if (lane->kv->relative)
        lane->relative_at = pc__cuda_tables_add(&w->tables, tokens, sizeof(int64_t));
}

static void lay_out(device_maps *w)
{
    size_t blocks = 0;
    for (size_t i = 0; i < w->count; i++) {
        lay_out_lane(w, &w->lanes[i]);
        blocks += blocks_of(&w->lanes[i]);
    }
    w->lanes_at = pc__cuda_tables_add(&w->tables, w->count, sizeof(pc__cuda_map_lane));
    w->blocks_at = pc__cuda_tables_add(&w->tables, blocks, sizeof(pc__cuda_map_block));
    if (w->records && w->layer->slopes)
        w->slopes_at = pc__cuda_tables_add(&w->tables, (size_t)w->layer->heads, sizeof(float));
}

/* The keys that each row sees. */
static void fill_seen(const device_maps *w, const map_lane *lane)
{
    uint32_t *seen = pc__cuda_tables_host(&w->tables, lane->seen_at);
    for (size_t row = 0; row < lane->shape.tokens; row++, seen += 2) {
        seen[0] = 0;
        seen[1] = (uint32_t)pc__map_row_keys(&lane->shape, row);
        pc__attn_visible(w->layer, lane->kv, lane->start + lane->distance[row], lane->start,
                         &seen[0], &seen[1]);
    }
}

static void fill_distances(const device_maps *w, const map_lane *lane, pc__cuda_map_lane *to)
{
    size_t bytes = lane->shape.tokens * sizeof(int64_t);
    memcpy(pc__cuda_tables_host(&w->tables, lane->distance_at), lane->distance, bytes);
    to->distance = pc__cuda_tables_device(&w->tables, lane->distance_at);
    if (!lane->kv->relative)
        return;
    memcpy(pc__cuda_tables_host(&w->tables, lane->relative_at), lane->kv->relative, bytes);
    to->relative = pc__cuda_tables_device(&w->tables, lane->relative_at);
}

static void fill_lane(const device_maps *w, size_t index)
{
    const map_lane *lane = &w->lanes[index];
    const pc__kv_device *device = device_of(lane->kv);
    pc__cuda_map_lane *to = (pc__cuda_map_lane *)pc__cuda_tables_host(&w->tables, w->lanes_at)
                            + index;
    uint64_t *pages = pc__cuda_tables_host(&w->tables, lane->pages_at);
    for (size_t p = 0; p < pages_of(lane); p++)
        pages[p] = (uint64_t)(uintptr_t)device->page[p];
    *to = (pc__cuda_map_lane){.map = (uint64_t)(uintptr_t)((uint8_t *)w->maps + lane->map_at),
                              .pages = pc__cuda_tables_device(&w->tables, lane->pages_at),
                              .layer_stride = device ? device->layer_stride : 0,
                              .tokens = (uint32_t)lane->shape.tokens,
                              .causal = lane->shape.causal != 0,
                              .first_row = (uint32_t)lane->first_row};
    if (hides(w)) {
        fill_seen(w, lane);
        to->seen = pc__cuda_tables_device(&w->tables, lane->seen_at);
    }
    if (w->records && w->layer->slopes)
        fill_distances(w, lane, to);
}

static pc_status take_memory(device_maps *w, const pc_allocator *mem)
{
    lay_out(w);
    PC__TRY_RETURN(pc__cuda_scratch_take(w->stream, w->tables.bytes, &w->memory));
    PC__TRY_RETURN(pc__cuda_scratch_take(w->stream, w->map_bytes, &w->maps));
    return pc__cuda_tables_begin(&w->tables, mem, w->memory);
}

static void give_memory(device_maps *w)
{
    pc__cuda_scratch_give(w->stream, w->memory);
    pc__cuda_scratch_give(w->stream, w->maps);
    pc__cuda_scratch_give(w->stream, w->rotated);
}

/* ---------------------------------------------------------------- launches */

/* Lanes of one launch. */
static int alike(const map_lane *a, const map_lane *b)
{
    const pc__kv_shape *x = &a->kv->shape, *y = &b->kv->shape;
    return a->shape.format == b->shape.format && x->dtype == y->dtype && x->kv_heads == y->kv_heads
           && x->k_dim == y->k_dim && x->v_dim == y->v_dim;
}

/* Adds the blocks of all lanes that go with `first`; returns how many there are. */
static uint32_t add_blocks(device_maps *w, size_t first, pc__cuda_map_block *blocks)
{
    uint32_t count = 0;
    for (size_t i = first; i < w->count; i++) {
        if (w->lanes[i].launched || !alike(&w->lanes[i], &w->lanes[first]))
            continue;
        w->lanes[i].launched = 1;
        for (uint32_t b = 0; b < blocks_of(&w->lanes[i]); b++)
            blocks[count++] = (pc__cuda_map_block){(uint32_t)i, b * PC__CUDA_MAP_ROWS};
    }
    return count;
}

/* One launch: blocks [first, first + count) of lanes like this one. */
typedef struct map_launch {
    const map_lane *like;
    size_t first;
    uint32_t count;
} map_launch;

/* Fills the blocks of all launches; `launches` has room for one a lane. Returns their number. */
static size_t divide(device_maps *w, map_launch *launches)
{
    pc__cuda_map_block *blocks = pc__cuda_tables_host(&w->tables, w->blocks_at);
    size_t at = 0, count = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (w->lanes[i].launched)
            continue;
        launches[count] = (map_launch){&w->lanes[i], at, add_blocks(w, i, blocks + at)};
        at += launches[count++].count;
    }
    return count;
}

static pc__cuda_page_shape page_shape(const pc__kv *kv)
{
    return (pc__cuda_page_shape){.k_dim = (uint32_t)kv->shape.k_dim,
                                 .v_dim = (uint32_t)kv->shape.v_dim,
                                 .v_offset = (uint32_t)pc__kv_k_bytes(&kv->shape),
                                 .page_bytes = (uint32_t)pc__kv_page_bytes(&kv->shape),
                                 .kv_heads = (uint32_t)kv->shape.kv_heads};
}

static pc_status launch_apply(const device_maps *w, const map_launch *l, int32_t layer, float *out)
{
    uint32_t format = pc__cuda_format_of(l->like->kv->shape.dtype);
    const pc__cuda_ready *ready;
    pc__cuda_map_apply task = {
        .lanes = pc__cuda_tables_device(&w->tables, w->lanes_at),
        .blocks = (pc__cuda_map_block *)pc__cuda_tables_device(&w->tables, w->blocks_at) + l->first,
        .out = out,
        .shape = page_shape(l->like->kv),
        .format = map_format_of(l->like->shape.format),
        .heads = (uint32_t)l->like->shape.heads,
        .layer = (uint32_t)layer,
        .count = l->count};
    PC__TRY_RETURN(pc__cuda_attend_kernel(&ready, w->backend, PC__CUDA_KERNEL_APPLY + format));
    uint32_t slices = (task.shape.v_dim + PC__CUDA_MAP_DIMS - 1) / PC__CUDA_MAP_DIMS;
    pc__cuda_launch(w->stream, &ready->kernel, (pc__cuda_grid){l->count, task.heads, slices},
                    &task);
    return PC_OK;
}

static pc_status launch_record(const device_maps *w, const map_launch *l, const float *q,
                               const float *lse)
{
    uint32_t format = pc__cuda_format_of(l->like->kv->shape.dtype);
    const pc__cuda_ready *ready;
    pc__cuda_map_record task = {
        .lanes = pc__cuda_tables_device(&w->tables, w->lanes_at),
        .blocks = (pc__cuda_map_block *)pc__cuda_tables_device(&w->tables, w->blocks_at) + l->first,
        .q = q,
        .lse = lse,
        .slopes = w->layer->slopes ? pc__cuda_tables_device(&w->tables, w->slopes_at) : NULL,
        .shape = page_shape(l->like->kv),
        .scale = w->layer->scale,
        .soft_cap = w->layer->soft_cap,
        .format = map_format_of(l->like->shape.format),
        .heads = (uint32_t)w->layer->heads,
        .layer = (uint32_t)w->layer->layer,
        .count = l->count};
    PC__TRY_RETURN(pc__cuda_attend_kernel(&ready, w->backend, PC__CUDA_KERNEL_RECORD + format));
    pc__cuda_launch(w->stream, &ready->kernel, (pc__cuda_grid){l->count, task.heads, 1}, &task);
    return PC_OK;
}

/* -------------------------------------------------------------- operations */

static void copy_maps(const device_maps *w, const pc__map_lane *lanes)
{
    for (size_t i = 0; i < w->count; i++)
        pc__cuda_copy(w->stream, (uint8_t *)w->maps + w->lanes[i].map_at, lanes[i].map,
                      pc__map_bytes(&lanes[i].shape));
}

static pc_status apply(device_maps *w, const pc__map_lane *lanes, map_launch *launches,
                       int32_t layer, float *out)
{
    PC__TRY_RETURN(take_memory(w, &w->stream->device->mem));
    for (size_t i = 0; i < w->count; i++)
        fill_lane(w, i);
    size_t count = divide(w, launches);
    pc__cuda_tables_end(&w->tables, w->stream);
    copy_maps(w, lanes);
    for (size_t i = 0; i < count; i++)
        PC__TRY_RETURN(launch_apply(w, &launches[i], layer, out));
    return PC_OK;
}

pc_status pc__cuda_op_apply_maps(pc__stream *stream, const pc__map_lane *lanes, size_t count,
                                 int32_t layer, pc__floats *out)
{
    device_maps w = {.backend = pc__cuda_backend_of(stream->backend),
                     .base = stream,
                     .stream = pc__cuda_stream_of(stream),
                     .count = count};
    const pc_allocator *mem = &w.stream->device->mem;
    PC__TRY_RETURN(pc__check_map_lanes(lanes, count, layer));
    map_launch *launches = pc__calloc(mem, count, sizeof *launches);
    w.lanes = pc__calloc(mem, count, sizeof *w.lanes);
    pc_status status = launches && w.lanes ? PC_OK : PC_ERR_NOMEM;
    for (size_t i = 0; i < count && status >= 0; i++)
        w.lanes[i] = (map_lane){
            .shape = lanes[i].shape, .kv = lanes[i].kv, .first_row = lanes[i].first_row};
    if (status >= 0 && count)
        status = apply(&w, lanes, launches, layer, (float *)out);
    give_memory(&w);
    pc__free(mem, launches);
    pc__free(mem, w.lanes);
    return status;
}

/* Rotates the queries of all lanes; they keep their rows. *q: those to be used. */
static pc_status rotate(device_maps *w, const float **q)
{
    size_t rows = 0, dim = (size_t)w->lanes[0].kv->shape.k_dim,
           width = (size_t)w->layer->heads * dim;
    for (size_t i = 0; i < w->count; i++) {
        size_t end = w->lanes[i].first_row + w->lanes[i].shape.tokens;
        rows = end > rows ? end : rows;
    }
    PC__TRY_RETURN(pc__cuda_scratch_take(w->stream, rows * width * sizeof **q, &w->rotated));
    for (size_t i = 0; i < w->count; i++) {
        const map_lane *lane = &w->lanes[i];
        pc__cuda_rotate_task task = {.from = *q + lane->first_row * width,
                                     .to = (float *)w->rotated + lane->first_row * width,
                                     .from_stride = width,
                                     .to_stride = width,
                                     .rows = (uint32_t)lane->shape.tokens,
                                     .heads = (uint32_t)w->layer->heads,
                                     .dim = (uint32_t)dim,
                                     .scale = 1.0f};
        task.angles = pc__cuda_angles_of(w->stream, w->base->context, w->layer->rope,
                                         lane->distance, lane->shape.tokens);
        pc__cuda_launch(w->stream, &pc__cuda_dense.rotate, (pc__cuda_grid){task.rows, 1, 1}, &task);
    }
    *q = w->rotated;
    return PC_OK;
}

static void copy_recorded(const device_maps *w, const pc__map_out *lanes)
{
    for (size_t i = 0; i < w->count; i++)
        pc__cuda_copy(w->stream, lanes[i].map, (uint8_t *)w->maps + w->lanes[i].map_at,
                      pc__map_bytes(&lanes[i].shape));
}

static pc_status record(device_maps *w, const pc__map_out *lanes, map_launch *launches,
                        const float *q, const float *lse)
{
    PC__TRY_RETURN(take_memory(w, &w->stream->device->mem));
    for (size_t i = 0; i < w->count; i++)
        fill_lane(w, i);
    if (w->layer->slopes)
        memcpy(pc__cuda_tables_host(&w->tables, w->slopes_at), w->layer->slopes,
               (size_t)w->layer->heads * sizeof *w->layer->slopes);
    size_t count = divide(w, launches);
    pc__cuda_tables_end(&w->tables, w->stream);
    pc__cuda_zero(w->stream, w->maps, w->map_bytes); /* no kernel writes bytes between two parts */
    if (w->layer->rope && w->layer->rope->dims > 1)
        PC__TRY_RETURN(rotate(w, &q));
    for (size_t i = 0; i < count; i++)
        PC__TRY_RETURN(launch_record(w, &launches[i], q, lse));
    copy_recorded(w, lanes);
    return PC_OK;
}

pc_status pc__cuda_op_record_maps(pc__stream *stream, const pc__attn_layer *layer,
                                  const pc__map_out *lanes, size_t count, const pc__floats *q,
                                  const pc__floats *lse)
{
    device_maps w = {.backend = pc__cuda_backend_of(stream->backend),
                     .base = stream,
                     .stream = pc__cuda_stream_of(stream),
                     .count = count,
                     .layer = layer,
                     .records = 1};
    const pc_allocator *mem = &w.stream->device->mem;
    map_launch *launches = pc__calloc(mem, count, sizeof *launches);
    w.lanes = pc__calloc(mem, count, sizeof *w.lanes);
    pc_status status = launches && w.lanes ? PC_OK : PC_ERR_NOMEM;
    for (size_t i = 0; i < count && status >= 0; i++)
        w.lanes[i] = (map_lane){.shape = lanes[i].shape,
                                .kv = lanes[i].kv,
                                .first_row = lanes[i].first_row,
                                .start = lanes[i].start,
                                .distance = lanes[i].distance};
    if (status >= 0 && count)
        status = record(&w, lanes, launches, (const float *)q, (const float *)lse);
    give_memory(&w);
    pc__free(mem, launches);
    pc__free(mem, w.lanes);
    return status;
}
