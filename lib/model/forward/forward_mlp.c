/* The MLP sublayer: down(act(gate h) * up h) or down(act(up h)); in layers with experts the sum of
 * the chosen experts. Rows are gathered by expert, so that the weights of each used expert are read
 * once a block. Many experts form one job, so that threads wait for each other only a few times a
 * layer. */
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "model/forward/forward_internal.h"

enum { ENTRIES_AT_ONCE = 512, FLOATS_A_THREAD = 1 << 14 /* least work for a thread */ };

/* act(gate) * up in place of `gate`, or act(up) in place of `up`. */
static const float *inner_rows(const pc__forward_work *work, int gated, size_t count)
{
    const pc__native *native = work->native;
    if (gated)
        native->backend->gate(native->context, native->arch.activation, work->gate, work->up,
                              count);
    else
        native->backend->activate(native->context, native->arch.activation, work->up, count);
    return gated ? work->gate : work->up;
}

static pc_status dense_mlp(const pc__forward_work *work, const pc__native_mlp *mlp)
{
    const pc__backend *backend = work->native->backend;
    const pc__linear *const both[] = {mlp->up, mlp->gate};
    float *const to[] = {work->up, work->gate};
    PC__TRY_RETURN(backend->linear_run_all(both, mlp->gate ? 2 : 1, work->h, work->rows, to));
    return backend->linear_run(mlp->down,
                               inner_rows(work, mlp->gate != NULL, work->rows * mlp->width),
                               work->rows, work->h);
}

/* Experts [from, to), and the shared MLP with the first group: one job for the threads, however few
 * rows each expert has. */
typedef struct expert_group {
    const pc__forward_work *work;
    const pc__native_layer *layer;
    size_t from, to;
    size_t first, entries; /* entries of the routes */
    int shared;
    size_t chunk; /* rows in one piece of work when results are added up */
} expert_group;

size_t pc__experts_entries(const pc__arch *arch, size_t rows)
{
    size_t all = rows * (size_t)arch->experts.used;
    if (all > ENTRIES_AT_ONCE)
        all = ENTRIES_AT_ONCE;
    return all > rows ? all : rows; /* one expert may have all rows */
}

/* Floats of the experts' inner rows. Those of the shared MLP follow. */
static size_t inner_of(const expert_group *g)
{
    return g->entries * (size_t)g->work->native->arch.experts.width;
}

static size_t shared_inner(const expert_group *g)
{
    return g->shared ? g->work->rows * g->layer->mlp.width : 0;
}

/* Jobs for gate and up. Returns their number. */
static size_t first_jobs(const expert_group *g, pc__linear_job *jobs)
{
    const pc__forward_work *work = g->work;
    const pc__routes *routes = &work->routes;
    size_t rows = work->rows, width = (size_t)work->native->arch.experts.width, n = 0;
    for (size_t e = g->from; e < g->to; e++) {
        size_t at = routes->first[e] - g->first, count = routes->first[e + 1] - routes->first[e];
        const pc__native_mlp *mlp = &g->layer->experts[e];
        pc__linear_job job = {mlp->up, work->h, routes->row + g->first, g->entries,
                              at,      count,   work->up + at * width};
        if (!count)
            continue;
        jobs[n++] = job;
        job.linear = mlp->gate;
        job.y = work->gate + at * width;
        if (mlp->gate)
            jobs[n++] = job;
    }
    if (g->shared) {
        const pc__native_mlp *mlp = &g->layer->mlp;
        jobs[n++] = (pc__linear_job){mlp->up, work->h, NULL, rows, 0, rows, work->up + inner_of(g)};
        if (mlp->gate)
            jobs[n++] = (pc__linear_job){
                mlp->gate, work->h, NULL, rows, 0, rows, work->gate + inner_of(g)};
    }
    return n;
}

static size_t second_jobs(const expert_group *g, const float *inner, pc__linear_job *jobs)
{
    const pc__forward_work *work = g->work;
    const pc__routes *routes = &work->routes;
    size_t rows = work->rows, dim = (size_t)work->native->arch.hidden, n = 0;
    for (size_t e = g->from; e < g->to; e++) {
        size_t at = routes->first[e] - g->first, count = routes->first[e + 1] - routes->first[e];
        if (count)
            jobs[n++] = (pc__linear_job){
                g->layer->experts[e].down,      inner, NULL, g->entries, at, count,
                work->expert_results + at * dim};
    }
    if (g->shared)
        jobs[n++] = (pc__linear_job){g->layer->mlp.down, inner + inner_of(g), NULL, rows, 0, rows,
                                     work->expert_sum};
    return n;
}

/* Starts a row with the result of the shared MLP, or with zeros. */
static void begin_row(const expert_group *g, size_t row, float *to, size_t dim)
{
    const pc__forward_work *work = g->work;
    if (!g->layer->mlp.width) {
        memset(to, 0, dim * sizeof *to);
    } else if (g->layer->shared_scale) {
        float scale = 1.0f / (1.0f + expf(-work->shared_scale[row]));
        for (size_t i = 0; i < dim; i++)
            to[i] *= scale;
    }
}

static void add_expert_rows(void *arg, size_t index)
{
    const expert_group *g = arg;
    const pc__forward_work *work = g->work;
    const pc__routes *routes = &work->routes;
    size_t dim = (size_t)work->native->arch.hidden, used = (size_t)work->native->arch.experts.used;
    for (size_t r = index * g->chunk; r < (index + 1) * g->chunk && r < work->rows; r++) {
        float *to = work->expert_sum + r * dim;
        if (!g->from)
            begin_row(g, r, to, dim);
        for (size_t i = 0; i < used; i++) {
            size_t entry = routes->of_row[r * used + i] - g->first;
            const float *add = work->expert_results + entry * dim;
            float share;
            if (entry >= g->entries) /* of another group (the difference wraps around) */
                continue;
            share = routes->share[g->first + entry];
            for (size_t c = 0; c < dim; c++)
                to[c] += share * add[c];
        }
    }
}

static pc_status run_group(expert_group *g, pc__linear_job *jobs)
{
    const pc__forward_work *work = g->work;
    const pc__native *native = work->native;
    size_t dim = (size_t)native->arch.hidden;
    const float *inner;
    PC__TRY_RETURN(native->backend->linear_run_jobs(jobs, first_jobs(g, jobs)));
    inner = inner_rows(work, g->layer->experts[0].gate != NULL, inner_of(g) + shared_inner(g));
    PC__TRY_RETURN(native->backend->linear_run_jobs(jobs, second_jobs(g, inner, jobs)));
    g->chunk = FLOATS_A_THREAD / (dim * ((size_t)native->arch.experts.used + 1)) + 1;
    pc__parallel(native->context, (work->rows + g->chunk - 1) / g->chunk, add_expert_rows, g);
    return PC_OK;
}

static pc_status run_experts(const pc__forward_work *work, const pc__native_layer *layer)
{
    const pc_allocator *mem = &work->native->context->mem;
    const uint32_t *first = work->routes.first;
    size_t all = (size_t)work->native->arch.experts.count,
           most = pc__experts_entries(&work->native->arch, work->capacity);
    pc__linear_job *jobs = pc__calloc(mem, 2 * (all + 1), sizeof *jobs);
    pc_status status = jobs ? PC_OK : PC_ERR_NOMEM;
    for (expert_group g = {work, layer, 0, 0, 0, 0, layer->mlp.width > 0, 0};
         g.from < all && status >= 0; g.from = g.to, g.shared = 0) {
        g.to = g.from + 1;
        while (g.to < all && first[g.to + 1] - first[g.from] <= most)
            g.to++;
        g.first = first[g.from];
        g.entries = first[g.to] - g.first;
        status = run_group(&g, jobs);
    }
    pc__free(mem, jobs);
    return status;
}

/* The result of a row depends on that row alone, bit for bit: the sum runs over the shared MLP,
 * then over experts in ascending order. */
static pc_status experts_sublayer(pc__forward_work *work, int32_t l)
{
    const pc__native *native = work->native;
    const pc__native_layer *layer = &native->layers[l];
    const pc__linear *const both[] = {layer->router, layer->shared_scale};
    float *const to[] = {work->routes.logits, work->shared_scale}, *h = work->h;
    PC__TRY_RETURN(
        native->backend->linear_run_all(both, layer->shared_scale ? 2 : 1, h, work->rows, to));
    pc__route(native->context, &native->arch.experts, work->rows, &work->routes);
    PC__TRY_RETURN(pc__trace_routes(work, l));
    PC__TRY_RETURN(run_experts(work, layer));
    work->h = work->expert_sum;
    work->expert_sum = h;
    return PC_OK;
}

pc_status pc__mlp_sublayer(pc__forward_work *work, int32_t layer)
{
    const pc__native_layer *weights = &work->native->layers[layer];
    return weights->router ? experts_sublayer(work, layer) : dense_mlp(work, &weights->mlp);
}
