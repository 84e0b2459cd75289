/* Linear layers: weights packed once into panels of PC__PANEL output features; each thread takes whole panels, so that every
 * weight is read once for all rows. The sum over inputs runs in one fixed order, whatever the number of rows. */
#include "attn/cpu/linear.h"

#include <string.h>

#include "attn/bf16.h"
#include "attn/kernels.h"
#include "base/threads.h"

struct pc__linear {
    pc_context *context;
    size_t out, in, even; /* even: inputs rounded up, bf16 */
    uint32_t compute;
    size_t panel_bytes, panels;
    uint8_t *weights;
    float *bias; /* NULL: none */
};

typedef struct packing {
    pc__linear *linear;
    pc__weight_rows_fn rows;
    void *user;
    float *scratch; /* [threads][PC__PANEL][in] */
    atomic_size_t next;
} packing;

static void pack_panel(const pc__linear *linear, const float *rows, size_t count, uint8_t *panel)
{
    float *f = (float *)(void *)panel;
    uint16_t *h = (uint16_t *)(void *)panel;
    for (size_t n = 0; n < count; n++)
        for (size_t i = 0; i < linear->in; i++)
            if (linear->compute == PC_DTYPE_F32)
                f[i * PC__PANEL + n] = rows[n * linear->in + i];
            else
                h[(i / 2 * PC__PANEL + n) * 2 + i % 2] = pc__bf16_from(rows[n * linear->in + i]);
}

static void pack_lane(void *arg, size_t index)
{
    packing *p = arg;
    pc__linear *linear = p->linear;
    float *rows = p->scratch + index * PC__PANEL * linear->in;
    size_t i;
    while ((i = atomic_fetch_add(&p->next, 1)) < linear->panels) {
        size_t first = i * PC__PANEL, left = linear->out - first, count = left < PC__PANEL ? left : PC__PANEL;
        p->rows(p->user, first, count, rows);
        pack_panel(linear, rows, count, linear->weights + i * linear->panel_bytes);
    }
}

static pc_status pack(pc__linear *linear, pc__weight_rows_fn rows, void *user)
{
    packing p = {.linear = linear, .rows = rows, .user = user};
    const pc_allocator *mem = &linear->context->mem;
    p.scratch = pc__alloc_aligned(mem, linear->context->threads * PC__PANEL * linear->in * sizeof(float), 64);
    if (!p.scratch)
        return PC_ERR_NOMEM;
    pc__parallel(linear->context, linear->context->threads, pack_lane, &p);
    pc__free(mem, p.scratch);
    return PC_OK;
}

pc_status pc__linear_new(pc__linear **out, pc_context *context, size_t out_features, size_t in_features, uint32_t compute,
                         pc__weight_rows_fn rows, void *user, const float *bias)
{
    const pc_allocator *mem = &context->mem;
    pc__linear *linear = pc__calloc(mem, 1, sizeof *linear);
    pc_status status = PC_ERR_NOMEM;
    *out = NULL;
    if (!linear)
        return status;
    linear->context = pc__context_ref(context);
    linear->out = out_features;
    linear->in = in_features;
    linear->even = in_features + in_features % 2;
    linear->compute = compute;
    linear->panels = (out_features + PC__PANEL - 1) / PC__PANEL;
    linear->panel_bytes = compute == PC_DTYPE_F32 ? in_features * PC__PANEL * 4 : linear->even * PC__PANEL * 2;
    linear->weights = pc__alloc_aligned(mem, linear->panels * linear->panel_bytes + 4096, 64); /* prefetch may look past the end */
    if (linear->weights) {
        memset(linear->weights + (linear->panels ? linear->panels - 1 : 0) * linear->panel_bytes, 0, linear->panel_bytes);
        for (size_t i = 0; linear->even > in_features && i < linear->panels; i++)
            memset(linear->weights + (i + 1) * linear->panel_bytes - 4 * PC__PANEL, 0, 4 * PC__PANEL);
        status = pack(linear, rows, user);
    }
    if (status >= 0 && bias && !(linear->bias = pc__alloc(mem, out_features * sizeof *bias)))
        status = PC_ERR_NOMEM;
    if (status < 0) {
        pc__linear_free(linear);
        return status;
    }
    if (bias)
        memcpy(linear->bias, bias, out_features * sizeof *bias);
    *out = linear;
    return PC_OK;
}

void pc__linear_free(pc__linear *linear)
{
    if (!linear)
        return;
    pc_context *context = linear->context;
    pc__free(&context->mem, linear->weights);
    pc__free(&context->mem, linear->bias);
    pc__free(&context->mem, linear);
    pc__context_unref(context);
}

size_t pc__linear_bytes(const pc__linear *linear)
{
    return linear->panels * linear->panel_bytes + (linear->bias ? linear->out * sizeof(float) : 0);
}

typedef struct product {
    const pc__linear *linear;
    pc__panel_fn panel;
    const void *x;
    size_t ldx, rows;
    float *y;
} product;

static void run_panel(void *arg, size_t index)
{
    const product *p = arg;
    const pc__linear *linear = p->linear;
    size_t first = index * PC__PANEL, left = linear->out - first, width = left < PC__PANEL ? left : PC__PANEL;
    float *y = p->y + first;
    p->panel(linear->weights + index * linear->panel_bytes, linear->compute == PC_DTYPE_F32 ? linear->in : linear->even, p->x,
             p->ldx, p->rows, y, linear->out, width);
    for (size_t r = 0; linear->bias && r < p->rows; r++)
        for (size_t n = 0; n < width; n++)
            y[r * linear->out + n] += linear->bias[first + n];
}

typedef struct rounding {
    const product *p;
    const float *x;
    uint16_t *out;
    void (*to_bf16)(const float *x, size_t count, uint16_t *out);
} rounding;

enum { ROUND_ROWS = 16 };

static void round_rows(void *arg, size_t index)
{
    const rounding *r = arg;
    const pc__linear *linear = r->p->linear;
    for (size_t row = index * ROUND_ROWS; row < (index + 1) * ROUND_ROWS && row < r->p->rows; row++) {
        r->to_bf16(r->x + row * linear->in, linear->in, r->out + row * linear->even);
        if (linear->even > linear->in)
            r->out[row * linear->even + linear->in] = 0;
    }
}

pc_status pc__linear_run(const pc__linear *linear, const float *x, size_t rows, float *y)
{
    const pc__kernels *kernels = pc__kernels_get();
    product p = {linear, kernels->panel_f32, x, linear->in, rows, y};
    uint16_t *rounded = NULL;
    if (linear->compute != PC_DTYPE_F32) {
        rounded = pc__alloc_aligned(&linear->context->mem, rows * linear->even * sizeof *rounded, 64);
        if (!rounded)
            return PC_ERR_NOMEM;
        rounding r = {&p, x, rounded, kernels->to_bf16};
        p.panel = kernels->panel_bf16;
        p.x = rounded;
        p.ldx = linear->even;
        pc__parallel(linear->context, (rows + ROUND_ROWS - 1) / ROUND_ROWS, round_rows, &r);
    }
    pc__parallel(linear->context, linear->panels, run_panel, &p);
    pc__free(&linear->context->mem, rounded);
    return PC_OK;
}
