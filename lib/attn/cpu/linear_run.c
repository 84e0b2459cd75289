/* Products of several linear layers with the same inputs: one loop over the panels of all of them,
 * so that threads wait for each other once, and the inputs are rounded or cut once. */
#include "attn/cpu/linear.h"

#include "attn/cpu/panel_set.h"
#include "base/threads.h"

enum { AT_ONCE = PC__LINEARS_AT_ONCE };

typedef struct product {
    const pc__linear *linear;
    pc__linear_input input;
    float *y;
    size_t panels;
} product;

typedef struct products {
    product each[AT_ONCE];
    size_t count;
} products;

static void run_panel(void *arg, size_t index)
{
    const products *all = arg;
    const product *p = all->each;
    for (; index >= p->panels; p++)
        index -= p->panels;
    p->linear->way->run_panel(p->linear, &p->input, p->y, index);
}

/* An earlier product that takes the inputs in the same form; NULL: none. */
static const product *earlier(const products *all, const product *p)
{
    for (const product *e = all->each; e < p; e++)
        if (e->linear->way == p->linear->way && p->linear->way->same_input(e->linear, p->linear))
            return e;
    return NULL;
}

static void take_inputs(products *all, uint8_t *memory)
{
    for (product *p = all->each; p < all->each + all->count; p++) {
        const product *e = earlier(all, p);
        const pc__linear_way *way = p->linear->way;
        if (e) {
            p->input.taken = e->input.taken;
            continue;
        }
        p->input.taken = pc__carve(&memory, way->input_bytes(p->linear, p->input.rows));
        way->take_input(p->linear, p->input.x, p->input.rows, p->input.taken);
    }
}

static size_t bytes_of(const products *all)
{
    size_t bytes = 0;
    for (const product *p = all->each; p < all->each + all->count; p++)
        if (!earlier(all, p))
            bytes += (p->linear->way->input_bytes(p->linear, p->input.rows) + 63) / 64 * 64;
    return bytes;
}

static pc_status run_panels(pc_context *context, products *all)
{
    size_t bytes = bytes_of(all), panels = 0;
    uint8_t *memory = NULL;
    if (bytes && !(memory = pc__alloc_aligned(&context->mem, bytes, 64)))
        return PC_ERR_NOMEM;
    take_inputs(all, memory);
    for (size_t i = 0; i < all->count; i++)
        panels += all->each[i].panels;
    pc__parallel(context, panels, run_panel, all);
    pc__free(&context->mem, memory);
    return PC_OK;
}

pc_status pc__linear_run_all(const pc__linear *const *linears, size_t count, const float *x,
                             size_t rows, float *const *y)
{
    products all = {.count = 0};
    pc_status status = PC_OK;
    for (size_t i = 0; i < count && rows && status >= 0; i++) {
        const pc__linear *linear = linears[i];
        if (linear->way->run)
            status = linear->way->run(linear, x, rows, y[i]);
        else
            all.each[all.count++] = (product){linear, {x, rows, NULL}, y[i], pc__panel_count(linear)};
    }
    if (status >= 0 && all.count)
        status = run_panels(linears[0]->context, &all);
    if (status < 0)
        return pc__fail_in(status, "linear layer of %zu to %zu features", linears[0]->in,
                           linears[0]->out);
    return PC_OK;
}

pc_status pc__linear_run(const pc__linear *linear, const float *x, size_t rows, float *y)
{
    return pc__linear_run_all(&linear, 1, x, rows, &y);
}
