#include "model/experts.h"

#include <math.h>
#include <string.h>

#include "base/threads.h"

enum { WORTH = 1 << 14 /* floats that are worth a thread */, LINE = 16 /* floats */ };

typedef struct moving {
    float *all, *some; /* [row of the block][dim], [entry of the expert][dim] */
    const uint32_t *row;
    const float *share;
    size_t count, dim;
    size_t chunk; /* gather: entries, scatter: columns of a thread */
} moving;

static void gather_chunk(void *arg, size_t index)
{
    const moving *m = arg;
    for (size_t i = index * m->chunk; i < (index + 1) * m->chunk && i < m->count; i++)
        memcpy(m->some + i * m->dim, m->all + m->row[i] * m->dim, m->dim * sizeof *m->some);
}

static void scatter_chunk(void *arg, size_t index)
{
    const moving *m = arg;
    size_t from = index * m->chunk, end = from + m->chunk < m->dim ? from + m->chunk : m->dim;
    for (size_t i = 0; i < m->count; i++) {
        float *to = m->all + m->row[i] * m->dim;
        const float *add = m->some + i * m->dim;
        for (size_t c = from; c < end; c++)
            to[c] += m->share[i] * add[c];
    }
}

static void gather(const pc__work *work, moving m)
{
    m.chunk = WORTH / m.dim + 1;
    pc__parallel(work->native->context, (m.count + m.chunk - 1) / m.chunk, gather_chunk, &m);
}

/* Threads share columns, not rows: the entries of a row stay in order. */
static void scatter(const pc__work *work, moving m)
{
    m.chunk = (WORTH / m.count + LINE) / LINE * LINE;
    pc__parallel(work->native->context, (m.dim + m.chunk - 1) / m.chunk, scatter_chunk, &m);
}

static pc_status run_expert(const pc__work *work, const pc__native_layer *layer, size_t e)
{
    const pc__routes *routes = &work->routes;
    size_t first = routes->first[e], count = routes->first[e + 1] - first;
    moving m = {.all = work->h,
                .some = work->some,
                .row = routes->row + first,
                .share = routes->share + first,
                .count = count,
                .dim = (size_t)work->native->arch.hidden};
    pc_status status;
    if (!count)
        return PC_OK;
    gather(work, m);
    status = pc__mlp(work, &layer->experts[e], work->some, count, work->some);
    m.all = work->mixed;
    if (status >= 0)
        scatter(work, m);
    return status;
}

/* mixed = shared MLP of h; zero where there is none. */
static pc_status run_shared(const pc__work *work, const pc__native_layer *layer)
{
    size_t dim = (size_t)work->native->arch.hidden;
    pc_status status;
    if (!layer->mlp.width) {
        memset(work->mixed, 0, work->rows * dim * sizeof *work->mixed);
        return PC_OK;
    }
    status = pc__mlp(work, &layer->mlp, work->h, work->rows, work->mixed);
    for (size_t r = 0; r < work->rows && layer->shared_scale; r++) {
        float scale = 1.0f / (1.0f + expf(-work->shared_scale[r]));
        for (size_t i = 0; i < dim; i++)
            work->mixed[r * dim + i] *= scale;
    }
    return status;
}

pc_status pc__experts_part(pc__work *work, int32_t l)
{
    const pc__native *native = work->native;
    const pc__native_layer *layer = &native->layers[l];
    const pc__linear *const both[] = {layer->router, layer->shared_scale};
    float *const to[] = {work->routes.logits, work->shared_scale}, *h = work->h;
    pc_status status;
    PC__TRY(native->backend->linear_run_all(both, layer->shared_scale ? 2 : 1, h, work->rows, to),
            done);
    pc__route(native->context, &native->arch.experts, work->rows, &work->routes);
    PC__TRY(pc__trace_routes(work, l), done);
    PC__TRY(run_shared(work, layer), done);
    for (size_t e = 0; e < (size_t)native->arch.experts.count && status >= 0; e++)
        status = run_expert(work, layer, e);
    work->h = work->mixed;
    work->mixed = h;
done:
    return status;
}
