/* Forward and backward pass of a projector over one batch of pairs. */
#include "memo/train/gradient.h"

#include <math.h>
#include <string.h>

#include "base/threads.h"

static const float NO_WEIGHTS[PC__MOST_INNER];
enum {
    DIM = PC__FEATURE_DIM,
    ITEM_CHUNK = 8,
    WEIGHT_CHUNK = 32 /* rows per task; they do not change results */
};

pc_status pc__gradient_new(pc__gradient **out, const pc__projector *projector, size_t most)
{
    size_t cells = projector->cells + 1, inner = projector->shape.inner;
    pc__gradient *g = pc__calloc(&projector->mem, 1, sizeof *g);
    *out = NULL;
    if (!g)
        return PC_ERR_NOMEM;
    struct {
        float **at;
        size_t count;
    } parts[] = {{&g->x, most * cells},
                 {&g->x_transposed, most * cells},
                 {&g->inner, most * inner},
                 {&g->inner_transposed, most * inner},
                 {&g->features, most * DIM},
                 {&g->pair_gradient, most * most},
                 {&g->to_features, most * DIM},
                 {&g->to_inner, most * inner},
                 {&g->second_transposed, DIM * inner},
                 {&g->labels, most * most},
                 {&g->result, projector->weights}};
    size_t bytes = (most + cells + inner) * sizeof(double) + 128;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        bytes += parts[i].count * sizeof(float) + 64;
    uint8_t *at = pc__alloc_aligned(&projector->mem, bytes, 64);
    if (!at) {
        pc__free(&projector->mem, g);
        return PC_ERR_NOMEM;
    }
    g->row_loss = pc__carve(
        &at, most * sizeof *g->row_loss); /* the first one: its address is the block's */
    g->row_square = pc__carve(&at, (cells + inner) * sizeof *g->row_square);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        *parts[i].at = pc__carve(&at, parts[i].count * sizeof(float));
    g->mem = projector->mem;
    g->vector_ops = pc__vector_ops_get();
    g->projector = projector;
    g->most = most;
    *out = g;
    return PC_OK;
}

void pc__gradient_free(pc__gradient *gradient)
{
    if (!gradient)
        return;
    pc_allocator mem = gradient->mem;
    pc__free(&mem, gradient->row_loss);
    pc__free(&mem, gradient);
}

/* First row of task i, and how many rows it has. */
static size_t chunk_rows(size_t i, size_t size, size_t all, size_t *count)
{
    size_t from = i * size;
    *count = all - from < size ? all - from : size;
    return from;
}

static size_t chunks(size_t all, size_t size)
{
    return (all + size - 1) / size;
}

static void norm_inputs(pc__gradient *g, const float *pooled, const size_t *items)
{
    const pc__projector *p = g->projector;
    for (size_t r = 0; r < g->n; r++) {
        const float *from = pooled + items[r] * p->cells;
        float *x = g->x + r * (p->cells + 1);
        for (size_t c = 0; c < p->cells; c++)
            g->x_transposed[c * g->n + r] = x[c] = (from[c] - p->mean[c]) * p->scale[c];
        g->x_transposed[p->cells * g->n + r] = x[p->cells] = 1;
    }
}

static void forward_rows(void *arg, size_t i)
{
    pc__gradient *g = arg;
    size_t cells = g->projector->cells + 1, width = g->projector->shape.inner, rows;
    size_t from = chunk_rows(i, ITEM_CHUNK, g->n, &rows);
    float *inner = g->inner + from * width, *features = g->features + from * DIM;
    memset(inner, 0, rows * width * sizeof *inner);
    memset(features, 0, rows * DIM * sizeof *features);
    g->vector_ops->linear(g->weights, cells, width, g->x + from * cells, cells, rows, inner);
    for (size_t k = 0; k < rows * width; k++)
        inner[k] = inner[k] > 0 ? inner[k] : 0;
    g->vector_ops->linear(g->weights + cells * width, width, DIM, inner, width, rows, features);
}

/* Pairs of item i with all others. */
static void pair_gradient_row(void *arg, size_t i)
{
    pc__gradient *g = arg;
    const float *f = g->features, *label = g->labels + i * g->n;
    float *pair_gradient = g->pair_gradient + i * g->n,
          share = 2 / ((float)g->n * (float)(g->n - 1)), *to = g->to_features + i * DIM;
    double loss = 0;
    memset(to, 0, DIM * sizeof *to);
    pair_gradient[i] = 0;
    for (size_t j = 0; j < g->n; j++) {
        if (j == i)
            continue;
        float distance = sqrtf(g->vector_ops->square_distance(f + i * DIM, f + j * DIM, DIM)),
              off = distance - label[j];
        float size = off < 0 ? -off : off, slope = size < 1 ? off : off < 0 ? -1.0f : 1.0f;
        pair_gradient[j] = distance > 0 ? share * slope / distance : 0;
        if (j > i)
            loss += size < 1 ? 0.5 * (double)off * (double)off : (double)size - 0.5;
        for (size_t d = 0; pair_gradient[j] != 0 && d < DIM; d++)
            to[d] += pair_gradient[j] * (f[i * DIM + d] - f[j * DIM + d]);
    }
    g->row_loss[i] = loss;
}

static void backward_rows(void *arg, size_t i)
{
    pc__gradient *g = arg;
    size_t width = g->projector->shape.inner, rows, from = chunk_rows(i, ITEM_CHUNK, g->n, &rows);
    const float *inner = g->inner + from * width;
    float *to = g->to_inner + from * width;
    memset(to, 0, rows * width * sizeof *to);
    g->vector_ops->linear(g->second_transposed, DIM, width, g->to_features + from * DIM, DIM, rows,
                          to);
    for (size_t k = 0; k < rows * width; k++)
        to[k] = inner[k] > 0 ? to[k] : 0;
}

static void square_rows(double *square, const float *x, size_t rows, size_t width,
                        const pc__vector_ops *vector_ops)
{
    for (size_t r = 0; r < rows; r++)
        square[r] = vector_ops->distance_f32(x + r * width, NO_WEIGHTS, width, 1);
}

static void first_rows(void *arg, size_t i)
{
    pc__gradient *g = arg;
    size_t width = g->projector->shape.inner, rows,
           from = chunk_rows(i, WEIGHT_CHUNK, g->projector->cells + 1, &rows);
    memset(g->result + from * width, 0, rows * width * sizeof *g->result);
    g->vector_ops->linear(g->to_inner, g->n, width, g->x_transposed + from * g->n, g->n, rows,
                          g->result + from * width);
    square_rows(g->row_square + from, g->result + from * width, rows, width, g->vector_ops);
}

static void second_rows(void *arg, size_t i)
{
    pc__gradient *g = arg;
    size_t rows, from = chunk_rows(i, WEIGHT_CHUNK, g->projector->shape.inner, &rows);
    float *result = g->result + pc__first_weights(g->projector) + from * DIM;
    memset(result, 0, rows * DIM * sizeof *result);
    g->vector_ops->linear(g->to_features, g->n, DIM, g->inner_transposed + from * g->n, g->n, rows,
                          result);
    square_rows(g->row_square + g->projector->cells + 1 + from, result, rows, DIM, g->vector_ops);
}

static void transpose(const float *from, size_t rows, size_t columns, float *to)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            to[c * rows + r] = from[r * columns + c];
}

double pc__gradient_compute(pc__gradient *gradient, pc_context *context, const float *weights,
                            const float *pooled, const size_t *items, size_t n)
{
    pc__gradient *g = gradient;
    size_t cells = g->projector->cells + 1, width = g->projector->shape.inner;
    double loss = 0, square = 0;
    g->n = n;
    g->weights = weights;
    norm_inputs(g, pooled, items);
    pc__parallel(context, chunks(n, ITEM_CHUNK), forward_rows, g);
    pc__parallel(context, n, pair_gradient_row, g);
    transpose(weights + cells * width, width, DIM, g->second_transposed);
    transpose(g->inner, n, width, g->inner_transposed);
    pc__parallel(context, chunks(n, ITEM_CHUNK), backward_rows, g);
    pc__parallel(context, chunks(cells, WEIGHT_CHUNK), first_rows, g);
    pc__parallel(context, chunks(width, WEIGHT_CHUNK), second_rows, g);
    for (size_t i = 0; i < n; i++)
        loss += g->row_loss[i];
    for (size_t i = 0; i < cells + width; i++)
        square += g->row_square[i];
    g->length = sqrt(square);
    return loss * 2 / ((double)n * (double)(n - 1));
}
