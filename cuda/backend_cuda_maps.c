/* Launches maps times values, and the recording of maps. Lanes of one format and shape share a
 * launch; maps and tables lie in scratch memory of the stream. */
#include "cuda/backend_cuda.h"

#include <string.h>

#include "attn/plan_view.h"
#include "base/mem.h"

_Static_assert((int)PC__CUDA_KV_PAGE == PC__PAGE, "pages differ");

/* A lane in either direction. */
typedef struct map_lane {
    pc__map_out is; /* without start and distances where the map is applied */
    size_t map_at;  /* in `maps` */
    size_t pages_at, relative_at, seen_at, distance_at;
    int launched;
} map_lane;

/* One launch: blocks [first, first + count) of lanes like this one. */
typedef struct map_launch {
    const map_lane *like;
    size_t first;
    uint32_t count;
} map_launch;

typedef struct device_maps {
    pc__stream *base;
    pc__cuda_stream *stream; /* of `base` */
    map_lane *lanes;
    map_launch *launches; /* room for one a lane */
    size_t count, launch_count;
    const pc__attn_layer *layer; /* NULL: maps are applied, not recorded */
    pc__cuda_tables tables;
    size_t lanes_at, blocks_at;
    size_t slopes_at; /* to record */
    void *memory, *maps, *rotated;
    size_t map_bytes;
} device_maps;

static uint32_t blocks_of(const map_lane *lane)
{
    return (uint32_t)((lane->is.shape.tokens + PC__CUDA_MAP_ROWS - 1) / PC__CUDA_MAP_ROWS);
}

static size_t pages_of(const map_lane *lane)
{
    return (lane->is.shape.tokens + PC__PAGE - 1) / PC__PAGE;
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
    return w->layer && (w->layer->window > 0 || w->layer->chunk > 0);
}

static void lay_out_lane(device_maps *w, map_lane *lane)
{
    size_t tokens = lane->is.shape.tokens;
    lane->map_at = w->map_bytes;
    w->map_bytes += (pc__map_bytes(&lane->is.shape) + 63) / 64 * 64;
    lane->pages_at = pc__cuda_tables_add(&w->tables, pages_of(lane), sizeof(uint64_t));
    if (hides(w))
        lane->seen_at = pc__cuda_tables_add(&w->tables, 2 * tokens, sizeof(uint32_t));
    if (!w->layer || !w->layer->slopes)
        return;
    lane->distance_at = pc__cuda_tables_add(&w->tables, tokens, sizeof(int64_t));
    if (lane->is.kv->relative)
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
    if (w->layer && w->layer->slopes)
        w->slopes_at = pc__cuda_tables_add(&w->tables, (size_t)w->layer->heads, sizeof(float));
}

/* The keys that each row sees. */
static void fill_seen(const device_maps *w, const map_lane *lane)
{
    uint32_t *seen = pc__cuda_tables_host(&w->tables, lane->seen_at);
    for (size_t row = 0; row < lane->is.shape.tokens; row++, seen += 2) {
        seen[0] = 0;
        seen[1] = (uint32_t)pc__map_row_keys(&lane->is.shape, row);
        pc__attn_visible(w->layer, lane->is.kv, lane->is.start + lane->is.distance[row],
                         lane->is.start, &seen[0], &seen[1]);
    }
}

static void fill_distances(const device_maps *w, const map_lane *lane, pc__cuda_map_lane *to)
{
    size_t bytes = lane->is.shape.tokens * sizeof(int64_t);
    memcpy(pc__cuda_tables_host(&w->tables, lane->distance_at), lane->is.distance, bytes);
    to->distance = pc__cuda_tables_device(&w->tables, lane->distance_at);
    if (!lane->is.kv->relative)
        return;
    memcpy(pc__cuda_tables_host(&w->tables, lane->relative_at), lane->is.kv->relative, bytes);
    to->relative = pc__cuda_tables_device(&w->tables, lane->relative_at);
}

static void fill_lane(const device_maps *w, size_t index)
{
    const map_lane *lane = &w->lanes[index];
    pc__cuda_map_lane *to = (pc__cuda_map_lane *)pc__cuda_tables_host(&w->tables, w->lanes_at)
                            + index;
    uint64_t *pages = pc__cuda_tables_host(&w->tables, lane->pages_at);
    for (size_t p = 0; p < pages_of(lane); p++)
        pages[p] = (uint64_t)(uintptr_t)pc__kv_page_at(lane->is.kv, p);
    *to = (pc__cuda_map_lane){.map = (uint64_t)(uintptr_t)((uint8_t *)w->maps + lane->map_at),
                              .pages = pc__cuda_tables_device(&w->tables, lane->pages_at),
                              .layer_stride = pc__kv_layer_stride(lane->is.kv),
                              .tokens = (uint32_t)lane->is.shape.tokens,
                              .causal = lane->is.shape.causal != 0,
                              .first_row = (uint32_t)lane->is.first_row};
    if (hides(w)) {
        fill_seen(w, lane);
        to->seen = pc__cuda_tables_device(&w->tables, lane->seen_at);
    }
    if (w->layer && w->layer->slopes)
        fill_distances(w, lane, to);
}

/* Lanes of one launch. */
static int alike(const pc__map_out *a, const pc__map_out *b)
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
        if (w->lanes[i].launched || !alike(&w->lanes[i].is, &w->lanes[first].is))
            continue;
        w->lanes[i].launched = 1;
        for (uint32_t b = 0; b < blocks_of(&w->lanes[i]); b++)
            blocks[count++] = (pc__cuda_map_block){(uint32_t)i, b * PC__CUDA_MAP_ROWS};
    }
    return count;
}

/* Fills the blocks of all launches. */
static void divide(device_maps *w)
{
    pc__cuda_map_block *blocks = pc__cuda_tables_host(&w->tables, w->blocks_at);
    size_t at = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (w->lanes[i].launched)
            continue;
        map_launch *launch = &w->launches[w->launch_count++];
        *launch = (map_launch){&w->lanes[i], at, add_blocks(w, i, blocks + at)};
        at += launch->count;
    }
}

static pc_status begin(device_maps *w, pc__stream *stream)
{
    const pc_allocator *mem = &pc__cuda_stream_of(stream)->device->mem;
    w->base = stream;
    w->stream = pc__cuda_stream_of(stream);
    w->launches = pc__calloc(mem, w->count, sizeof *w->launches);
    w->lanes = pc__calloc(mem, w->count, sizeof *w->lanes);
    return w->launches && w->lanes ? PC_OK : PC_ERR_NOMEM;
}

static pc_status make_tables(device_maps *w)
{
    lay_out(w);
    PC__TRY_RETURN(pc__cuda_scratch_take(w->stream, w->tables.bytes, &w->memory));
    PC__TRY_RETURN(pc__cuda_scratch_take(w->stream, w->map_bytes, &w->maps));
    PC__TRY_RETURN(pc__cuda_tables_begin(&w->tables, &w->stream->device->mem, w->memory));
    for (size_t i = 0; i < w->count; i++)
        fill_lane(w, i);
    if (w->layer && w->layer->slopes)
        memcpy(pc__cuda_tables_host(&w->tables, w->slopes_at), w->layer->slopes,
               (size_t)w->layer->heads * sizeof *w->layer->slopes);
    divide(w);
    pc__cuda_tables_end(&w->tables, w->stream);
    return PC_OK;
}

static pc_status end(device_maps *w, pc_status status)
{
    pc__cuda_scratch_give(w->stream, w->memory);
    pc__cuda_scratch_give(w->stream, w->maps);
    pc__cuda_scratch_give(w->stream, w->rotated);
    pc__free(&w->stream->device->mem, w->launches);
    pc__free(&w->stream->device->mem, w->lanes);
    return status;
}

/* All launches of kernels of the format of K or V, the first of which is `f32`. `task`: what is the
 * same in all. */
static void launch_all(const device_maps *w, const pc__cuda_kernel *f32, pc__cuda_map_task task,
                       uint32_t slices)
{
    task.lanes = pc__cuda_tables_device(&w->tables, w->lanes_at);
    for (size_t i = 0; i < w->launch_count; i++) {
        const map_launch *l = &w->launches[i];
        const pc__map_out *like = &l->like->is;
        const pc__cuda_map_block *blocks = pc__cuda_tables_device(&w->tables, w->blocks_at);
        task.blocks = blocks + l->first;
        task.shape = pc__cuda_page_shape_of(&like->kv->shape);
        task.format = map_format_of(like->shape.format);
        task.heads = (uint32_t)like->shape.heads;
        task.count = l->count;
        uint32_t z = slices ? (task.shape.v_dim + slices - 1) / slices : 1;
        pc__cuda_launch(w->stream, pc__cuda_for_dtype(f32, like->kv->shape.dtype),
                        (pc__cuda_grid){l->count, task.heads, z}, &task);
    }
}

/* -------------------------------------------------------------- operations */

static pc_status apply(device_maps *w, int32_t layer, float *out)
{
    PC__TRY_RETURN(make_tables(w));
    for (size_t i = 0; i < w->count; i++)
        pc__cuda_copy(w->stream, (uint8_t *)w->maps + w->lanes[i].map_at, w->lanes[i].is.map,
                      pc__map_bytes(&w->lanes[i].is.shape));
    launch_all(w, &pc__cuda_kernels.map_apply_f32,
               (pc__cuda_map_task){.out = out, .layer = (uint32_t)layer}, PC__CUDA_MAP_DIMS);
    return PC_OK;
}

pc_status pc__cuda_op_apply_maps(pc__stream *stream, const pc__map_lane *lanes, size_t count,
                                 int32_t layer, pc__floats *out)
{
    device_maps w = {.count = count};
    PC__TRY_RETURN(pc__check_map_lanes(lanes, count, layer));
    pc_status status = begin(&w, stream);
    for (size_t i = 0; i < count && status >= 0; i++)
        w.lanes[i].is = (pc__map_out){.shape = lanes[i].shape,
                                      .map = (void *)(uintptr_t)lanes[i].map,
                                      .kv = lanes[i].kv,
                                      .first_row = lanes[i].first_row};
    if (status >= 0 && count)
        status = apply(&w, layer, (float *)out);
    return end(&w, status);
}

/* Rotates the queries of all lanes; they keep their rows. *q: those to be used. */
static pc_status rotate(device_maps *w, const float **q)
{
    size_t rows = 0, dim = (size_t)w->lanes[0].is.kv->shape.k_dim,
           width = (size_t)w->layer->heads * dim;
    for (size_t i = 0; i < w->count; i++) {
        size_t lane_end = w->lanes[i].is.first_row + w->lanes[i].is.shape.tokens;
        rows = lane_end > rows ? lane_end : rows;
    }
    PC__TRY_RETURN(pc__cuda_scratch_take(w->stream, rows * width * sizeof **q, &w->rotated));
    for (size_t i = 0; i < w->count; i++) {
        const pc__map_out *lane = &w->lanes[i].is;
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
        pc__cuda_launch(w->stream, &pc__cuda_kernels.rotate, (pc__cuda_grid){task.rows, 1, 1},
                        &task);
    }
    *q = w->rotated;
    return PC_OK;
}

static pc_status record(device_maps *w, const float *q, const float *lse)
{
    const pc__attn_layer *layer = w->layer;
    PC__TRY_RETURN(make_tables(w));
    pc__cuda_zero(w->stream, w->maps, w->map_bytes); /* no kernel writes bytes between two parts */
    if (layer->rope && layer->rope->dims > 1)
        PC__TRY_RETURN(rotate(w, &q));
    pc__cuda_map_task task = {.q = q,
                              .lse = lse,
                              .scale = layer->scale,
                              .soft_cap = layer->soft_cap,
                              .layer = (uint32_t)layer->layer};
    if (layer->slopes)
        task.slopes = pc__cuda_tables_device(&w->tables, w->slopes_at);
    launch_all(w, &pc__cuda_kernels.map_record_f32, task, 0);
    for (size_t i = 0; i < w->count; i++)
        pc__cuda_copy(w->stream, w->lanes[i].is.map, (uint8_t *)w->maps + w->lanes[i].map_at,
                      pc__map_bytes(&w->lanes[i].is.shape));
    return PC_OK;
}

pc_status pc__cuda_op_record_maps(pc__stream *stream, const pc__attn_layer *layer,
                                  const pc__map_out *lanes, size_t count, const pc__floats *q,
                                  const pc__floats *lse)
{
    device_maps w = {.count = count, .layer = layer};
    pc_status status = begin(&w, stream);
    for (size_t i = 0; i < count && status >= 0; i++)
        w.lanes[i].is = lanes[i];
    if (status >= 0 && count)
        status = record(&w, (const float *)q, (const float *)lse);
    return end(&w, status);
}
