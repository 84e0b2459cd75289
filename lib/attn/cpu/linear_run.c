/* Computes several linear layers in one loop over all their panels, so that threads wait for each
 * other once, and inputs that layers share are prepared once. Also converts inputs to a layer's
 * dtype. */
#include "attn/cpu/linear.h"

#include <string.h>

#include "attn/cpu/panel_set.h"
#include "base/threads.h"

typedef struct layer_product {
    const pc__linear *linear;
    pc__linear_input input;
    float *y;
    size_t end; /* its panels and those of all products before it */
} layer_product;

typedef struct layer_products {
    layer_product *each;
    size_t count;
} layer_products;

/* Adds the bias of features [first, first + width) to y [rows][linear->out]. */
static void add_bias(const pc__linear *linear, size_t first, size_t width, size_t rows, float *y)
{
    for (size_t r = 0; linear->bias && r < rows; r++)
        for (size_t n = first; n < first + width; n++)
            y[r * linear->out + n] += linear->bias[n];
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
    p->linear->ops->run_panel(p->linear, &p->input, p->y, index);
    add_bias(p->linear, index * PC__PANEL, pc__panel_width(p->linear, index), p->input.count, p->y);
}

/* The last earlier product with the same inputs in the same form; NULL: none. */
static const layer_product *earlier_product(const layer_products *all, const layer_product *p)
{
    for (const layer_product *e = p; e-- > all->each;)
        if (e->input.x == p->input.x && e->input.row == p->input.row
            && e->input.rows == p->input.rows && e->linear->in == p->linear->in
            && e->linear->ops == p->linear->ops && p->linear->ops->same_input(e->linear, p->linear))
            return e;
    return NULL;
}

static void prepare_inputs(layer_products *all, uint8_t *memory)
{
    for (layer_product *p = all->each; p < all->each + all->count; p++) {
        const layer_product *e = earlier_product(all, p);
        const pc__linear_ops *ops = p->linear->ops;
        if (e) {
            p->input.prepared = e->input.prepared;
            continue;
        }
        p->input.prepared = pc__carve(&memory, ops->input_bytes(p->linear, &p->input));
        ops->prepare_input(p->linear, &p->input);
    }
}

static size_t inputs_bytes(const layer_products *all)
{
    size_t bytes = 0;
    for (const layer_product *p = all->each; p < all->each + all->count; p++)
        if (!earlier_product(all, p))
            bytes += (p->linear->ops->input_bytes(p->linear, &p->input) + 63) / 64 * 64;
    return bytes;
}

static pc_status run_panels(pc_context *context, layer_products *all)
{
    size_t bytes = inputs_bytes(all);
    uint8_t *memory = NULL;
    if (bytes && !(memory = pc__alloc_aligned(&context->mem, bytes, 64)))
        return PC_ERR_NOMEM;
    prepare_inputs(all, memory);
    pc__parallel(context, all->each[all->count - 1].end, run_job_panel, all);
    pc__free(&context->mem, memory);
    return PC_OK;
}

/* `each` has room for all jobs. */
static pc_status run_jobs(const pc__linear_job *jobs, size_t count, layer_product *each)
{
    layer_products all = {each, 0};
    pc_status status = PC_OK;
    for (size_t i = 0; i < count && status >= 0; i++) {
        const pc__linear_job *job = &jobs[i];
        pc__linear_input input = {job->x, job->row, job->rows, job->first, job->count, NULL};
        size_t before = all.count ? each[all.count - 1].end : 0;
        if (!job->count)
            continue;
        if (job->linear->ops->run)
            status = job->linear->ops->run(job->linear, &input, job->y);
        else
            each[all.count++] = (layer_product){job->linear, input, job->y,
                                                before + pc__panel_count(job->linear)};
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
    const pc__linear *linear;
    const pc__linear_input *from;
    size_t first, rows, padded_rows, padded;
    uint8_t *to;
    void (*to_bf16)(const float *x, size_t count, uint16_t *out);
} row_conversion;

static void convert_rows(void *arg, size_t index)
{
    const row_conversion *n = arg;
    size_t in = n->linear->in, element = pc__linear_element(n->linear);
    size_t end = (index + 1) * ROWS_AT_ONCE < n->padded_rows ? (index + 1) * ROWS_AT_ONCE
                                                             : n->padded_rows;
    for (size_t r = index * ROWS_AT_ONCE; r < end; r++) {
        const float *x = n->from->x;
        uint8_t *line = n->to + r * n->padded * element;
        size_t filled = r < n->rows ? in : 0;
        if (filled)
            x += (n->from->row ? n->from->row[n->first + r] : n->first + r) * in;
        if (filled && n->linear->compute == PC_DTYPE_F32)
            memcpy(line, x, in * element);
        else if (filled)
            n->to_bf16(x, in, (uint16_t *)(void *)line);
        memset(line + filled * element, 0, (n->padded - filled) * element);
    }
}

void pc__linear_round(const pc__linear *linear, const pc__linear_input *from, size_t first,
                      size_t rows, size_t padded_rows, size_t padded, void *to)
{
    row_conversion n = {linear,      from,   first, rows,
                        padded_rows, padded, to,    pc__kernels_get()->to_bf16};
    pc__parallel(linear->context, (padded_rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, convert_rows,
                 &n);
}
