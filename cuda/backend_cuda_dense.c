/* Operations on every number and norms, and what all files of operations on rows share. */
#include "cuda/backend_cuda_dense.h"

#include "base/mem.h"

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
    const pc__cuda_dense_kernels *k = &pc__cuda_dense;
    run_flat(stream,
             what == PC__SCALE  ? &k->scale
             : what == PC__CLIP ? &k->clip
                                : &k->cap,
             &(pc__cuda_flat){.x = pc__cuda_floats(x), .count = count, .factor = a});
}

void pc__cuda_op_add(pc__stream *stream, pc__floats *x, const pc__floats *y, size_t count)
{
    run_flat(stream, &pc__cuda_dense.add,
             &(pc__cuda_flat){.x = pc__cuda_floats(x), .y = pc__cuda_floats(y), .count = count});
}

void pc__cuda_op_activate(pc__stream *stream, pc__activation activation, pc__floats *x,
                          size_t count)
{
    const pc__cuda_dense_kernels *k = &pc__cuda_dense;
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
    const pc__cuda_dense_kernels *k = &pc__cuda_dense;
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
    const pc__cuda_dense_kernels *k = &pc__cuda_dense;
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
