/* Catches: attention over the pages of a pool that differs from attention in double precision, or,
 * in a bit, from packed runs of the same values, in random layouts (orders, sizes and strides of
 * pages, K and V apart or joined, formats, page tables, runs of both kinds in one plan, shared
 * runs, holes, windows, chunks, RoPE, ALiBi, soft caps, sinks, formats of queries and results);
 * reads of a page, or of a part of one, that no row sees; pools that cannot be right and are
 * accepted; a plan that a failed allocation leaks or breaks. PC_TEST_LONG=1: 5,000 layouts, else
 * 300. */
#include <promptcache/attend.h>
#include <promptcache/bench.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/half.h"
#include "attn/kv.h"
#include "guarded.h"
#include "levels.h"
#include "pages_write.h"
#include "testing.h"

enum { RUNS = 6, ROWS = 48, SPANS = 3, MOST_HEADS = 12, MOST_DIM = 140, POISON = 0xff };

typedef struct host_run {
    pc_run run, packed; /* in the pool or not; never */
    int64_t *relative;
    int32_t *table;
    float *k, *v; /* as stored: [token][kv_head][dim] */
    void *pages;  /* of `packed`, and of `run` unless it lies in the pool */
    uint32_t lo, hi;
} host_run;

/* K or V of the pool, in elements. */
typedef struct part {
    size_t page, token, head, dim;
    uint8_t *at;
} part;

typedef struct scene {
    pc_test_rng rng;
    pc_attend_shape shape;
    pc_pool pool;
    guarded k_memory, v_memory; /* v_memory: unused if both lie in one */
    part k, v;
    const void *pool_v; /* as given */
    float k_scales[MOST_HEADS], v_scales[MOST_HEADS];
    host_run runs[RUNS];
    uint32_t run_count, row_count;
    int64_t positions[ROWS];
    uint32_t first[ROWS + 1];
    pc_row_span spans[ROWS * SPANS];
    pc_attend_args args;
    pc_rope rope;
    double frequency[MOST_DIM / 2];
    float slopes[MOST_HEADS], sinks[MOST_HEADS];
    float *q; /* as given */
    void *q_given;
} scene;

static uint32_t below(scene *s, uint32_t n)
{
    return (uint32_t)(pc_test_bits(&s->rng) % n);
}

static size_t bytes_of(uint32_t dtype)
{
    return dtype == PC_DTYPE_F32 ? 4 : dtype == PC_DTYPE_I8 ? 1 : 2;
}

static void store(uint32_t dtype, float x, void *to)
{
    uint16_t half = dtype == PC_DTYPE_BF16 ? pc__bf16_from(x) : pc__half_from(x);
    if (dtype == PC_DTYPE_F32)
        memcpy(to, &x, 4);
    else
        memcpy(to, &half, 2);
}

static float load(uint32_t dtype, const void *from)
{
    float x;
    uint16_t half;
    memcpy(&half, from, 2);
    if (dtype != PC_DTYPE_F32)
        return dtype == PC_DTYPE_BF16 ? pc__bf16_to(half) : pc__half_to(half);
    memcpy(&x, from, 4);
    return x;
}

/* Writes a row of the pool, and what it holds then. */
static void store_row(scene *s, const part *p, size_t at, float scale, float *values)
{
    size_t bytes = bytes_of(s->pool.dtype);
    for (size_t d = 0; d < p->dim; d++) {
        uint8_t *to = p->at + (at + d) * bytes;
        if (s->pool.dtype == PC_DTYPE_I8) {
            *to = (uint8_t)below(s, 256);
            values[d] = scale * (float)(int8_t)*to;
        } else {
            store(s->pool.dtype, pc_test_normal(&s->rng), to);
            values[d] = load(s->pool.dtype, to);
        }
    }
}

static void draw_shape(scene *s)
{
    static const int32_t dims[] = {1, 2, 3, 7, 15, 16, 17, 24, 33, 64, 65, 128, MOST_DIM};
    static const uint32_t dtypes[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16, PC_DTYPE_I8};
    static const uint32_t tokens[] = {16, 32, 64, 128};
    int32_t kv_heads = 1 + (int32_t)below(s, 3), group = 1 + (int32_t)below(s, 4);
    s->shape = (pc_attend_shape)PC_ATTEND_SHAPE_INIT;
    s->shape.kv_heads = kv_heads;
    s->shape.heads = kv_heads * group;
    s->shape.k_dim = dims[below(s, 13)];
    s->shape.v_dim = below(s, 2) ? s->shape.k_dim : dims[below(s, 13)];
    s->pool = (pc_pool)PC_POOL_INIT;
    s->pool.dtype = dtypes[below(s, 4)];
    s->pool.page_tokens = tokens[below(s, 4)];
    s->pool.layout = below(s, 2) ? PC_KV_HND : PC_KV_NHD;
    s->shape.dtype = s->pool.dtype == PC_DTYPE_I8 ? PC_DTYPE_F32 : s->pool.dtype;
    for (int h = 0; h < MOST_HEADS; h++) {
        s->k_scales[h] = 0.01f + 0.02f * pc_test_uniform(&s->rng);
        s->v_scales[h] = 0.01f + 0.02f * pc_test_uniform(&s->rng);
    }
}

static void order_part(scene *s, part *p, size_t dim, size_t gap)
{
    size_t heads = (size_t)s->shape.kv_heads;
    p->dim = dim;
    if (s->pool.layout == PC_KV_NHD) {
        p->head = dim + (gap ? below(s, 5) : 0);
        p->token = heads * p->head + (gap ? below(s, 9) : 0);
        p->page = s->pool.page_tokens * p->token;
    } else {
        p->token = dim + (gap ? below(s, 5) : 0);
        p->head = s->pool.page_tokens * p->token + (gap ? below(s, 9) : 0);
        p->page = heads * p->head;
    }
    p->page += gap ? below(s, 20) : 0;
}

static size_t extent(const scene *s, const part *p)
{
    return (s->pool.page_count - 1) * p->page + (s->pool.page_tokens - 1) * p->token
           + ((size_t)s->shape.kv_heads - 1) * p->head + p->dim;
}

static void name_strides(scene *s)
{
    s->pool.k_page_stride = s->k.page;
    s->pool.k_token_stride = s->k.token;
    s->pool.k_head_stride = s->k.head;
    s->pool.v_page_stride = s->v.page;
    s->pool.v_token_stride = s->v.token;
    s->pool.v_head_stride = s->v.head;
}

/* Memory that ends with the last element. */
static void make_memory(scene *s)
{
    size_t bytes = bytes_of(s->pool.dtype), k_dim = (size_t)s->shape.k_dim,
           v_dim = (size_t)s->shape.v_dim, way = below(s, 4);
    order_part(s, &s->k, k_dim, way >= 2);
    order_part(s, &s->v, v_dim, way >= 2);
    if (way >= 2)
        name_strides(s);
    if (way == 1 || way == 3) { /* one page holds both */
        size_t k_page = s->k.page;
        s->k.page = s->v.page = k_page + s->v.page;
        s->pool.joined = way == 1 || below(s, 2);
        if (way == 3)
            name_strides(s);
        s->k_memory = guarded_new((k_page + extent(s, &s->v)) * bytes);
        s->k.at = s->k_memory.data;
        s->v.at = s->k.at + k_page * bytes;
        s->pool_v = way == 1 && below(s, 2) ? NULL : s->v.at;
    } else {
        s->k_memory = guarded_new(extent(s, &s->k) * bytes);
        s->v_memory = guarded_new(extent(s, &s->v) * bytes);
        s->k.at = s->k_memory.data;
        s->pool_v = s->v.at = s->v_memory.data;
        memset(s->v_memory.data, POISON, s->v_memory.bytes);
    }
    memset(s->k_memory.data, POISON, s->k_memory.bytes);
}

/* Pages are handed out in random order; some belong to nobody. */
static void draw_tables(scene *s)
{
    size_t used = 0, tokens = s->pool.page_tokens;
    for (uint32_t i = 0; i < s->run_count; i++)
        used += (s->runs[i].run.tokens + tokens - 1) / tokens;
    s->pool.page_count = used + 1 + below(s, 4);
    int32_t *all = malloc(s->pool.page_count * sizeof *all);
    for (size_t i = 0; i < s->pool.page_count; i++)
        all[i] = (int32_t)i;
    for (size_t i = s->pool.page_count, at = 0; i > s->pool.page_count - used; i--) {
        size_t other = below(s, (uint32_t)i);
        int32_t page = all[other];
        all[other] = all[i - 1];
        for (size_t r = 0, n = at++; r < s->run_count; r++) {
            size_t pages = (s->runs[r].run.tokens + tokens - 1) / tokens;
            if (n < pages) {
                s->runs[r].table[n] = page;
                break;
            }
            n -= pages;
        }
    }
    free(all);
}

static void draw_runs(scene *s)
{
    s->run_count = 1 + below(s, RUNS);
    for (uint32_t i = 0; i < s->run_count; i++) {
        host_run *r = &s->runs[i];
        uint32_t tokens = below(s, 8) ? 1 + below(s, i ? 200 : 1400) : 64 * below(s, 4);
        r->run.tokens = tokens;
        r->table = calloc(tokens / 16 + 1, sizeof *r->table);
        if (below(s, 3) == 0) {
            r->relative = malloc((tokens + 1) * sizeof *r->relative);
            for (int64_t t = 0, at = below(s, 5); t < tokens; t++, at += 1 + below(s, 3))
                r->relative[t] = at;
        }
        r->run.relative = r->relative;
        r->packed = r->run;
        if (i == 0 || below(s, 4)) /* else a packed run among others */
            r->run.pages = r->table;
    }
    draw_tables(s);
}

/* Spans: parts of different runs. */
static void draw_rows(scene *s)
{
    uint32_t n = 0;
    s->row_count = below(s, 3) ? 1 + below(s, 8) : 1 + below(s, ROWS);
    for (uint32_t r = 0; r < s->row_count; r++) {
        uint32_t count = below(s, SPANS + 1), run = below(s, s->run_count);
        int64_t start = below(s, 40);
        s->first[r] = n;
        count = count < s->run_count ? count : s->run_count;
        if (r && below(s, 3))
            run = s->spans[0].run % s->run_count;
        for (uint32_t i = 0; i < count; i++, run = (run + 1) % s->run_count) {
            uint32_t tokens = (uint32_t)s->runs[run].run.tokens, lo = 0, hi = tokens;
            if (below(s, 2)) {
                lo = tokens ? below(s, tokens) : 0;
                hi = lo + below(s, tokens - lo + 1);
            }
            s->spans[n++] = (pc_row_span){start, run, lo, hi == tokens && below(s, 2) ? 0 : hi, 0};
            start += tokens + below(s, 30);
        }
        s->positions[r] = start + (int64_t)below(s, 50);
    }
    s->first[s->row_count] = n;
}

static uint32_t span_end(const scene *s, const pc_row_span *span)
{
    return span->hi ? span->hi : (uint32_t)s->runs[span->run].run.tokens;
}

/* Values of the tokens that some row sees; nothing else is there. */
static void fill_runs(scene *s)
{
    size_t heads = (size_t)s->shape.kv_heads;
    for (uint32_t i = 0; i < s->first[s->row_count]; i++) {
        host_run *r = &s->runs[s->spans[i].run];
        uint32_t lo = s->spans[i].lo, hi = span_end(s, &s->spans[i]);
        if (lo >= hi)
            continue;
        r->lo = r->hi && r->lo < lo ? r->lo : lo;
        r->hi = hi > r->hi ? hi : r->hi;
    }
    for (uint32_t i = 0; i < s->run_count; i++) {
        host_run *r = &s->runs[i];
        size_t tokens = r->run.tokens, bytes = pc_pages_bytes(&s->shape, tokens) + 64;
        r->k = calloc(tokens * heads * s->k.dim + 1, sizeof *r->k);
        r->v = calloc(tokens * heads * s->v.dim + 1, sizeof *r->v);
        for (size_t t = r->lo; t < r->hi; t++)
            for (size_t h = 0; h < heads; h++) {
                size_t page = (size_t)r->table[t / s->pool.page_tokens],
                       in = t % s->pool.page_tokens;
                store_row(s, &s->k, page * s->k.page + in * s->k.token + h * s->k.head,
                          s->k_scales[h], r->k + (t * heads + h) * s->k.dim);
                store_row(s, &s->v, page * s->v.page + in * s->v.token + h * s->v.head,
                          s->v_scales[h], r->v + (t * heads + h) * s->v.dim);
            }
        r->pages = aligned_alloc(64, (bytes + 63) / 64 * 64);
        memset(r->pages, 0, bytes);
        CHECK_OK(write_pages(&s->shape, r->pages, 0, tokens, r->k, r->v));
        for (size_t p = 0; p * s->pool.page_tokens < tokens; p++)
            if ((p + 1) * s->pool.page_tokens <= r->lo || p * s->pool.page_tokens >= r->hi)
                r->table[p] = below(s, 2) ? -1 : INT32_MAX;
    }
}

static void draw_args(scene *s)
{
    static const uint32_t dtypes[] = {PC_DTYPE_DEFAULT, PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16};
    pc_attend_args *a = &s->args;
    *a = (pc_attend_args)PC_ATTEND_ARGS_INIT;
    a->window = below(s, 3) ? 0 : 1 + below(s, 900);
    a->chunk = below(s, 4) ? 0 : 1 + below(s, 700);
    a->soft_cap = below(s, 4) ? 0.0f : 2.0f + pc_test_uniform(&s->rng);
    a->slopes = below(s, 4) ? NULL : s->slopes;
    a->sinks = below(s, 4) ? NULL : s->sinks;
    a->q_dtype = dtypes[below(s, 4)];
    a->out_dtype = dtypes[below(s, 4)];
    a->pool_k = s->k.at;
    a->pool_v = s->pool_v;
    if (s->pool.dtype == PC_DTYPE_I8) {
        a->k_scales = s->k_scales;
        a->v_scales = s->v_scales;
    }
    for (int h = 0; h < MOST_HEADS; h++) {
        s->slopes[h] = 0.01f * pc_test_uniform(&s->rng);
        s->sinks[h] = pc_test_normal(&s->rng);
    }
    if (s->shape.k_dim < 2 || below(s, 2))
        return;
    s->rope = (pc_rope)PC_ROPE_INIT;
    s->rope.dims = 2 * (1 + (int32_t)below(s, (uint32_t)s->shape.k_dim / 2));
    s->rope.interleaved = below(s, 2);
    s->rope.frequency = s->frequency;
    for (int32_t i = 0; i < s->rope.dims / 2; i++)
        s->frequency[i] = pow(10000.0, -(double)i / (s->rope.dims / 2));
    a->rope = &s->rope;
}

static void draw_queries(scene *s)
{
    size_t count = s->row_count * (size_t)s->shape.heads * (size_t)s->shape.k_dim,
           bytes = bytes_of(s->args.q_dtype ? s->args.q_dtype : PC_DTYPE_F32);
    uint32_t dtype = s->args.q_dtype ? s->args.q_dtype : PC_DTYPE_F32;
    s->q = malloc(count * sizeof *s->q);
    s->q_given = malloc(count * bytes + 2); /* two bytes that are read by load() */
    for (size_t i = 0; i < count; i++) {
        store(dtype, pc_test_normal(&s->rng), (char *)s->q_given + i * bytes);
        s->q[i] = load(dtype, (char *)s->q_given + i * bytes);
    }
    s->args.q = s->q_given;
}

static void draw_scene(scene *s, uint64_t seed)
{
    memset(s, 0, sizeof *s);
    s->rng.state = seed * 7919 + 1;
    draw_shape(s);
    draw_runs(s);
    draw_rows(s);
    make_memory(s);
    fill_runs(s);
    draw_args(s);
    draw_queries(s);
}

static void free_scene(scene *s)
{
    CHECK(guarded_intact(&s->k_memory));
    guarded_free(&s->k_memory);
    if (s->v_memory.map)
        guarded_free(&s->v_memory);
    for (uint32_t i = 0; i < s->run_count; i++) {
        free(s->runs[i].relative), free(s->runs[i].table), free(s->runs[i].pages);
        free(s->runs[i].k), free(s->runs[i].v);
    }
    free(s->q), free(s->q_given);
}

static int64_t floor_chunk(int64_t position, int64_t chunk)
{
    int64_t whole = position / chunk;
    return whole - (position % chunk < 0);
}

/* -infinity: the row does not see it */
static double score_of(const scene *s, uint32_t row, size_t head, const pc_row_span *span, size_t t)
{
    const pc_attend_args *a = &s->args;
    const host_run *r = &s->runs[span->run];
    size_t dim = s->k.dim, heads = (size_t)s->shape.heads, kv_heads = (size_t)s->shape.kv_heads;
    const float *q = s->q + (row * heads + head) * dim,
                *k = r->k + (t * kv_heads + head / (heads / kv_heads)) * dim;
    int64_t key = span->start + (r->relative ? r->relative[t] : (int64_t)t),
            distance = s->positions[row] - span->start;
    double turned[MOST_DIM], score = 0;
    if ((a->window && s->positions[row] - key >= a->window)
        || (a->chunk && floor_chunk(key, a->chunk) != floor_chunk(s->positions[row], a->chunk)))
        return -INFINITY;
    for (size_t d = 0; d < dim; d++)
        turned[d] = (double)q[d];
    for (size_t i = 0; a->rope && i < (size_t)s->rope.dims / 2; i++) {
        size_t x = s->rope.interleaved ? 2 * i : i,
               y = s->rope.interleaved ? x + 1 : i + (size_t)s->rope.dims / 2;
        double c = cos((double)distance * s->frequency[i]),
               n = sin((double)distance * s->frequency[i]);
        turned[x] = (double)q[x] * c - (double)q[y] * n;
        turned[y] = (double)q[x] * n + (double)q[y] * c;
    }
    for (size_t d = 0; d < dim; d++)
        score += turned[d] * (double)k[d];
    score /= sqrt((double)dim);
    if (a->soft_cap > 0.0f)
        score = (double)a->soft_cap * tanh(score / (double)a->soft_cap);
    return a->slopes ? score - (double)a->slopes[head] * (double)(s->positions[row] - key) : score;
}

/* What is wrong with a result, relative to what its formats allow. */
static double worst_of(const scene *s, uint32_t row, size_t head, const void *out, float lse)
{
    uint32_t dtype = s->args.out_dtype ? s->args.out_dtype : PC_DTYPE_F32;
    size_t heads = (size_t)s->shape.heads, kv_heads = (size_t)s->shape.kv_heads, dim = s->v.dim;
    double sink = s->args.sinks ? (double)s->sinks[head] : -INFINITY, top = sink, sum = 0,
           worst = 0, limit = s->shape.dtype == PC_DTYPE_BF16 ? 4e-2 : 1e-4,
           rounding = dtype == PC_DTYPE_BF16  ? 4e-3
                      : dtype == PC_DTYPE_F16 ? 5e-4
                                              : 0,
           want[MOST_DIM] = {0};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = s->first[row]; i < s->first[row + 1]; i++)
            for (size_t t = s->spans[i].lo; t < span_end(s, &s->spans[i]); t++) {
                double score = score_of(s, row, head, &s->spans[i], t);
                const float *v = s->runs[s->spans[i].run].v
                                 + (t * kv_heads + head / (heads / kv_heads)) * dim;
                if (score == -INFINITY)
                    continue;
                top = pass ? top : fmax(top, score);
                sum += pass ? exp(score - top) : 0;
                for (size_t d = 0; pass && d < dim; d++)
                    want[d] += exp(score - top) * (double)v[d];
            }
    if (s->args.sinks)
        sum += exp(sink - top);
    for (size_t d = 0; d < dim; d++) {
        double value = sum > 0 ? want[d] / sum : 0,
               got = (double)load(dtype, (const char *)out
                                             + ((row * heads + head) * dim + d) * bytes_of(dtype)),
               error = fabs(value - got) / (limit + rounding * fabs(value));
        worst = error <= worst ? worst : error; /* also NaN */
    }
    if (sum == 0)
        return lse == -INFINITY ? worst : INFINITY;
    double error = fabs(top + log(sum) - (double)lse) / limit;
    return error <= worst ? worst : error;
}

enum { IN_POOL, ALONE, PACKED };

/* Runs as drawn; the same with rows that share nothing; all packed. */
static void attend(const scene *s, pc_context *context, int way, void *out, float *lse)
{
    pc_run runs[RUNS];
    const void *pages[RUNS];
    pc_plan_args from = PC_PLAN_ARGS_INIT;
    pc_attend_args args = s->args;
    pc_plan *plan = NULL;
    for (uint32_t i = 0; i < s->run_count; i++) {
        runs[i] = way == PACKED ? s->runs[i].packed : s->runs[i].run;
        pages[i] = runs[i].pages ? NULL : s->runs[i].pages;
    }
    from.shape = &s->shape;
    from.runs = runs;
    from.run_stride = sizeof *runs;
    from.run_count = s->run_count;
    from.positions = s->positions;
    from.first = s->first;
    from.spans = s->spans;
    from.span_stride = sizeof *s->spans;
    from.row_count = s->row_count;
    from.flags = way == ALONE ? PC_PLAN_PER_ROW : 0;
    from.pool = &s->pool;
    args.pages = pages;
    args.out = out;
    args.lse = lse;
    if (CHECK_OK(pc_plan_new(&plan, context, &from)))
        CHECK_OK(pc_attend(plan, &args));
    pc_plan_free(plan);
}

static void check_scene(pc_context *context, uint64_t seed)
{
    static scene s;
    draw_scene(&s, seed);
    uint32_t dtype = s.args.out_dtype ? s.args.out_dtype : PC_DTYPE_F32;
    size_t vectors = s.row_count * (size_t)s.shape.heads,
           bytes = vectors * (size_t)s.shape.v_dim * bytes_of(dtype);
    guarded out[3], lse[3];
    double worst = 0;
    for (int i = 0; i < 3; i++) {
        out[i] = guarded_new(bytes);
        lse[i] = guarded_new(vectors * sizeof(float));
        attend(&s, context, i, out[i].data, (float *)(void *)lse[i].data);
        if (!CHECK(!memcmp(out[0].data, out[i].data, bytes)
                   && !memcmp(lse[0].data, lse[i].data, lse[i].bytes) && guarded_intact(&out[i])
                   && guarded_intact(&lse[i])))
            fprintf(stderr, "    layout %llu, way %d\n", (unsigned long long)seed, i);
    }
    uint8_t *copy = malloc(bytes + 2); /* load() reads two bytes more than an element may have */
    memcpy(copy, out[0].data, bytes);
    for (uint32_t r = 0; r < s.row_count; r++)
        for (size_t h = 0; h < (size_t)s.shape.heads; h++) {
            double error = worst_of(&s, r, h, copy,
                                    ((float *)(void *)lse[0].data)[r * (size_t)s.shape.heads + h]);
            worst = error <= worst ? worst : error;
        }
    if (!CHECK(worst <= 1))
        fprintf(stderr,
                "    layout %llu: %g of what is allowed; dtype %u, %d and %d dimensions, pages of "
                "%u, order %u\n",
                (unsigned long long)seed, worst, s.pool.dtype, s.shape.k_dim, s.shape.v_dim,
                s.pool.page_tokens, s.pool.layout);
    free(copy);
    for (int i = 0; i < 3; i++) {
        guarded_free(&out[i]);
        guarded_free(&lse[i]);
    }
    free_scene(&s);
}

/* A pool of 4 pages of 16 tokens; one run of 40 tokens, one row. */
typedef struct small {
    pc_attend_shape shape;
    pc_pool pool;
    int32_t table[3];
    pc_run run;
    pc_row_span span;
    uint32_t first[2];
    int64_t position;
    pc_plan_args args;
    float k[4 * 16 * 4], v[4 * 16 * 4], q[4], out[4];
    pc_attend_args attend;
} small;

static void make_small(small *w)
{
    *w = (small){.table = {3, 0, 2}, .first = {0, 1}, .position = 40, .span = {0, 0, 0, 0, 0}};
    w->shape = (pc_attend_shape){sizeof w->shape, 1, 1, 4, 4, PC_DTYPE_F32, 0};
    w->pool = (pc_pool)PC_POOL_INIT;
    w->pool.page_tokens = 16;
    w->pool.page_count = 4;
    w->run = (pc_run){40, NULL, w->table};
    w->args = (pc_plan_args)PC_PLAN_ARGS_INIT;
    w->args.shape = &w->shape;
    w->args.runs = &w->run;
    w->args.run_stride = sizeof w->run;
    w->args.span_stride = sizeof w->span;
    w->args.run_count = w->args.row_count = 1;
    w->args.positions = &w->position;
    w->args.first = w->first;
    w->args.spans = &w->span;
    w->args.pool = &w->pool;
    w->attend = (pc_attend_args)PC_ATTEND_ARGS_INIT;
    w->attend.q = w->q;
    w->attend.out = w->out;
    w->attend.pool_k = w->k;
    w->attend.pool_v = w->v;
}

static void refused(pc_context *context, small *w, pc_status want, const char *cause)
{
    pc_plan *plan = (pc_plan *)w;
    CHECK_STATUS(pc_plan_new(&plan, context, &w->args), want);
    CHECK(!plan);
    CHECK_ERROR_HAS(cause);
    make_small(w);
}

static void bad_pools(pc_context *context)
{
    static small w;
    static const uint32_t other = PC_DTYPE_BF16;
    make_small(&w);
    w.pool.page_tokens = 48;
    refused(context, &w, PC_ERR_INVALID, "page_tokens is 48, not 16, 32, 64 or 128");
    w.pool.layout = 2;
    refused(context, &w, PC_ERR_INVALID, "layout is 2");
    w.pool.joined = 2;
    refused(context, &w, PC_ERR_INVALID, "joined is 2");
    w.pool.dtype = PC_DTYPE_I16;
    refused(context, &w, PC_ERR_UNSUPPORTED, "dtype is PC_DTYPE_I16");
    w.pool.page_count = 0;
    refused(context, &w, PC_ERR_INVALID, "page_count is 0");
    w.pool.page_count = 3;
    refused(context, &w, PC_ERR_INVALID, "run 0: pages[0] is 3, but the pool has 3 pages");
    w.table[2] = -1;
    refused(context, &w, PC_ERR_INVALID, "pages[2] is -1");
    w.pool.k_page_stride = SIZE_MAX / 2;
    refused(context, &w, PC_ERR_INVALID, "pc_pool: K: 4 pages");
    w.pool.v_token_stride = SIZE_MAX / 8;
    refused(context, &w, PC_ERR_INVALID, "pc_pool: V: 16 tokens");
    w.args.pool = NULL;
    refused(context, &w, PC_ERR_INVALID, "run 0 has pages, but pool is NULL");
    w.args.dtypes = &other;
    refused(context, &w, PC_ERR_INVALID, "dtypes[0] is 2, but its run lies in a pool of 1");
    w.span.hi = 41;
    refused(context, &w, PC_ERR_INVALID, "span 0 is tokens [0, 41)");
    w.span.lo = 41;
    refused(context, &w, PC_ERR_INVALID, "span 0 is tokens [41, 0)");
    w.pool.struct_size = 8;
    refused(context, &w, PC_ERR_INVALID, "pc_pool");
}

static void refused_call(pc_plan *plan, small *w, pc_status want, const char *cause)
{
    CHECK_STATUS(pc_attend(plan, &w->attend), want);
    CHECK_ERROR_HAS(cause);
    make_small(w);
}

static void bad_calls(pc_context *context)
{
    static small w;
    static const float scale = 1;
    pc_plan *plan;
    make_small(&w);
    CHECK_OK(pc_plan_new(&plan, context, &w.args));
    w.attend.pool_k = NULL;
    refused_call(plan, &w, PC_ERR_INVALID, "pool_k is NULL");
    w.attend.pool_v = NULL;
    refused_call(plan, &w, PC_ERR_INVALID, "pool_v is NULL");
    w.attend.pool_v = (char *)w.v + 2;
    refused_call(plan, &w, PC_ERR_INVALID, "not aligned to its elements");
    w.attend.k_scales = &scale;
    refused_call(plan, &w, PC_ERR_INVALID, "k_scales is given, but the pool is not I8");
    w.attend.v_scales = &scale;
    refused_call(plan, &w, PC_ERR_INVALID, "v_scales is given");
    w.attend.q_dtype = 77;
    refused_call(plan, &w, PC_ERR_INVALID, "q_dtype is 77");
    w.attend.out_dtype = PC_DTYPE_I8;
    refused_call(plan, &w, PC_ERR_UNSUPPORTED, "out_dtype is 4");
    w.attend.flags = 2;
    refused_call(plan, &w, PC_ERR_INVALID, "flags 0x2");
    w.attend.flags = PC_ATTEND_QUEUE;
    refused_call(plan, &w, PC_ERR_INVALID, "PC_ATTEND_QUEUE");
    w.attend.q = w.out; /* half as long in 16 bits: they lie side by side */
    w.attend.q_dtype = w.attend.out_dtype = PC_DTYPE_BF16;
    w.attend.out = w.out + 2;
    CHECK_OK(pc_attend(plan, &w.attend));
    w.attend.out = w.out + 1;
    refused_call(plan, &w, PC_ERR_INVALID, "overlap");
    CHECK_OK(pc_attend(plan, &w.attend));
    pc_plan_free(plan);
    /* a run of which no row sees a token needs no pages */
    w.span.lo = w.span.hi = 1;
    w.table[0] = -1;
    w.attend.pool_k = NULL;
    CHECK_OK(pc_plan_new(&plan, context, &w.args));
    CHECK_OK(pc_attend(plan, &w.attend));
    CHECK(w.out[0] == 0.0f);
    pc_plan_free(plan);
}

static void fail_everywhere(void)
{
    static small w;
    make_small(&w);
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator allocator = pc_test_allocator(&memory);
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context;
        pc_plan *plan = NULL;
        options.allocator = &allocator;
        options.threads = 1;
        if (pc_context_new(&context, &options) == PC_OK
            && pc_plan_new(&plan, context, &w.args) == PC_OK) {
            pc_status status = pc_attend(plan, &w.attend);
            CHECK(status == PC_OK || status == PC_ERR_NOMEM);
            CHECK_OK(pc_attend(plan, &w.attend)); /* a failure before leaves the plan whole */
        }
        pc_plan_free(plan);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        if (memory.calls < at)
            break;
    }
}

int main(void)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context;
    uint64_t layouts = getenv("PC_TEST_LONG") ? 5000 : 300;
    pc_test_need_level();
    options.threads = 2;
    CHECK_OK(pc_context_new(&context, &options));
    bad_pools(context);
    bad_calls(context);
    for (uint64_t i = 0; i < layouts; i++)
        check_scene(context, i);
    pc_context_free(context);
    fail_everywhere();
    return pc_test_end();
}
