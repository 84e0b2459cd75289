/* Norms, activations and other operations value by value, of the CPU backend. */
#include <math.h>

#include "attn/cpu/backend_cpu.h"
#include "attn/kernels.h"
#include "base/threads.h"

typedef struct norm_work {
    float *x, *y;
    const float *add, *gain, *bias; /* add NULL: none */
    float add_scale, eps;
    size_t rows, dim, chunk, vectors;
    int mean; /* layer norm */
} norm_work;

enum { SUMS = 8 };

/* Sum of (x - mean)^power, power 1 or 2, in several partial sums, so that vector instructions can
 * be used. */
static double sum_of(const float *x, size_t dim, float mean, int power)
{
    double sums[SUMS] = {0.0}, sum = 0.0;
    size_t whole = dim / SUMS * SUMS;
    for (size_t i = 0; i < whole; i += SUMS)
        for (size_t j = 0; j < SUMS; j++) {
            double d = (double)(x[i + j] - mean);
            sums[j] += power == 2 ? d * d : d;
        }
    for (size_t i = whole; i < dim; i++) {
        double d = (double)(x[i] - mean);
        sum += power == 2 ? d * d : d;
    }
    for (size_t j = 0; j < SUMS; j++)
        sum += sums[j];
    return sum;
}

static void add_to_row(const norm_work *n, size_t row)
{
    float *x = n->x + row * n->dim;
    const float *add = n->add + row * n->dim;
    for (size_t i = 0; i < n->dim; i++)
        x[i] += add[i] * n->add_scale;
}

static void norm_row(const norm_work *n, size_t row)
{
    const float *x = n->x + row * n->dim;
    size_t vector = row % n->vectors * n->dim;
    float *y = n->y + row * n->dim;
    float mean = n->mean ? (float)(sum_of(x, n->dim, 0.0f, 1) / (double)n->dim) : 0.0f, scale;
    scale = (float)(1.0 / sqrt(sum_of(x, n->dim, mean, 2) / (double)n->dim + (double)n->eps));
    for (size_t i = 0; i < n->dim; i++) {
        float value = (x[i] - mean) * scale;
        if (n->gain)
            value *= n->gain[vector + i];
        y[i] = n->bias ? value + n->bias[vector + i] : value;
    }
}

static void norm_chunk(void *arg, size_t index)
{
    const norm_work *n = arg;
    for (size_t r = index * n->chunk; r < (index + 1) * n->chunk && r < n->rows; r++) {
        if (n->add)
            add_to_row(n, r);
        norm_row(n, r);
    }
}

static void norm_run(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                     size_t dim, const pc__norm_weights *weights, int mean, pc__floats *y)
{
    norm_work n = {.x = pc__cpu_floats(x),
                   .add = addend ? pc__cpu_values(addend->at) : NULL,
                   .add_scale = addend ? addend->scale : 0.0f,
                   .gain = pc__cpu_values(weights->gain),
                   .bias = mean ? pc__cpu_values(weights->bias) : NULL,
                   .y = pc__cpu_floats(y),
                   .eps = weights->eps,
                   .rows = rows,
                   .dim = dim,
                   .chunk = PC__THREAD_ELEMENTS / dim + 1,
                   .vectors = weights->vectors ? weights->vectors : 1,
                   .mean = mean};
    pc__parallel(stream->context, (n.rows + n.chunk - 1) / n.chunk, norm_chunk, &n);
}

void pc__cpu_rms_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                      size_t dim, const pc__norm_weights *weights, pc__floats *y)
{
    norm_run(stream, x, addend, rows, dim, weights, 0, y);
}

void pc__cpu_layer_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                        size_t dim, const pc__norm_weights *weights, pc__floats *y)
{
    norm_run(stream, x, addend, rows, dim, weights, 1, y);
}

static float act(pc__activation activation, float x)
{
    switch (activation) {
    case PC__ACT_RELU:
        return x > 0.0f ? x : 0.0f;
    case PC__ACT_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case PC__ACT_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case PC__ACT_SILU:
        return x / (1.0f + expf(-x));
    case PC__ACT_TANH:
        return tanhf(x);
    case PC__ACT_RELU_SQUARED:
        return x > 0.0f ? x * x : 0.0f;
    case PC__ACT_NONE:
    case PC__ACT_CLAMPED: /* of gates alone */
        break;
    }
    return x;
}

typedef struct flat_work {
    pc__gating gating;
    float a;              /* of pc__pointwise */
    const float *factors; /* of rows of `dim` */
    size_t dim;
    float *x;
    const float *y; /* gate: up; add: the other; NULL: activation alone */
    size_t count;
    void (*body)(const struct flat_work *f, size_t first, size_t count);
} flat_work;

static void flat_chunk(void *arg, size_t index)
{
    const flat_work *f = arg;
    size_t first = index * PC__THREAD_ELEMENTS, left = f->count - first;
    f->body(f, first, left < PC__THREAD_ELEMENTS ? left : PC__THREAD_ELEMENTS);
}

static void flat_run(pc_context *context, flat_work *f)
{
    pc__parallel(context, (f->count + PC__THREAD_ELEMENTS - 1) / PC__THREAD_ELEMENTS, flat_chunk,
                 f);
}

static void activate_body(const flat_work *f, size_t first, size_t count)
{
    if (f->gating.activation == PC__ACT_GELU) {
        pc__kernels_get()->gelu(f->x + first, count);
        return;
    }
    for (size_t i = first; i < first + count; i++)
        f->x[i] = act(f->gating.activation, f->x[i]);
}

static float clamped(const pc__gating *gating, float x, float up)
{
    float most = gating->limit, g = x > most ? most : x,
          u = up > most    ? most
              : up < -most ? -most
                           : up;
    return g / (1.0f + expf(-gating->alpha * g)) * (u + 1.0f);
}

static void gate_body(const flat_work *f, size_t first, size_t count)
{
    if (f->gating.activation == PC__ACT_SILU) {
        pc__kernels_get()->silu_gate(f->x + first, f->y + first, count);
        return;
    }
    for (size_t i = first; i < first + count; i++)
        f->x[i] = f->gating.activation == PC__ACT_CLAMPED
                      ? clamped(&f->gating, f->x[i], f->y[i])
                      : act(f->gating.activation, f->x[i]) * f->y[i];
}

static void add_body(const flat_work *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        f->x[i] += f->y[i];
}

void pc__cpu_activate(pc__stream *stream, pc__activation activation, pc__floats *x, size_t count)
{
    flat_work f = {.gating = {activation, 0, 0},
                   .x = pc__cpu_floats(x),
                   .count = count,
                   .body = activate_body};
    flat_run(stream->context, &f);
}

void pc__cpu_gate(pc__stream *stream, const pc__gating *gating, pc__floats *x, const pc__floats *up,
                  size_t count)
{
    flat_work f = {.gating = *gating,
                   .x = pc__cpu_floats(x),
                   .y = pc__cpu_values(up),
                   .count = count,
                   .body = gate_body};
    flat_run(stream->context, &f);
}

void pc__cpu_add(pc__stream *stream, pc__floats *x, const pc__floats *y, size_t count)
{
    flat_work f = {
        .x = pc__cpu_floats(x), .y = pc__cpu_values(y), .count = count, .body = add_body};
    flat_run(stream->context, &f);
}

static void scale_body(const flat_work *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        f->x[i] *= f->a;
}

static void clip_body(const flat_work *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        f->x[i] = f->x[i] > f->a ? f->a : f->x[i] < -f->a ? -f->a : f->x[i];
}

static void soft_cap_body(const flat_work *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        f->x[i] = f->a * tanhf(f->x[i] / f->a);
}

void pc__cpu_pointwise(pc__stream *stream, pc__pointwise what, float a, pc__floats *x, size_t count)
{
    flat_work f = {.a = a, .x = pc__cpu_floats(x), .count = count};
    f.body = what == PC__SCALE ? scale_body : what == PC__CLIP ? clip_body : soft_cap_body;
    flat_run(stream->context, &f);
}

static void rows_body(const flat_work *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        f->x[i] *= f->factors[i / f->dim];
}

void pc__cpu_scale_rows(pc__stream *stream, const float *factors, size_t rows, size_t dim,
                        pc__floats *x)
{
    flat_work f = {.factors = factors,
                   .dim = dim,
                   .x = pc__cpu_floats(x),
                   .count = rows * dim,
                   .body = rows_body};
    flat_run(stream->context, &f);
}
