/* Catches: pc_plan and pc_attend whose numbers differ from ordinary attention over the joined keys
 * (a tree of three levels in two dtypes, rotated by RoPE, one run at two places, ALiBi, window,
 * soft cap), keys that one row has twice, sharing that changes a bit of the result, a plan that
 * cannot be used with the next layer's pages, bad arguments that are accepted, distances that
 * overflow, leaks when an allocation fails; a device that the CPU does not have; a call of some
 * heads, or on another thread, that gives other bits; calls of a plan that another thread has. */
#include <promptcache/task.h>
#include <promptcache/attend.h>
#include <promptcache/bench.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pages_write.h"
#include "testing.h"

enum {
    HEADS = 6,
    KV_HEADS = 2,
    K_DIM = 24,
    V_DIM = 20,
    RUNS = 8,
    ROWS = 9,
    LAYERS = 2,
    LONGEST = 1300,
    SPANS = 3 * ROWS
};

typedef struct world {
    pc_attend_shape shape;
    size_t tokens[RUNS];
    void *pages[LAYERS][RUNS];
    float *k[LAYERS][RUNS], *v[LAYERS][RUNS]; /* as rounded to the dtype, [token][kv_head][dim] */
    pc_run runs[RUNS];
    int64_t relative[LONGEST];
    int64_t positions[ROWS];
    uint32_t first[ROWS + 1];
    pc_row_span spans[SPANS];
    float q[ROWS * HEADS * K_DIM];
    double frequency[K_DIM / 2];
    float slopes[HEADS];
} world;

static float rounded(float x, uint32_t dtype)
{
    uint32_t u;
    if (dtype == PC_DTYPE_F32)
        return x;
    memcpy(&u, &x, sizeof u);
    u = (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u;
    memcpy(&x, &u, sizeof x);
    return x;
}

static void fill_run(world *w, pc_test_rng *rng, size_t layer, size_t run)
{
    size_t n = w->tokens[run], bytes = pc_pages_bytes(&w->shape, n);
    float *k = malloc(n * KV_HEADS * K_DIM * sizeof *k),
          *v = malloc(n * KV_HEADS * V_DIM * sizeof *v);
    for (size_t i = 0; i < n * KV_HEADS * K_DIM; i++)
        k[i] = rounded(pc_test_normal(rng), w->shape.dtype);
    for (size_t i = 0; i < n * KV_HEADS * V_DIM; i++)
        v[i] = rounded(pc_test_normal(rng), w->shape.dtype);
    w->pages[layer][run] = aligned_alloc(64, bytes);
    memset(w->pages[layer][run], 0, bytes);
    CHECK_OK(write_pages(&w->shape, w->pages[layer][run], 0, n / 2, k, v)); /* in two goes */
    CHECK_OK(write_pages(&w->shape, w->pages[layer][run], n / 2, n - n / 2,
                         k + n / 2 * KV_HEADS * K_DIM, v + n / 2 * KV_HEADS * V_DIM));
    w->k[layer][run] = k;
    w->v[layer][run] = v;
}

/* Run 0 is everybody's, runs 1 and 2 are those of two groups, 3 … 7 of single rows, some of which
 * hold none; run 2 has holes. */
static void make_world(world *w, uint32_t dtype)
{
    static const size_t tokens[RUNS] = {LONGEST, 130, 77, 1, 64, 65, 20, 9};
    pc_test_rng rng = {11 + dtype};
    uint32_t n = 0;
    memset(w, 0, sizeof *w);
    w->shape = (pc_attend_shape){sizeof w->shape, HEADS, KV_HEADS, K_DIM, V_DIM, dtype, 0};
    for (size_t i = 0; i < RUNS; i++) {
        w->tokens[i] = tokens[i];
        w->runs[i] = (pc_run){tokens[i], i == 2 ? w->relative : NULL, NULL};
        for (size_t l = 0; l < LAYERS; l++)
            fill_run(w, &rng, l, i);
    }
    for (int64_t t = 0; t < LONGEST; t++)
        w->relative[t] = 2 * t;
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t own = 3 + r % 7, middle = 1 + r % 2;
        w->positions[r] = 3000 + r;
        w->first[r] = n;
        w->spans[n++] = (pc_row_span){10 * (int64_t)(r % 2), 0, r == 5 ? 100 : 0,
                                      r == 4 ? 700 : LONGEST, 0};
        w->spans[n++] = (pc_row_span){LONGEST + 20, middle, 0, (uint32_t)tokens[middle], 0};
        if (own < RUNS)
            w->spans[n++] = (pc_row_span){LONGEST + 400, own, 0, (uint32_t)tokens[own], 0};
        if (r == 1 || r == 2) /* the same keys once more, at another place: others */
            w->spans[n++] = (pc_row_span){LONGEST + 700, own, 0, (uint32_t)tokens[own], 0};
    }
    w->first[ROWS] = n;
    for (size_t i = 0; i < ROWS * HEADS * K_DIM; i++)
        w->q[i] = pc_test_normal(&rng);
    for (size_t i = 0; i < K_DIM / 2; i++)
        w->frequency[i] = pow(10000.0, -(double)i / (K_DIM / 2));
    for (size_t h = 0; h < HEADS; h++)
        w->slopes[h] = 0.002f * (float)(h + 1);
}

static void free_world(world *w)
{
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < RUNS; i++) {
            free(w->pages[l][i]);
            free(w->k[l][i]);
            free(w->v[l][i]);
        }
}

static pc_plan_args plan_args(const world *w, uint64_t flags)
{
    pc_plan_args args = PC_PLAN_ARGS_INIT;
    args.shape = &w->shape;
    args.runs = w->runs;
    args.run_stride = sizeof(pc_run);
    args.run_count = RUNS;
    args.positions = w->positions;
    args.first = w->first;
    args.spans = w->spans;
    args.span_stride = sizeof(pc_row_span);
    args.row_count = ROWS;
    args.flags = flags;
    return args;
}

static int64_t chunk_of(const pc_attend_args *a, int64_t position)
{
    return (int64_t)floor((double)position / (double)a->chunk);
}

static double key_score(const world *w, const pc_attend_args *a, size_t layer, size_t r, size_t h,
                        const pc_row_span *s, size_t t)
{
    const float *q = w->q + (r * HEADS + h) * K_DIM,
                *k = w->k[layer][s->run] + (t * KV_HEADS + h / (HEADS / KV_HEADS)) * K_DIM;
    double score = 0.0, turned[K_DIM];
    int64_t relative = w->runs[s->run].relative ? w->runs[s->run].relative[t] : (int64_t)t;
    int64_t distance = w->positions[r] - s->start;
    for (size_t d = 0; d < K_DIM; d++)
        turned[d] = (double)q[d];
    for (size_t i = 0; a->rope && i < (size_t)a->rope->dims / 2; i++) {
        size_t x = a->rope->interleaved ? 2 * i : i,
               y = a->rope->interleaved ? x + 1 : i + (size_t)a->rope->dims / 2;
        double c = cos((double)distance * w->frequency[i]),
               n = sin((double)distance * w->frequency[i]);
        turned[x] = (double)q[x] * c - (double)q[y] * n;
        turned[y] = (double)q[x] * n + (double)q[y] * c;
    }
    for (size_t d = 0; d < K_DIM; d++)
        score += turned[d] * (double)k[d];
    score /= sqrt((double)K_DIM);
    if (a->soft_cap > 0.0f)
        score = (double)a->soft_cap * tanh(score / (double)a->soft_cap);
    if (a->slopes)
        score -= (double)a->slopes[h] * (double)(distance - relative);
    if (a->window && distance - relative >= a->window)
        return -INFINITY;
    return a->chunk
                   && chunk_of(a, w->positions[r] - (distance - relative))
                          != chunk_of(a, w->positions[r])
               ? -INFINITY
               : score;
}

static double worst_of_row(const world *w, const pc_attend_args *a, size_t layer, size_t r,
                           size_t h)
{
    double sink = a->sinks ? (double)a->sinks[h] : -INFINITY, top = sink, sum = 0.0,
           out[V_DIM] = {0}, worst = 0.0;
    const float *got = (const float *)a->out + (r * HEADS + h) * V_DIM;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = w->first[r]; i < w->first[r + 1]; i++)
            for (size_t t = w->spans[i].lo; t < w->spans[i].hi; t++) {
                double s = key_score(w, a, layer, r, h, &w->spans[i], t);
                const float *v = w->v[layer][w->spans[i].run]
                                 + (t * KV_HEADS + h / (HEADS / KV_HEADS)) * V_DIM;
                top = pass ? top : fmax(top, s);
                sum += pass ? exp(s - top) : 0.0;
                for (size_t d = 0; pass && d < V_DIM; d++)
                    out[d] += exp(s - top) * (double)v[d];
            }
    sum += a->sinks ? exp(sink - top) : 0.0;
    for (size_t d = 0; d < V_DIM; d++)
        worst = fmax(worst, fabs(out[d] / sum - (double)got[d]));
    return fmax(worst, fabs(top + log(sum) - (double)a->lse[r * HEADS + h]));
}

/* One row of all heads, and the part of it that some heads have. */
static void take_heads(const float *all, size_t first, size_t heads, size_t dim, float *some)
{
    for (size_t r = 0; r < ROWS; r++)
        memcpy(some + r * heads * dim, all + (r * HEADS + first) * dim, heads * dim * sizeof *some);
}

/* Calls of some of the K/V heads give what one of all gives there, bit for bit. */
static void attend_some_heads(const world *w, pc_plan *plan, const pc_attend_args *all)
{
    static const uint32_t parts[][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 2}};
    enum { GROUP = HEADS / KV_HEADS };
    static float q[ROWS * HEADS * K_DIM], out[2][ROWS * HEADS * V_DIM], lse[2][ROWS * HEADS];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        pc_attend_args args = *all;
        size_t first = GROUP * parts[i][0], heads = GROUP * (parts[i][1] ? parts[i][1] : 1);
        take_heads(w->q, first, heads, K_DIM, q);
        take_heads(all->out, first, heads, V_DIM, out[0]);
        take_heads(all->lse, first, heads, 1, lse[0]);
        memset(out[1], 0xa5, sizeof out[1]);
        args.q = q;
        args.out = out[1];
        args.lse = lse[1];
        args.first_kv_head = parts[i][0];
        args.kv_head_count = parts[i][1];
        CHECK_OK(pc_attend(plan, &args));
        CHECK(!memcmp(out[0], out[1], ROWS * heads * V_DIM * sizeof(float)));
        CHECK(!memcmp(lse[0], lse[1], ROWS * heads * sizeof(float)));
        uint32_t behind = 0;
        if (heads < HEADS) /* nothing is written behind them */
            memcpy(&behind, &out[1][ROWS * heads * V_DIM], sizeof behind);
        CHECK(heads == HEADS || behind == 0xa5a5a5a5u);
    }
}

/* A task gives the same, also if what the call reads of the host is gone when it returns. */
static void attend_as_task(pc_plan *plan, const pc_attend_args *all)
{
    static float out[ROWS * HEADS * V_DIM], lse[ROWS * HEADS];
    const void *pages[RUNS];
    float slopes[HEADS], sinks[HEADS];
    pc_attend_args args = *all;
    pc_rope rope = PC_ROPE_INIT;
    pc_task *task;
    memcpy(pages, all->pages, sizeof pages);
    args.pages = pages;
    args.out = out;
    args.lse = lse;
    if (all->slopes)
        args.slopes = memcpy(slopes, all->slopes, sizeof slopes);
    if (all->sinks)
        args.sinks = memcpy(sinks, all->sinks, sizeof sinks);
    if (all->rope) {
        rope = *all->rope;
        args.rope = &rope;
    }
    CHECK_OK(pc_attend_async(&task, plan, &args));
    memset(pages, 0xff, sizeof pages);
    memset(slopes, 0xff, sizeof slopes);
    memset(sinks, 0xff, sizeof sinks);
    memset(&rope, 0xff, sizeof rope);
    memset(&args, 0xff, sizeof args);
    CHECK_OK(pc_task_wait(task, INFINITY));
    pc_task_free(task);
    CHECK(!memcmp(out, all->out, sizeof out) && !memcmp(lse, all->lse, sizeof lse));
}

static void attend_layers(const world *w, pc_context *context, const pc_attend_args *how,
                          double limit)
{
    enum { OUT = ROWS * HEADS * V_DIM, LSE = ROWS * HEADS };
    float out[2][OUT], lse[2][LSE];
    pc_plan *shared, *apart;
    pc_plan_args a = plan_args(w, 0), b = plan_args(w, PC_PLAN_PER_ROW);
    CHECK_OK(pc_plan_new(&shared, context, &a));
    CHECK_OK(pc_plan_new(&apart, context, &b));
    for (size_t l = 0; l < LAYERS; l++) {
        pc_attend_args args = *how;
        double worst = 0.0;
        args.pages = (const void *const *)w->pages[l];
        args.q = w->q;
        for (int i = 0; i < 2; i++) {
            memset(out[i], 0xa5, sizeof out[i]);
            args.out = out[i];
            args.lse = lse[i];
            CHECK_OK(pc_attend(i ? apart : shared, &args));
        }
        for (size_t r = 0; r < ROWS; r++)
            for (size_t h = 0; h < HEADS; h++)
                worst = fmax(worst, worst_of_row(w, &args, l, r, h));
        if (!CHECK(worst <= limit))
            fprintf(stderr, "    layer %zu dtype %u: %g\n", l, w->shape.dtype, worst);
        CHECK(!memcmp(out[0], out[1], sizeof out[0]) && !memcmp(lse[0], lse[1], sizeof lse[0]));
        args.out = out[0];
        args.lse = lse[0];
        attend_some_heads(w, shared, &args);
        attend_as_task(shared, &args);
    }
    pc_plan_free(shared);
    pc_plan_free(apart);
}

static void compare(pc_context *context, uint32_t dtype)
{
    static const float sinks[HEADS] = {1.5f, -2.0f};
    static world w;
    pc_attend_args plain = PC_ATTEND_ARGS_INIT, moved = PC_ATTEND_ARGS_INIT,
                   alibi = PC_ATTEND_ARGS_INIT;
    pc_rope rope = PC_ROPE_INIT;
    double limit = dtype == PC_DTYPE_F32 ? 2e-5 : 3e-2;
    make_world(&w, dtype);
    attend_layers(&w, context, &plain, limit);
    rope.dims = K_DIM - 4;
    rope.frequency = w.frequency;
    moved.rope = &rope;
    moved.window = 2500;
    attend_layers(&w, context, &moved, limit);
    rope.interleaved = 1;
    moved.soft_cap = 3.0f;
    attend_layers(&w, context, &moved, limit);
    alibi.slopes = w.slopes;
    attend_layers(&w, context, &alibi, limit);
    moved.sinks = sinks;
    moved.chunk = 1300;
    attend_layers(&w, context, &moved, limit);
    free_world(&w);
}

static void refused(pc_context *context, pc_plan_args *args, const char *cause)
{
    pc_plan *plan = (pc_plan *)args;
    CHECK(pc_plan_new(&plan, context, args) < 0);
    CHECK(!plan);
    CHECK_ERROR_HAS(cause);
}

/* A row of three spans of one run, of which the first and the last may have a token in common. */
static void twice(pc_context *context)
{
    static const uint32_t first[] = {0, 1, 4};
    static const int64_t positions[] = {500, 500};
    pc_attend_shape shape = {sizeof shape, HEADS, KV_HEADS, K_DIM, V_DIM, PC_DTYPE_F32, 0};
    pc_run runs[2] = {{100, NULL, NULL}, {100, NULL, NULL}};
    pc_row_span spans[4] = {
        {0, 1, 0, 100, 0}, {0, 1, 50, 100, 0}, {0, 0, 0, 100, 0}, {0, 1, 10, 51, 0}};
    pc_plan_args args = PC_PLAN_ARGS_INIT;
    pc_plan *plan;
    args.shape = &shape;
    args.runs = runs;
    args.run_stride = sizeof(pc_run);
    args.run_count = args.row_count = 2;
    args.positions = positions;
    args.first = first;
    args.spans = spans;
    args.span_stride = sizeof(pc_row_span);
    refused(context, &args, "row 1 sees token 50 of run 1 at start 0 twice, by its spans 2 and 0");
    spans[3].hi = 50;
    CHECK_OK(pc_plan_new(&plan, context, &args));
    pc_plan_free(plan);
    spans[3] = (pc_row_span){0, 1, 60, 60, 0}; /* nothing */
    CHECK_OK(pc_plan_new(&plan, context, &args));
    pc_plan_free(plan);
    spans[3] = spans[1];
    refused(context, &args, "twice");
    spans[3].start = 100;
    CHECK_OK(pc_plan_new(&plan, context, &args));
    pc_plan_free(plan);
}

/* A step without rows: nothing is read, also of arrays that are NULL. */
static void no_rows(pc_context *context)
{
    static const uint32_t first[] = {0};
    pc_attend_shape shape = {sizeof shape, HEADS, KV_HEADS, K_DIM, V_DIM, PC_DTYPE_F32, 0};
    pc_plan_args args = PC_PLAN_ARGS_INIT;
    pc_plan *plan;
    args.shape = &shape;
    args.first = first;
    CHECK_OK(pc_plan_new(&plan, context, &args));
    pc_plan_free(plan);
}

static void faults(pc_context *context)
{
    static world w;
    make_world(&w, PC_DTYPE_F32);
    pc_plan_args args = plan_args(&w, 0);
    pc_attend_shape shape = w.shape;
    args.flags = 2;
    refused(context, &args, "flags 0x2");
    args = plan_args(&w, 0);
    args.shape = &shape;
    shape.heads = 5;
    refused(context, &args, "5 heads over 2");
    shape = w.shape;
    shape.dtype = 5;
    refused(context, &args, "dtype is PC_DTYPE_I16");
    CHECK_INT(pc_pages_bytes(&shape, 10), 0);
    shape = w.shape;
    shape.k_dim = 1025;
    refused(context, &args, "1025");
    shape = w.shape;
    shape.reserved = 7;
    refused(context, &args, "pc_attend_shape: reserved is 7");
    args = plan_args(&w, 0);
    w.spans[3].reserved = 1;
    refused(context, &args, "span 3: reserved is 1");
    w.spans[3].reserved = 0;
    w.spans[3].hi = 5000;
    refused(context, &args, "span 3");
    w.spans[3].hi = 1;
    w.spans[4].run = RUNS;
    refused(context, &args, "run 8 (of 8");
    w.spans[4].run = 1;
    w.first[2] = w.first[1] - 1;
    refused(context, &args, "row 1");
    free_world(&w);
    make_world(&w, PC_DTYPE_F32);
    w.relative[30] = w.relative[29];
    args = plan_args(&w, 0);
    refused(context, &args, "token 30");
    free_world(&w);
}

static void bad_calls(pc_context *context)
{
    static world w;
    static float out[ROWS * HEADS * V_DIM];
    pc_attend_args args = PC_ATTEND_ARGS_INIT;
    pc_rope rope = PC_ROPE_INIT;
    const void *pages[RUNS];
    pc_plan *plan;
    make_world(&w, PC_DTYPE_F32);
    pc_plan_args from = plan_args(&w, 0);
    CHECK_OK(pc_plan_new(&plan, context, &from));
    memcpy(pages, w.pages[0], sizeof pages);
    args.pages = pages;
    args.q = w.q;
    args.out = out;
    pages[1] = NULL;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    CHECK_ERROR_HAS("run 1 are NULL");
    pages[1] = (const char *)w.pages[0][1] + 4;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    CHECK_ERROR_HAS("not 64-byte aligned");
    pages[1] = w.pages[0][1];
    rope.dims = K_DIM + 2;
    rope.frequency = w.frequency;
    args.rope = &rope;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    CHECK_ERROR_HAS("26 dims of 24");
    rope.dims = K_DIM;
    rope.factor = NAN;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    CHECK_ERROR_HAS("factor nan");
    args.rope = NULL;
    args.window = -1;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    args.window = 0;
    args.chunk = -1;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    CHECK_ERROR_HAS("chunk -1");
    args.chunk = 0;
    args.scale = INFINITY;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    args.scale = 0.0f;
    args.soft_cap = INFINITY;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    args.soft_cap = 0.0f;
    args.out = w.q;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    CHECK_ERROR_HAS("overlap");
    args.out = out;
    args.lse = out + ROWS * HEADS * V_DIM - 1;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    args.lse = NULL;
    args.first_kv_head = 2;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    CHECK_ERROR_HAS("0 K/V heads from 2 on, but the plan has 2");
    args.first_kv_head = 1;
    args.kv_head_count = UINT32_MAX;
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_INVALID);
    args.first_kv_head = args.kv_head_count = 0;
    CHECK_OK(pc_attend(plan, &args));
    pc_plan_free(plan);
    free_world(&w);
}

static const int64_t far_away = INT64_C(1) << 60;

/* Positions from one end to the other, keys far behind their row, and a window that is longer than
 * any distance: as without one. */
static void far_apart(pc_context *context)
{
    static world w;
    static float out[2][ROWS * HEADS * V_DIM];
    pc_attend_args args = PC_ATTEND_ARGS_INIT;
    pc_plan *plan;
    make_world(&w, PC_DTYPE_F32);
    pc_plan_args from = plan_args(&w, 0);
    w.positions[1] = far_away;
    w.positions[2] = -far_away;
    w.spans[0].start = far_away;
    w.relative[w.tokens[2] - 1] = far_away;
    CHECK_OK(pc_plan_new(&plan, context, &from));
    args.pages = (const void *const *)w.pages[0];
    args.q = w.q;
    args.slopes = w.slopes;
    for (int i = 0; i < 2; i++) {
        args.window = i ? INT64_MAX : 0;
        args.out = out[i];
        CHECK_OK(pc_attend(plan, &args));
    }
    CHECK(!memcmp(out[0], out[1], sizeof out[0]));
    pc_plan_free(plan);
    w.positions[1]++;
    refused(context, &from, "row 1: position 1152921504606846977 is too far");
    w.positions[1] = 0;
    w.spans[0].start++;
    refused(context, &from, "span 0: start 1152921504606846977");
    w.spans[0].start = 0;
    w.relative[w.tokens[2] - 1]++;
    refused(context, &from, "of token 76 is too far");
    free_world(&w);
}

static void fail_everywhere(void)
{
    static world w;
    static float out[ROWS * HEADS * V_DIM];
    pc_rope rope = PC_ROPE_INIT;
    make_world(&w, PC_DTYPE_BF16);
    rope.dims = K_DIM;
    rope.frequency = w.frequency;
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator allocator = pc_test_allocator(&memory);
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        pc_plan_args from = plan_args(&w, 0);
        pc_attend_args args = PC_ATTEND_ARGS_INIT;
        pc_context *context;
        pc_plan *plan = NULL;
        options.allocator = &allocator;
        options.threads = 1;
        args.pages = (const void *const *)w.pages[0];
        args.q = w.q;
        args.out = out;
        args.rope = &rope;
        if (pc_context_new(&context, &options) == PC_OK
            && pc_plan_new(&plan, context, &from) == PC_OK) {
            pc_status status = pc_attend(plan, &args);
            CHECK(status == PC_OK || status == PC_ERR_NOMEM);
            CHECK_OK(pc_attend(plan, &args)); /* a failure before leaves the plan whole */
            pc_task *task = NULL;
            status = pc_attend_async(&task, plan, &args);
            CHECK(status == PC_OK ? task != NULL : status == PC_ERR_NOMEM && !task);
            if (task)
                CHECK_OK(pc_task_wait(task, INFINITY));
            pc_task_free(task);
        }
        pc_plan_free(plan);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        if (memory.calls < at)
            break;
    }
    free_world(&w);
}

/* Loops of the application that wait until they may go on. */
typedef struct slow_loops {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int held, go;
} slow_loops;

static void slow_loop(void *user, size_t n, void (*body)(void *arg, size_t i), void *arg)
{
    slow_loops *s = user;
    pthread_mutex_lock(&s->lock);
    s->held = 1;
    pthread_cond_broadcast(&s->change);
    while (!s->go)
        pthread_cond_wait(&s->change, &s->lock);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++)
        body(arg, i);
}

static void *go_on(void *arg)
{
    slow_loops *s = arg;
    usleep(20000);
    pthread_mutex_lock(&s->lock);
    s->go = 1;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* A plan belongs to its task. Freeing it waits. */
static void under_way(void)
{
    static world w;
    static float out[2][ROWS * HEADS * V_DIM];
    slow_loops slow = {.held = 0};
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_attend_args args = PC_ATTEND_ARGS_INIT;
    pc_context *context;
    pc_plan *plan;
    pc_task *task, *second;
    pthread_t thread;
    pthread_mutex_init(&slow.lock, NULL);
    pthread_cond_init(&slow.change, NULL);
    make_world(&w, PC_DTYPE_F32);
    options.threads = 2;
    options.parallel_for = slow_loop;
    options.parallel_user = &slow;
    pc_plan_args from = plan_args(&w, 0);
    CHECK_OK(pc_context_new(&context, &options));
    CHECK_OK(pc_plan_new(&plan, context, &from));
    pc_context_free(context);
    args.pages = (const void *const *)w.pages[0];
    args.q = w.q;
    args.out = out[0];
    CHECK_OK(pc_attend_async(&task, plan, &args));
    pthread_mutex_lock(&slow.lock);
    while (!slow.held)
        pthread_cond_wait(&slow.change, &slow.lock);
    pthread_mutex_unlock(&slow.lock);
    args.out = out[1];
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_STATE);
    CHECK_ERROR_HAS("pc_attend: a task that uses the plan is under way");
    CHECK_STATUS(pc_attend_async(&second, plan, &args), PC_ERR_STATE);
    CHECK(!second);
    CHECK_STATUS(pc_task_wait(task, 0), PC_AGAIN);
    pthread_create(&thread, NULL, go_on, &slow);
    pc_plan_free(plan);
    CHECK_OK(pc_task_wait(task, 0)); /* it has waited */
    pthread_join(thread, NULL);
    pc_task_free(task);
    CHECK_STATUS(pc_attend_async(&task, NULL, &args), PC_ERR_INVALID);
    CHECK_STATUS(pc_attend_async(NULL, NULL, &args), PC_ERR_INVALID);
    free_world(&w);
}

/* The CPU is one device. */
static void other_device(void)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    options.backend = "cpu";
    options.device = 1;
    CHECK_STATUS(pc_context_new(&context, &options), PC_ERR_INVALID);
    CHECK_ERROR_HAS("device is 1, but backend 'cpu' has only 0");
    CHECK(!context);
}

static void check_backend(const char *backend, uint32_t device, const char *fault)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    options.backend = backend;
    options.device = device;
    options.threads = 1;
    CHECK_STATUS(pc_context_new(&context, &options), fault ? PC_ERR_INVALID : PC_OK);
    if (fault)
        CHECK_ERROR_HAS(fault);
    CHECK(!context == (fault != NULL));
    pc_context_free(context);
}

/* A device in the name of a backend. */
static void named_device(void)
{
    check_backend("cpu:0", 0, NULL);
    check_backend("cpu:1", 0, "device is 1, but backend 'cpu' has only 0");
    check_backend("cpu:1", 1, "device is 1, but backend 'cpu' has only 0");
    check_backend("cpu:1", 2, "device is 2, but backend is 'cpu:1'");
    check_backend("cpu:", 0, "backend 'cpu:': no backend has such a name");
    check_backend("cpu:one", 0, "no backend has such a name");
    check_backend("cpu:99999999999", 0, "no backend has such a name");
    check_backend(":1", 0, "no backend has such a name");
}

int main(void)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context;
    options.threads = 3;
    CHECK_OK(pc_context_new(&context, &options));
    compare(context, PC_DTYPE_F32);
    compare(context, PC_DTYPE_BF16);
    faults(context);
    twice(context);
    no_rows(context);
    bad_calls(context);
    far_apart(context);
    fail_everywhere();
    under_way();
    other_device();
    named_device();
    pc_context_free(context);
    return pc_test_end();
}
