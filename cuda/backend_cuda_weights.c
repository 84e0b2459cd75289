/* Weights of linear layers and tables: read in chunks, rounded or packed on the CPU, then copied to
 * the device. */
#include "cuda/backend_cuda_dense.h"

#include <string.h>

#include "base/mem.h"
#include "base/threads.h"
#include "cuda/kept_lists.h"

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
    pc__cuda_pack(from, l->in, &rows, count, p->panels + index * l->panel_bytes);
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
    linear->format = pc__cuda_panel_format_of(&source->format);
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
                                      .bits = layer->format.bits,
                                      .group = layer->format.group,
                                      .zero = layer->format.zero,
                                      .minimum = layer->format.minimum,
                                      .half = layer->format.half,
                                      .add = add};
    pc__cuda_launch_rows(stream, &pc__cuda_dense.lookup_quantised, rows, &task);
}

static void look_up_plain(pc__stream *stream, const cuda_table *table, const uint32_t *list,
                          size_t rows, uint32_t add, float *x)
{
    const pc__cuda_dense_kernels *k = &pc__cuda_dense;
    pc__cuda_lookup task = {.table = table->layer ? table->layer->weights : table->data,
                            .row = list,
                            .x = x,
                            .rows = (uint32_t)rows,
                            .dim = (uint32_t)table->dim,
                            .scale = 1.0f,
                            .add = add};
    pc__cuda_launch_rows(stream,
                         table->dtype == PC_DTYPE_F32    ? &k->lookup_f32
                         : table->dtype == PC_DTYPE_BF16 ? &k->lookup_bf16
                                                         : &k->lookup_f16,
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
