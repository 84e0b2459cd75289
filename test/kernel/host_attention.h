/* Attention over an application's pages through pc_attend, and the expected results in double
 * precision. */
#ifndef PC_TEST_HOST_ATTENTION_H
#define PC_TEST_HOST_ATTENTION_H

#include <promptcache/attend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pages_write.h"
#include "testing.h"

enum { HOST_RUNS = 64, HOST_ROWS = 64, HOST_SPANS = 512 };

/* Runs of K and V (values as stored in the dtype), rows and what they hold. Queries are such that
 * they stay what they are when they are scaled and rounded to the dtype: what is measured is
 * attention. */
typedef struct host {
    pc_attend_shape shape;
    float scale; /* a power of two */
    pc_run run[HOST_RUNS];
    float *k[HOST_RUNS], *v[HOST_RUNS]; /* [token][kv_head][dim] */
    void *pages[HOST_RUNS];
    size_t runs, rows;
    int64_t positions[HOST_ROWS];
    uint32_t first[HOST_ROWS + 1];
    pc_row_span spans[HOST_SPANS];
    float *q, *out, *lse;
} host;

/* Of mean 0 and variance 1, evenly spread, as there are many to be drawn; numbers that are exact in
 * the dtype. */
static inline float *host_values(uint32_t dtype, size_t count, pc_test_rng *rng)
{
    int32_t largest = dtype == PC_DTYPE_BF16 ? 222 : 1773;
    float step = dtype == PC_DTYPE_BF16 ? 0x1p-7f : 0x1p-10f, *x = malloc((count + 1) * sizeof *x);
    uint64_t bits = 0;
    for (size_t i = 0; i < count; i++, bits >>= 16) {
        bits = i % 4 ? bits : pc_test_bits(rng);
        x[i] = (float)((int32_t)((bits & 0xffff) * (uint32_t)(2 * largest + 1) >> 16) - largest)
               * step;
    }
    return x;
}

static inline const char *host_dtype(const host *h)
{
    return h->shape.dtype == PC_DTYPE_F32 ? "f32" : h->shape.dtype == PC_DTYPE_F16 ? "f16" : "bf16";
}

/* The pages of a run whose K and V are already there. */
static inline void host_pack(host *h, size_t run)
{
    size_t bytes = pc_pages_bytes(&h->shape, h->run[run].tokens);
    h->pages[run] = aligned_alloc(64, bytes);
    memset(h->pages[run], 0, bytes);
    CHECK_OK(write_pages(&h->shape, h->pages[run], 0, h->run[run].tokens, h->k[run], h->v[run]));
}

static inline uint32_t host_add_run(host *h, size_t tokens, pc_test_rng *rng)
{
    size_t run = h->runs++, heads = (size_t)h->shape.kv_heads;
    h->run[run].tokens = tokens;
    h->k[run] = host_values(h->shape.dtype, tokens * heads * (size_t)h->shape.k_dim, rng);
    h->v[run] = host_values(h->shape.dtype, tokens * heads * (size_t)h->shape.v_dim, rng);
    host_pack(h, run);
    return (uint32_t)run;
}

/* All of a run, to the row that is being made; host_end_row() ends it. */
static inline void host_hold(host *h, uint32_t run, uint32_t lo, uint32_t hi)
{
    h->spans[h->first[h->rows + 1]++] = (pc_row_span){0, run, lo, hi, 0};
}

static inline void host_start_row(host *h)
{
    h->first[h->rows + 1] = h->first[h->rows];
}

static inline void host_end_row(host *h)
{
    h->positions[h->rows++] = 100000;
}

/* Once the rows are there. What is written must be written: the results are poisoned. */
static inline void host_queries(host *h, pc_test_rng *rng)
{
    size_t n = h->rows * (size_t)h->shape.heads;
    h->q = host_values(h->shape.dtype, n * (size_t)h->shape.k_dim, rng);
    h->out = malloc(n * (size_t)h->shape.v_dim * sizeof *h->out + 1);
    h->lse = malloc(n * sizeof *h->lse + 1);
    memset(h->out, 0xff, n * (size_t)h->shape.v_dim * sizeof *h->out);
    memset(h->lse, 0xff, n * sizeof *h->lse);
}

static inline pc_plan_args host_plan_args(const host *h, uint64_t flags)
{
    pc_plan_args args = PC_PLAN_ARGS_INIT;
    args.shape = &h->shape;
    args.runs = h->run;
    args.run_stride = sizeof(pc_run);
    args.run_count = h->runs;
    args.positions = h->positions;
    args.first = h->first;
    args.spans = h->spans;
    args.span_stride = sizeof(pc_row_span);
    args.row_count = h->rows;
    args.flags = flags;
    return args;
}

static inline pc_attend_args host_attend_args(const host *h)
{
    pc_attend_args args = PC_ATTEND_ARGS_INIT;
    args.pages = (const void *const *)h->pages;
    args.q = h->q;
    args.out = h->out;
    args.lse = h->lse;
    args.scale = h->scale;
    return args;
}

static inline void host_attend(host *h, pc_context *context, uint64_t flags)
{
    pc_plan_args plan_args = host_plan_args(h, flags);
    pc_attend_args args = host_attend_args(h);
    pc_plan *plan;
    if (CHECK_OK(pc_plan_new(&plan, context, &plan_args)))
        CHECK_OK(pc_attend(plan, &args));
    pc_plan_free(plan);
}

static inline double host_score(const host *h, size_t row, size_t head, uint32_t run, size_t t)
{
    size_t kd = (size_t)h->shape.k_dim, heads = (size_t)h->shape.kv_heads;
    const float *q = h->q + (row * (size_t)h->shape.heads + head) * kd;
    const float *k = h->k[run] + (t * heads + head / ((size_t)h->shape.heads / heads)) * kd;
    double score = 0.0;
    for (size_t d = 0; d < kd; d++)
        score += (double)q[d] * (double)k[d];
    return score * (double)h->scale;
}

/* out [v_dim] of a row and head over its spans, in double precision, in one go: what is there is
 * made less whenever a larger score comes. Returns the LSE. */
static inline double host_truth(const host *h, size_t row, size_t head, double *out)
{
    size_t vd = (size_t)h->shape.v_dim, heads = (size_t)h->shape.kv_heads,
           kv = head / ((size_t)h->shape.heads / heads);
    double top = -INFINITY, sum = 0.0;
    memset(out, 0, vd * sizeof *out);
    for (uint32_t s = h->first[row]; s < h->first[row + 1]; s++)
        for (size_t t = h->spans[s].lo; t < h->spans[s].hi; t++) {
            const float *v = h->v[h->spans[s].run] + (t * heads + kv) * vd;
            double score = host_score(h, row, head, h->spans[s].run, t),
                   less = score > top ? exp(top - score) : 1.0;
            top = fmax(top, score);
            double weight = exp(score - top);
            sum = sum * less + weight;
            for (size_t d = 0; d < vd; d++)
                out[d] = out[d] * less + weight * (double)v[d];
        }
    for (size_t d = 0; d < vd && sum > 0.0; d++)
        out[d] /= sum;
    return top + log(sum);
}

static inline void host_free(host *h)
{
    for (size_t i = 0; i < h->runs; i++) {
        free(h->k[i]);
        free(h->v[i]);
        free(h->pages[i]);
    }
    free(h->q);
    free(h->out);
    free(h->lse);
    memset(h, 0, sizeof *h);
}

#endif
