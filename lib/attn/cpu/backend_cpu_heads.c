/* Linear layers of single heads, and copies of columns, of the CPU backend. Where the vectors of a
 * head lie apart, inputs are gathered and outputs spread. All heads are one piece of work. */
#include <string.h>

#include "attn/cpu/backend_cpu.h"
#include "attn/cpu/linear_internal.h"
#include "base/threads.h"
#include "base/work.h"

/* Rows that are gathered at once, so that the copies stay small. */
enum { HEAD_ROWS = 64 };

typedef struct head_product {
    pc__linear *const *linears;
    const pc__head_rows *x, *y;
    size_t first, rows;
    float *in, *out; /* [head][rows][in], [head][rows][out] */
    pc__linear_job *jobs;
} head_product;

/* Whether the vectors of a head lie one behind the other, and are used as they are. */
static int gathers(const head_product *p)
{
    return p->x->row != p->linears[0]->in;
}

static int spreads(const head_product *p)
{
    return p->y->row != p->linears[0]->out;
}

static const float *input_of(const head_product *p, size_t head)
{
    return gathers(p) ? p->in + head * p->rows * p->linears[head]->in
                      : pc__cpu_values(p->x->at) + head * p->x->head + p->first * p->x->row;
}

static float *output_of(const head_product *p, size_t head)
{
    return spreads(p) ? p->out + head * p->rows * p->linears[head]->out
                      : pc__cpu_floats(p->y->at) + head * p->y->head + p->first * p->y->row;
}

static void gather_head(void *arg, size_t head)
{
    const head_product *p = arg;
    size_t in = p->linears[head]->in;
    for (size_t r = 0; r < p->rows; r++)
        memcpy(p->in + (head * p->rows + r) * in,
               pc__cpu_values(p->x->at) + head * p->x->head + (p->first + r) * p->x->row,
               in * sizeof(float));
}

static void spread_head(void *arg, size_t head)
{
    const head_product *p = arg;
    size_t out = p->linears[head]->out;
    for (size_t r = 0; r < p->rows; r++)
        memcpy(pc__cpu_floats(p->y->at) + head * p->y->head + (p->first + r) * p->y->row,
               p->out + (head * p->rows + r) * out, out * sizeof(float));
}

static pc_status run_rows(head_product *p, size_t heads)
{
    pc_context *context = p->linears[0]->context;
    if (gathers(p))
        pc__parallel(context, heads, gather_head, p);
    for (size_t h = 0; h < heads; h++)
        p->jobs[h] = (pc__linear_job){p->linears[h], input_of(p, h), NULL, p->rows, 0,
                                      p->rows,       output_of(p, h)};
    PC__TRY_RETURN(pc__linear_run_jobs(p->jobs, heads));
    if (spreads(p))
        pc__parallel(context, heads, spread_head, p);
    return PC_OK;
}

pc_status pc__cpu_linear_heads(pc__stream *stream, pc__linear *const *linears, size_t heads,
                               size_t rows, const pc__head_rows *x, const pc__head_rows *y)
{
    size_t most = rows < HEAD_ROWS ? rows : HEAD_ROWS, in = linears[0]->in, out = linears[0]->out;
    head_product p = {.linears = linears, .x = x, .y = y};
    uint8_t *at, *memory = pc__work_take(stream->context,
                                         heads * sizeof(pc__linear_job)
                                             + heads * most * (in + out) * sizeof(float) + 3 * 64);
    pc_status status = PC_OK;
    if (!memory)
        return PC_ERR_NOMEM;
    at = memory;
    p.jobs = pc__carve(&at, heads * sizeof *p.jobs);
    p.in = pc__carve(&at, heads * most * in * sizeof *p.in);
    p.out = pc__carve(&at, heads * most * out * sizeof *p.out);
    for (; p.first < rows && status >= 0; p.first += p.rows) {
        p.rows = rows - p.first < most ? rows - p.first : most;
        status = run_rows(&p, heads);
    }
    pc__work_give(stream->context, memory);
    return status;
}

void pc__cpu_columns(pc__stream *stream, const pc__floats *x, size_t x_stride, size_t rows,
                     size_t width, pc__floats *y, size_t y_stride)
{
    (void)stream;
    for (size_t r = 0; r < rows; r++)
        memcpy(pc__cpu_floats(y) + r * y_stride, pc__cpu_values(x) + r * x_stride,
               width * sizeof(float));
}
