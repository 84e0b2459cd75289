/* Linear layers with quantised weights, in panels of PC__PANEL output features (layout:
 * quantised_panel.h). Inputs are quantised to 8 bits, with 16 in groups that stand out in their
 * row, or, for PC_DTYPE_I16, to 16 bits everywhere, finer than bf16, which needs twice the
 * products. Sums within a group are exact. */
#include "attn/cpu/panel_set.h"
#include "attn/cpu/quantised_panel.h"
#include "base/checksum.h"
#include "base/threads.h"

enum { ROWS_AT_ONCE = 16 }; /* their steps of one group share a cache line */

typedef struct quantised_panels {
    pc__panel_set set; /* first: see panel_set.h */
    pc__block_format format;
    size_t groups;
} quantised_panels;

typedef struct quantised_packing {
    const pc__linear *linear;
    const quantised_panels *to;
    const pc__weight_source *source;
} quantised_packing;

/* scratch: the panel's rows. */
static void pack_quantised_panel(void *arg, size_t first, size_t count, void *scratch,
                                 uint8_t *panel)
{
    const quantised_packing *p = arg;
    const pc__block_format *format = &p->to->format;
    pc__block_rows rows = pc__block_rows_in(scratch, format, p->linear->in, count);
    p->source->quantised_rows(p->source->user, first, count, &rows);
    pc__kernels_get()->quantised_pack(format, p->linear->in, &rows, count, panel);
}

static uint64_t form_of(const pc__block_format *f)
{
    const uint64_t parts[] = {f->bits,    f->group,  f->block, (uint64_t)f->zero,
                              f->minimum, f->scales, f->table};
    return pc__checksum64(parts, sizeof parts);
}

static pc_status make_quantised(pc__linear *linear, const pc__weight_source *source)
{
    quantised_panels *p = pc__calloc(&linear->context->mem, 1, sizeof *p);
    quantised_packing what = {linear, p, source};
    if (!(linear->packed = p))
        return PC_ERR_NOMEM;
    p->format = source->format;
    p->groups = linear->in / p->format.group;
    const pc__panel_packer packer = {
        .pack = pack_quantised_panel,
        .arg = &what,
        .scratch_bytes = pc__block_rows_bytes(&p->format, linear->in, PC__PANEL),
        .form = form_of(&p->format),
        .packed = source->packed};
    return pc__panel_set_make(&p->set, linear, pc__quantised_panel_bytes(&p->format, linear->in),
                              &packer);
}

/* The quantised inputs, in one block of memory, from row `first` on. */
static pc__quantised_inputs quantised_at(const pc__linear_job *job, void *prepared, size_t first)
{
    const quantised_panels *w = job->linear->packed;
    size_t rows = job->rows, in = job->linear->in;
    uint8_t *at = prepared;
    pc__quantised_inputs c = {.stride = rows};
    c.high = (int8_t *)pc__carve(&at, rows * in) + first * in;
    c.low = (int8_t *)pc__carve(&at, rows * in) + first * in;
    c.step = (float *)pc__carve(&at, rows * w->groups * sizeof *c.step) + first;
    c.negative_sum = (int32_t *)pc__carve(&at, rows * w->groups * sizeof *c.negative_sum) + first;
    c.wide = (uint8_t *)pc__carve(&at, rows * w->groups) + first;
    return c;
}

static size_t quantised_input_bytes(const pc__linear_job *job)
{
    const quantised_panels *w = job->linear->packed;
    size_t of_group = sizeof(float) + sizeof(int32_t) + 1;
    return job->rows * (2 * job->linear->in + w->groups * of_group) + 5 * 64;
}

static int same_quantised_input(const pc__linear *a, const pc__linear *b)
{
    const quantised_panels *x = a->packed, *y = b->packed;
    return x->format.group == y->format.group && a->compute == b->compute;
}

typedef struct quantising {
    const pc__linear_job *job;
    void *prepared;
    pc__quantise_fn quantise;
} quantising;

static void quantise_rows(void *arg, size_t index)
{
    const quantising *c = arg;
    const pc__linear_job *job = c->job;
    const quantised_panels *w = job->linear->packed;
    size_t first = index * ROWS_AT_ONCE;
    for (size_t r = first; r < first + ROWS_AT_ONCE && r < job->rows; r++) {
        pc__quantised_inputs to = quantised_at(job, c->prepared, r);
        c->quantise(job->x + (job->row ? job->row[r] : r) * job->linear->in, w->groups,
                    w->format.group, job->linear->compute == PC_DTYPE_I16, &to);
    }
}

static void quantise_input(const pc__linear_job *job, void *prepared)
{
    quantising c = {job, prepared, pc__kernels_get()->quantise};
    pc__parallel(job->linear->context, (job->rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, quantise_rows,
                 &c);
}

static void run_quantised_panel(const pc__linear_job *job, void *prepared, size_t index)
{
    const pc__linear *linear = job->linear;
    const quantised_panels *w = linear->packed;
    pc__quantised_task task = {pc__panel_at(&w->set, index),
                               w->format,
                               w->groups,
                               quantised_at(job, prepared, job->first),
                               job->count,
                               job->y + index * PC__PANEL,
                               linear->out,
                               pc__panel_width(linear, index),
                               pc__panel_at(&w->set, index + linear->context->threads)};
    pc__kernels_get()->panel_quantised(&task);
}

static void read_quantised_row(const pc__linear *linear, size_t row, int add, float *to)
{
    const quantised_panels *w = linear->packed;
    pc__quantised_unpack(&w->format, linear->in, pc__panel_at(&w->set, row / PC__PANEL),
                         row % PC__PANEL, add, to);
}

const pc__linear_ops pc__linear_quantised = {.make = make_quantised,
                                             .drop = pc__panel_set_drop,
                                             .bytes = pc__panel_set_bytes,
                                             .input_bytes = quantised_input_bytes,
                                             .same_input = same_quantised_input,
                                             .prepare_input = quantise_input,
                                             .run_panel = run_quantised_panel,
                                             .read_row = read_quantised_row};
