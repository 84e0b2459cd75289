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
} float_panels;

/* Rows whose distance is a multiple of the size of a way of the first-level cache would all fall
 * into one of its sets. */
enum { WAY_BYTES = 4096 };

typedef struct float_packing {
    const pc__linear *linear;
    const pc__weight_source *source;
} float_packing;

static void pack_float_panel(void *arg, size_t first, size_t count, void *scratch, uint8_t *panel)
{
    const float_packing *p = arg;
    const pc__linear *linear = p->linear;
    float *rows = scratch, *f = (float *)(void *)panel;
    uint16_t *h = (uint16_t *)(void *)panel;
    p->source->rows(p->source->user, first, count, rows);
    for (size_t n = 0; n < count; n++)
        for (size_t i = 0; i < linear->in; i++)
            if (linear->compute == PC_DTYPE_F32)
                f[i * PC__PANEL + n] = rows[n * linear->in + i];
            else
                h[(i / 2 * PC__PANEL + n) * 2 + i % 2] = pc__bf16_from(rows[n * linear->in + i]);
}

static pc_status make_panels(pc__linear *linear, const pc__weight_source *source)
{
    float_panels *p = pc__calloc(&linear->context->mem, 1, sizeof *p);
    float_packing what = {linear, source};
    if (!(linear->packed = p))
        return PC_ERR_NOMEM;
    p->even = linear->compute == PC_DTYPE_F32 ? linear->in : linear->in + linear->in % 2;
    p->line = p->even;
    if (linear->compute != PC_DTYPE_F32 && p->line * sizeof(uint16_t) % WAY_BYTES == 0)
        p->line += 32;
    PC__TRY_RETURN(
        pc__panel_set_new(&p->set, linear, p->even * PC__PANEL * pc__linear_element(linear)));
    for (size_t i = 0; p->even > linear->in && i < p->set.count; i++)
        memset(p->set.weights + (i + 1) * p->set.bytes - 4 * PC__PANEL, 0, 4 * PC__PANEL);
    return pc__panel_set_pack(&p->set, linear, PC__PANEL * linear->in * sizeof(float),
                              pack_float_panel, &what);
}

/* fp32 rows are read in place if they follow each other. */
static int is_prepared(const pc__linear *linear, const pc__linear_input *input)
{
    return linear->compute != PC_DTYPE_F32 || input->row;
}

static size_t panel_input_bytes(const pc__linear *linear, const pc__linear_input *input)
{
    const float_panels *w = linear->packed;
    return is_prepared(linear, input) ? input->rows * w->line * pc__linear_element(linear) : 0;
}

static int same_panel_input(const pc__linear *a, const pc__linear *b)
{
    return a->compute == b->compute;
}

static void round_input(const pc__linear *linear, const pc__linear_input *input)
{
    const float_panels *w = linear->packed;
    if (is_prepared(linear, input))
        pc__linear_round(linear, input, 0, input->rows, input->rows, w->line, input->prepared);
}

static void run_float_panel(const pc__linear *linear, const pc__linear_input *input, float *y,
                            size_t index)
{
    const pc__kernels *kernels = pc__kernels_get();
    const float_panels *w = linear->packed;
    int whole = linear->compute == PC_DTYPE_F32;
    size_t first = index * PC__PANEL, width = pc__panel_width(linear, index);
    size_t next = index + linear->context->threads; /* probably this thread's next panel */
    const uint8_t *rows = is_prepared(linear, input) ? input->prepared : (const void *)input->x;
    pc__panel_task task = {w->set.weights + index * w->set.bytes,
                           w->even,
                           rows + input->first * w->line * pc__linear_element(linear),
                           w->line,
                           input->count,
                           y + first,
                           linear->out,
                           width,
                           next < w->set.count ? w->set.weights + next * w->set.bytes : NULL};
    (whole ? kernels->panel_f32 : kernels->panel_bf16)(&task);
}

const pc__linear_ops pc__linear_panels = {.make = make_panels,
                                          .drop = pc__panel_set_drop,
                                          .bytes = pc__panel_set_bytes,
                                          .input_bytes = panel_input_bytes,
                                          .same_input = same_panel_input,
                                          .prepare_input = round_input,
                                          .run_panel = run_float_panel};
