/* Operations that move or rotate rows, and the writing of K and V. */
#include "cuda/backend_cuda_angles.h"
#include "cuda/backend_cuda_dense.h"
#include "cuda/kept_lists.h"

#include <string.h>

#include "attn/plan_view.h"
#include "base/mem.h"

void pc__cuda_op_gather(pc__stream *stream, const pc__floats *x, const uint32_t *row, size_t rows,
                        size_t dim, pc__floats *y)
{
    pc__cuda_lookup task = {
        .table = x,
        .row = pc__cuda_kept_list(pc__cuda_stream_of(stream), row, rows * sizeof *row),
        .x = pc__cuda_floats(y),
        .rows = (uint32_t)rows,
        .dim = (uint32_t)dim,
        .scale = 1.0f};
    pc__cuda_launch_rows(stream, &pc__cuda_dense.lookup_f32, rows, &task);
}

void pc__cuda_op_scale_rows(pc__stream *stream, const float *factors, size_t rows, size_t dim,
                            pc__floats *x)
{
    const float *list = pc__cuda_kept_list(pc__cuda_stream_of(stream), factors,
                                           rows * sizeof *factors);
    pc__cuda_scale_rows_task task = {pc__cuda_floats(x), list, (uint32_t)rows, (uint32_t)dim};
    pc__cuda_launch_rows(stream, &pc__cuda_dense.scale_rows, rows, &task);
}

/* ------------------------------------------------------------------- neighbours */

/* Ranges that follow each other without a gap, as one launch. ends: scratch of the host, two lists
 * of `rows` numbers. */
static void run_neighbours(pc__stream *stream, const pc__row_range *ranges, size_t count,
                           uint32_t *ends, pc__cuda_neighbours_task *task)
{
    uint32_t *first = ends, *end = ends + task->rows, row = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t r = 0; r < ranges[i].count; r++, row++) {
            first[row] = (uint32_t)(ranges[i].first - ranges[0].first);
            end[row] = first[row] + (uint32_t)ranges[i].count;
        }
    const uint32_t *list = pc__cuda_kept_list(pc__cuda_stream_of(stream), ends,
                                              2 * task->rows * sizeof *ends);
    task->lane_first = list;
    task->lane_end = list ? list + task->rows : NULL;
    pc__cuda_launch_rows(stream, &pc__cuda_dense.neighbours, task->rows, task);
}

void pc__cuda_op_neighbours(pc__stream *stream, const pc__row_range *ranges, size_t count,
                            size_t taps, size_t dim, const pc__floats *x, pc__floats *y)
{
    for (size_t i = 0, next; i < count; i = next) {
        size_t rows = ranges[i].count, first = ranges[i].first;
        for (next = i + 1; next < count && ranges[next].first == first + rows; next++)
            rows += ranges[next].count;
        uint32_t *ends = pc__cuda_host_list(stream, 2 * rows, sizeof *ends);
        pc__cuda_neighbours_task task = {.x = pc__cuda_floats(x) + first * dim,
                                         .y = pc__cuda_floats(y) + first * dim * taps,
                                         .rows = (uint32_t)rows,
                                         .dim = (uint32_t)dim,
                                         .taps = (uint32_t)taps};
        if (ends)
            run_neighbours(stream, ranges + i, next - i, ends, &task);
        pc__free(&stream->context->mem, ends);
    }
}

/* ------------------------------------------------------------------- K and V */

static const pc__cuda_kernel *writer_of(const pc__cuda_dense_kernels *k, uint32_t dtype)
{
    switch (dtype) {
    case PC_DTYPE_F32:
        return &k->kv_write_f32;
    case PC_DTYPE_BF16:
        return &k->kv_write_bf16;
    case PC_DTYPE_F16:
        return &k->kv_write_f16;
    default:
        return NULL;
    }
}

static pc__cuda_page_shape shape_of(const pc__kv_shape *shape)
{
    return (pc__cuda_page_shape){.k_dim = (uint32_t)shape->k_dim,
                                 .v_dim = (uint32_t)shape->v_dim,
                                 .v_offset = (uint32_t)pc__kv_k_bytes(shape),
                                 .page_bytes = (uint32_t)pc__kv_page_bytes(shape),
                                 .kv_heads = (uint32_t)shape->kv_heads};
}

/* Pieces of rows of which each is the token after the one before, in one page. Returns their
 * number. */
static size_t find_pieces(pc__kv *const *runs, const size_t *slots, size_t rows,
                          pc__cuda_kv_piece *pieces)
{
    size_t count = 0;
    for (size_t r = 0; r < rows; r++) {
        if (r && runs[r] == runs[r - 1] && slots[r] == slots[r - 1] + 1 && slots[r] % PC__PAGE) {
            pieces[count - 1].count++;
            continue;
        }
        const pc__kv_device *device = atomic_load(&runs[r]->device);
        pieces[count++] = (pc__cuda_kv_piece){
            .page = (uint64_t)(uintptr_t)device->page[slots[r] / PC__PAGE],
            .layer_stride = device->layer_stride,
            .row = (uint32_t)r,
            .slot = (uint32_t)(slots[r] % PC__PAGE),
            .count = 1};
    }
    return count;
}

/* Runs of one shape. */
static void store_rows(pc__stream *stream, const pc__kv_shape *shape, pc__cuda_kv_write *task,
                       const pc__cuda_kv_piece *pieces, size_t count)
{
    pc__cuda_stream *cuda = pc__cuda_stream_of(stream);
    const pc__cuda_kernel *kernel = writer_of(&pc__cuda_dense, shape->dtype);
    if (!kernel) {
        pc__cuda_note(cuda, pc__fail(PC_ERR_INTERNAL, "tokens cannot be written into int8 pages"));
        return;
    }
    task->pieces = pc__cuda_kept_list(cuda, pieces, count * sizeof *pieces);
    task->shape = shape_of(shape);
    task->count = (uint32_t)count;
    pc__cuda_launch(cuda, kernel, (pc__cuda_grid){(uint32_t)count, (uint32_t)shape->kv_heads, 1},
                    task);
}

/* The angles of all rows; dims 0 where keys are not rotated. */
static pc__cuda_angles angles_of(pc__stream *stream, const pc__kv_rows *rows)
{
    if (!rows->rope || rows->rope->dims < 2 || !rows->k)
        return (pc__cuda_angles){0};
    return pc__cuda_angles_of(pc__cuda_stream_of(stream), stream->context, rows->rope,
                              rows->positions, rows->rows);
}

/* The rows from `first` on: as many as have runs of one shape. Returns the row after them. The
 * angles are asked for each time, for there may be more shapes in turn than a stream keeps lists.
 */
static size_t store_some(pc__stream *stream, const pc__kv_rows *rows, size_t first,
                         pc__cuda_kv_piece *pieces)
{
    pc__kv *const *runs = rows->runs;
    const pc__kv_shape *shape = &runs[first]->shape;
    size_t end;
    for (end = first + 1; end < rows->rows; end++)
        if (runs[end] != runs[first] && memcmp(&runs[end]->shape, shape, sizeof *shape) != 0)
            break;
    pc__cuda_kv_write task = {
        .k = rows->k ? pc__cuda_floats(rows->k) + first * rows->k_stride : NULL,
        .v = rows->v ? pc__cuda_floats(rows->v) + first * rows->v_stride : NULL,
        .k_stride = rows->k_stride,
        .v_stride = rows->v_stride,
        .angles = angles_of(stream, rows),
        .layer = (uint32_t)rows->layer};
    if (task.angles.cosine) {
        task.angles.cosine += first * (task.angles.dims / 2);
        task.angles.sine += first * (task.angles.dims / 2);
    }
    store_rows(stream, shape, &task, pieces,
               find_pieces(runs + first, rows->slots + first, end - first, pieces));
    return end;
}

void pc__cuda_op_store_kv(pc__stream *stream, const pc__kv_rows *rows)
{
    pc__cuda_kv_piece *pieces = pc__cuda_host_list(stream, rows->rows, sizeof *pieces);
    for (size_t first = 0; pieces && first < rows->rows;)
        first = store_some(stream, rows, first, pieces);
    pc__free(&stream->context->mem, pieces);
}
