/* Tables, and operations that move or rotate rows, of the CPU backend. */
#include <string.h>

#include "attn/cpu/backend_cpu.h"
#include "attn/cpu/linear.h"
#include "attn/half.h"
#include "attn/kernels.h"
#include "base/threads.h"

/* Embeddings, learned positions. Rows in bf16 if the model computes in bf16, else as the file has
 * them, in 16 bits or fp32; or those of a layer's panels, which hold quantised rows and those that
 * are also the head. */
struct pc__table {
    pc_context *context;
    size_t rows, dim;
    uint32_t dtype;
    void *data;
    const pc__linear *layer; /* NULL: the rows are in `data` */
    pc__linear *own;         /* the same layer, if it belongs to the table */
};

/* Tables are filled in parallel, in chunks of rows. */
enum { CHUNK = 256 };

typedef struct table_fill {
    pc__table *table;
    const pc__weight_source *from;
    float *scratch; /* [chunks][dim], only if rows are rounded */
} table_fill;

static void fill_chunk(void *arg, size_t chunk)
{
    const table_fill *f = arg;
    size_t dim = f->table->dim, first = chunk * CHUNK, end = first + CHUNK;
    end = end < f->table->rows ? end : f->table->rows;
    if (f->table->dtype == PC_DTYPE_F32) {
        f->from->rows(f->from->user, first, end - first, (float *)f->table->data + first * dim);
        return;
    }
    for (size_t row = first; row < end; row++) {
        float *from = f->scratch + chunk * dim;
        uint16_t *to = (uint16_t *)f->table->data + row * dim;
        f->from->rows(f->from->user, row, 1, from);
        for (size_t i = 0; i < dim; i++)
            to[i] = f->table->dtype == PC_DTYPE_F16 ? pc__half_of(from[i]) : pc__bf16_from(from[i]);
    }
}

static size_t number_bytes(const pc__table *table)
{
    return table->dtype == PC_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Rounds or copies the rows. */
static pc_status fill_rows(pc__table *table, const pc__weight_source *source)
{
    const pc_allocator *mem = &table->context->mem;
    size_t chunks = (table->rows + CHUNK - 1) / CHUNK, dim = table->dim;
    table_fill f = {.table = table, .from = source};
    table->data = pc__calloc(mem, table->rows, dim * number_bytes(table));
    f.scratch = pc__calloc(mem, table->dtype == PC_DTYPE_F32 ? 1 : chunks, dim * sizeof *f.scratch);
    int ready = table->data && f.scratch;
    if (ready)
        pc__parallel(table->context, chunks, fill_chunk, &f);
    pc__free(mem, f.scratch);
    return ready ? PC_OK : PC_ERR_NOMEM;
}

pc_status pc__cpu_table_new(pc__table **out, pc__backend *backend, size_t rows, size_t dim,
                            uint32_t dtype, const pc__weight_source *source)
{
    pc__table *table = pc__calloc(&backend->context->mem, 1, sizeof *table);
    pc_status status;
    *out = NULL;
    if (!table)
        return PC_ERR_NOMEM;
    *table = (pc__table){.context = backend->context, .rows = rows, .dim = dim, .dtype = dtype};
    if (dtype == PC_DTYPE_F32 && source->stored)
        table->dtype = source->stored;
    if (source->format.bits)
        status = pc__linear_new(&table->own, backend->context, rows, dim, dtype, source, NULL);
    else
        status = fill_rows(table, source);
    table->layer = table->own;
    if (status >= 0)
        *out = table;
    else
        pc__cpu_table_free(table);
    return status;
}

pc_status pc__cpu_table_of(pc__table **out, pc__backend *backend, const pc__linear *linear)
{
    *out = NULL;
    if (!pc__linear_reads(linear))
        return PC_OK;
    if (!(*out = pc__calloc(&backend->context->mem, 1, sizeof **out)))
        return PC_ERR_NOMEM;
    **out = (pc__table){
        .context = backend->context, .dim = pc__linear_inputs(linear), .layer = linear};
    return PC_OK;
}

void pc__cpu_table_free(pc__table *table)
{
    pc_context *context = table->context;
    pc__linear_free(table->own);
    pc__free(&context->mem, table->data);
    pc__free(&context->mem, table);
}

size_t pc__cpu_table_bytes(const pc__table *table)
{
    if (table->layer)
        return table->own ? pc__linear_bytes(table->own) : 0;
    return table->rows * table->dim * number_bytes(table);
}

static void halves_to(const uint16_t *from, size_t count, uint32_t dtype, int add, float *x)
{
    for (size_t i = 0; i < count; i++) {
        float value = dtype == PC_DTYPE_F16 ? pc__half_to(from[i]) : pc__bf16_to(from[i]);
        x[i] = add ? x[i] + value : value;
    }
}

static void values_to(const pc__table *table, size_t row, int add, float *x)
{
    const float *from = table->data;
    size_t at = row * table->dim;
    if (table->dtype != PC_DTYPE_F32)
        halves_to((const uint16_t *)table->data + at, table->dim, table->dtype, add, x);
    else if (add)
        for (size_t i = 0; i < table->dim; i++)
            x[i] += from[at + i];
    else
        memcpy(x, from + at, table->dim * sizeof *x);
}

typedef struct layer_look_up {
    const pc__table *table;
    const uint32_t *row;
    int add;
    float *x;
} layer_look_up;

static void look_up_in_layer(void *arg, size_t i)
{
    const layer_look_up *l = arg;
    pc__linear_row(l->table->layer, l->row[i], l->add, l->x + i * l->table->dim);
}

void pc__cpu_look_up(pc__stream *stream, const pc__table *table, const uint32_t *row, size_t rows,
                     int add, pc__floats *x)
{
    layer_look_up l = {table, row, add, pc__cpu_floats(x)};
    if (table->layer)
        pc__parallel(stream->context, rows, look_up_in_layer, &l);
    for (size_t r = 0; !table->layer && r < rows; r++)
        values_to(table, row[r], add, pc__cpu_floats(x) + r * table->dim);
}

void pc__cpu_gather(pc__stream *stream, const pc__floats *x, const uint32_t *row, size_t rows,
                    size_t dim, pc__floats *y)
{
    (void)stream;
    for (size_t r = 0; r < rows; r++)
        memcpy(pc__cpu_floats(y) + r * dim, pc__cpu_values(x) + row[r] * dim, dim * sizeof(float));
}

/* One row of a range: [channel][tap], the kernel's order in the file. */
static void row_neighbours(const float *range, size_t row, size_t count, size_t taps, size_t dim,
                           float *to)
{
    for (size_t t = 0; t < taps; t++) {
        size_t at = row + t; /* row of the range, plus taps / 2 */
        int inside = at >= taps / 2 && at - taps / 2 < count;
        const float *from = range + (inside ? at - taps / 2 : 0) * dim;
        for (size_t c = 0; c < dim; c++)
            to[c * taps + t] = inside ? from[c] : 0.0f;
    }
}

void pc__cpu_neighbours(pc__stream *stream, const pc__row_range *ranges, size_t count, size_t taps,
                        size_t dim, const pc__floats *x, pc__floats *y)
{
    (void)stream;
    for (size_t i = 0; i < count; i++)
        for (size_t r = 0; r < ranges[i].count; r++)
            row_neighbours(pc__cpu_values(x) + ranges[i].first * dim, r, ranges[i].count, taps, dim,
                           pc__cpu_floats(y) + (ranges[i].first + r) * dim * taps);
}

enum { ROTATE_ROWS = 16 };

static void rotate_chunk(void *arg, size_t index)
{
    const pc__kv_rows *t = arg;
    const pc__kv_shape *shape = &t->runs[0]->shape;
    float cosine[PC__MAX_HEAD / 2], sine[PC__MAX_HEAD / 2];
    for (size_t r = index * ROTATE_ROWS; r < (index + 1) * ROTATE_ROWS && r < t->rows; r++) {
        float *k = pc__cpu_floats(t->k) + r * t->k_stride;
        pc__rope_angles(t->rope, t->positions[r], cosine, sine);
        pc__kernels_get()->rotate(t->rope, cosine, sine, 1.0f, k, k, (size_t)shape->kv_heads,
                                  (size_t)shape->k_dim);
    }
}

void pc__cpu_rotate_keys(pc_context *context, const pc__kv_rows *rows)
{
    pc__kv_rows t = *rows;
    pc__parallel(context, (t.rows + ROTATE_ROWS - 1) / ROTATE_ROWS, rotate_chunk, &t);
}

static void store_chunk(void *arg, size_t index)
{
    const pc__kv_rows *s = arg;
    const float *k = pc__cpu_values(s->k), *v = pc__cpu_values(s->v);
    for (size_t r = index * PC__PAGE; r < (index + 1) * PC__PAGE && r < s->rows; r++)
        pc__kv_write(s->runs[r], s->layer, s->slots[r], k ? k + r * s->k_stride : NULL,
                     v ? v + r * s->v_stride : NULL);
}

void pc__cpu_store_kv(pc__stream *stream, const pc__kv_rows *rows)
{
    pc__kv_rows s = *rows;
    if (s.rope && s.k)
        pc__cpu_rotate_keys(stream->context, rows);
    pc__parallel(stream->context, (s.rows + PC__PAGE - 1) / PC__PAGE, store_chunk, &s);
}
