/* Launches attention: for each wave of a plan a kernel for each format of its runs, then the merge.
 * What a launch needs beside the plan's tables lies in scratch memory of the stream. */
#include "cuda/backend_cuda_attend.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/backend_cuda_angles.h"
#include "cuda/backend_cuda_plan.h"
#include "cuda/kernels/maps.h"

/* ----------------------------------------------------------------- kernels */

#define DECLARE(format, k, v) void pc__cuda_attend_##format##_##k##_##v(const pc__cuda_attend);
PC__CUDA_SHAPES(DECLARE, f32)
PC__CUDA_SHAPES(DECLARE, bf16)
PC__CUDA_SHAPES(DECLARE, f16)
PC__CUDA_SHAPES(DECLARE, i8)
#undef DECLARE
void pc__cuda_attend_naive(const pc__cuda_attend);
void pc__cuda_merge_states(const pc__cuda_merge);
void pc__cuda_attention_map(const pc__cuda_map_row);
void pc__cuda_map_apply_f32(const pc__cuda_map_apply);
void pc__cuda_map_apply_bf16(const pc__cuda_map_apply);
void pc__cuda_map_apply_f16(const pc__cuda_map_apply);
void pc__cuda_map_record_f32(const pc__cuda_map_record);
void pc__cuda_map_record_bf16(const pc__cuda_map_record);
void pc__cuda_map_record_f16(const pc__cuda_map_record);
void pc__cuda_map_record_i8(const pc__cuda_map_record);

/* By number; those of shapes get their shared memory when they are prepared. */
static const pc__cuda_kernel kernels[PC__CUDA_ATTEND_KERNELS] = {
#define SHAPE(format, k, v) \
    PC__CUDA_KERNEL(pc__cuda_attend_##format##_##k##_##v, pc__cuda_attend, PC__CUDA_BLOCK, 0),
    PC__CUDA_SHAPES(SHAPE, f32) PC__CUDA_SHAPES(SHAPE, bf16) PC__CUDA_SHAPES(SHAPE, f16)
        PC__CUDA_SHAPES(SHAPE, i8)
#undef SHAPE
#define BLOCK(name, task, shared) PC__CUDA_KERNEL(name, task, PC__CUDA_BLOCK, shared)
            BLOCK(pc__cuda_attend_naive, pc__cuda_attend, PC__CUDA_NAIVE_SHARED),
    BLOCK(pc__cuda_merge_states, pc__cuda_merge, 0),
    BLOCK(pc__cuda_attention_map, pc__cuda_map_row, PC__CUDA_ATTENTION_MAP_SHARED),
#define MAP(name, task, shared) \
    PC__CUDA_KERNEL(pc__cuda_map_##name, task, PC__CUDA_MAP_THREADS, shared)
    MAP(apply_f32, pc__cuda_map_apply, PC__CUDA_MAP_SHARED),
    MAP(apply_bf16, pc__cuda_map_apply, PC__CUDA_MAP_SHARED),
    MAP(apply_f16, pc__cuda_map_apply, PC__CUDA_MAP_SHARED),
    MAP(record_f32, pc__cuda_map_record, PC__CUDA_MAP_SHARED),
    MAP(record_bf16, pc__cuda_map_record, PC__CUDA_MAP_SHARED),
    MAP(record_f16, pc__cuda_map_record, PC__CUDA_MAP_SHARED),
    MAP(record_i8, pc__cuda_map_record, PC__CUDA_MAP_SHARED_I8),
};

/* As PC__CUDA_SHAPES orders them. */
static const uint32_t shapes[][2] = {
#define SHAPE(unused, k, v) {k, v},
    PC__CUDA_SHAPES(SHAPE, )
#undef SHAPE
};

static pc_status prepare(pc__cuda_ready *ready, const pc__cuda_backend *backend, size_t number)
{
    pc__cuda_kernel kernel = kernels[number];
    const uint32_t *shape = shapes[number % PC__CUDA_KERNEL_SHAPES];
    if (number < PC__CUDA_KERNEL_NAIVE)
        kernel.shared_bytes = pc__cuda_attend_shared((uint32_t)number / PC__CUDA_KERNEL_SHAPES,
                                                     shape[0], shape[1]);
    ready->kernel = kernel;
    return pc__cuda_kernel_prepare(&kernel, backend->device, &ready->blocks_at_once);
}

pc_status pc__cuda_attend_kernel(const pc__cuda_ready **out, pc__cuda_backend *backend,
                                 size_t number)
{
    pc__cuda_ready *ready = &backend->attention[number];
    *out = ready;
    pthread_mutex_lock(&backend->lock);
    pc_status status = ready->blocks_at_once ? PC_OK : prepare(ready, backend, number);
    pthread_mutex_unlock(&backend->lock);
    return status;
}

/* pc__cuda_attend_<format>_<k_dim>_<v_dim>, or pc__cuda_attend_naive if there is none. */
static pc_status attend_kernel(const pc__cuda_ready **out, pc__cuda_backend *backend,
                               uint32_t format, const pc__kv_shape *shape)
{
    uint32_t k = (uint32_t)shape->k_dim, v = (uint32_t)shape->v_dim;
    size_t i = 0;
    if (!pc__cuda_has_shape(k, v))
        return pc__cuda_attend_kernel(out, backend, PC__CUDA_KERNEL_NAIVE);
    while (shapes[i][0] != k || shapes[i][1] != v)
        i++;
    return pc__cuda_attend_kernel(out, backend, format * PC__CUDA_KERNEL_SHAPES + i);
}

/* --------------------------------------------------------------- attention */

typedef struct attention {
    pc__cuda_backend *backend;
    pc__cuda_stream *stream;
    const pc__row_plan *plan;
    pc__cuda_plan *made;
    pc__cuda_attend task; /* of all launches */
    void *scratch;        /* states, their LSE, pages */
} attention;

/* Bytes to the next multiple of 16. */
static size_t whole(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* Takes scratch for the states, and for the pages of a visitor, which may be others in each call.
 */
static pc_status take_scratch(attention *a)
{
    size_t vectors = a->made->most_slots * a->plan->heads,
           values = whole(vectors * (size_t)a->plan->shape.v_dim * sizeof(float)),
           states = values + whole(vectors * sizeof(float)),
           pages = (a->made->visitor ? a->made->page_count : 0) * sizeof(uint64_t);
    PC__TRY_RETURN(pc__cuda_scratch_take(a->stream, states + pages, &a->scratch));
    a->task.state = a->scratch;
    a->task.state_lse = a->task.state + values / sizeof(float);
    a->task.pages = a->made->pages;
    if (pages) {
        void *to = (uint8_t *)a->scratch + states;
        pc__cuda_upload(a->stream, to, pc__cuda_plan_pages(a->made), pages);
        a->task.pages = to;
    }
    return PC_OK;
}

static const void *list_of(const attention *a, const void *list, size_t bytes)
{
    return list ? pc__cuda_kept_list(a->stream, list, bytes) : NULL;
}

/* [row] how far each row lies in its chunk. */
static pc_status list_inside(attention *a, int64_t chunk)
{
    const pc__row_plan *plan = a->plan;
    const pc_allocator *mem = &a->stream->device->mem;
    int64_t *inside = pc__calloc(mem, plan->rows, sizeof *inside);
    if (!inside)
        return PC_ERR_NOMEM;
    for (size_t r = 0; r < plan->rows; r++)
        inside[r] = pc__chunk_inside(plan->positions[r], chunk);
    a->task.inside = list_of(a, inside, plan->rows * sizeof *inside);
    pc__free(mem, inside);
    return PC_OK;
}

static pc_status take_lists(attention *a, const pc__attn_layer *layer)
{
    size_t heads = a->plan->heads * sizeof(float);
    a->task.slopes = list_of(a, layer->slopes, heads);
    a->task.sinks = list_of(a, layer->sinks, heads);
    return layer->chunk > 0 ? list_inside(a, layer->chunk) : PC_OK;
}

static pc_status take_angles(attention *a, const pc__rotation *rope)
{
    const pc__row_plan *plan = a->plan;
    if (rope->dims > plan->shape.k_dim)
        return pc__fail(PC_ERR_INVALID, "attention: %d RoPE dimensions, but heads have %d",
                        rope->dims, plan->shape.k_dim);
    pc__cuda_angles angles = pc__cuda_angles_of(a->stream, plan->context, rope, plan->distances,
                                                plan->distance_count);
    a->task.rope_dims = angles.dims;
    a->task.interleaved = angles.interleaved;
    a->task.cosine = angles.cosine;
    a->task.sine = angles.sine;
    return PC_OK;
}

static pc_status describe_layer(attention *a, const pc__attn_layer *layer)
{
    const pc__row_plan *plan = a->plan;
    pc__cuda_attend *t = &a->task;
    t->pairs = a->made->pairs;
    t->heads = (uint32_t)plan->heads;
    t->kv_heads = (uint32_t)plan->shape.kv_heads;
    t->k_dim = (uint32_t)plan->shape.k_dim;
    t->v_dim = (uint32_t)plan->shape.v_dim;
    t->layer = (uint32_t)layer->layer;
    t->scale = layer->scale;
    t->soft_cap = layer->soft_cap;
    t->window = layer->window;
    t->chunk = layer->chunk;
    PC__TRY_RETURN(take_lists(a, layer));
    return layer->rope ? take_angles(a, layer->rope) : PC_OK;
}

static pc_status run_batch(attention *a, size_t index)
{
    const pc__cuda_plan_batch *batch = &a->made->batches[index];
    const pc__cuda_ready *ready;
    pc__cuda_attend task = a->task;
    PC__TRY_RETURN(attend_kernel(&ready, a->backend, batch->format, &a->plan->shape));
    task.tiles = a->made->tiles + batch->first_tile;
    task.calls = a->made->calls + batch->first_call;
    task.claimed = a->made->claimed + index;
    task.tile_count = (uint32_t)batch->tiles;
    task.format = batch->format;
    size_t items = batch->tiles * task.kv_heads,
           most = (size_t)ready->blocks_at_once
                  * (size_t)a->backend->device->is.multiProcessorCount;
    if (items > UINT32_MAX / 2)
        return pc__fail(PC_ERR_LIMIT, "attention: %zu work items are too many", items);
    pc__cuda_launch(a->stream, &ready->kernel,
                    (pc__cuda_grid){(uint32_t)(items < most ? items : most), 1, 1}, &task);
    return PC_OK;
}

static pc_status merge(attention *a, const pc__cuda_plan_wave *wave)
{
    const pc__cuda_ready *ready;
    size_t heads = wave->merged * a->plan->heads, warps = PC__CUDA_BLOCK / 32;
    pc__cuda_merge task = {.merged = a->made->merged + wave->first_merged,
                           .rows = (uint32_t)wave->merged,
                           .heads = a->task.heads,
                           .v_dim = a->task.v_dim,
                           .sinks = a->task.sinks,
                           .state = a->task.state,
                           .state_lse = a->task.state_lse,
                           .out = a->task.out,
                           .lse = a->task.lse};
    PC__TRY_RETURN(pc__cuda_attend_kernel(&ready, a->backend, PC__CUDA_KERNEL_MERGE));
    pc__cuda_launch(a->stream, &ready->kernel,
                    (pc__cuda_grid){(uint32_t)((heads + warps - 1) / warps), 1, 1}, &task);
    return PC_OK;
}

static pc_status run_waves(attention *a)
{
    for (size_t w = 0; w < a->plan->wave_count; w++) {
        const pc__cuda_plan_wave *wave = &a->made->waves[w];
        for (size_t b = 0; b < wave->batches; b++)
            PC__TRY_RETURN(run_batch(a, wave->first_batch + b));
        if (wave->merged)
            PC__TRY_RETURN(merge(a, wave));
    }
    return PC_OK;
}

/* `plan` is that of `a`, to be changed. */
static pc_status queue_attention(attention *a, pc__row_plan *plan, const pc__attn_layer *layer,
                                 pc__cuda_visitor *visitor)
{
    PC__TRY_RETURN(pc__cuda_plan_of(&a->made, a->stream, plan, visitor));
    PC__TRY_RETURN(describe_layer(a, layer));
    PC__TRY_RETURN(take_scratch(a));
    pc_status status = run_waves(a);
    pc__cuda_scratch_give(a->stream, a->scratch);
    return status;
}

pc_status pc__cuda_op_attend(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                             const pc__floats *q, pc__floats *out, pc__floats *lse)
{
    attention a = {.backend = pc__cuda_backend_of(stream->backend),
                   .stream = pc__cuda_stream_of(stream),
                   .plan = plan,
                   .task = {.q = (const float *)q, .out = (float *)out, .lse = (float *)lse}};
    return queue_attention(&a, plan, layer, NULL);
}

static pc_status check_addresses(const pc__cuda_device *device, const pc__floats *q,
                                 const pc__floats *out, const pc__floats *lse)
{
    PC__TRY_RETURN(pc__cuda_check_pointer(device, q, "q"));
    PC__TRY_RETURN(pc__cuda_check_pointer(device, out, "out"));
    return pc__cuda_check_pointer(device, lse, "lse");
}

/* A visitor stays with the plan that it was taken for. After an error nobody knows what of the
 * tables is on the device: the next call makes them again. */
pc_status pc__cuda_op_attend_queued(pc__backend *backend, const pc__queue *queue,
                                    pc__row_plan *plan, const pc__attn_layer *layer,
                                    const pc__floats *q, pc__floats *out, pc__floats *lse)
{
    const pc__cuda_plan *made = plan->device;
    pc__cuda_visitor *visitor = made ? made->visitor : NULL;
    PC__TRY_RETURN(check_addresses(pc__cuda_backend_of(backend)->device, q, out, lse));
    if (!visitor)
        PC__TRY_RETURN(
            pc__cuda_visitor_take(&visitor, pc__cuda_backend_of(backend), queue->handle));
    attention a = {.backend = visitor->backend,
                   .stream = visitor->stream,
                   .plan = plan,
                   .task = {.q = (const float *)q, .out = (float *)out, .lse = (float *)lse}};
    pc_status status = pc__cuda_stream_visit(visitor->stream, queue->handle);
    if (status >= 0) {
        visitor->last = queue->handle;
        status = pc__cuda_stream_home(visitor->stream, queue_attention(&a, plan, layer, visitor),
                                      queue->waits);
    }
    if (!plan->device)
        pc__cuda_visitor_put(visitor);
    else if (status < 0)
        pc__cuda_plan_drop(plan);
    return status;
}

/* The thread that waits sleeps. */
static pc_status record_mark(cudaEvent_t *out, cudaStream_t queue)
{
    PC__TRY_RETURN(
        PC__CUDA(cudaEventCreateWithFlags, (out, cudaEventDisableTiming | cudaEventBlockingSync)));
    pc_status status = PC__CUDA(cudaEventRecord, (*out, queue));
    if (status < 0)
        pc__cuda_ignore(cudaEventDestroy(*out));
    return status;
}

pc_status pc__cuda_op_mark_queue(pc__backend *backend, const pc__queue *queue, void **out)
{
    const pc__cuda_device *device = pc__cuda_backend_of(backend)->device;
    cudaEvent_t event = NULL;
    pc_status status;
    PC__CUDA_ON(device, status,
                record_mark(&event, queue->handle ? queue->handle : cudaStreamLegacy));
    *out = event;
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

pc_status pc__cuda_op_await_mark(pc__backend *backend, void *mark)
{
    const pc__cuda_device *device = pc__cuda_backend_of(backend)->device;
    pc_status status = pc__cuda_event_wait(mark, device);
    pc__cuda_event_free(mark, device);
    return status;
}

/* ------------------------------------------------------------ one row's map */

static int compare_distance(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The columns of a span that the row sees. */
static void map_span(const attention *a, const pc__cuda_kernel *kernel, const pc__kv_span *span,
                     int64_t position, const pc__attn_layer *layer, pc__cuda_map_row task)
{
    const pc__cuda_plan_run *run = pc__cuda_plan_run_of(a->made, span->kv);
    int64_t distance = position - span->start;
    const int64_t *at = bsearch(&distance, a->plan->distances, a->plan->distance_count, sizeof *at,
                                compare_distance);
    size_t angle = (size_t)(at - a->plan->distances) * (a->task.rope_dims / 2);
    task.pages = a->made->pages + run->first_page;
    task.layer_stride = pc__kv_layer_stride(span->kv);
    task.relative = run->relative;
    task.distance = distance;
    task.format = pc__cuda_format_of(span->kv->shape.dtype);
    task.tokens = (uint32_t)run->tokens;
    task.lo = span->lo;
    task.hi = span->hi;
    pc__attn_visible(layer, span->kv, position, span->start, &task.lo, &task.hi);
    task.cosine = a->task.cosine ? a->task.cosine + angle : NULL;
    task.sine = a->task.sine ? a->task.sine + angle : NULL;
    pc__cuda_launch(
        a->stream, kernel,
        (pc__cuda_grid){(task.tokens + PC__CUDA_BLOCK - 1) / PC__CUDA_BLOCK, task.heads, 1}, &task);
}

static pc__cuda_map_row row_task(const attention *a, size_t row, float *weights, size_t keys)
{
    const pc__cuda_attend *t = &a->task;
    return (pc__cuda_map_row){.k_dim = t->k_dim,
                              .v_dim = t->v_dim,
                              .heads = t->heads,
                              .kv_heads = t->kv_heads,
                              .layer = t->layer,
                              .rope_dims = t->rope_dims,
                              .interleaved = t->interleaved,
                              .scale = t->scale,
                              .soft_cap = t->soft_cap,
                              .slopes = t->slopes,
                              .q = t->q + row * t->heads * t->k_dim,
                              .lse = t->lse + row * t->heads,
                              .weights = weights,
                              .stride = keys};
}

static pc_status map_row(const attention *a, const pc__attn_layer *layer, size_t row, float *prob)
{
    const pc__row_plan *plan = a->plan;
    const pc__cuda_ready *ready;
    size_t keys = 0, column = 0;
    void *weights;
    for (size_t i = plan->first[row]; i < plan->first[row + 1]; i++)
        keys += plan->spans[i].kv->tokens;
    PC__TRY_RETURN(pc__cuda_attend_kernel(&ready, a->backend, PC__CUDA_KERNEL_MAP_ROW));
    size_t bytes = plan->heads * keys * sizeof(float);
    PC__TRY_RETURN(pc__cuda_scratch_take(a->stream, bytes, &weights));
    pc__cuda_zero(a->stream, weights, bytes);
    for (size_t i = plan->first[row]; i < plan->first[row + 1]; i++) {
        const pc__kv_span *span = &plan->spans[i];
        if (span->lo < span->hi)
            map_span(a, &ready->kernel, span, plan->positions[row], layer,
                     row_task(a, row, (float *)weights + column, keys));
        column += span->kv->tokens;
    }
    pc__cuda_copy(a->stream, prob, weights, bytes);
    pc__cuda_scratch_give(a->stream, weights);
    return PC_OK;
}

pc_status pc__cuda_op_attention_map(pc__stream *stream, pc__row_plan *plan,
                                    const pc__attn_layer *layer, const pc__floats *q, size_t row,
                                    const pc__floats *lse, float *prob)
{
    attention a = {.backend = pc__cuda_backend_of(stream->backend),
                   .stream = pc__cuda_stream_of(stream),
                   .plan = plan,
                   .task = {.q = (const float *)q, .lse = (float *)(uintptr_t)lse}};
    PC__TRY_RETURN(pc__cuda_plan_of(&a.made, a.stream, plan, NULL));
    PC__TRY_RETURN(describe_layer(&a, layer));
    PC__TRY_RETURN(take_scratch(&a));
    pc_status status = map_row(&a, layer, row, prob);
    pc__cuda_scratch_give(a.stream, a.scratch);
    return status;
}
