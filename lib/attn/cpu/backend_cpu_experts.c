/* Layers with experts on the CPU. Rows are gathered by expert, so that the weights of each used
 * expert are read once. Many experts form one job, so that threads wait for each other only a few
 * times a layer. The result of a row depends on that row alone, bit for bit: the sum runs over the
 * shared MLP, then over experts in ascending order. */
#include <math.h>
#include <string.h>

#include "attn/cpu/backend_cpu.h"
#include "attn/cpu/linear.h"
#include "attn/cpu/route.h"
#include "base/threads.h"

enum { ENTRIES_AT_ONCE = 512, FLOATS_A_THREAD = 1 << 14 /* least work for a thread */ };

/* Most entries in one group. */
static size_t most_entries(const pc__expert_config *config, size_t rows)
{
    size_t all = rows * (size_t)config->used;
    if (all > ENTRIES_AT_ONCE)
        all = ENTRIES_AT_ONCE;
    return all > rows ? all : rows; /* one expert may have all rows */
}

/* Activations in the scratch memory. */
typedef struct expert_work {
    pc__stream *stream;
    const pc__expert_layer *layer;
    size_t rows;
    const float *x;
    pc__routes routes;
    float *shared_scale; /* [row] before the sigmoid */
    float *gate, *up;    /* inner rows of a group of experts, then those of the shared MLP */
    float *results;      /* [entry of the group][hidden] */
    float *sum;          /* [row][hidden] */
} expert_work;

static size_t lay_out(expert_work *w, const pc__expert_config *config, size_t hidden, size_t rows,
                      pc__floats *base)
{
    size_t count = (size_t)config->count, entries = rows * (size_t)config->used, used = 0;
    size_t inner = most_entries(config, rows) * (size_t)config->width
                   + rows * (size_t)config->shared;
    w->routes.logits = pc__floats_carve(base, &used, rows * count);
    w->routes.scratch = pc__floats_carve(base, &used, rows * pc__route_scratch(config));
    w->routes.chosen = pc__floats_carve(base, &used, entries);
    w->routes.weight = pc__floats_carve(base, &used, entries);
    w->routes.first = pc__floats_carve(base, &used, count + 1);
    w->routes.row = pc__floats_carve(base, &used, entries);
    w->routes.share = pc__floats_carve(base, &used, entries);
    w->routes.of_row = pc__floats_carve(base, &used, entries);
    w->shared_scale = pc__floats_carve(base, &used, rows);
    w->results = pc__floats_carve(base, &used, most_entries(config, rows) * hidden);
    w->up = pc__floats_carve(base, &used, inner);
    w->gate = pc__floats_carve(base, &used, inner);
    return used;
}

size_t pc__cpu_experts_scratch(const pc__backend *backend, const pc__expert_config *config,
                               size_t hidden, size_t rows)
{
    expert_work w = {0};
    (void)backend;
    return lay_out(&w, config, hidden, rows, NULL);
}

/* act(gate) * up in place of `gate`, or act(up) in place of `up`. */
static const float *inner_rows(const expert_work *w, int gated, size_t count)
{
    if (gated)
        pc__cpu_gate(w->stream, &w->layer->gating, (pc__floats *)w->gate, (pc__floats *)w->up,
                     count);
    else
        pc__cpu_activate(w->stream, w->layer->gating.activation, (pc__floats *)w->up, count);
    return gated ? w->gate : w->up;
}

/* Experts [from, to), and the shared MLP with the first group: one job for the threads, however few
 * rows each expert has. */
typedef struct expert_group {
    const expert_work *work;
    size_t from, to;
    size_t first, entries; /* entries of the routes */
    int shared;
    size_t chunk; /* rows in one piece of work when results are added up */
} expert_group;

/* Floats of the experts' inner rows. Those of the shared MLP follow. */
static size_t inner_of(const expert_group *g)
{
    return g->entries * (size_t)g->work->layer->config->width;
}

static size_t shared_inner(const expert_group *g)
{
    return g->shared ? g->work->rows * g->work->layer->shared->width : 0;
}

static void scale_input(void *arg, size_t entry)
{
    const expert_group *g = arg;
    const expert_work *w = g->work;
    const pc__routes *routes = &w->routes;
    size_t dim = w->layer->hidden;
    const float *from = w->x + routes->row[g->first + entry] * dim;
    for (size_t i = 0; i < dim; i++)
        w->results[entry * dim + i] = from[i] * routes->share[g->first + entry];
}

/* Jobs for gate and up. Returns their number. Inputs that are scaled lie where the results will. */
static size_t first_jobs(expert_group *g, pc__linear_job *jobs)
{
    const expert_work *w = g->work;
    const pc__routes *routes = &w->routes;
    int scales = w->layer->config->scales_input;
    size_t width = (size_t)w->layer->config->width, n = 0;
    if (scales)
        pc__parallel(w->stream->context, g->entries, scale_input, g);
    for (size_t e = g->from; e < g->to; e++) {
        size_t at = routes->first[e] - g->first, count = routes->first[e + 1] - routes->first[e];
        const pc__mlp *mlp = &w->layer->experts[e];
        pc__linear_job job = {mlp->up,
                              scales ? w->results : w->x,
                              scales ? NULL : routes->row + g->first,
                              g->entries,
                              at,
                              count,
                              w->up + at * width};
        if (!count)
            continue;
        jobs[n++] = job;
        job.linear = mlp->gate;
        job.y = w->gate + at * width;
        if (mlp->gate)
            jobs[n++] = job;
    }
    if (g->shared) {
        const pc__mlp *mlp = w->layer->shared;
        jobs[n++] = (pc__linear_job){mlp->up, w->x, NULL, w->rows, 0, w->rows, w->up + inner_of(g)};
        if (mlp->gate)
            jobs[n++] = (pc__linear_job){
                mlp->gate, w->x, NULL, w->rows, 0, w->rows, w->gate + inner_of(g)};
    }
    return n;
}

static size_t second_jobs(const expert_group *g, const float *inner, pc__linear_job *jobs)
{
    const expert_work *w = g->work;
    const pc__routes *routes = &w->routes;
    size_t dim = w->layer->hidden, n = 0;
    for (size_t e = g->from; e < g->to; e++) {
        size_t at = routes->first[e] - g->first, count = routes->first[e + 1] - routes->first[e];
        if (count)
            jobs[n++] = (pc__linear_job){
                w->layer->experts[e].down, inner, NULL, g->entries, at, count,
                w->results + at * dim};
    }
    if (g->shared)
        jobs[n++] = (pc__linear_job){
            w->layer->shared->down, inner + inner_of(g), NULL, w->rows, 0, w->rows, w->sum};
    return n;
}

/* Starts a row with the result of the shared MLP, or with zeros. */
static void begin_row(const expert_work *w, size_t row, float *to, size_t dim)
{
    if (!w->layer->shared->width) {
        memset(to, 0, dim * sizeof *to);
    } else if (w->layer->shared_scale) {
        float scale = 1.0f / (1.0f + expf(-w->shared_scale[row]));
        for (size_t i = 0; i < dim; i++)
            to[i] *= scale;
    }
}

static void add_expert_rows(void *arg, size_t index)
{
    const expert_group *g = arg;
    const expert_work *w = g->work;
    const pc__routes *routes = &w->routes;
    size_t dim = w->layer->hidden, used = (size_t)w->layer->config->used;
    for (size_t r = index * g->chunk; r < (index + 1) * g->chunk && r < w->rows; r++) {
        float *to = w->sum + r * dim;
        if (!g->from)
            begin_row(w, r, to, dim);
        for (size_t i = 0; i < used; i++) {
            size_t entry = routes->of_row[r * used + i] - g->first;
            const float *add = w->results + entry * dim;
            float share;
            if (entry >= g->entries) /* of another group (the difference wraps around) */
                continue;
            share = w->layer->config->scales_input ? 1.0f : routes->share[g->first + entry];
            for (size_t c = 0; c < dim; c++)
                to[c] += share * add[c];
        }
    }
}

static pc_status run_group(expert_group *g, pc__linear_job *jobs)
{
    const expert_work *w = g->work;
    const float *inner;
    PC__TRY_RETURN(pc__linear_run_jobs(jobs, first_jobs(g, jobs)));
    inner = inner_rows(w, w->layer->experts[0].gate != NULL, inner_of(g) + shared_inner(g));
    PC__TRY_RETURN(pc__linear_run_jobs(jobs, second_jobs(g, inner, jobs)));
    g->chunk = FLOATS_A_THREAD / (w->layer->hidden * ((size_t)w->layer->config->used + 1)) + 1;
    pc__parallel(w->stream->context, (w->rows + g->chunk - 1) / g->chunk, add_expert_rows, g);
    return PC_OK;
}

static pc_status run_experts(const expert_work *w)
{
    const pc_allocator *mem = &w->stream->context->mem;
    const uint32_t *first = w->routes.first;
    size_t all = (size_t)w->layer->config->count, most = most_entries(w->layer->config, w->rows);
    pc__linear_job *jobs = pc__calloc(mem, 2 * (all + 1), sizeof *jobs);
    pc_status status = jobs ? PC_OK : PC_ERR_NOMEM;
    for (expert_group g = {w, 0, 0, 0, 0, w->layer->shared->width > 0, 0};
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

static void show_routes(const expert_work *w, float *to)
{
    size_t logits = w->rows * (size_t)w->layer->config->count,
           entries = w->rows * (size_t)w->layer->config->used;
    memcpy(to, w->routes.logits, logits * sizeof *to);
    for (size_t i = 0; i < entries; i++)
        to[logits + i] = (float)w->routes.chosen[i];
    memcpy(to + logits + entries, w->routes.weight, entries * sizeof *to);
}

pc_status pc__cpu_experts(pc__stream *stream, const pc__expert_layer *layer, const pc__floats *x,
                          size_t rows, pc__floats *scratch, pc__floats *routes, pc__floats *y)
{
    expert_work w = {.stream = stream,
                     .layer = layer,
                     .rows = rows,
                     .x = pc__cpu_values(x),
                     .routes.bias = pc__cpu_values(layer->selection_bias),
                     .sum = pc__cpu_floats(y)};
    const pc__linear *const both[] = {layer->router, layer->shared_scale};
    lay_out(&w, layer->config, layer->hidden, rows, scratch);
    PC__TRY_RETURN(pc__linear_run_all(both, layer->shared_scale ? 2 : 1, w.x, rows,
                                      (float *const[]){w.routes.logits, w.shared_scale}));
    pc__route(stream->context, layer->config, rows, &w.routes);
    if (routes)
        show_routes(&w, pc__cpu_floats(routes));
    return run_experts(&w);
}
