/* The module's entry, and all operations but those on K/V: each queues the CPU's. */
#include "far.h"

#include <stdlib.h>
#include <string.h>

#include "attn/cpu/backend_cpu.h"
#include "base/module.h"
#include "host_sample.h"

#define NEAR(far, x) far_near(&(far)->memory, x)

/* What most operations need; each uses some of it. */
typedef struct work {
    pc__floats *x, *y;
    const pc__floats *from;
    pc__norm_weights norm;
    pc__addend addend;
    pc__gating gating;
    const float *factors;
    const void *source;
    const pc__linear *linear[PC__LINEARS_AT_ONCE];
    pc__floats *to[PC__LINEARS_AT_ONCE];
    const pc__table *table;
    const uint32_t *row;
    const pc__row_range *ranges;
    pc__expert_layer experts;
    size_t count, rows, dim, stride, taps;
    float a;
    int what;
} work;

static void later(pc__stream *stream, far_fn run, const work *w)
{
    far_later(stream, run, w, sizeof *w);
}

static pc_status run_copy(far_backend *far, void *arg)
{
    work *w = arg;
    memmove(NEAR(far, w->x), NEAR(far, w->source), w->count);
    return PC_OK;
}

static void copy(pc__stream *stream, void *to, const void *from, size_t bytes)
{
    later(stream, run_copy, &(work){.x = to, .source = from, .count = bytes});
}

static pc_status run_zero(far_backend *far, void *arg)
{
    work *w = arg;
    memset(NEAR(far, w->x), 0, w->count);
    return PC_OK;
}

static void zero(pc__stream *stream, void *to, size_t bytes)
{
    later(stream, run_zero, &(work){.x = to, .count = bytes});
}

static pc_status run_linear(far_backend *far, void *arg)
{
    work *w = arg;
    for (size_t i = 0; i < w->count; i++)
        w->to[i] = NEAR(far, w->to[i]);
    return far->cpu->ops->linear_run(far->cpu->stream, w->linear, w->count, NEAR(far, w->from),
                                     w->rows, w->to);
}

static pc_status linear_run(pc__stream *stream, const pc__linear *const *linears, size_t count,
                            const pc__floats *x, size_t rows, pc__floats *const *y)
{
    work w = {.count = count, .from = x, .rows = rows};
    memcpy(w.linear, linears, count * sizeof(*linears));
    memcpy(w.to, y, count * sizeof(*y));
    later(stream, run_linear, &w);
    return PC_OK;
}

typedef struct heads_work {
    pc__linear *const *linears;
    size_t heads, rows;
    pc__head_rows x, y;
} heads_work;

static pc_status run_heads(far_backend *far, void *arg)
{
    heads_work *w = arg;
    w->x.at = NEAR(far, w->x.at);
    w->y.at = NEAR(far, w->y.at);
    return pc__cpu_linear_heads(far->cpu->stream, w->linears, w->heads, w->rows, &w->x, &w->y);
}

static pc_status linear_heads(pc__stream *stream, pc__linear *const *linears, size_t heads,
                              size_t rows, const pc__head_rows *x, const pc__head_rows *y)
{
    heads_work w = {linears, heads, rows, *x, *y};
    far_later(stream, run_heads, &w, sizeof w);
    return PC_OK;
}

static pc_status run_columns(far_backend *far, void *arg)
{
    work *w = arg;
    pc__cpu_columns(far->cpu->stream, NEAR(far, w->from), w->stride, w->rows, w->dim,
                    NEAR(far, w->y), w->count);
    return PC_OK;
}

static void columns(pc__stream *stream, const pc__floats *x, size_t x_stride, size_t rows,
                    size_t width, pc__floats *y, size_t y_stride)
{
    later(
        stream, run_columns,
        &(work){
            .from = x, .stride = x_stride, .rows = rows, .dim = width, .y = y, .count = y_stride});
}

static pc_status run_look_up(far_backend *far, void *arg)
{
    work *w = arg;
    pc__cpu_look_up(far->cpu->stream, w->table, w->row, w->rows, w->what, NEAR(far, w->x));
    return PC_OK;
}

static void look_up(pc__stream *stream, const pc__table *table, const uint32_t *row, size_t rows,
                    int add, pc__floats *x)
{
    later(stream, run_look_up,
          &(work){.table = table,
                  .row = far_list(stream, row, rows * sizeof *row),
                  .rows = rows,
                  .what = add,
                  .x = x});
}

static pc_status run_pointwise(far_backend *far, void *arg)
{
    work *w = arg;
    pc__cpu_pointwise(far->cpu->stream, (pc__pointwise)w->what, w->a, NEAR(far, w->x), w->count);
    return PC_OK;
}

static void pointwise(pc__stream *stream, pc__pointwise what, float a, pc__floats *x, size_t count)
{
    later(stream, run_pointwise, &(work){.what = (int)what, .a = a, .x = x, .count = count});
}

static pc_status run_gather(far_backend *far, void *arg)
{
    work *w = arg;
    pc__cpu_gather(far->cpu->stream, NEAR(far, w->from), w->row, w->rows, w->dim, NEAR(far, w->y));
    return PC_OK;
}

static void gather(pc__stream *stream, const pc__floats *x, const uint32_t *row, size_t rows,
                   size_t dim, pc__floats *y)
{
    later(stream, run_gather,
          &(work){.from = x,
                  .row = far_list(stream, row, rows * sizeof *row),
                  .rows = rows,
                  .dim = dim,
                  .y = y});
}

static pc_status run_neighbours(far_backend *far, void *arg)
{
    work *w = arg;
    pc__cpu_neighbours(far->cpu->stream, w->ranges, w->count, w->taps, w->dim, NEAR(far, w->from),
                       NEAR(far, w->y));
    return PC_OK;
}

static void neighbours(pc__stream *stream, const pc__row_range *ranges, size_t count, size_t taps,
                       size_t dim, const pc__floats *x, pc__floats *y)
{
    later(stream, run_neighbours,
          &(work){.ranges = far_list(stream, ranges, count * sizeof *ranges),
                  .count = count,
                  .taps = taps,
                  .dim = dim,
                  .from = x,
                  .y = y});
}

static pc_status run_norm(far_backend *far, void *arg)
{
    work *w = arg;
    w->norm.gain = NEAR(far, w->norm.gain);
    w->norm.bias = NEAR(far, w->norm.bias);
    w->addend.at = NEAR(far, w->addend.at);
    (w->what ? pc__cpu_layer_norm : pc__cpu_rms_norm)(far->cpu->stream, NEAR(far, w->x),
                                                      w->addend.at ? &w->addend : NULL, w->rows,
                                                      w->dim, &w->norm, NEAR(far, w->y));
    return PC_OK;
}

static void norm(pc__stream *stream, int mean, pc__floats *x, const pc__addend *addend, size_t rows,
                 size_t dim, const pc__norm_weights *weights, pc__floats *y)
{
    work w = {.what = mean, .x = x, .rows = rows, .dim = dim, .norm = *weights, .y = y};
    if (addend)
        w.addend = *addend;
    later(stream, run_norm, &w);
}

static void rms_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                     size_t dim, const pc__norm_weights *weights, pc__floats *y)
{
    norm(stream, 0, x, addend, rows, dim, weights, y);
}

static void layer_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                       size_t dim, const pc__norm_weights *weights, pc__floats *y)
{
    norm(stream, 1, x, addend, rows, dim, weights, y);
}

static pc_status run_scale_rows(far_backend *far, void *arg)
{
    work *w = arg;
    pc__cpu_scale_rows(far->cpu->stream, w->factors, w->rows, w->dim, NEAR(far, w->x));
    return PC_OK;
}

static void scale_rows(pc__stream *stream, const float *factors, size_t rows, size_t dim,
                       pc__floats *x)
{
    later(stream, run_scale_rows,
          &(work){.factors = far_list(stream, factors, rows * sizeof *factors),
                  .rows = rows,
                  .dim = dim,
                  .x = x});
}

static pc_status run_activate(far_backend *far, void *arg)
{
    work *w = arg;
    pc__cpu_activate(far->cpu->stream, (pc__activation)w->what, NEAR(far, w->x), w->count);
    return PC_OK;
}

static void activate(pc__stream *stream, pc__activation activation, pc__floats *x, size_t count)
{
    later(stream, run_activate, &(work){.what = (int)activation, .x = x, .count = count});
}

static pc_status run_gate(far_backend *far, void *arg)
{
    work *w = arg;
    pc__cpu_gate(far->cpu->stream, &w->gating, NEAR(far, w->x), NEAR(far, w->from), w->count);
    return PC_OK;
}

static void gate(pc__stream *stream, const pc__gating *gating, pc__floats *x, const pc__floats *up,
                 size_t count)
{
    later(stream, run_gate, &(work){.gating = *gating, .x = x, .from = up, .count = count});
}

static pc_status run_add(far_backend *far, void *arg)
{
    work *w = arg;
    pc__cpu_add(far->cpu->stream, NEAR(far, w->x), NEAR(far, w->from), w->count);
    return PC_OK;
}

static void add(pc__stream *stream, pc__floats *x, const pc__floats *y, size_t count)
{
    later(stream, run_add, &(work){.x = x, .from = y, .count = count});
}

static size_t experts_scratch(const pc__backend *backend, const pc__expert_config *config,
                              size_t hidden, size_t rows)
{
    return pc__cpu_experts_scratch(((const far_backend *)backend)->cpu, config, hidden, rows);
}

static pc_status run_experts(far_backend *far, void *arg)
{
    work *w = arg;
    w->experts.selection_bias = NEAR(far, w->experts.selection_bias);
    return pc__cpu_experts(far->cpu->stream, &w->experts, NEAR(far, w->from), w->rows,
                           NEAR(far, w->x), NEAR(far, w->to[0]), NEAR(far, w->y));
}

static pc_status experts(pc__stream *stream, const pc__expert_layer *layer, const pc__floats *x,
                         size_t rows, pc__floats *scratch, pc__floats *routes, pc__floats *y)
{
    later(
        stream, run_experts,
        &(work){.experts = *layer, .from = x, .rows = rows, .x = scratch, .to = {routes}, .y = y});
    return PC_OK;
}

/* Weights are packed by the CPU, and only it reads them. */

static pc_status linear_new(pc__linear **out, pc__backend *backend, size_t out_features,
                            size_t in_features, uint32_t compute, const pc__weight_source *source,
                            const float *bias)
{
    pc__backend *cpu = ((far_backend *)backend)->cpu;
    return cpu->ops->linear_new(out, cpu, out_features, in_features, compute, source, bias);
}

static uint32_t default_compute(const pc__backend *backend, uint32_t weights)
{
    const pc__backend *cpu = ((const far_backend *)backend)->cpu;
    return cpu->ops->default_compute(cpu, weights);
}

static int keeps_quantised(const pc__backend *backend)
{
    const pc__backend *cpu = ((const far_backend *)backend)->cpu;
    return cpu->ops->keeps_quantised(cpu);
}

static pc_status linear_join(pc__backend *backend, pc__linear *const *linears, size_t count,
                             void **block)
{
    (void)backend, (void)linears, (void)count;
    *block = NULL;
    return PC_OK;
}

typedef struct drawing {
    const float *logits;
    size_t stride;
    pc__draws draws;
} drawing;

static pc_status run_sample(far_backend *far, void *arg)
{
    drawing *w = arg;
    host_sample(NEAR(far, w->logits), w->stride, &w->draws);
    return PC_OK;
}

static void sample(pc__stream *stream, pc__floats *logits, size_t stride, const pc__draws *draws)
{
    drawing w = {(const float *)logits, stride, *draws};
    pc__draw *list = far_list(stream, draws->list, draws->count * sizeof *list);
    for (size_t i = 0; i < draws->count; i++)
        list[i].changes = far_list(stream, list[i].changes,
                                   list[i].change_count * sizeof *list[i].changes);
    w.draws.list = list;
    far_later(stream, run_sample, &w, sizeof w);
}

static void *take(pc__backend *backend, size_t bytes)
{
    void *memory;
    do
        memory = far_take(&((far_backend *)backend)->memory, bytes);
    while (!memory && pc__kv_mirrors_drop(backend, bytes));
    return memory;
}

static void give(pc__backend *backend, void *memory)
{
    if (memory)
        far_give(&((far_backend *)backend)->memory, memory);
}

static void free_far(pc__backend *backend)
{
    far_backend *far = (far_backend *)backend;
    far->cpu->ops->free(far->cpu);
    far_memory_close(&far->memory);
    free(far);
}

static pc__backend_ops far_ops = {
    .name = "far",
    .free = free_far,
    .take = take,
    .give = give,
    .stream_new = far_stream_new,
    .stream_free = far_stream_free,
    .finish = far_finish,
    .copy = copy,
    .zero = zero,
    .default_compute = default_compute,
    .linear_new = linear_new,
    .keeps_quantised = keeps_quantised,
    .linear_join = linear_join,
    .linear_run = linear_run,
    .linear_heads = linear_heads,
    .table_new = pc__cpu_table_new,
    .table_of = pc__cpu_table_of,
    .table_free = pc__cpu_table_free,
    .table_bytes = pc__cpu_table_bytes,
    .look_up = look_up,
    .pointwise = pointwise,
    .gather = gather,
    .columns = columns,
    .neighbours = neighbours,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .scale_rows = scale_rows,
    .activate = activate,
    .gate = gate,
    .add = add,
    .experts_scratch = experts_scratch,
    .experts = experts,
    .store_kv = far_store_kv,
    .attend = far_attend,
    .attention_map = far_attention_map,
    .apply_maps = far_apply_maps,
    .record_maps = far_record_maps,
    .sample = sample,
};

static pc_status open_far(pc__backend **out, pc_context *context)
{
    far_backend *far = calloc(1, sizeof *far);
    if (!far)
        return pc__fail(PC_ERR_NOMEM, "far: no backend");
    pc_status status = far_memory_open(&far->memory);
    if (status < 0 || (status = pc__cpu_backend_new(&far->cpu, context)) < 0) {
        far_memory_close(&far->memory);
        free(far);
        return status;
    }
    far_ops.linear_free = far->cpu->ops->linear_free;
    far_ops.linear_bytes = far->cpu->ops->linear_bytes;
    /* other than the CPU's, so that plans of both kinds are tested */
    far->base = (pc__backend){.ops = &far_ops,
                              .context = context,
                              .limits = {256, 64, 1 << 20, 0},
                              .parts = PC__PART_ALL,
                              .traits = PC__SAME_BITS};
    *out = &far->base;
    return PC_OK;
}

static pc_status start(const pc__module_host *host, const void **table)
{
    static const pc__backend_module module = {open_far};
    pc__module_join(host);
    *table = &module;
    return PC_OK;
}

PC__MODULE(far) = {pc__module_version, pc__module_build, start};
