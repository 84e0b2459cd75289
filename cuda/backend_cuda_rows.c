/* Operations on rows: on every number, norms, rows that are moved or rotated, the writing of K and
 * V, and tokens that are drawn on the device; and what all operations on rows share. */
#include "cuda/backend_cuda.h"

#include <math.h>
#include <string.h>

#include "attn/plan_view.h"
#include "base/mem.h"
#include "base/threads.h"

/* ------------------------------------------------------------------- shared */

void pc__cuda_launch_rows(pc__stream *stream, const pc__cuda_kernel *kernel, size_t blocks,
                          const void *task)
{
    pc__cuda_launch(pc__cuda_stream_of(stream), kernel, (pc__cuda_grid){(uint32_t)blocks, 1, 1},
                    task);
}

void *pc__cuda_scratch_of(pc__stream *stream, size_t bytes)
{
    pc__cuda_stream *cuda = pc__cuda_stream_of(stream);
    void *scratch = NULL;
    if (cuda->status == PC_OK)
        pc__cuda_note(cuda, pc__cuda_scratch_take(cuda, bytes, &scratch));
    return scratch;
}

void pc__cuda_done_with(pc__stream *stream, const void *scratch)
{
    pc__cuda_scratch_give(pc__cuda_stream_of(stream), (void *)(uintptr_t)scratch);
}

void *pc__cuda_host_list(pc__stream *stream, size_t count, size_t bytes)
{
    void *list = pc__calloc(&stream->context->mem, count, bytes);
    if (!list)
        pc__cuda_note(pc__cuda_stream_of(stream), PC_ERR_NOMEM);
    return list;
}

/* ------------------------------------------------------------ number by number */

static void run_flat(pc__stream *stream, const pc__cuda_kernel *kernel, const pc__cuda_flat *task)
{
    pc__cuda_launch_rows(stream, kernel, pc__cuda_flat_blocks(task->count), task);
}

void pc__cuda_op_pointwise(pc__stream *stream, pc__pointwise what, float a, pc__floats *x,
                           size_t count)
{
    const pc__cuda_kernel_table *k = &pc__cuda_kernels;
    run_flat(stream,
             what == PC__SCALE  ? &k->scale
             : what == PC__CLIP ? &k->clip
                                : &k->cap,
             &(pc__cuda_flat){.x = pc__cuda_floats(x), .count = count, .factor = a});
}

void pc__cuda_op_add(pc__stream *stream, pc__floats *x, const pc__floats *y, size_t count)
{
    run_flat(stream, &pc__cuda_kernels.add,
             &(pc__cuda_flat){.x = pc__cuda_floats(x), .y = pc__cuda_floats(y), .count = count});
}

void pc__cuda_op_activate(pc__stream *stream, pc__activation activation, pc__floats *x,
                          size_t count)
{
    const pc__cuda_kernel_table *k = &pc__cuda_kernels;
    const pc__cuda_kernel *const of[] = {
        [PC__ACT_RELU] = &k->relu,           [PC__ACT_GELU] = &k->gelu,
        [PC__ACT_GELU_TANH] = &k->gelu_tanh, [PC__ACT_SILU] = &k->silu,
        [PC__ACT_TANH] = &k->tanh,           [PC__ACT_RELU_SQUARED] = &k->relu_squared};
    if (activation != PC__ACT_NONE && activation != PC__ACT_CLAMPED) /* that one is of gates */
        run_flat(stream, of[activation], &(pc__cuda_flat){.x = pc__cuda_floats(x), .count = count});
}

void pc__cuda_op_gate(pc__stream *stream, const pc__gating *gating, pc__floats *x,
                      const pc__floats *up, size_t count)
{
    const pc__cuda_kernel_table *k = &pc__cuda_kernels;
    const pc__cuda_kernel *const of[] = {[PC__ACT_NONE] = &k->gate_none,
                                         [PC__ACT_RELU] = &k->gate_relu,
                                         [PC__ACT_GELU] = &k->gate_gelu,
                                         [PC__ACT_GELU_TANH] = &k->gate_gelu_tanh,
                                         [PC__ACT_SILU] = &k->gate_silu,
                                         [PC__ACT_TANH] = &k->gate_tanh,
                                         [PC__ACT_RELU_SQUARED] = &k->gate_relu_squared,
                                         [PC__ACT_CLAMPED] = &k->gate_clamped};
    run_flat(stream, of[gating->activation],
             &(pc__cuda_flat){.x = pc__cuda_floats(x),
                              .y = pc__cuda_floats(up),
                              .count = count,
                              .factor = gating->limit,
                              .alpha = gating->alpha});
}

/* ------------------------------------------------------------------- norms */

/* The kernels read four numbers at a time where rows have a multiple of four. */
static int norm_is_aligned(const pc__cuda_norm *task)
{
    return task->dim % 4
           || (pc__cuda_aligned(task->x) && pc__cuda_aligned(task->add)
               && pc__cuda_aligned(task->gain) && pc__cuda_aligned(task->bias)
               && pc__cuda_aligned(task->y));
}

/* mean: 1 for a layer norm. */
static void run_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                     size_t dim, const pc__norm_weights *weights, uint32_t mean, pc__floats *y)
{
    const pc__cuda_kernel_table *k = &pc__cuda_kernels;
    const pc__cuda_norm task = {.x = pc__cuda_floats(x),
                                .add = addend ? pc__cuda_floats(addend->at) : NULL,
                                .gain = pc__cuda_floats(weights->gain),
                                .bias = mean ? pc__cuda_floats(weights->bias) : NULL,
                                .y = pc__cuda_floats(y),
                                .rows = (uint32_t)rows,
                                .dim = (uint32_t)dim,
                                .eps = weights->eps,
                                .add_scale = addend ? addend->scale : 0.0f,
                                .mean = mean,
                                .vectors = weights->vectors ? (uint32_t)weights->vectors : 1};
    if (!norm_is_aligned(&task)) {
        pc__cuda_note(pc__cuda_stream_of(stream),
                      pc__fail(PC_ERR_INTERNAL, "a norm of rows that do not begin at 16 bytes"));
        return;
    }
    pc__cuda_launch_rows(stream, dim <= PC__CUDA_NORM_WARP_DIM ? &k->norm_warp : &k->norm_block,
                         pc__cuda_norm_blocks(&task), &task);
}

void pc__cuda_op_rms_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                          size_t dim, const pc__norm_weights *weights, pc__floats *y)
{
    run_norm(stream, x, addend, rows, dim, weights, 0, y);
}

void pc__cuda_op_layer_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend,
                            size_t rows, size_t dim, const pc__norm_weights *weights, pc__floats *y)
{
    run_norm(stream, x, addend, rows, dim, weights, 1, y);
}

/* ------------------------------------------------------------------- rows */

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
    pc__cuda_launch_rows(stream, &pc__cuda_kernels.lookup_f32, rows, &task);
}

void pc__cuda_op_scale_rows(pc__stream *stream, const float *factors, size_t rows, size_t dim,
                            pc__floats *x)
{
    const float *list = pc__cuda_kept_list(pc__cuda_stream_of(stream), factors,
                                           rows * sizeof *factors);
    pc__cuda_scale_rows_task task = {pc__cuda_floats(x), list, (uint32_t)rows, (uint32_t)dim};
    pc__cuda_launch_rows(stream, &pc__cuda_kernels.scale_rows, rows, &task);
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
    pc__cuda_launch_rows(stream, &pc__cuda_kernels.neighbours, task->rows, task);
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

/* ------------------------------------------------------------------- angles */

/* They are found by value, because a RoPE object may be gone while its angles are kept. */

enum { ROWS_AT_ONCE = 16 };

typedef struct computing {
    const pc__rotation *rope;
    const int64_t *positions;
    size_t rows, half;
    float *cosine, *sine; /* [rows][half] each, one behind the other */
} computing;

static void compute_rows(void *arg, size_t index)
{
    const computing *c = arg;
    for (size_t r = index * ROWS_AT_ONCE; r < (index + 1) * ROWS_AT_ONCE && r < c->rows; r++)
        pc__rope_angles(c->rope, c->positions[r], c->cosine + r * c->half, c->sine + r * c->half);
}

static const float *compute(pc__cuda_stream *stream, pc_context *context, const pc__cuda_key *key,
                            computing *c)
{
    size_t count = 2 * c->rows * c->half;
    const float *device;
    if (!(c->cosine = pc__calloc(&context->mem, count, sizeof(float)))) {
        pc__cuda_note(stream, PC_ERR_NOMEM);
        return NULL;
    }
    c->sine = c->cosine + count / 2;
    pc__parallel(context, (c->rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, compute_rows, c);
    device = pc__cuda_kept_add(stream, key, c->cosine, count * sizeof(float));
    pc__free(&context->mem, c->cosine);
    return device;
}

pc__cuda_angles pc__cuda_angles_of(pc__cuda_stream *stream, pc_context *context,
                                   const pc__rotation *rope, const int64_t *positions, size_t rows)
{
    struct {
        int32_t dims, interleaved;
        float factor;
    } values = {rope->dims, rope->interleaved, rope->factor};
    computing c = {
        .rope = rope, .positions = positions, .rows = rows, .half = (size_t)rope->dims / 2};
    pc__cuda_key key = {PC__CUDA_KEY_ANGLES,
                        {{&values, sizeof values},
                         {rope->frequency, c.half * sizeof *rope->frequency},
                         {positions, rows * sizeof *positions}}};
    const float *device = pc__cuda_kept_find(stream, &key);
    if (!device && rows && c.half && stream->status == PC_OK)
        device = compute(stream, context, &key, &c);
    return (pc__cuda_angles){device, device ? device + rows * c.half : NULL, (uint32_t)rope->dims,
                             (uint32_t)rope->interleaved};
}

/* ------------------------------------------------------------------- K and V */

pc__cuda_page_shape pc__cuda_page_shape_of(const pc__kv_shape *shape)
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
    if (shape->dtype == PC_DTYPE_I8) {
        pc__cuda_note(cuda, pc__fail(PC_ERR_INTERNAL, "tokens cannot be written into int8 pages"));
        return;
    }
    task->pieces = pc__cuda_kept_list(cuda, pieces, count * sizeof *pieces);
    task->shape = pc__cuda_page_shape_of(shape);
    task->count = (uint32_t)count;
    pc__cuda_launch(cuda, pc__cuda_for_dtype(&pc__cuda_kernels.kv_write_f32, shape->dtype),
                    (pc__cuda_grid){(uint32_t)count, (uint32_t)shape->kv_heads, 1}, task);
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

/* ------------------------------------------------------------------- tokens */

/* Sets what a row has of its own; *changes and *changed count what the rows before it have. */
static void set_row(pc__cuda_sampling *row, const pc__draw *draw, const pc__draws *draws,
                    size_t *changes, size_t *changed)
{
    *row = (pc__cuda_sampling){.random = draw->random,
                               .log_min_p = draw->min_p > 0 ? log((double)draw->min_p)
                                                            : -(double)INFINITY,
                               .row = draw->row - draws->first,
                               .changes = *changes,
                               .changed = *changed,
                               .change_count = (uint32_t)draw->change_count,
                               .vocab = (uint32_t)draw->vocab,
                               .temperature = draw->temperature,
                               .top_p = draw->top_p,
                               .top_k = draw->top_k,
                               .logprob = draw->logprob,
                               .likely = draw->likely};
    *changes += draw->change_count;
    *changed += draw->change_count > 0;
}

/* The rows and, behind them, the changes of all, in host memory to free. */
static pc__cuda_sampling *list_rows(pc__stream *stream, const pc__draws *draws, size_t *bytes,
                                    size_t *changed)
{
    size_t changes = 0;
    for (size_t i = 0; i < draws->count; i++)
        changes += draws->list[i].change_count;
    *bytes = draws->count * sizeof(pc__cuda_sampling) + changes * sizeof(pc__logit_change);
    pc__cuda_sampling *rows = pc__cuda_host_list(stream, *bytes, 1);
    changes = *changed = 0;
    if (!rows)
        return NULL;
    uint8_t *to = (uint8_t *)(rows + draws->count);
    for (size_t i = 0; i < draws->count; i++) {
        const pc__draw *draw = &draws->list[i];
        size_t size = draw->change_count * sizeof *draw->changes;
        if (size)
            memcpy(to + changes * sizeof *draw->changes, draw->changes, size);
        set_row(&rows[i], draw, draws, &changes, changed);
    }
    return rows;
}

void pc__cuda_op_sample(pc__stream *stream, pc__floats *logits, size_t stride,
                        const pc__draws *draws)
{
    size_t each = pc__drawn_bytes(draws->likely), bytes, changed;
    pc__cuda_sampling *rows = list_rows(stream, draws, &bytes, &changed);
    if (!rows)
        return;
    const pc__cuda_sampling *list = pc__cuda_kept_list(pc__cuda_stream_of(stream), rows, bytes);
    void *drawn = pc__cuda_scratch_of(stream, draws->count * each),
         *scratch = changed ? pc__cuda_scratch_of(stream, changed * stride * sizeof(float)) : NULL;
    const pc__cuda_sample_task task = {
        .logits = pc__cuda_floats(logits),
        .changed = scratch,
        .rows = list,
        .changes = list ? (const pc__logit_change *)(const void *)(list + draws->count) : NULL,
        .drawn = drawn,
        .stride = stride,
        .count = (uint32_t)draws->count,
        .drawn_bytes = (uint32_t)each};
    pc__cuda_launch_rows(stream, &pc__cuda_kernels.sample, draws->count, &task);
    pc__cuda_copy(pc__cuda_stream_of(stream), draws->drawn, drawn, draws->count * each);
    pc__cuda_done_with(stream, scratch);
    pc__cuda_done_with(stream, drawn);
    pc__free(&stream->context->mem, rows);
}
