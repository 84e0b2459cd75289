/* Linear layers by our own kernels: weights are packed once into panels of PC__PANEL output
 * features. Each thread takes whole panels, so that every weight is read once for all rows. Sums
 * run over the inputs in one fixed order, whatever the number of rows. */
#include <string.h>

#include "attn/half.h"
#include "attn/cpu/panel_set.h"
#include "base/threads.h"

typedef struct float_panels {
    pc__panel_set set; /* first: see panel_set.h */
    size_t even;       /* inputs, in bf16 rounded up to even */
    size_t line;       /* elements from one row of inputs to the next */
    uint32_t dtype;    /* of the weights: the layer's, or with fp32 inputs a 16-bit one */
} float_panels;

/* Rows whose distance is a multiple of the size of a way of the first-level cache would all fall
 * into one of its sets. */
enum { WAY_BYTES = 4096 };

typedef struct float_packing {
    const pc__linear *linear;
    const float_panels *to;
    const pc__weight_source *source;
} float_packing;

static size_t panel_bytes(const float_panels *p)
{
    return p->even * PC__PANEL * (p->dtype == PC_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* A number of a panel: PC_DTYPE_BF16 of a layer in bf16 lies in pairs. */
static size_t place_in_panel(const pc__linear *linear, size_t i, size_t n)
{
    return linear->compute == PC_DTYPE_F32 ? i * PC__PANEL + n
                                           : (i / 2 * PC__PANEL + n) * 2 + i % 2;
}

static void pack_float_panel(void *arg, size_t first, size_t count, void *scratch, uint8_t *panel)
{
    const float_packing *p = arg;
    const pc__linear *linear = p->linear;
    float *rows = scratch, *f = (float *)(void *)panel;
    uint16_t *h = (uint16_t *)(void *)panel;
    p->source->rows(p->source->user, first, count, rows);
    if (p->to->even > linear->in)
        memset(panel + panel_bytes(p->to) - 4 * PC__PANEL, 0, 4 * PC__PANEL);
    for (size_t n = 0; n < count; n++)
        for (size_t i = 0; i < linear->in; i++)
            if (p->to->dtype == PC_DTYPE_F32)
                f[i * PC__PANEL + n] = rows[n * linear->in + i];
            else
                h[place_in_panel(linear, i, n)] = p->to->dtype == PC_DTYPE_F16
                                                      ? pc__half_of(rows[n * linear->in + i])
                                                      : pc__bf16_from(rows[n * linear->in + i]);
}

static uint32_t weights_dtype(const pc__linear *linear, const pc__weight_source *source)
{
    return linear->compute == PC_DTYPE_F32 && source->stored && pc__keeps_halves()
               ? source->stored
               : linear->compute;
}

static pc_status make_panels(pc__linear *linear, const pc__weight_source *source)
{
    float_panels *p = pc__calloc(&linear->context->mem, 1, sizeof *p);
    float_packing what = {linear, p, source};
    if (!(linear->packed = p))
        return PC_ERR_NOMEM;
    p->even = linear->compute == PC_DTYPE_F32 ? linear->in : linear->in + linear->in % 2;
    p->line = p->even;
    if (linear->compute != PC_DTYPE_F32 && p->line * sizeof(uint16_t) % WAY_BYTES == 0)
        p->line += 32;
    p->dtype = weights_dtype(linear, source);
    const pc__panel_packer packer = {.pack = pack_float_panel,
                                     .arg = &what,
                                     .scratch_bytes = PC__PANEL * linear->in * sizeof(float),
                                     .form = p->dtype,
                                     .packed = source->packed};
    return pc__panel_set_make(&p->set, linear, panel_bytes(p), &packer);
}

/* fp32 rows are read in place if they follow each other. */
static int is_prepared(const pc__linear_job *job)
{
    return job->linear->compute != PC_DTYPE_F32 || job->row;
}

static size_t panel_input_bytes(const pc__linear_job *job)
{
    const float_panels *w = job->linear->packed;
    return is_prepared(job) ? job->rows * w->line * pc__linear_element(job->linear) : 0;
}

static int same_panel_input(const pc__linear *a, const pc__linear *b)
{
    return a->compute == b->compute;
}

static void round_input(const pc__linear_job *job, void *prepared)
{
    const float_panels *w = job->linear->packed;
    if (is_prepared(job))
        pc__linear_round(job, 0, job->rows, job->rows, w->line, prepared);
}

static pc__panel_fn kernel_of(const pc__linear *linear, uint32_t weights)
{
    const pc__kernels *kernels = pc__kernels_get();
    if (linear->compute != PC_DTYPE_F32)
        return kernels->panel_bf16;
    return weights == PC_DTYPE_F32   ? kernels->panel_f32
           : weights == PC_DTYPE_F16 ? kernels->panel_f32_f16
                                     : kernels->panel_f32_bf16;
}

static void run_float_panel(const pc__linear_job *job, void *prepared, size_t index)
{
    const pc__linear *linear = job->linear;
    const float_panels *w = linear->packed;
    const uint8_t *rows = is_prepared(job) ? prepared : (const void *)job->x;
    pc__panel_task task = {pc__panel_at(&w->set, index),
                           w->even,
                           rows + job->first * w->line * pc__linear_element(linear),
                           w->line,
                           job->count,
                           job->y + index * PC__PANEL,
                           linear->out,
                           pc__panel_width(linear, index),
                           pc__panel_at(&w->set, index + linear->context->threads)};
    kernel_of(linear, w->dtype)(&task);
}

static void read_float_row(const pc__linear *linear, size_t row, int add, float *to)
{
    const float_panels *w = linear->packed;
    const void *panel = pc__panel_at(&w->set, row / PC__PANEL);
    const float *f = panel;
    const uint16_t *h = panel;
    size_t n = row % PC__PANEL;
    for (size_t i = 0; i < linear->in; i++) {
        size_t at = place_in_panel(linear, i, n);
        float value = w->dtype == PC_DTYPE_F32   ? f[at]
                      : w->dtype == PC_DTYPE_F16 ? pc__half_to(h[at])
                                                 : pc__bf16_to(h[at]);
        to[i] = add ? to[i] + value : value;
    }
}

const pc__linear_ops pc__linear_panels = {.make = make_panels,
                                          .drop = pc__panel_set_drop,
                                          .bytes = pc__panel_set_bytes,
                                          .input_bytes = panel_input_bytes,
                                          .same_input = same_panel_input,
                                          .prepare_input = round_input,
                                          .run_panel = run_float_panel,
                                          .read_row = read_float_row};
