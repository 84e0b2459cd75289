/* Layers with experts. The device routes the rows and sorts the entries, so that the host waits for
 * nothing; so each kernel goes through the rows of all experts at once. */
#include "cuda/backend_cuda.h"

#include <string.h>

#include "base/mem.h"

/* Activations in the scratch memory. */
typedef struct cuda_experts {
    pc__stream *stream;
    const pc__expert_layer *layer;
    size_t rows, entries;
    const pc__floats *x;
    pc__floats *y;
    pc__floats *logits, *shared_scale;
    float *choice, *group_sum; /* [row][count], [row][groups] where the choice is not by logits */
    int32_t *chosen;
    float *weight, *share;
    uint32_t *first, *row, *of_row;
    pc__floats *gate, *up;               /* [entry][width] */
    pc__floats *shared_gate, *shared_up; /* [row][width of the shared MLP] */
    float *results;                      /* [entry][hidden] */
} cuda_experts;

/* 1: a bias or groups decide which experts are chosen, and not logits alone. */
static int chooses(const pc__expert_config *config)
{
    return config->selection_bias || config->groups;
}

static size_t lay_out(cuda_experts *w, const pc__expert_config *config, size_t hidden, size_t rows,
                      pc__floats *base)
{
    size_t count = (size_t)config->count, entries = rows * (size_t)config->used, used = 0;
    w->logits = pc__floats_carve(base, &used, rows * count);
    w->choice = pc__floats_carve(base, &used, chooses(config) ? rows * count : 0);
    w->group_sum = pc__floats_carve(base, &used, rows * (size_t)config->groups);
    w->shared_scale = pc__floats_carve(base, &used, rows);
    w->chosen = pc__floats_carve(base, &used, entries);
    w->weight = pc__floats_carve(base, &used, entries);
    w->share = pc__floats_carve(base, &used, entries);
    w->first = pc__floats_carve(base, &used, count + 1);
    w->row = pc__floats_carve(base, &used, entries);
    w->of_row = pc__floats_carve(base, &used, entries);
    w->gate = pc__floats_carve(base, &used, entries * (size_t)config->width);
    w->up = pc__floats_carve(base, &used, entries * (size_t)config->width);
    w->shared_gate = pc__floats_carve(base, &used, rows * (size_t)config->shared);
    w->shared_up = pc__floats_carve(base, &used, rows * (size_t)config->shared);
    w->results = pc__floats_carve(base, &used, entries * hidden);
    return used;
}

size_t pc__cuda_op_experts_scratch(const pc__backend *backend, const pc__expert_config *config,
                                   size_t hidden, size_t rows)
{
    cuda_experts w = {0};
    (void)backend;
    return lay_out(&w, config, hidden, rows, NULL);
}

/* ------------------------------------------------------------------- lists */

enum { PARTS = 3 }; /* of an expert, as linear_join gets them */

static int alike(const pc__cuda_linear *a, const pc__cuda_linear *b)
{
    return a->out == b->out && a->in == b->in && a->dtype == b->dtype && !a->bias == !b->bias
           && !memcmp(&a->format, &b->format, sizeof a->format) && a->code_bytes == b->code_bytes;
}

/* Addresses of the weights of one part of all experts, then of their biases. */
static pc_status list_part(pc__linear *const *linears, size_t experts, uint64_t *list)
{
    const pc__cuda_linear *first = pc__cuda_linear_of(linears[0]);
    for (size_t e = 0; e < experts; e++) {
        const pc__cuda_linear *linear = pc__cuda_linear_of(linears[e * PARTS]);
        if (!alike(linear, first))
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "expert %zu has weights of another kind than expert 0", e);
        list[e] = (uint64_t)(uintptr_t)linear->weights;
        list[experts + e] = (uint64_t)(uintptr_t)linear->bias;
    }
    return PC_OK;
}

static pc_status list_to_device(pc__backend *backend, const uint64_t *list, size_t bytes,
                                void **block)
{
    if (!(*block = backend->ops->take(backend, bytes)))
        return PC_ERR_NOMEM;
    pc_status status = pc__backend_copy(backend, *block, list, bytes);
    if (status < 0) {
        backend->ops->give(backend, *block);
        *block = NULL;
    }
    return status;
}

/* Parts of the pool lie in large blocks already: only the addresses are listed. */
pc_status pc__cuda_op_linear_join(pc__backend *backend, pc__linear *const *linears, size_t count,
                                  void **block)
{
    const pc_allocator *mem = &backend->context->mem;
    size_t experts = count / PARTS, bytes = 2 * count * sizeof(uint64_t);
    uint64_t *list = pc__calloc(mem, 2 * count, sizeof *list);
    pc_status status = list ? PC_OK : PC_ERR_NOMEM;
    *block = NULL;
    for (size_t i = 0; i < PARTS && status >= 0; i++)
        if (linears[i])
            status = list_part(linears + i, experts, list + 2 * experts * i);
    if (status >= 0)
        status = list_to_device(backend, list, bytes, block);
    for (size_t i = 0; i < PARTS && status >= 0; i++)
        if (linears[i])
            ((pc__cuda_linear *)linears[i])->experts = (uint64_t *)*block + 2 * experts * i;
    pc__free(mem, list);
    return status;
}

/* ------------------------------------------------------------------- routes */

static void fill_choice(const cuda_experts *w)
{
    const pc__expert_config *c = w->layer->config;
    pc__cuda_route_choice_task task = {.logits = pc__cuda_floats(w->logits),
                                       .bias = pc__cuda_floats(w->layer->selection_bias),
                                       .choice = w->choice,
                                       .group_sum = w->group_sum,
                                       .rows = (uint32_t)w->rows,
                                       .count = (uint32_t)c->count,
                                       .sigmoid = c->sigmoid != 0,
                                       .groups = (uint32_t)c->groups,
                                       .groups_used = (uint32_t)c->groups_used,
                                       .group_best = (uint32_t)c->group_best};
    pc__cuda_launch_rows(w->stream, &pc__cuda_kernels.route_choice,
                         pc__cuda_route_blocks((uint32_t)w->rows), &task);
}

static void route_rows(const cuda_experts *w)
{
    const pc__expert_config *c = w->layer->config;
    const pc__cuda_kernel_table *k = &pc__cuda_kernels;
    pc__cuda_route_task task = {.logits = pc__cuda_floats(w->logits),
                                .choice = chooses(c) ? w->choice : NULL,
                                .chosen = w->chosen,
                                .weight = w->weight,
                                .rows = (uint32_t)w->rows,
                                .count = (uint32_t)c->count,
                                .used = (uint32_t)c->used,
                                .renormalise = (uint32_t)(c->renormalise != 0),
                                .scale = c->scale,
                                .sigmoid = c->sigmoid != 0};
    pc__cuda_route_sort_task sort = {.chosen = w->chosen,
                                     .weight = w->weight,
                                     .first = w->first,
                                     .row = w->row,
                                     .share = w->share,
                                     .of_row = w->of_row,
                                     .rows = (uint32_t)w->rows,
                                     .count = (uint32_t)c->count,
                                     .used = (uint32_t)c->used};
    if (chooses(c))
        fill_choice(w);
    pc__cuda_launch_rows(w->stream, &k->route, pc__cuda_route_blocks((uint32_t)w->rows), &task);
    pc__cuda_launch_rows(w->stream, &k->route_sort, (size_t)c->count, &sort);
}

/* Numbers of experts become fp32 as rows of a table 0, 1, 2 …. */
static void show_chosen(const cuda_experts *w, float *to)
{
    size_t count = (size_t)w->layer->config->count;
    float *numbers = pc__cuda_host_list(w->stream, count, sizeof *numbers);
    if (!numbers)
        return;
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)i;
    pc__cuda_lookup task = {.table = pc__cuda_kept_list(pc__cuda_stream_of(w->stream), numbers,
                                                        count * sizeof *numbers),
                            .row = (uint32_t *)w->chosen,
                            .x = to,
                            .rows = (uint32_t)w->entries,
                            .dim = 1,
                            .scale = 1.0f};
    pc__cuda_launch_rows(w->stream, &pc__cuda_kernels.lookup_f32, w->entries, &task);
    pc__free(&w->stream->context->mem, numbers);
}

static void show_routes(const cuda_experts *w, pc__floats *to)
{
    pc__cuda_stream *cuda = pc__cuda_stream_of(w->stream);
    size_t logits = w->rows * (size_t)w->layer->config->count;
    pc__cuda_copy(cuda, to, w->logits, logits * sizeof(float));
    show_chosen(w, pc__cuda_floats(to) + logits);
    pc__cuda_copy(cuda, pc__floats_at(to, logits + w->entries), w->weight,
                  w->entries * sizeof(float));
}

/* ------------------------------------------------------------------- products */

/* Rows that are multiplied with all experts. */
typedef struct expert_inputs {
    const pc__floats *x;
    size_t rows;
    const uint32_t *row;  /* [entry] of x; NULL: row `entry` */
    uint16_t *rounded;    /* x as the weights, for pc__cuda_expert_many_…; NULL: not these */
    pc__cuda_codes codes; /* of x, for quantised experts */
} expert_inputs;

/* 1: the kernels for many rows. The bound is the mean number of rows of an expert with which the
 * other kernels begin to read weights again; the bits are the same. Not cuBLASLt, which wants the
 * number of each expert's rows from the host: it would have to wait for the device in each layer,
 * and then the device for the host. Room for all rows in each expert instead would multiply the
 * work by count / used. */
static int many_rows(const cuda_experts *w)
{
    enum { MANY_ROWS = 32 };
    return w->entries >= MANY_ROWS * (size_t)w->layer->config->count;
}

static expert_inputs inputs_of(const cuda_experts *w, const pc__cuda_linear *linear,
                               const pc__floats *x, size_t rows, const uint32_t *row)
{
    expert_inputs in = {.x = x, .rows = rows, .row = row};
    size_t count = rows * linear->in, block = PC__CUDA_CONVERT_THREADS * PC__CUDA_CONVERT_EACH;
    if (!many_rows(w) || !linear->gemm || linear->dtype == PC_DTYPE_F32 || linear->in % 8)
        return in;
    in.rounded = pc__cuda_scratch_of(w->stream, count * sizeof *in.rounded);
    pc__cuda_convert_task task = {pc__cuda_floats(x), in.rounded, count};
    pc__cuda_launch_rows(w->stream,
                         linear->dtype == PC_DTYPE_BF16 ? &pc__cuda_kernels.convert_bf16
                                                        : &pc__cuda_kernels.convert_f16,
                         (count + block - 1) / block, &task);
    return in;
}

static void end_inputs(const cuda_experts *w, expert_inputs *in)
{
    pc__cuda_done_with(w->stream, in->rounded);
    pc__cuda_codes_end(w->stream, &in->codes);
}

static void multiply_many(const cuda_experts *w, const pc__cuda_linear *linear,
                          const expert_inputs *in, float *y)
{
    uint32_t count = (uint32_t)w->layer->config->count;
    pc__cuda_expert_many task = {.weights = linear->experts,
                                 .bias = linear->bias ? linear->experts + count : NULL,
                                 .x = in->rounded,
                                 .row = in->row,
                                 .first = w->first,
                                 .y = y,
                                 .experts = count,
                                 .in = (uint32_t)linear->in,
                                 .out = (uint32_t)linear->out};
    pc__cuda_grid grid = {(task.out + PC__CUDA_EXPERT_TILE - 1) / PC__CUDA_EXPERT_TILE,
                          pc__cuda_expert_tiles((uint32_t)w->entries, count, PC__CUDA_EXPERT_TILE),
                          1};
    pc__cuda_launch(pc__cuda_stream_of(w->stream),
                    linear->dtype == PC_DTYPE_BF16 ? &pc__cuda_kernels.expert_many_bf16
                                                   : &pc__cuda_kernels.expert_many_f16,
                    grid, &task);
}

static void multiply_few(const cuda_experts *w, const pc__cuda_linear *linear,
                         const expert_inputs *in, float *y)
{
    uint32_t count = (uint32_t)w->layer->config->count;
    pc__cuda_expert_linear task = {.weights = linear->experts,
                                   .bias = linear->bias ? linear->experts + count : NULL,
                                   .x = pc__cuda_floats(in->x),
                                   .row = in->row,
                                   .first = w->first,
                                   .y = y,
                                   .experts = count,
                                   .in = (uint32_t)linear->in,
                                   .out = (uint32_t)linear->out};
    pc__cuda_grid grid = {(task.out + PC__CUDA_EXPERT_OUT - 1) / PC__CUDA_EXPERT_OUT, count, 1};
    pc__cuda_launch(pc__cuda_stream_of(w->stream),
                    pc__cuda_for_dtype(&pc__cuda_kernels.expert_linear_f32, linear->dtype), grid,
                    &task);
}

static void multiply_quantised(const cuda_experts *w, const pc__cuda_linear *linear,
                               expert_inputs *in, float *y)
{
    uint32_t count = (uint32_t)w->layer->config->count;
    const pc__cuda_quantised_rows *codes = pc__cuda_codes_for(w->stream, &in->codes, linear,
                                                              pc__cuda_floats(in->x), in->rows);
    pc__cuda_quantised_experts task = {.layer = pc__cuda_quantised_layer(linear, codes),
                                       .panels = linear->experts,
                                       .bias = linear->bias ? linear->experts + count : NULL,
                                       .row = in->row,
                                       .first = w->first,
                                       .experts = count};
    const pc__cuda_kernel_table *k = &pc__cuda_kernels;
    uint32_t out = (uint32_t)linear->out, entries = (uint32_t)w->entries,
             tiles = pc__cuda_expert_tiles(entries, count, PC__CUDA_QUANTISED_ROWS);
    int many = many_rows(w);
    pc__cuda_grid grid = {many ? (out + 127) / 128 : (out + 31) / 32, many ? tiles : count, 1};
    task.layer.part[0].y = y;
    pc__cuda_launch(pc__cuda_stream_of(w->stream),
                    many ? &k->quantised_experts_many : &k->quantised_experts_few, grid, &task);
}

/* y[entry] of one part of all experts; linear: that of expert 0. */
static void multiply(const cuda_experts *w, const pc__cuda_linear *linear, expert_inputs *in,
                     float *y)
{
    if (!linear->gemm)
        multiply_quantised(w, linear, in, y);
    else if (in->rounded)
        multiply_many(w, linear, in, y);
    else
        multiply_few(w, linear, in, y);
}

/* ------------------------------------------------------------------- MLPs */

/* act(gate) * up in place of `gate`, or act(up) in place of `up`. */
static pc__floats *inner_rows(const cuda_experts *w, int gated, pc__floats *gate, pc__floats *up,
                              size_t count)
{
    if (gated)
        pc__cuda_op_gate(w->stream, &w->layer->gating, gate, up, count);
    else
        pc__cuda_op_activate(w->stream, w->layer->gating.activation, up, count);
    return gated ? gate : up;
}

static void run_shared(const cuda_experts *w)
{
    const pc__mlp *mlp = w->layer->shared;
    const pc__linear *const both[] = {mlp->up, mlp->gate}, *const down[] = {mlp->down};
    pc__floats *const to[] = {w->shared_up, w->shared_gate}, *const y[] = {w->y};
    if (!mlp->width)
        return;
    pc__cuda_op_linear_run(w->stream, both, mlp->gate ? 2 : 1, w->x, w->rows, to);
    pc__floats *inner = inner_rows(w, mlp->gate != NULL, w->shared_gate, w->shared_up,
                                   w->rows * mlp->width);
    pc__cuda_op_linear_run(w->stream, down, 1, inner, w->rows, y);
}

/* The rows of all entries, times their scores, where the results will lie. */
static const pc__floats *scale_inputs(const cuda_experts *w)
{
    const pc__cuda_kernel_table *k = &pc__cuda_kernels;
    uint32_t entries = (uint32_t)w->entries, dim = (uint32_t)w->layer->hidden;
    pc__cuda_lookup gather = {
        .table = w->x, .row = w->row, .x = w->results, .rows = entries, .dim = dim, .scale = 1.0f};
    pc__cuda_scale_rows_task scale = {w->results, w->share, entries, dim};
    pc__cuda_launch_rows(w->stream, &k->lookup_f32, w->entries, &gather);
    pc__cuda_launch_rows(w->stream, &k->scale_rows, w->entries, &scale);
    return (const pc__floats *)w->results;
}

static void run_chosen(const cuda_experts *w)
{
    const pc__mlp *first = &w->layer->experts[0];
    const pc__cuda_linear *up = pc__cuda_linear_of(first->up),
                          *down = pc__cuda_linear_of(first->down);
    expert_inputs in = w->layer->config->scales_input
                           ? inputs_of(w, up, scale_inputs(w), w->entries, NULL)
                           : inputs_of(w, up, w->x, w->rows, w->row);
    multiply(w, up, &in, pc__cuda_floats(w->up));
    if (first->gate)
        multiply(w, pc__cuda_linear_of(first->gate), &in, pc__cuda_floats(w->gate));
    end_inputs(w, &in);
    pc__floats *inner = inner_rows(w, first->gate != NULL, w->gate, w->up,
                                   w->entries * (size_t)w->layer->config->width);
    in = inputs_of(w, down, inner, w->entries, NULL);
    multiply(w, down, &in, w->results);
    end_inputs(w, &in);
}

static void add_up(const cuda_experts *w)
{
    float *y = pc__cuda_floats(w->y);
    pc__cuda_expert_sum_task task = {.results = w->results,
                                     .of_row = w->of_row,
                                     .share = w->layer->config->scales_input ? NULL : w->share,
                                     .shared = w->layer->shared->width ? y : NULL,
                                     .out = y,
                                     .rows = (uint32_t)w->rows,
                                     .dim = (uint32_t)w->layer->hidden,
                                     .used = (uint32_t)w->layer->config->used,
                                     .entries = (uint32_t)w->entries};
    if (w->layer->shared->width && w->layer->shared_scale)
        task.shared_scale = pc__cuda_floats(w->shared_scale);
    pc__cuda_launch_rows(w->stream, &pc__cuda_kernels.expert_sum, w->rows, &task);
}

pc_status pc__cuda_op_experts(pc__stream *stream, const pc__expert_layer *layer,
                              const pc__floats *x, size_t rows, pc__floats *scratch,
                              pc__floats *routes, pc__floats *y)
{
    const pc__linear *const both[] = {layer->router, layer->shared_scale};
    cuda_experts w = {.stream = stream,
                      .layer = layer,
                      .rows = rows,
                      .entries = rows * (size_t)layer->config->used,
                      .x = x,
                      .y = y};
    if (!rows)
        return PC_OK;
    if (!pc__cuda_aligned(x))
        return pc__fail(PC_ERR_INTERNAL, "rows for experts do not begin at 16 bytes");
    if (!pc__cuda_linear_of(layer->experts[0].up)->experts)
        return pc__fail(PC_ERR_INTERNAL, "the experts of a layer were not joined");
    lay_out(&w, layer->config, layer->hidden, rows, scratch);
    pc__cuda_op_linear_run(stream, both, layer->shared_scale ? 2 : 1, x, rows,
                           (pc__floats *const[]){w.logits, w.shared_scale});
    route_rows(&w);
    if (routes)
        show_routes(&w, routes);
    run_shared(&w);
    run_chosen(&w);
    add_up(&w);
    return PC_OK;
}
