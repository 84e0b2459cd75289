/* Products of linear layers: by cuBLASLt, or with quantised weights by our own kernels. */
#include "cuda/backend_cuda_dense.h"

/* ------------------------------------------------------------------- quantised */

static pc__cuda_quantised_rows quantise_rows(pc__stream *stream, const pc__cuda_linear *linear,
                                             const float *x, size_t rows)
{
    size_t codes = pc__cuda_codes_bytes(rows, linear->in);
    size_t factors = pc__cuda_factors_bytes(rows, linear->groups);
    uint8_t *block = pc__cuda_scratch_of(stream, codes + factors);
    pc__cuda_quantised_rows to = {0};
    if (!block)
        return to;
    to.codes = (uint32_t *)(void *)block;
    to.factors = (int32_t *)(void *)(block + codes);
    pc__cuda_quantise_task task = {.x = x,
                                   .to = to,
                                   .rows = (uint32_t)rows,
                                   .in = (uint32_t)linear->in,
                                   .group = linear->format.group,
                                   .bytes = linear->code_bytes};
    pc__cuda_launch_rows(stream, &pc__cuda_dense.quantise, (rows + 7) / 8 * 8, &task);
    return to;
}

static int same_codes(const pc__cuda_linear *a, const pc__cuda_linear *b)
{
    return a->format.group == b->format.group && a->code_bytes == b->code_bytes;
}

const pc__cuda_quantised_rows *pc__cuda_codes_for(pc__stream *stream, pc__cuda_codes *codes,
                                                  const pc__cuda_linear *linear, const float *x,
                                                  size_t rows)
{
    if (!codes->of || !same_codes(codes->of, linear)) {
        pc__cuda_codes_end(stream, codes);
        codes->rows = quantise_rows(stream, linear, x, rows);
        codes->of = linear;
    }
    return &codes->rows;
}

void pc__cuda_codes_end(pc__stream *stream, pc__cuda_codes *codes)
{
    pc__cuda_done_with(stream, codes->rows.codes);
}

pc__cuda_quantised_task pc__cuda_quantised_layer(const pc__cuda_linear *linear,
                                                 const pc__cuda_quantised_rows *x)
{
    return (pc__cuda_quantised_task){.part = {{.out = (uint32_t)linear->out}},
                                     .x = *x,
                                     .panel_bytes = linear->panel_bytes,
                                     .groups = (uint32_t)linear->groups,
                                     .bits = linear->format.bits,
                                     .group = linear->format.group,
                                     .zero = linear->format.zero,
                                     .minimum = linear->format.minimum,
                                     .half = linear->format.half};
}

/* 1: quantised_few.cu, 0: quantised_many.cu; the bits are the same. Each reads the weights once for
 * a tile of 32 rows. A block of the first has a panel, which 8 warps share; one of the other has 4
 * panels, each of which one warp goes through alone. That takes less work, but longer: it pays only
 * where such blocks are as many as the multiprocessors. */
static int takes_few(const pc__stream *stream, uint32_t panels, uint32_t tiles)
{
    uint64_t blocks = (uint64_t)((panels + 3) / 4) * tiles;
    return tiles == 1
           || blocks < (uint64_t)pc__cuda_stream_of(stream)->device->is.multiProcessorCount;
}

/* Layers whose inputs have the same codes, and whose panels one launch can read. */
static int same_format(const pc__cuda_linear *a, const pc__cuda_linear *b)
{
    return same_codes(a, b) && a->panel_bytes == b->panel_bytes && a->format.bits == b->format.bits
           && a->format.zero == b->format.zero && a->format.minimum == b->format.minimum
           && a->format.half == b->format.half;
}

/* Adds all layers of the format of `first` to its task. */
static uint32_t add_parts(const pc__cuda_linear *const *linears, size_t count, size_t first,
                          float *const *y, uint8_t *done, pc__cuda_quantised_task *task)
{
    uint32_t parts = 0;
    for (size_t i = first; i < count && parts < PC__CUDA_QUANTISED_PARTS; i++) {
        const pc__cuda_linear *linear = linears[i];
        if (done[i] || linear->gemm || !same_format(linear, linears[first]))
            continue;
        done[i] = 1;
        task->part[parts++] = (pc__cuda_quantised_part){.panels = linear->weights,
                                                        .bias = linear->bias,
                                                        .y = y[i],
                                                        .out = (uint32_t)linear->out};
    }
    return parts;
}

static void multiply_quantised(pc__stream *stream, pc__cuda_quantised_task *task, uint32_t parts)
{
    uint32_t panels = 0, most = 0, tiles = (task->rows + 31) / 32;
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t own = (task->part[i].out + 31) / 32;
        panels += own;
        most = own > most ? own : most;
    }
    int few = takes_few(stream, panels, tiles);
    pc__cuda_grid grid = {few ? most : (most + 3) / 4, tiles, parts};
    pc__cuda_launch(pc__cuda_stream_of(stream),
                    few ? &pc__cuda_dense.quantised_few : &pc__cuda_dense.quantised_many, grid,
                    task);
}

static void run_quantised(pc__stream *stream, const pc__cuda_linear *const *linears, size_t count,
                          const float *x, size_t rows, float *const *y)
{
    pc__cuda_codes codes = {0};
    uint8_t done[PC__LINEARS_AT_ONCE] = {0};
    for (size_t i = 0; i < count; i++) {
        if (linears[i]->gemm || done[i])
            continue;
        pc__cuda_quantised_task task = pc__cuda_quantised_layer(
            linears[i], pc__cuda_codes_for(stream, &codes, linears[i], x, rows));
        task.rows = (uint32_t)rows;
        uint32_t parts = add_parts(linears, count, i, y, done, &task);
        multiply_quantised(stream, &task, parts);
    }
    pc__cuda_codes_end(stream, &codes);
}

/* ------------------------------------------------------------------- all */

static void run_plain(pc__stream *stream, const pc__cuda_linear *const *linears, size_t count,
                      const float *x, size_t rows, float *const *y)
{
    pc__cuda_product products[PC__LINEARS_AT_ONCE];
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (linears[i]->gemm)
            products[n++] = (pc__cuda_product){linears[i]->gemm, y[i]};
    pc__cuda_gemm_run(pc__cuda_stream_of(stream), products, n, x, rows);
}

/* Inputs at a multiple of 16 bytes: their own address, or scratch. */
static const float *aligned_input(pc__stream *stream, const pc__floats *x, size_t count)
{
    if (pc__cuda_aligned(x))
        return pc__cuda_floats(x);
    float *copy = pc__cuda_scratch_of(stream, count * sizeof *copy);
    if (copy)
        pc__cuda_copy(pc__cuda_stream_of(stream), copy, x, count * sizeof *copy);
    return copy;
}

static void end_outputs(pc__stream *stream, const pc__cuda_linear *const *linears, size_t count,
                        size_t rows, float *const *from, pc__floats *const *y)
{
    for (size_t i = 0; i < count; i++)
        if (from[i] != pc__cuda_floats(y[i])) {
            pc__cuda_copy(pc__cuda_stream_of(stream), y[i], from[i],
                          rows * linears[i]->out * sizeof(float));
            pc__cuda_done_with(stream, from[i]);
        }
}

pc_status pc__cuda_op_linear_run(pc__stream *stream, const pc__linear *const *linears, size_t count,
                                 const pc__floats *x, size_t rows, pc__floats *const *y)
{
    const pc__cuda_linear *layers[PC__LINEARS_AT_ONCE];
    float *to[PC__LINEARS_AT_ONCE];
    if (!rows)
        return PC_OK;
    const float *from = aligned_input(stream, x, rows * pc__cuda_linear_of(linears[0])->in);
    for (size_t i = 0; i < count; i++) {
        layers[i] = pc__cuda_linear_of(linears[i]);
        to[i] = pc__cuda_aligned(y[i])
                    ? pc__cuda_floats(y[i])
                    : pc__cuda_scratch_of(stream, rows * layers[i]->out * sizeof(float));
    }
    run_quantised(stream, layers, count, from, rows, to);
    run_plain(stream, layers, count, from, rows, to);
    end_outputs(stream, layers, count, rows, to, y);
    if (from != pc__cuda_floats(x))
        pc__cuda_done_with(stream, from);
    return PC_OK;
}
