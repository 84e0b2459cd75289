/* The CPU backend: its table, and norms, activations, RoPE and stores of K and V. Work is spread
 * over threads only where that pays. */
#include <math.h>

#include "attn/cpu/linear.h"
#include "attn/kernels.h"
#include "base/threads.h"
#include "base/work.h"

enum { THREAD_ELEMENTS = 1 << 14 }; /* elements per work item of a thread */

typedef struct norm_work {
    const float *x, *gain, *bias;
    float *y, eps;
    size_t rows, dim, chunk;
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

static void norm_row(const norm_work *n, const float *x, float *y)
{
    float mean = n->mean ? (float)(sum_of(x, n->dim, 0.0f, 1) / (double)n->dim) : 0.0f, scale;
    scale = (float)(1.0 / sqrt(sum_of(x, n->dim, mean, 2) / (double)n->dim + (double)n->eps));
    for (size_t i = 0; i < n->dim; i++) {
        float value = (x[i] - mean) * scale;
        if (n->gain)
            value *= n->gain[i];
        y[i] = n->bias ? value + n->bias[i] : value;
    }
}

static void norm_chunk(void *arg, size_t index)
{
    const norm_work *n = arg;
    for (size_t r = index * n->chunk; r < (index + 1) * n->chunk && r < n->rows; r++)
        norm_row(n, n->x + r * n->dim, n->y + r * n->dim);
}

static void norm_run(pc_context *context, norm_work *n)
{
    n->chunk = THREAD_ELEMENTS / n->dim + 1;
    pc__parallel(context, (n->rows + n->chunk - 1) / n->chunk, norm_chunk, n);
}

static void cpu_rms_norm(pc_context *context, const float *x, size_t rows, size_t dim,
                         const float *gain, float eps, float *y)
{
    norm_work n = {.x = x, .gain = gain, .y = y, .eps = eps, .rows = rows, .dim = dim};
    norm_run(context, &n);
}

static void cpu_layer_norm(pc_context *context, const float *x, size_t rows, size_t dim,
                           const float *gain, const float *bias, float eps, float *y)
{
    norm_work n = {.x = x,
                   .gain = gain,
                   .bias = bias,
                   .y = y,
                   .eps = eps,
                   .rows = rows,
                   .dim = dim,
                   .mean = 1};
    norm_run(context, &n);
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
    case PC__ACT_NONE:
        break;
    }
    return x;
}

typedef struct flat_work {
    pc__activation activation;
    float *x;
    const float *y; /* gate: up; add: the other; NULL: activation alone */
    size_t count;
    void (*body)(const struct flat_work *f, size_t first, size_t count);
} flat_work;

static void flat_chunk(void *arg, size_t index)
{
    const flat_work *f = arg;
    size_t first = index * THREAD_ELEMENTS, left = f->count - first;
    f->body(f, first, left < THREAD_ELEMENTS ? left : THREAD_ELEMENTS);
}

static void flat_run(pc_context *context, flat_work *f)
{
    pc__parallel(context, (f->count + THREAD_ELEMENTS - 1) / THREAD_ELEMENTS, flat_chunk, f);
}

static void activate_body(const flat_work *f, size_t first, size_t count)
{
    if (f->activation == PC__ACT_GELU) {
        pc__kernels_get()->gelu(f->x + first, count);
        return;
    }
    for (size_t i = first; i < first + count; i++)
        f->x[i] = act(f->activation, f->x[i]);
}

static void gate_body(const flat_work *f, size_t first, size_t count)
{
    if (f->activation == PC__ACT_SILU) {
        pc__kernels_get()->silu_gate(f->x + first, f->y + first, count);
        return;
    }
    for (size_t i = first; i < first + count; i++)
        f->x[i] = act(f->activation, f->x[i]) * f->y[i];
}

static void add_body(const flat_work *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        f->x[i] += f->y[i];
}

static void cpu_activate(pc_context *context, pc__activation activation, float *x, size_t count)
{
    flat_work f = {activation, x, NULL, count, activate_body};
    flat_run(context, &f);
}

static void cpu_gate(pc_context *context, pc__activation activation, float *x, const float *up,
                     size_t count)
{
    flat_work f = {activation, x, up, count, gate_body};
    flat_run(context, &f);
}

static void cpu_add(pc_context *context, float *x, const float *y, size_t count)
{
    flat_work f = {PC__ACT_NONE, x, y, count, add_body};
    flat_run(context, &f);
}

typedef struct rotation {
    const pc__rope *rope;
    const int64_t *positions;
    size_t rows, heads, dim, stride;
    float *x;
} rotation;

enum { ROTATE_ROWS = 16 };

static void rotate_chunk(void *arg, size_t index)
{
    const rotation *t = arg;
    float cosine[PC__MAX_HEAD / 2], sine[PC__MAX_HEAD / 2];
    for (size_t r = index * ROTATE_ROWS; r < (index + 1) * ROTATE_ROWS && r < t->rows; r++) {
        pc__rope_angles(t->rope, t->positions[r], cosine, sine);
        pc__kernels_get()->rotate(t->rope, cosine, sine, 1.0f, t->x + r * t->stride,
                                  t->x + r * t->stride, t->heads, t->dim);
    }
}

static void cpu_rotate(pc_context *context, const pc__rope *rope, const int64_t *positions,
                       size_t rows, size_t heads, size_t dim, size_t stride, float *x)
{
    rotation t = {rope, positions, rows, heads, dim, stride, x};
    pc__parallel(context, (rows + ROTATE_ROWS - 1) / ROTATE_ROWS, rotate_chunk, &t);
}

typedef struct storing {
    pc__kv *const *runs;
    const size_t *slots;
    int32_t layer;
    size_t rows, k_stride, v_stride;
    const float *k, *v;
} storing;

static void store_chunk(void *arg, size_t index)
{
    const storing *s = arg;
    for (size_t r = index * PC__PAGE; r < (index + 1) * PC__PAGE && r < s->rows; r++)
        pc__kv_write(s->runs[r], s->layer, s->slots[r], s->k ? s->k + r * s->k_stride : NULL,
                     s->v ? s->v + r * s->v_stride : NULL);
}

static void cpu_store_kv(pc_context *context, pc__kv *const *runs, const size_t *slots,
                         int32_t layer, size_t rows, const float *k, size_t k_stride,
                         const float *v, size_t v_stride)
{
    storing s = {runs, slots, layer, rows, k_stride, v_stride, k, v};
    pc__parallel(context, (rows + PC__PAGE - 1) / PC__PAGE, store_chunk, &s);
}

static void *allocate(pc_context *context, size_t floats)
{
    return floats > SIZE_MAX / sizeof(float) ? NULL
                                             : pc__work_take(context, floats * sizeof(float));
}

static void release(pc_context *context, void *memory)
{
    pc__work_give(context, memory);
}

static const pc__backend cpu = {
    .name = "cpu",
    .allocate = allocate,
    .release = release,
    .linear_new = pc__linear_new,
    .keeps_quantised = pc__linear_keeps_quantised,
    .linear_join = pc__linear_join,
    .linear_free = pc__linear_free,
    .linear_bytes = pc__linear_bytes,
    .linear_run = pc__linear_run,
    .linear_run_all = pc__linear_run_all,
    .linear_run_jobs = pc__linear_run_jobs,
    .rms_norm = cpu_rms_norm,
    .layer_norm = cpu_layer_norm,
    .activate = cpu_activate,
    .gate = cpu_gate,
    .add = cpu_add,
    .rotate = cpu_rotate,
    .store_kv = cpu_store_kv,
    .attend = pc__plan_attend,
};

const pc__backend *pc__cpu_backend(void)
{
    return &cpu;
}
