/* Computes several linear layers in one loop over all their panels, so that threads wait for each
 * other once, and inputs that layers share are prepared once. Also converts inputs to a layer's
 * dtype. */
#include "attn/cpu/linear.h"

#include <string.h>

#include "attn/cpu/panel_set.h"
#include "base/threads.h"
#include "base/work.h"

typedef struct layer_product {
    const pc__linear_job *job;
    void *prepared; /* inputs */
    size_t end;     /* its panels and those of all products before it */
} layer_product;

typedef struct layer_products {
    layer_product *each;
    size_t count;
} layer_products;

static void add_bias(const pc__linear_job *job, size_t panel)
{
    const pc__linear *linear = job->linear;
    size_t first = panel * PC__PANEL, end = first + pc__panel_width(linear, panel);
    for (size_t r = 0; linear->bias && r < job->count; r++)
        for (size_t n = first; n < end; n++)
            job->y[r * linear->out + n] += linear->bias[n];
}

static void run_job_panel(void *arg, size_t index)
{
    const layer_products *all = arg;
    size_t low = 0, high = all->count - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (index < all->each[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    const layer_product *p = &all->each[low];
    index -= low ? p[-1].end : 0;
    p->job->linear->ops->run_panel(p->job, p->prepared, index);
    add_bias(p->job, index);
}

/* The last earlier product with the same inputs in the same form; NULL: none. */
static const layer_product *earlier_product(const layer_products *all, const layer_product *p)
{
    const pc__linear_job *job = p->job;
    const pc__linear *linear = job->linear;
    while (p-- > all->each)
        if (p->job->x == job->x && p->job->row == job->row && p->job->rows == job->rows
            && p->job->linear->in == linear->in && p->job->linear->ops == linear->ops
            && linear->ops->same_input(p->job->linear, linear))
            return p;
    return NULL;
}

static void prepare_inputs(layer_products *all, uint8_t *memory)
{
    for (layer_product *p = all->each; p < all->each + all->count; p++) {
        const layer_product *e = earlier_product(all, p);
        const pc__linear_ops *ops = p->job->linear->ops;
        p->prepared = e ? e->prepared : pc__carve(&memory, ops->input_bytes(p->job));
        if (!e)
            ops->prepare_input(p->job, p->prepared);
    }
}

static size_t inputs_bytes(const layer_products *all)
{
    size_t bytes = 0;
    for (const layer_product *p = all->each; p < all->each + all->count; p++)
        if (!earlier_product(all, p))
            bytes += (p->job->linear->ops->input_bytes(p->job) + 63) / 64 * 64;
    return bytes;
}

static pc_status run_panels(pc_context *context, layer_products *all)
{
    size_t bytes = inputs_bytes(all);
    uint8_t *memory = NULL;
    if (bytes && !(memory = pc__work_take(context, bytes)))
        return PC_ERR_NOMEM;
    prepare_inputs(all, memory);
    pc__parallel(context, all->each[all->count - 1].end, run_job_panel, all);
    pc__work_give(context, memory);
    return PC_OK;
}

/* `each` has room for all jobs. */
static pc_status run_jobs(const pc__linear_job *jobs, size_t count, layer_product *each)
{
    layer_products all = {each, 0};
    pc_status status = PC_OK;
    for (size_t i = 0; i < count && status >= 0; i++) {
        const pc__linear_job *job = &jobs[i];
        size_t before = all.count ? each[all.count - 1].end : 0;
        if (!job->count)
            continue;
        if (job->linear->ops->run)
            status = job->linear->ops->run(job);
        else
            each[all.count++] = (layer_product){job, NULL, before + pc__panel_count(job->linear)};
    }
    if (status >= 0 && all.count)
        status = run_panels(jobs[0].linear->context, &all);
    if (status < 0)
        return pc__fail_in(status, "linear layer of %zu to %zu features", jobs[0].linear->in,
                           jobs[0].linear->out);
    return PC_OK;
}

pc_status pc__linear_run_jobs(const pc__linear_job *jobs, size_t count)
{
    layer_product few[PC__LINEARS_AT_ONCE], *each = few;
    pc_context *context = count ? jobs[0].linear->context : NULL;
    pc_status status;
    if (count > PC__LINEARS_AT_ONCE && !(each = pc__calloc(&context->mem, count, sizeof *each)))
        return pc__fail_in(PC_ERR_NOMEM, "%zu linear layers", count);
    status = count ? run_jobs(jobs, count, each) : PC_OK;
    if (each != few)
        pc__free(&context->mem, each);
    return status;
}

pc_status pc__linear_run_all(const pc__linear *const *linears, size_t count, const float *x,
                             size_t rows, float *const *y)
{
    pc__linear_job jobs[PC__LINEARS_AT_ONCE];
    for (size_t i = 0; i < count; i++)
        jobs[i] = (pc__linear_job){linears[i], x, NULL, rows, 0, rows, y[i]};
    return pc__linear_run_jobs(jobs, count);
}

pc_status pc__linear_run(const pc__linear *linear, const float *x, size_t rows, float *y)
{
    return pc__linear_run_all(&linear, 1, x, rows, &y);
}

enum { ROWS_AT_ONCE = 16 };

typedef struct row_conversion {
    const pc__linear_job *job;
    size_t first, rows, padded_rows, padded;
    uint8_t *to;
    void (*to_bf16)(const float *x, size_t count, uint16_t *out);
} row_conversion;

static void convert_rows(void *arg, size_t index)
{
    const row_conversion *n = arg;
    const pc__linear_job *job = n->job;
    size_t in = job->linear->in, element = pc__linear_element(job->linear);
    size_t end = (index + 1) * ROWS_AT_ONCE < n->padded_rows ? (index + 1) * ROWS_AT_ONCE
                                                             : n->padded_rows;
    for (size_t r = index * ROWS_AT_ONCE; r < end; r++) {
        const float *x = job->x;
        uint8_t *line = n->to + r * n->padded * element;
        size_t filled = r < n->rows ? in : 0;
        if (filled)
            x += (job->row ? job->row[n->first + r] : n->first + r) * in;
        if (filled && job->linear->compute == PC_DTYPE_F32)
            memcpy(line, x, in * element);
        else if (filled)
            n->to_bf16(x, in, (uint16_t *)(void *)line);
        memset(line + filled * element, 0, (n->padded - filled) * element);
    }
}

void pc__linear_round(const pc__linear_job *job, size_t first, size_t rows, size_t padded_rows,
                      size_t padded, void *to)
{
    row_conversion n = {job, first, rows, padded_rows, padded, to, pc__kernels_get()->to_bf16};
    pc__parallel(job->linear->context, (padded_rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE,
                 convert_rows, &n);
}
