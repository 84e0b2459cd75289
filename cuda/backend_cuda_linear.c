/* Linear layers and tables. Weights are read in chunks, rounded or packed on the CPU, then copied
 * to the device. Products are by cuBLASLt, or with quantised weights by our own kernels. */
#include "cuda/backend_cuda.h"

#include <string.h>

#include "base/mem.h"
#include "base/threads.h"

enum { CHUNK_BYTES = 8 << 20, PIECE_ROWS = 16 };

/* ------------------------------------------------------------------- rows */

/* Rows of a matrix, in fp32, bf16 or fp16. */
typedef struct filling {
    const pc__weight_source *source;
    size_t dim;
    size_t first, count; /* rows of this chunk */
    uint32_t dtype;
    float *rows;    /* [count][dim] */
    uint16_t *half; /* the same, rounded; NULL: fp32 */
} filling;

static void fill_piece(void *arg, size_t index)
{
    const filling *f = arg;
    size_t at = index * PIECE_ROWS, left = f->count - at;
    size_t count = left < PIECE_ROWS ? left : PIECE_ROWS;
    f->source->rows(f->source->user, f->first + at, count, f->rows + at * f->dim);
    if (f->half)
        pc__round_to(f->dtype, f->rows + at * f->dim, count * f->dim, f->half + at * f->dim);
}

static size_t element_of(uint32_t dtype)
{
    return dtype == PC_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
}

static pc_status fill_chunks(pc__backend *backend, filling *f, size_t rows, size_t chunk, void *to)
{
    size_t row_bytes = f->dim * element_of(f->dtype);
    for (f->first = 0; f->first < rows; f->first += f->count) {
        f->count = rows - f->first < chunk ? rows - f->first : chunk;
        pc__parallel(backend->context, (f->count + PIECE_ROWS - 1) / PIECE_ROWS, fill_piece, f);
        PC__TRY_RETURN(pc__backend_copy(backend, (char *)to + f->first * row_bytes,
                                        f->half ? (void *)f->half : (void *)f->rows,
                                        f->count * row_bytes));
    }
    return PC_OK;
}

/* Takes memory of the device for the matrix, and fills it. */
static pc_status rows_to_device(pc__backend *backend, const pc__weight_source *source, size_t rows,
                                size_t dim, uint32_t dtype, void **out)
{
    const pc_allocator *mem = &backend->context->mem;
    size_t chunk = CHUNK_BYTES / (dim * sizeof(float)) + 1;
    chunk = chunk < rows ? chunk : rows;
    filling f = {.source = source, .dim = dim, .dtype = dtype};
    pc_status status = PC_ERR_NOMEM;
    f.rows = pc__calloc(mem, chunk, dim * sizeof(float));
    if (dtype != PC_DTYPE_F32)
        f.half = pc__calloc(mem, chunk, dim * sizeof(uint16_t));
    if (f.rows && (f.half || dtype == PC_DTYPE_F32)
        && (*out = backend->ops->take(backend, rows * dim * element_of(dtype))))
        status = fill_chunks(backend, &f, rows, chunk, *out);
    pc__free(mem, f.rows);
    pc__free(mem, f.half);
    return status;
}

/* ------------------------------------------------------------------- panels */

/* How weights of a format lie on the device. */
static pc__cuda_panel_format panel_format_of(const pc__block_format *format)
{
    return (pc__cuda_panel_format){.bits = format->bits == 4 && !format->table ? 4 : 8,
                                   .group = format->group,
                                   .zero = format->zero,
                                   .minimum = format->minimum,
                                   .half = format->scales == PC__SCALES_F16};
}

/* The integers of one group of one feature. */
static void pack_integers(const pc__block_format *format, const pc__cuda_panel_format *to,
                          const uint8_t *q, size_t n, uint8_t *group)
{
    const uint8_t *table = format->table ? pc__block_tables[format->table] : NULL;
    for (size_t k = 0; k < to->group; k++) {
        size_t middle = to->group / 2, at = to->bits == 8 ? k : k % middle;
        uint8_t *byte = &group[(at / 4 * PC__CUDA_PANEL + n) * 4 + at % 4];
        uint8_t value = table ? table[q[k]] : q[k];
        *byte = (uint8_t)(to->bits == 8 || k < middle ? value : *byte | value << 4);
    }
}

/* Group g of row n. */
static void pack_scales(const pc__block_format *format, const pc__cuda_panel_format *to,
                        const pc__block_rows *from, size_t in, size_t g, size_t n, uint8_t *group)
{
    size_t b = n * (in / format->block) + g * format->group / format->block,
           i = n * (in / format->group) + g;
    int small = pc__has_group_scales(format);
    float scale = pc__block_scale(format, from->d[b], small ? from->scale[i] : 1);
    if (to->half)
        memcpy(group + pc__cuda_scale_at(to) + 2 * n, &from->d[b], sizeof from->d[b]);
    else
        memcpy(group + pc__cuda_scale_at(to) + 4 * n, &scale, sizeof scale);
    if (!format->minimum)
        return;
    float minimum = pc__block_scale(format, from->dmin[b], small ? from->minimum[i] : 1);
    memcpy(group + pc__cuda_minimum_at(to) + 4 * n, &minimum, sizeof minimum);
}

/* Writes `rows` <= PC__CUDA_PANEL rows into a panel; the features behind them are zero. */
static void pack_rows(const pc__block_format *format, size_t in, const pc__block_rows *from,
                      size_t rows, uint8_t *panel)
{
    pc__cuda_panel_format to = panel_format_of(format);
    size_t bytes = pc__cuda_group_bytes(&to), groups = in / format->group;
    if (rows < PC__CUDA_PANEL)
        memset(panel, 0, groups * bytes);
    for (size_t g = 0; g < groups; g++, panel += bytes)
        for (size_t n = 0; n < rows; n++) {
            pack_integers(format, &to, from->q + n * in + g * format->group, n, panel);
            pack_scales(format, &to, from, in, g, n, panel);
        }
}

typedef struct packing {
    const pc__cuda_linear *linear;
    const pc__weight_source *source;
    size_t first;     /* panel of this chunk */
    uint8_t *panels;  /* [chunk][panel_bytes] */
    uint8_t *scratch; /* [chunk][each] */
    size_t each;
} packing;

static void pack_panel(void *arg, size_t index)
{
    const packing *p = arg;
    const pc__cuda_linear *l = p->linear;
    size_t first = (p->first + index) * PC__CUDA_PANEL, left = l->out - first;
    size_t count = left < PC__CUDA_PANEL ? left : PC__CUDA_PANEL;
    const pc__block_format *from = &p->source->format;
    pc__block_rows rows = pc__block_rows_in(p->scratch + index * p->each, from, l->in, count);
    p->source->quantised_rows(p->source->user, first, count, &rows);
    pack_rows(from, l->in, &rows, count, p->panels + index * l->panel_bytes);
}

static pc_status pack_chunks(const pc__cuda_linear *linear, packing *p, size_t panels, size_t chunk)
{
    size_t bytes = linear->panel_bytes;
    for (size_t count; p->first < panels; p->first += count) {
        count = panels - p->first < chunk ? panels - p->first : chunk;
        pc__parallel(linear->backend->context, count, pack_panel, p);
        PC__TRY_RETURN(pc__backend_copy(linear->backend, (char *)linear->weights + p->first * bytes,
                                        p->panels, count * bytes));
    }
    return PC_OK;
}

static pc_status panels_to_device(pc__cuda_linear *linear, const pc__weight_source *source)
{
    const pc_allocator *mem = &linear->backend->context->mem;
    packing p = {.linear = linear, .source = source};
    size_t panels = (linear->out + PC__CUDA_PANEL - 1) / PC__CUDA_PANEL;
    pc_status status = PC_ERR_NOMEM;
    p.each = (pc__block_rows_bytes(&source->format, linear->in, PC__CUDA_PANEL) + 63) / 64 * 64;
    size_t chunk = CHUNK_BYTES / p.each + 1;
    chunk = chunk < panels ? chunk : panels;
    p.panels = pc__calloc(mem, chunk, linear->panel_bytes);
    p.scratch = pc__calloc(mem, chunk, p.each);
    if (p.panels && p.scratch
        && (linear->weights = linear->backend->ops->take(linear->backend,
                                                         panels * linear->panel_bytes)))
        status = pack_chunks(linear, &p, panels, chunk);
    pc__free(mem, p.panels);
    pc__free(mem, p.scratch);
    return status;
}

/* ------------------------------------------------------------------- layers */

static pc_status make_quantised(pc__cuda_linear *linear, const pc__weight_source *source)
{
    linear->format = panel_format_of(&source->format);
    linear->groups = linear->in / linear->format.group;
    linear->panel_bytes = linear->groups * pc__cuda_group_bytes(&linear->format);
    linear->bytes = (linear->out + PC__CUDA_PANEL - 1) / PC__CUDA_PANEL * linear->panel_bytes;
    return panels_to_device(linear, source);
}

static pc_status make_plain(pc__cuda_linear *linear, const pc__weight_source *source)
{
    pc__cuda_gemm_shape shape = {.in = (uint32_t)linear->in,
                                 .out = (uint32_t)linear->out,
                                 .dtype = linear->dtype,
                                 .bias = linear->bias != NULL};
    pc__cuda_blas *blas;
    linear->bytes = linear->out * linear->in * element_of(linear->dtype);
    PC__TRY_RETURN(pc__cuda_backend_blas(&blas, linear->backend));
    PC__TRY_RETURN(rows_to_device(linear->backend, source, linear->out, linear->in, linear->dtype,
                                  &linear->weights));
    return pc__cuda_gemm_new(&linear->gemm, blas, &shape, linear->weights, linear->bias);
}

static pc_status make_layer(pc__cuda_linear *linear, const pc__weight_source *source,
                            const float *bias)
{
    if (bias
        && !(
            linear->bias = pc__cuda_floats(pc__backend_vector(linear->backend, bias, linear->out))))
        return PC_ERR_NOMEM;
    return source->format.bits ? make_quantised(linear, source) : make_plain(linear, source);
}

static void free_layer(pc__cuda_linear *linear)
{
    pc__backend *backend = linear->backend;
    pc__cuda_gemm_free(linear->gemm);
    backend->ops->give(backend, linear->weights);
    backend->ops->give(backend, linear->bias);
    pc__free(&backend->context->mem, linear);
}

pc_status pc__cuda_op_linear_new(pc__linear **out, pc__backend *backend, size_t out_features,
                                 size_t in_features, uint32_t compute,
                                 const pc__weight_source *source, const float *bias)
{
    pc__cuda_linear *linear = pc__calloc(&backend->context->mem, 1, sizeof *linear);
    *out = NULL;
    if (!linear)
        return PC_ERR_NOMEM;
    linear->backend = backend;
    linear->out = out_features;
    linear->in = in_features;
    linear->dtype = compute == PC_DTYPE_BF16 || compute == PC_DTYPE_F16 ? compute : PC_DTYPE_F32;
    linear->code_bytes = compute == PC_DTYPE_I16 ? 2 : 1;
    pc_status status = make_layer(linear, source, bias);
    if (status < 0) {
        free_layer(linear);
        return pc__fail_in(status, "linear layer of %zu to %zu features", in_features,
                           out_features);
    }
    *out = (pc__linear *)linear;
    return PC_OK;
}

void pc__cuda_op_linear_free(pc__linear *linear)
{
    if (linear)
        free_layer((pc__cuda_linear *)linear);
}

size_t pc__cuda_op_linear_bytes(const pc__linear *linear)
{
    const pc__cuda_linear *l = pc__cuda_linear_of(linear);
    return l->bytes + (l->bias ? l->out * sizeof *l->bias : 0);
}

/* ------------------------------------------------------------------- tables */

typedef struct cuda_table { /* what a pc__table is here */
    pc__backend *backend;
    size_t rows, dim;
    uint32_t dtype;
    void *data;                   /* NULL: the rows are those of `layer` */
    const pc__cuda_linear *layer; /* or NULL */
    pc__linear *own;              /* the layer, if it belongs to the table; or NULL */
} cuda_table;

static void free_table(cuda_table *table)
{
    pc__backend *backend = table->backend;
    backend->ops->give(backend, table->data);
    pc__cuda_op_linear_free(table->own);
    pc__free(&backend->context->mem, table);
}

static const cuda_table *table_of(const pc__table *table)
{
    return (const cuda_table *)(const void *)table;
}

static cuda_table *new_table(pc__backend *backend, size_t rows, size_t dim, uint32_t dtype)
{
    cuda_table *table = pc__calloc(&backend->context->mem, 1, sizeof *table);
    if (table)
        *table = (cuda_table){.backend = backend, .rows = rows, .dim = dim, .dtype = dtype};
    return table;
}

static pc_status fill_table(cuda_table *table, const pc__weight_source *source)
{
    if (!source->format.bits)
        return rows_to_device(table->backend, source, table->rows, table->dim, table->dtype,
                              &table->data);
    PC__TRY_RETURN(pc__cuda_op_linear_new(&table->own, table->backend, table->rows, table->dim,
                                          PC_DTYPE_I8, source, NULL));
    table->layer = pc__cuda_linear_of(table->own);
    return PC_OK;
}

pc_status pc__cuda_op_table_new(pc__table **out, pc__backend *backend, size_t rows, size_t dim,
                                uint32_t dtype, const pc__weight_source *source)
{
    cuda_table *table = new_table(backend, rows, dim, dtype);
    *out = NULL;
    if (!table)
        return PC_ERR_NOMEM;
    pc_status status = fill_table(table, source);
    if (status < 0)
        free_table(table);
    else
        *out = (pc__table *)table;
    return status;
}

pc_status pc__cuda_op_table_of(pc__table **out, pc__backend *backend, const pc__linear *linear)
{
    const pc__cuda_linear *layer = pc__cuda_linear_of(linear);
    cuda_table *table = new_table(backend, layer->out, layer->in, layer->dtype);
    *out = (pc__table *)table;
    if (!table)
        return PC_ERR_NOMEM;
    table->layer = layer;
    return PC_OK;
}

void pc__cuda_op_table_free(pc__table *table)
{
    free_table((cuda_table *)table);
}

size_t pc__cuda_op_table_bytes(const pc__table *table)
{
    const cuda_table *t = table_of(table);
    return t->own    ? pc__cuda_op_linear_bytes(t->own)
           : t->data ? t->rows * t->dim * element_of(t->dtype)
                     : 0;
}

static void look_up_quantised(pc__stream *stream, const pc__cuda_linear *layer,
                              const uint32_t *list, size_t rows, uint32_t add, float *x)
{
    pc__cuda_quantised_lookup task = {.panels = layer->weights,
                                      .row = list,
                                      .x = x,
                                      .panel_bytes = layer->panel_bytes,
                                      .rows = (uint32_t)rows,
                                      .groups = (uint32_t)layer->groups,
                                      .format = layer->format,
                                      .add = add};
    pc__cuda_launch_rows(stream, &pc__cuda_kernels.lookup_quantised, rows, &task);
}

static void look_up_plain(pc__stream *stream, const cuda_table *table, const uint32_t *list,
                          size_t rows, uint32_t add, float *x)
{
    pc__cuda_lookup task = {.table = table->layer ? table->layer->weights : table->data,
                            .row = list,
                            .x = x,
                            .rows = (uint32_t)rows,
                            .dim = (uint32_t)table->dim,
                            .scale = 1.0f,
                            .add = add};
    pc__cuda_launch_rows(stream, pc__cuda_for_dtype(&pc__cuda_kernels.lookup_f32, table->dtype),
                         rows, &task);
}

void pc__cuda_op_look_up(pc__stream *stream, const pc__table *table, const uint32_t *row,
                         size_t rows, int add, pc__floats *x)
{
    const cuda_table *t = table_of(table);
    const uint32_t *list = pc__cuda_kept_list(pc__cuda_stream_of(stream), row, rows * sizeof *row);
    if (t->layer && !t->layer->gemm)
        look_up_quantised(stream, t->layer, list, rows, add != 0, pc__cuda_floats(x));
    else
        look_up_plain(stream, t, list, rows, add != 0, pc__cuda_floats(x));
}

/* ------------------------------------------------------------------- quantised products */

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
    pc__cuda_launch_rows(stream, &pc__cuda_kernels.quantise, (rows + 7) / 8 * 8, &task);
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
                                     .format = linear->format};
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
    return same_codes(a, b) && a->panel_bytes == b->panel_bytes
           && !memcmp(&a->format, &b->format, sizeof a->format);
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
                    few ? &pc__cuda_kernels.quantised_few : &pc__cuda_kernels.quantised_many, grid,
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

/* ------------------------------------------------------------------- all products */

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
