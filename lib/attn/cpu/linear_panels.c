/* Our own way: weights packed once into panels of PC__PANEL output features; each thread takes
 * whole panels, so that every weight is read once for all rows. The sum over inputs runs in one
 * fixed order, whatever the number of rows. */
#include <string.h>

#include "attn/bf16.h"
#include "attn/cpu/linear_body.h"
#include "attn/kernels.h"
#include "base/threads.h"

typedef struct panels {
    size_t even; /* inputs, in bf16 rounded up to an even number */
    size_t bytes, count;
    uint8_t *weights;
} panels;

typedef struct packing {
    const pc__linear *linear;
    const panels *to;
    const pc__weight_source *source;
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
    const pc__linear *linear = p->linear;
    float *rows = p->scratch + index * PC__PANEL * linear->in;
    size_t i;
    while ((i = atomic_fetch_add(&p->next, 1)) < p->to->count) {
        size_t first = i * PC__PANEL, left = linear->out - first,
               count = left < PC__PANEL ? left : PC__PANEL;
        p->source->rows(p->source->user, first, count, rows);
        pack_panel(linear, rows, count, p->to->weights + i * p->to->bytes);
    }
}

static pc_status pack(const pc__linear *linear, const panels *to, const pc__weight_source *source)
{
    packing p = {.linear = linear, .to = to, .source = source};
    const pc_allocator *mem = &linear->context->mem;
    p.scratch = pc__alloc_aligned(
        mem, linear->context->threads * PC__PANEL * linear->in * sizeof(float), 64);
    if (!p.scratch)
        return PC_ERR_NOMEM;
    pc__parallel(linear->context, linear->context->threads, pack_lane, &p);
    pc__free(mem, p.scratch);
    return PC_OK;
}

static pc_status make(pc__linear *linear, const pc__weight_source *source)
{
    const pc_allocator *mem = &linear->context->mem;
    panels *p = pc__calloc(mem, 1, sizeof *p);
    if (!(linear->packed = p))
        return PC_ERR_NOMEM;
    p->even = linear->compute == PC_DTYPE_F32 ? linear->in : linear->in + linear->in % 2;
    p->count = (linear->out + PC__PANEL - 1) / PC__PANEL;
    p->bytes = p->even * PC__PANEL * pc__linear_element(linear);
    p->weights = pc__alloc_aligned(mem, p->count * p->bytes + 4096,
                                   64); /* prefetch may look past the end */
    if (!p->weights)
        return PC_ERR_NOMEM;
    if (p->count)
        memset(p->weights + (p->count - 1) * p->bytes, 0, p->bytes);
    for (size_t i = 0; p->even > linear->in && i < p->count; i++)
        memset(p->weights + (i + 1) * p->bytes - 4 * PC__PANEL, 0, 4 * PC__PANEL);
    return pack(linear, p, source);
}

static void drop(pc__linear *linear)
{
    panels *p = linear->packed;
    if (p)
        pc__free(&linear->context->mem, p->weights);
    pc__free(&linear->context->mem, p);
}

static size_t bytes(const pc__linear *linear)
{
    const panels *p = linear->packed;
    return p->count * p->bytes;
}

typedef struct product {
    const pc__linear *linear;
    pc__panel_fn panel;
    const void *x;
    size_t rows;
    float *y;
} product;

static void run_panel(void *arg, size_t index)
{
    const product *p = arg;
    const pc__linear *linear = p->linear;
    const panels *w = linear->packed;
    size_t first = index * PC__PANEL, left = linear->out - first,
           width = left < PC__PANEL ? left : PC__PANEL;
    float *y = p->y + first;
    p->panel(w->weights + index * w->bytes, w->even, p->x, w->even, p->rows, y, linear->out, width);
    for (size_t r = 0; linear->bias && r < p->rows; r++)
        for (size_t n = 0; n < width; n++)
            y[r * linear->out + n] += linear->bias[first + n];
}

static pc_status run(const pc__linear *linear, const float *x, size_t rows, float *y)
{
    const pc__kernels *kernels = pc__kernels_get();
    const panels *w = linear->packed;
    product p = {linear, kernels->panel_f32, x, rows, y};
    uint16_t *rounded = NULL;
    if (linear->compute != PC_DTYPE_F32) {
        rounded = pc__alloc_aligned(&linear->context->mem, rows * w->even * sizeof *rounded, 64);
        if (!rounded)
            return PC_ERR_NOMEM;
        pc__linear_input(linear, x, rows, rows, w->even, rounded);
        p.panel = kernels->panel_bf16;
        p.x = rounded;
    }
    pc__parallel(linear->context, w->count, run_panel, &p);
    pc__free(&linear->context->mem, rounded);
    return PC_OK;
}

const pc__linear_way pc__linear_panels = {"own", make, drop, bytes, run};
