/* pc_plan and pc_attend: plans over pages of the application. Checks all arguments, and owns copies
 * of the positions and RoPE objects. Where the backend does not see host memory, addresses of pages
 * and of activations are only handed on to it. */
#include <promptcache/task.h>
#include <promptcache/attend.h>
#include <promptcache/bench.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/backend.h"
#include "attn/pages.h"
#include "attn/kv_pool.h"
#include "base/options.h"
#include "base/task.h"

typedef struct owned_rope {
    pc__rotation rope;
    struct owned_rope *next;
    double frequency[];
} owned_rope;

/* What the rows of a plan see of a run lies in [lo, hi). */
typedef struct run_use {
    uint32_t lo, hi;
} run_use;

struct pc_plan {
    atomic_size_t references; /* the caller's, and one of each call or task that runs */
    pc__task_link task;       /* its last one */
    pc_context *context;
    pc__backend *backend;
    pc_attend_shape shape;
    pc__row_plan *plan;
    size_t rows;
    size_t run_count;
    pc__kv *runs;      /* views of one layer; every pc_attend sets their pages */
    uint8_t **pages;   /* [run_count] the pages of that layer */
    run_use *uses;     /* [run_count] */
    int64_t *relative; /* of all runs */
    pc__kv_pool pool;  /* every pc_attend sets its pages */
    int32_t *tables;   /* of all runs in the pool */
    int pooled;        /* 1: some row sees a token of it */
    owned_rope *ropes; /* all that were used so far: plan->angles are found by address */
};

static void ref_plan(pc_plan *plan)
{
    plan->references++;
}

static void unref_plan(pc_plan *plan);

PC__HOLDABLE(pc_plan, ref_plan, unref_plan)

static pc_status copy_relative(const pc_run *run, size_t index, int64_t *to)
{
    for (size_t t = 0; t < run->tokens; t++) {
        if (pc__is_far(run->relative[t]))
            return pc__fail(PC_ERR_LIMIT,
                            "pc_plan_new: run %zu: position %lld of token %zu is too far from 0",
                            index, (long long)run->relative[t], t);
        if (t && run->relative[t] <= run->relative[t - 1])
            return pc__fail(PC_ERR_INVALID,
                            "pc_plan_new: run %zu: relative position %lld of token %zu is not "
                            "above %lld",
                            index, (long long)run->relative[t], t, (long long)run->relative[t - 1]);
        to[t] = run->relative[t];
    }
    return PC_OK;
}

/* All formats that exist are read. */
static pc_status set_dtype(pc__kv *run, const pc_plan_args *args, size_t index)
{
    uint32_t dtype = args->dtypes ? args->dtypes[index] : PC_DTYPE_DEFAULT;
    char field[40];
    if (dtype == PC_DTYPE_DEFAULT)
        return PC_OK;
    snprintf(field, sizeof field, "dtypes[%zu]", index);
    PC__TRY_RETURN(pc__check_kv_dtype("pc_plan_args", field, dtype));
    run->shape.dtype = dtype;
    return PC_OK;
}

/* Numbers that runs hold beside their K and V. */
typedef struct run_numbers {
    size_t relative, tables;
} run_numbers;

static size_t table_length(const pc_plan *plan, const pc_run *run)
{
    return run->pages ? (run->tokens + plan->pool.page_tokens - 1) / plan->pool.page_tokens : 0;
}

static pc_status count_numbers(const pc_plan *plan, const pc_plan_args *args, run_numbers *count)
{
    for (size_t i = 0; i < args->run_count; i++) {
        const pc_run *run = &args->runs[i];
        if (run->tokens >= UINT32_MAX)
            return pc__fail(PC_ERR_LIMIT, "pc_plan_new: run %zu has too many tokens (%zu)", i,
                            run->tokens);
        if (run->pages && !args->pool)
            return pc__fail(PC_ERR_INVALID, "pc_plan_new: run %zu has pages, but pool is NULL", i);
        count->relative += run->relative ? run->tokens : 0;
        count->tables += table_length(plan, run);
    }
    return PC_OK;
}

/* Makes run `index` one in the pool: a view that is packed when it is read. */
static pc_status place_in_pool(pc_plan *plan, const pc_run *from, size_t index, int32_t *table)
{
    pc__kv *run = &plan->runs[index];
    const run_use *use = &plan->uses[index];
    if (run->shape.dtype != plan->pool.dtype)
        return pc__fail(PC_ERR_INVALID,
                        "pc_plan_new: dtypes[%zu] is %u, but its run lies in a pool of %u", index,
                        run->shape.dtype, plan->pool.dtype);
    PC__TRY_RETURN(pc__kv_pool_check_table(&plan->pool, from->pages, index, use->lo, use->hi));
    memcpy(table, from->pages, table_length(plan, from) * sizeof *table);
    run->shape.dtype = pc__kv_pool_packed_dtype(plan->pool.dtype);
    run->pool = &plan->pool;
    run->table = table;
    plan->pooled |= use->lo < use->hi;
    return PC_OK;
}

static pc_status copy_run(pc_plan *plan, const pc_plan_args *args, size_t index, run_numbers *used)
{
    const pc_run *run = &args->runs[index];
    pc__kv *to = &plan->runs[index];
    to->tokens = run->tokens;
    to->layer = &plan->pages[index];
    to->home = pc__host_sees(plan->backend) ? NULL : plan->backend;
    if (run->pages)
        to->shape.dtype = plan->pool.dtype;
    PC__TRY_RETURN(set_dtype(to, args, index));
    if (run->pages)
        PC__TRY_RETURN(place_in_pool(plan, run, index, plan->tables + used->tables));
    used->tables += table_length(plan, run);
    if (!run->relative)
        return PC_OK;
    to->relative = plan->relative + used->relative;
    used->relative += run->tokens;
    return copy_relative(run, index, to->relative);
}

/* One more than the last token of a span. */
static uint32_t span_end(const pc_plan_args *args, const pc_row_span *span)
{
    return span->hi ? span->hi : (uint32_t)args->runs[span->run].tokens;
}

static void find_uses(pc_plan *plan, const pc_plan_args *args)
{
    for (size_t i = 0; i < args->first[args->row_count]; i++) {
        const pc_row_span *s = &args->spans[i];
        run_use *use = &plan->uses[s->run];
        uint32_t hi = span_end(args, s);
        if (s->lo >= hi)
            continue;
        use->lo = use->hi && use->lo < s->lo ? use->lo : s->lo;
        use->hi = hi > use->hi ? hi : use->hi;
    }
}

static pc_status copy_runs(pc_plan *plan, const pc_plan_args *args, const pc__kv_shape *shape)
{
    const pc_allocator *mem = &plan->context->mem;
    run_numbers count = {0, 0}, used = {0, 0};
    PC__TRY_RETURN(count_numbers(plan, args, &count));
    plan->run_count = args->run_count;
    plan->runs = pc__calloc(mem, args->run_count, sizeof *plan->runs);
    plan->pages = pc__calloc(mem, args->run_count, sizeof *plan->pages);
    plan->uses = pc__calloc(mem, args->run_count, sizeof *plan->uses);
    plan->relative = pc__calloc(mem, count.relative, sizeof *plan->relative);
    plan->tables = pc__calloc(mem, count.tables, sizeof *plan->tables);
    if (!plan->runs || !plan->pages || !plan->uses || !plan->relative || !plan->tables)
        return PC_ERR_NOMEM;
    find_uses(plan, args);
    for (size_t i = 0; i < args->run_count; i++) {
        plan->runs[i] = (pc__kv){.shape = *shape};
        PC__TRY_RETURN(copy_run(plan, args, i, &used));
    }
    return PC_OK;
}

static pc_status check_plan_rows(const pc_plan_args *args)
{
    if (args->first[0])
        return pc__fail(PC_ERR_INVALID, "pc_plan_new: first[0] is %u", args->first[0]);
    for (size_t r = 0; r < args->row_count; r++) {
        if (args->first[r + 1] < args->first[r])
            return pc__fail(PC_ERR_INVALID, "pc_plan_new: row %zu has spans %u to %u", r,
                            args->first[r], args->first[r + 1]);
        if (pc__is_far(args->positions[r]))
            return pc__fail(PC_ERR_LIMIT, "pc_plan_new: row %zu: position %lld is too far from 0",
                            r, (long long)args->positions[r]);
    }
    return PC_OK;
}

static pc_status check_plan_spans(const pc_plan_args *args)
{
    for (size_t i = 0; i < args->first[args->row_count]; i++) {
        const pc_row_span *s = &args->spans[i];
        if (s->reserved)
            return pc__fail(PC_ERR_INVALID,
                            "pc_plan_new: span %zu: reserved is %u, it must be zero", i,
                            s->reserved);
        if (s->run >= args->run_count || s->lo > (s->hi ? s->hi : args->runs[s->run].tokens)
            || s->hi > args->runs[s->run].tokens)
            return pc__fail(PC_ERR_INVALID,
                            "pc_plan_new: span %zu is tokens [%u, %u) of run %u (of %zu runs)", i,
                            s->lo, s->hi, s->run, args->run_count);
        if (pc__is_far(s->start))
            return pc__fail(PC_ERR_LIMIT, "pc_plan_new: span %zu: start %lld is too far from 0", i,
                            (long long)s->start);
    }
    return PC_OK;
}

/* By run, start and first token: spans that overlap become neighbours. */
static int by_keys(const void *a, const void *b)
{
    const pc_row_span *x = *(const pc_row_span *const *)a, *y = *(const pc_row_span *const *)b;
    if (x->run != y->run)
        return x->run < y->run ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static pc_status check_row_keys(const pc_plan_args *args, size_t row, const pc_row_span **sorted)
{
    size_t n = 0;
    for (size_t i = args->first[row]; i < args->first[row + 1]; i++)
        if (args->spans[i].lo < span_end(args, &args->spans[i]))
            sorted[n++] = &args->spans[i];
    if (n > 1)
        qsort(sorted, n, sizeof *sorted, by_keys);
    for (size_t i = 1; i < n; i++) {
        const pc_row_span *a = sorted[i - 1], *b = sorted[i];
        if (a->run == b->run && a->start == b->start && b->lo < span_end(args, a))
            return pc__fail(PC_ERR_INVALID,
                            "pc_plan_new: row %zu sees token %u of run %u at start %lld twice, by "
                            "its spans %zu and %zu",
                            row, b->lo, b->run, (long long)b->start,
                            (size_t)(a - args->spans) - args->first[row],
                            (size_t)(b - args->spans) - args->first[row]);
    }
    return PC_OK;
}

/* A key that is seen twice would count twice in the softmax. */
static pc_status check_plan_keys(const pc_allocator *mem, const pc_plan_args *args)
{
    const pc_row_span **sorted;
    size_t most = 0;
    pc_status status = PC_OK;
    for (size_t r = 0; r < args->row_count; r++)
        if (args->first[r + 1] - args->first[r] > most)
            most = args->first[r + 1] - args->first[r];
    if (most < 2)
        return PC_OK;
    if (!(sorted = pc__calloc(mem, most, sizeof(*sorted))))
        return PC_ERR_NOMEM;
    for (size_t r = 0; r < args->row_count && status >= 0; r++)
        status = check_row_keys(args, r, sorted);
    pc__free(mem, sorted);
    return status;
}

/* Makes the plan; its rows are converted for this call only. */
static pc_status make_plan(pc_plan *plan, const pc_plan_args *args, const pc__kv_shape *shape)
{
    const pc_allocator *mem = &plan->context->mem;
    size_t spans = args->first[args->row_count];
    pc__kv_span *to = pc__calloc(mem, spans, sizeof *to);
    size_t *first = pc__calloc(mem, args->row_count + 1, sizeof *first);
    pc_status status = to && first ? PC_OK : PC_ERR_NOMEM;
    for (size_t i = 0; status >= 0 && i < spans; i++) {
        const pc_row_span *s = &args->spans[i];
        to[i] = (pc__kv_span){&plan->runs[s->run], s->start, s->lo, span_end(args, s)};
    }
    for (size_t r = 0; status >= 0 && r <= args->row_count; r++)
        first[r] = args->first[r];
    if (status >= 0) {
        pc__rows rows = {args->row_count, args->positions, first, to,
                         (args->flags & PC_PLAN_PER_ROW) != 0};
        status = pc__row_plan_new(&plan->plan, plan->context, &plan->backend->limits, &rows, shape,
                                  plan->shape.heads);
    }
    pc__free(mem, to);
    pc__free(mem, first);
    return status;
}

static pc_status read_pool(pc_plan *plan, const pc_plan_args *args)
{
    if (!args->pool)
        return PC_OK;
    if (!pc__host_sees(plan->backend))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_plan_new: backend '%s' reads packed runs only, no pools",
                        plan->backend->ops->name);
    return pc__kv_pool_read(&plan->pool, args->pool, &plan->shape);
}

static pc_status build_plan_handle(pc_plan *plan, const pc_plan_args *args)
{
    pc__kv_shape shape;
    plan->backend = pc__backend_of(plan->context);
    plan->rows = args->row_count;
    PC__TRY_RETURN(pc__attend_shape_read(args->shape, &plan->shape, &shape));
    PC__TRY_RETURN(read_pool(plan, args));
    PC__TRY_RETURN(check_plan_spans(args));
    PC__TRY_RETURN(check_plan_keys(&plan->context->mem, args));
    PC__TRY_RETURN(copy_runs(plan, args, &shape));
    return make_plan(plan, args, &shape);
}

/* `args`: as read, with dense arrays. */
static pc_status make_plan_handle(pc_plan **out, pc_context *context, const pc_plan_args *args)
{
    pc_plan *plan = pc__calloc(&context->mem, 1, sizeof *plan);
    pc_status status;
    if (!plan)
        return PC_ERR_NOMEM;
    plan->references = 1;
    plan->context = pc__context_ref(context);
    if ((status = build_plan_handle(plan, args)) < 0)
        pc_plan_free(plan);
    else
        *out = plan;
    return status;
}

/* Runs and spans as dense arrays of ours; `copies` [2] are freed by the caller. */
static pc_status read_plan_arrays(pc_plan_args *args, const pc_allocator *mem, void **copies)
{
    const void *dense;
    PC__TRY_RETURN(pc__array_in(&dense, &copies[0], mem,
                                PC__ARRAY("pc_plan_new", "runs", pc_run, pages), args->runs,
                                args->run_stride, args->run_count));
    args->runs = dense;
    PC__TRY_RETURN(check_plan_rows(args));
    PC__TRY_RETURN(pc__array_in(&dense, &copies[1], mem,
                                PC__ARRAY("pc_plan_new", "spans", pc_row_span, reserved),
                                args->spans, args->span_stride, args->first[args->row_count]));
    args->spans = dense;
    return PC_OK;
}

pc_status pc_plan_new(pc_plan **out, pc_context *context, const pc_plan_args *args)
{
    PC__HOLD(pc_context, context);
    pc_plan_args read;
    void *copies[2] = {NULL, NULL};
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_plan_new: out is NULL");
    *out = NULL;
    PC__TRY_RETURN(pc__options_read(&read, sizeof read, PC__V1_SIZE(pc_plan_args, pool), args,
                                    "pc_plan_args"));
    if (!context || !args || !read.shape || !read.first || (read.row_count && !read.positions))
        return pc__fail(PC_ERR_INVALID,
                        "pc_plan_new: context, args, shape, positions or first is NULL");
    PC__TRY_RETURN(pc__check_flags("pc_plan_args", read.flags, PC_PLAN_PER_ROW));
    if (read.row_count >= UINT32_MAX || read.run_count >= UINT32_MAX)
        return pc__fail(PC_ERR_LIMIT, "pc_plan_new: %zu rows over %zu runs", read.row_count,
                        read.run_count);
    status = read_plan_arrays(&read, &context->mem, copies);
    if (status >= 0)
        status = make_plan_handle(out, context, &read);
    pc__free(&context->mem, copies[0]);
    pc__free(&context->mem, copies[1]);
    return status;
}

static void unref_plan(pc_plan *plan)
{
    if (!plan || --plan->references)
        return;
    pc_context *context = plan->context;
    pc__row_plan_free(plan->plan);
    while (plan->ropes) {
        owned_rope *next = plan->ropes->next;
        pc__free(&context->mem, plan->ropes);
        plan->ropes = next;
    }
    pc__free(&context->mem, plan->runs);
    pc__free(&context->mem, plan->pages);
    pc__free(&context->mem, plan->uses);
    pc__free(&context->mem, plan->relative);
    pc__free(&context->mem, plan->tables);
    pc__task_unlink(&plan->task);
    pc__free(&context->mem, plan);
    pc__context_unref(context);
}

void pc_plan_free(pc_plan *plan)
{
    if (plan && pc__task_await(&plan->task))
        unref_plan(plan);
}

static int same_rope(const pc__rotation *own, const pc_rope *other)
{
    return own->dims == other->dims && own->interleaved == (int32_t)other->interleaved
           && own->factor == other->factor
           && !memcmp(own->frequency, other->frequency,
                      (size_t)other->dims / 2 * sizeof *other->frequency);
}

/* Finds or makes the plan's own copy of a RoPE object: queries that an equal one rotated before
 * keep their angles. */
static pc_status find_rope(pc_plan *plan, const pc_rope *from, const pc__rotation **out)
{
    pc_rope read;
    owned_rope *own = plan->ropes;
    PC__TRY_RETURN(
        pc__options_read(&read, sizeof read, PC__V1_SIZE(pc_rope, frequency), from, "pc_rope"));
    if (read.reserved)
        return pc__fail(PC_ERR_INVALID, "pc_rope: reserved is %u, it must be zero", read.reserved);
    if (read.dims < 2 || read.dims % 2 || read.dims > plan->shape.k_dim || read.interleaved > 1
        || !read.frequency || !isfinite(read.factor))
        return pc__fail(PC_ERR_INVALID,
                        "pc_rope: %d dims of %d, interleaved %u, factor %g, frequency %s",
                        read.dims, plan->shape.k_dim, read.interleaved, (double)read.factor,
                        read.frequency ? "given" : "NULL");
    for (int32_t i = 0; i < read.dims / 2; i++)
        if (!isfinite(read.frequency[i]))
            return pc__fail(PC_ERR_INVALID, "pc_rope: frequency %d is %g", i, read.frequency[i]);
    read.factor = read.factor == 0.0f ? 1.0f : read.factor;
    while (own && !same_rope(&own->rope, &read))
        own = own->next;
    if (!own) {
        size_t bytes = (size_t)read.dims / 2 * sizeof *read.frequency;
        if (!(own = pc__alloc(&plan->context->mem, sizeof *own + bytes)))
            return PC_ERR_NOMEM;
        memcpy(own->frequency, read.frequency, bytes);
        own->rope = (pc__rotation){read.dims, (int32_t)read.interleaved, read.factor,
                                   own->frequency};
        own->next = plan->ropes;
        plan->ropes = own;
    }
    *out = &own->rope;
    return PC_OK;
}

static pc_status check_numbers(const char *name, const float *numbers, int32_t count)
{
    for (int32_t i = 0; numbers && i < count; i++)
        if (isnan(numbers[i]))
            return pc__fail(PC_ERR_INVALID, "pc_attend: %s of head %d is NaN", name, i);
    return PC_OK;
}

static pc_status set_pages(pc_plan *plan, const pc_attend_args *args)
{
    for (size_t i = 0; i < plan->run_count; i++) {
        const void *pages = args->pages ? args->pages[i] : NULL;
        if (plan->uses[i].lo < plan->uses[i].hi && !plan->runs[i].pool
            && (!pages || (uintptr_t)pages % 64))
            return pc__fail(PC_ERR_INVALID, "pc_attend: pages of run %zu are %s", i,
                            pages ? "not 64-byte aligned" : "NULL");
        plan->pages[i] = (uint8_t *)(uintptr_t)pages; /* only read */
    }
    return plan->pooled ? pc__kv_pool_set(&plan->pool, args) : PC_OK;
}

static int overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y + b_bytes && y < x + a_bytes;
}

/* Queries are read again after results of other rows or spans are written. */
static pc_status check_apart(const pc_plan *plan, const pc_attend_args *args)
{
    size_t group = (size_t)(plan->shape.heads / plan->shape.kv_heads),
           vectors = plan->rows * args->kv_head_count * group,
           q = vectors * (size_t)plan->shape.k_dim * pc__dtype_bytes(args->q_dtype),
           out = vectors * (size_t)plan->shape.v_dim * pc__dtype_bytes(args->out_dtype),
           lse = args->lse ? vectors * sizeof(float) : 0;
    if (overlap(args->q, q, args->out, out) || overlap(args->q, q, args->lse, lse)
        || overlap(args->out, out, args->lse, lse))
        return pc__fail(PC_ERR_INVALID, "pc_attend: q, out and lse overlap");
    return PC_OK;
}

/* Of q or of out. */
static pc_status read_dtype(const pc_plan *plan, const char *name, uint32_t *dtype)
{
    PC__TRY_RETURN(pc__check_enum("pc_attend_args", name, *dtype, PC_DTYPE_I16));
    if (!*dtype)
        *dtype = PC_DTYPE_F32;
    if (*dtype > PC_DTYPE_F16)
        return pc__fail(PC_ERR_UNSUPPORTED, "pc_attend: %s is %u (F32, BF16 and F16 are possible)",
                        name, *dtype);
    if (*dtype != PC_DTYPE_F32 && !pc__host_sees(plan->backend))
        return pc__fail(PC_ERR_UNSUPPORTED, "pc_attend: %s is %u, but backend '%s' takes F32 only",
                        name, *dtype, plan->backend->ops->name);
    return PC_OK;
}

/* What other backends need beyond that. */
static pc_status check_layer_parts(const pc_plan *plan, const pc_attend_args *args)
{
    const struct {
        int asked;
        uint32_t part;
        const char *name;
    } parts[] = {{args->sinks != NULL, PC__PART_SINKS, "sinks"},
                 {args->chunk != 0, PC__PART_CHUNKS, "chunks"},
                 {args->kv_head_count < (uint32_t)plan->shape.kv_heads, PC__PART_SOME_HEADS,
                  "calls of some heads"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].asked && !(plan->backend->parts & parts[i].part))
            return pc__fail(PC_ERR_UNSUPPORTED, "pc_attend: backend '%s' does not have %s",
                            plan->backend->ops->name, parts[i].name);
    return PC_OK;
}

static pc_status check_far(const pc_plan *plan, const pc_attend_args *args)
{
    if (pc__host_sees(plan->backend))
        return args->stream || args->flags & PC_ATTEND_QUEUE
                   ? pc__fail(PC_ERR_INVALID,
                              "pc_attend: %s is given, but backend '%s' has no streams",
                              args->stream ? "stream" : "PC_ATTEND_QUEUE", plan->backend->ops->name)
                   : PC_OK;
    if ((uintptr_t)args->q % 16 || (uintptr_t)args->out % 16)
        return pc__fail(PC_ERR_INVALID, "pc_attend: %s is not 16-byte aligned",
                        (uintptr_t)args->q % 16 ? "q" : "out");
    if ((uintptr_t)args->lse % sizeof *args->lse)
        return pc__fail(PC_ERR_INVALID, "pc_attend: lse is not %zu-byte aligned",
                        sizeof *args->lse);
    if ((args->stream || args->flags & PC_ATTEND_QUEUE) && !plan->backend->ops->attend_queued)
        return pc__fail(PC_ERR_UNSUPPORTED, "pc_attend: backend '%s' takes no stream of the caller",
                        plan->backend->ops->name);
    return check_layer_parts(plan, args);
}

static pc_status read_heads(const pc_plan *plan, pc_attend_args *args)
{
    uint32_t heads = (uint32_t)plan->shape.kv_heads;
    if (args->first_kv_head >= heads || args->kv_head_count > heads - args->first_kv_head)
        return pc__fail(PC_ERR_INVALID, "pc_attend: %u K/V heads from %u on, but the plan has %u",
                        args->kv_head_count, args->first_kv_head, heads);
    if (!args->kv_head_count)
        args->kv_head_count = heads - args->first_kv_head;
    return PC_OK;
}

static pc_status attend_far(pc_plan *plan, const pc__attn_layer *layer, const pc_attend_args *args)
{
    const pc__backend_ops *ops = plan->backend->ops;
    const pc__floats *q = (const pc__floats *)args->q;
    pc__floats *out = (pc__floats *)args->out, *lse = (pc__floats *)args->lse;
    const pc__queue queue = {args->stream, !(args->flags & PC_ATTEND_QUEUE)};
    pc__stream *stream;
    if (ops->attend_queued)
        return ops->attend_queued(plan->backend, &queue, plan->plan, layer, q, out, lse);
    PC__TRY_RETURN(ops->stream_new(&stream, plan->backend));
    pc_status status = ops->attend(stream, plan->plan, layer, q, out, lse);
    status = status < 0 ? status : ops->finish(stream);
    ops->stream_free(stream);
    return status;
}

/* A call whose arguments are checked. */
typedef struct attend_call {
    pc_plan *plan;
    pc__attn_layer layer;
    pc_attend_args args;
} attend_call;

static pc_status check_attend(const pc_plan *plan, pc_attend_args *args)
{
    PC__TRY_RETURN(pc__check_flags("pc_attend_args", args->flags, PC_ATTEND_QUEUE));
    PC__TRY_RETURN(read_dtype(plan, "q_dtype", &args->q_dtype));
    PC__TRY_RETURN(read_dtype(plan, "out_dtype", &args->out_dtype));
    PC__TRY_RETURN(read_heads(plan, args));
    if (args->window < 0 || args->chunk < 0 || !(args->soft_cap >= 0.0f)
        || !isfinite(args->soft_cap) || !isfinite(args->scale))
        return pc__fail(PC_ERR_INVALID, "pc_attend: window %lld, chunk %lld, soft cap %g, scale %g",
                        (long long)args->window, (long long)args->chunk, (double)args->soft_cap,
                        (double)args->scale);
    PC__TRY_RETURN(check_numbers("slopes", args->slopes, plan->shape.heads));
    PC__TRY_RETURN(check_numbers("sinks", args->sinks, plan->shape.heads));
    PC__TRY_RETURN(check_far(plan, args));
    return check_apart(plan, args);
}

/* Checks the arguments, and gives the plan its pages of this layer. */
static pc_status read_attend(attend_call *call, pc_plan *plan, const pc_attend_args *args)
{
    pc_attend_args *read = &call->args;
    pc__attn_layer *layer = &call->layer;
    *call = (attend_call){.plan = plan};
    PC__TRY_RETURN(pc__options_read(read, sizeof *read, PC__V1_SIZE(pc_attend_args, v_scales), args,
                                    "pc_attend_args"));
    if (!plan || !args || !read->q || !read->out)
        return pc__fail(PC_ERR_INVALID, "pc_attend: plan, args, q or out is NULL");
    PC__TRY_RETURN(pc__task_check(&plan->task, "pc_attend", "the plan"));
    PC__TRY_RETURN(check_attend(plan, read));
    PC__TRY_RETURN(set_pages(plan, read));
    if (read->rope)
        PC__TRY_RETURN(find_rope(plan, read->rope, &layer->rope));
    layer->heads = plan->shape.heads;
    layer->first_kv_head = (int32_t)read->first_kv_head;
    layer->kv_heads = (int32_t)read->kv_head_count;
    layer->window = read->window < 4 * PC__FARTHEST ? read->window : 0;
    layer->scale = read->scale == 0.0f ? 1.0f / sqrtf((float)plan->shape.k_dim) : read->scale;
    layer->soft_cap = read->soft_cap;
    layer->slopes = read->slopes;
    layer->sinks = read->sinks;
    layer->q_dtype = read->q_dtype;
    layer->out_dtype = read->out_dtype;
    layer->chunk = read->chunk < 2 * PC__FARTHEST ? read->chunk : 2 * PC__FARTHEST;
    return PC_OK;
}

static pc_status run_attend(const attend_call *call)
{
    const pc_attend_args *args = &call->args;
    return pc__host_sees(call->plan->backend)
               ? pc__plan_attend(call->plan->plan, &call->layer, args->q, args->out, args->lse)
               : attend_far(call->plan, &call->layer, args);
}

pc_status pc_attend(pc_plan *plan, const pc_attend_args *args)
{
    PC__HOLD(pc_plan, plan);
    attend_call call;
    PC__TRY_RETURN(read_attend(&call, plan, args));
    return run_attend(&call);
}

/* ------------------------------------------------------------------ tasks */

typedef struct attend_work {
    attend_call call;
    float *numbers; /* copies of the caller's, or NULL */
} attend_work;

static pc_status run_work(void *work)
{
    return run_attend(&((attend_work *)work)->call);
}

static void end_work(void *work)
{
    attend_work *w = work;
    pc__free(&w->call.plan->context->mem, w->numbers);
    unref_plan(w->call.plan);
}

/* Of runs that the library computes itself. */
static const pc__task_kind attend_kind = {sizeof(attend_work), run_work, end_work};

/* Replaces numbers of the caller by a copy. */
static void copy_numbers(const float **numbers, int32_t count, float **room)
{
    if (!*numbers)
        return;
    memcpy(*room, *numbers, (size_t)count * sizeof **room);
    *numbers = *room;
    *room += count;
}

static pc_status copy_call(attend_work *w, const attend_call *call)
{
    pc_plan *plan = call->plan;
    const pc_attend_shape *shape = &plan->shape;
    size_t most = 2 * (size_t)shape->heads + 2 * (size_t)shape->kv_heads;
    float *room = w->numbers = pc__alloc(&plan->context->mem, most * sizeof *room);
    if (!room)
        return PC_ERR_NOMEM;
    w->call = *call;
    copy_numbers(&w->call.layer.slopes, shape->heads, &room);
    copy_numbers(&w->call.layer.sinks, shape->heads, &room);
    copy_numbers(&plan->pool.k_scales, shape->kv_heads, &room);
    copy_numbers(&plan->pool.v_scales, shape->kv_heads, &room);
    return PC_OK;
}

/* Work that is queued on a device: the task only waits for a mark behind it, and needs no plan. */
typedef struct queued_work {
    pc__backend *backend; /* that of the task's context */
    void *mark;
} queued_work;

static pc_status await_queued(void *work)
{
    const queued_work *w = work;
    return w->backend->ops->await_mark(w->backend, w->mark);
}

static void end_queued(void *work)
{
    (void)work; /* the mark is gone */
}

static const pc__task_kind queued_kind = {sizeof(queued_work), await_queued, end_queued};

static pc_status start_queued(pc_task **out, attend_call *call)
{
    pc__backend *backend = call->plan->backend;
    const pc__queue queue = {call->args.stream, 0};
    pc_task *task;
    PC__TRY_RETURN(pc__task_new(&task, call->plan->context, &queued_kind));
    queued_work *work = pc__task_work(task);
    work->backend = backend;
    call->args.flags |= PC_ATTEND_QUEUE;
    pc_status status = run_attend(call);
    if (status >= 0)
        status = backend->ops->mark_queue(backend, &queue, &work->mark);
    if (status < 0) {
        pc__task_drop(task);
        return status;
    }
    *out = task;
    pc__task_start(task);
    return PC_OK;
}

/* Returns PC_OK with the plan given to the task. */
static pc_status start_attend(pc_task **out, attend_call *call)
{
    pc_plan *plan = call->plan;
    pc_task *task;
    if (pc__task_here(&plan->task))
        return pc__fail(PC_ERR_STATE, "pc_attend_async: a call of the plan is under way");
    PC__TRY_RETURN(pc__task_new(&task, plan->context, &attend_kind));
    pc_status status = copy_call(pc__task_work(task), call);
    if (status < 0) {
        pc__task_drop(task);
        return status;
    }
    pc__task_link_to(&plan->task, task);
    *out = task; /* a callback may free it */
    pc__task_start(task);
    return PC_OK;
}

pc_status pc_attend_async(pc_task **out, pc_plan *plan, const pc_attend_args *args)
{
    attend_call call;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_attend_async: out is NULL");
    *out = NULL;
    if (plan)
        ref_plan(plan); /* not PC__HOLD: once the task runs, the plan is the task's */
    pc_status status = read_attend(&call, plan, args);
    int queues = status >= 0 && plan->backend->ops->attend_queued != NULL;
    if (status >= 0)
        status = queues ? start_queued(out, &call) : start_attend(out, &call);
    if (status < 0 || queues)
        unref_plan(plan);
    return status;
}
