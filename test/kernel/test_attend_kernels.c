/* Catches: an attention kernel of any level that differs from double-precision attention or from
 * the C reference (random and extreme scores, masks, tails of the last page, soft cap, slopes,
 * holes); that uses pages or padding which it must not use, reads past the end of an array or
 * writes outside its state; that changes the state of a row which sees nothing; or whose rows
 * depend on the other rows or on how the pages are divided into calls. */
#include <float.h>
#include <math.h>

#include "attn/half.h"
#include "attn/kernels.h"
#include "guarded_state.h"
#include "testing.h"

enum { MAX_ROWS = 13, MAX_TOKENS = 200, MAX_DIM = 257, KINDS = 6 };

typedef enum kind { NORMAL, WHOLE, LARGE, SPREAD, EQUAL, TINY } kind; /* of the scores */

/* One row in double precision, with the error that fp32 may make of it. */
typedef struct truth {
    double out[MAX_DIM], lse, top;
    double slack; /* of the scores that count */
    double size;  /* of the largest visible value */
    int seen;
} truth;

typedef struct scene {
    int bf16;
    kind kind;
    size_t k_dim, v_dim, rows, tokens, heads, first_page, last_page;
    float *q, *k, *v; /* [rows][k_dim], [tokens][k_dim], [tokens][v_dim], in the dtype's values */
    guarded pages, q_in, q16_in, lo, hi, slope, distance, relative;
    pc__attn_task task; /* but for m, l and acc */
    truth *truths;      /* [rows] */
} scene;

static uint32_t below(pc_test_rng *rng, uint32_t n)
{
    return (uint32_t)(pc_test_bits(rng) % n);
}

/* WHOLE and LARGE have scores that are sums of whole numbers, so that every order of summing
 * gives the same. LARGE: scores are far apart, one key has all the weight. SPREAD: some keys at
 * minus infinity, or close to it. EQUAL: all keys are equal. TINY: a third of all numbers is
 * subnormal. */
static float draw(kind of, int is_query, int low_token, pc_test_rng *rng)
{
    switch (of) {
    case WHOLE:
        return (float)((int)below(rng, 9) - 4) * (is_query ? 0.0625f : 1.0f);
    case LARGE:
        return (float)((int)below(rng, 17) - 8) * (is_query ? 16.0f : 64.0f);
    case SPREAD:
        return is_query ? 1.0f : low_token ? -3e38f : 0.25f * (float)((int)below(rng, 9) - 4);
    case EQUAL:
        return is_query ? 1.0f : 0.5f;
    default:
        return pc_test_normal(rng) * (is_query ? 0.5f : 1.0f)
               * (of == TINY && below(rng, 3) == 0 ? 1e-39f : 1.0f);
    }
}

static float in_dtype(const scene *s, float x)
{
    return s->bf16 ? pc__bf16_to(pc__bf16_from(x)) : x;
}

static void put_k(const scene *s, uint8_t *page, size_t d, size_t t, float x)
{
    if (s->bf16)
        ((uint16_t *)(void *)page)[(d / 2 * PC__PAGE + t) * 2 + d % 2] = pc__bf16_from(x);
    else
        ((float *)(void *)page)[d * PC__PAGE + t] = x;
}

static void put_v(const scene *s, uint8_t *block, size_t t, size_t d, float x)
{
    if (s->bf16)
        ((uint16_t *)(void *)block)[(t / 2 * s->v_dim + d) * 2 + t % 2] = pc__bf16_from(x);
    else
        ((float *)(void *)block)[t * s->v_dim + d] = x;
}

/* Pages of the run stand among those of other heads. Values that must not be used are NaN; padding,
 * which is read, is large. */
static void pack_pages(scene *s)
{
    size_t element = s->bf16 ? 2 : 4, even = s->bf16 ? s->k_dim + s->k_dim % 2 : s->k_dim;
    size_t v_offset = (even * PC__PAGE * element + 63) / 64 * 64;
    size_t page = v_offset + (s->v_dim * PC__PAGE * element + 63) / 64 * 64;
    size_t count = (s->tokens + PC__PAGE - 1) / PC__PAGE, stride = page * s->heads;
    s->pages = guarded_new((count - 1) * stride + page);
    memset(s->pages.data, 0xff, s->pages.bytes);
    for (size_t p = s->first_page; p < s->last_page; p++) {
        uint8_t *data = s->pages.data + p * stride;
        for (size_t t = 0; t < PC__PAGE; t++) {
            size_t token = p * PC__PAGE + t;
            int real = token < s->tokens;
            for (size_t d = 0; d < even; d++)
                put_k(s, data, d, t, real && d < s->k_dim ? s->k[token * s->k_dim + d] : 3e38f);
            for (size_t d = 0; d < s->v_dim; d++)
                put_v(s, data + v_offset, t, d, real ? s->v[token * s->v_dim + d] : -3e38f);
        }
    }
    s->task.pages = s->pages.data;
    s->task.page_stride = stride;
    s->task.v_offset = v_offset;
}

static void make_queries(scene *s)
{
    size_t even = s->k_dim + s->k_dim % 2;
    if (!s->bf16) {
        s->q_in = guarded_new(s->rows * s->k_dim * sizeof(float));
        memcpy(s->q_in.data, s->q, s->q_in.bytes);
        s->task.q = (const float *)(void *)s->q_in.data;
        return;
    }
    s->q16_in = guarded_new(s->rows * even * sizeof(uint16_t));
    uint16_t *to = (uint16_t *)(void *)s->q16_in.data;
    memset(to, 0, s->q16_in.bytes);
    for (size_t r = 0; r < s->rows; r++)
        for (size_t d = 0; d < s->k_dim; d++)
            to[r * even + d] = pc__bf16_from(s->q[r * s->k_dim + d]);
    s->task.q16 = to;
}

/* Rows that see all, one token, nothing, the last token, or any range. */
static void make_ranges(scene *s, int all, pc_test_rng *rng)
{
    uint32_t tokens = (uint32_t)s->tokens;
    s->lo = guarded_new(s->rows * 4);
    s->hi = guarded_new(s->rows * 4);
    uint32_t *lo = (uint32_t *)(void *)s->lo.data, *hi = (uint32_t *)(void *)s->hi.data;
    for (size_t r = 0; r < s->rows; r++) {
        uint32_t how = all ? 0 : below(rng, 5);
        lo[r] = how == 0 ? 0 : how == 3 ? tokens - 1 : below(rng, tokens + 1);
        hi[r] = how == 0 || how == 3 ? tokens
                : how == 2           ? lo[r]
                                     : lo[r] + below(rng, tokens - lo[r] + 1);
        if (how == 1 && lo[r] < tokens)
            hi[r] = lo[r] + 1;
    }
    s->task.lo = lo;
    s->task.hi = hi;
}

static void make_terms(scene *s, int cap, int slopes, int holes, pc_test_rng *rng)
{
    s->task.soft_cap = cap ? 5.0f : 0.0f;
    if (!slopes)
        return;
    s->slope = guarded_new(s->rows * sizeof(float));
    s->distance = guarded_new(s->rows * sizeof(int64_t));
    for (size_t r = 0; r < s->rows; r++) {
        ((float *)(void *)s->slope.data)[r] = 1.0f / (float)(2 + r);
        ((int64_t *)(void *)s->distance.data)[r] = (int64_t)(s->tokens + below(rng, 50));
    }
    s->task.slope = (const float *)(void *)s->slope.data;
    s->task.distance = (const int64_t *)(void *)s->distance.data;
    if (holes) {
        int64_t at = 0;
        s->relative = guarded_new(s->tokens * sizeof(int64_t));
        for (size_t t = 0; t < s->tokens; t++, at += 1 + below(rng, 3))
            ((int64_t *)(void *)s->relative.data)[t] = at;
        s->task.relative = (const int64_t *)(void *)s->relative.data;
    }
}

static void fill(scene *s, pc_test_rng *rng)
{
    s->q = malloc(s->rows * s->k_dim * sizeof *s->q);
    s->k = malloc(s->tokens * s->k_dim * sizeof *s->k);
    s->v = malloc(s->tokens * s->v_dim * sizeof *s->v);
    for (size_t i = 0; i < s->rows * s->k_dim; i++)
        s->q[i] = in_dtype(s, draw(s->kind, 1, 0, rng));
    for (size_t t = 0; t < s->tokens; t++) {
        int low = t % 3 == 1;
        for (size_t d = 0; d < s->k_dim; d++)
            s->k[t * s->k_dim + d] = in_dtype(s, draw(s->kind, 0, low, rng));
    }
    for (size_t i = 0; i < s->tokens * s->v_dim; i++)
        s->v[i] = in_dtype(s, draw(s->kind == TINY ? TINY : NORMAL, 0, 0, rng));
}

/* Runs rows [row, row + rows) of the scene. */
static void attend(const scene *s, const pc__kernels *kernels, const state *st, size_t row,
                   size_t rows, size_t first, size_t last)
{
    pc__attn_task task = s->task;
    size_t even = s->k_dim + s->k_dim % 2;
    task.rows = rows;
    task.k_dim = s->k_dim;
    task.v_dim = s->v_dim;
    task.q = task.q ? task.q + row * s->k_dim : NULL;
    task.q16 = task.q16 ? task.q16 + row * even : NULL;
    task.lo += row;
    task.hi += row;
    task.slope = task.slope ? task.slope + row : NULL;
    task.distance = task.distance ? task.distance + row : NULL;
    task.m = (float *)(void *)st->m.data + row;
    task.l = (float *)(void *)st->l.data + row;
    task.acc = (float *)(void *)st->acc.data + row * s->v_dim;
    (s->bf16 ? kernels->attend_bf16 : kernels->attend_f32)(&task, first, last);
}

static double score(const scene *s, size_t r, size_t t, double *slack)
{
    const double unit = 0x1p-24;
    double sum = 0.0, size = 0.0;
    for (size_t d = 0; d < s->k_dim; d++) {
        double term = (double)s->q[r * s->k_dim + d] * (double)s->k[t * s->k_dim + d];
        sum += term;
        size += fabs(term);
    }
    *slack = s->kind == NORMAL || s->kind == TINY
                 ? (4.0 * sqrt((double)s->k_dim) + 4.0) * unit * size
                 : 0.0;
    *slack += s->kind == TINY ? (double)s->k_dim * (double)FLT_MIN
                              : 0.0; /* such numbers may count as zero */
    sum = sum < -(double)FLT_MAX ? -INFINITY : sum;
    if (s->task.soft_cap != 0.0f) {
        sum = (double)s->task.soft_cap * tanh(sum / (double)s->task.soft_cap);
        *slack += 8.0 * unit * (double)s->task.soft_cap;
    }
    if (s->task.slope) {
        int64_t key = s->task.relative ? s->task.relative[t] : (int64_t)t;
        double shift = (double)s->task.slope[r] * (double)(s->task.distance[r] - key);
        *slack += 2.0 * unit * (fabs(shift) + (isinf(sum) ? 0.0 : fabs(sum)));
        sum -= shift;
    }
    return sum;
}

/* Weights below exp(-100) of the largest count as zero. */
static truth truth_of(const scene *s, size_t r)
{
    truth w = {.top = -INFINITY};
    double at[MAX_TOKENS], slack[MAX_TOKENS], sum = 0.0;
    size_t lo = s->task.lo[r], hi = s->task.hi[r];
    lo = lo > s->first_page * PC__PAGE ? lo : s->first_page * PC__PAGE;
    hi = hi < s->last_page * PC__PAGE ? hi : s->last_page * PC__PAGE;
    for (size_t t = lo; t < hi; t++) {
        at[t] = score(s, r, t, &slack[t]);
        w.top = fmax(w.top, at[t]);
    }
    w.seen = w.top > -INFINITY;
    for (size_t t = lo; w.seen && t < hi; t++) {
        double weight = exp(at[t] - w.top);
        if (at[t] + slack[t] > w.top - 100.0)
            w.slack = fmax(w.slack, slack[t]);
        sum += weight;
        for (size_t d = 0; d < s->v_dim; d++) {
            double v = (double)s->v[t * s->v_dim + d];
            w.out[d] += weight * v;
            w.size = fmax(w.size, fabs(v));
        }
    }
    for (size_t d = 0; w.seen && d < s->v_dim; d++)
        w.out[d] /= sum;
    w.lse = w.seen ? w.top + log(sum) : -INFINITY;
    return w;
}

/* The largest relative error of a weight: from its score, from exp and scaling, from rounding to
 * bf16 (eps 2^-8). */
static double weight_error(const scene *s, const truth *w)
{
    return expm1(2.0 * w->slack) + 64.0 * 0x1p-24 + (s->bf16 ? 0x1p-8 : 0.0);
}

/* What sums of products with numbers below the normal ones may lose. */
static double nothing(const scene *s)
{
    return s->kind == TINY ? (double)s->tokens * (double)FLT_MIN : 0.0;
}

/* A NaN is the largest. */
static double larger(double a, double b)
{
    return b <= a ? a : isnan(b) ? INFINITY : b;
}

static double check_row(const scene *s, const state *st, size_t r)
{
    const truth *w = &s->truths[r];
    const float *acc = (const float *)(const void *)st->acc.data + r * s->v_dim;
    double m = (double)((const float *)(const void *)st->m.data)[r];
    double l = (double)((const float *)(const void *)st->l.data)[r];
    double limit = weight_error(s, w), worst = 0.0;
    if (!w->seen) {
        int untouched = isinf(m) && m < 0.0 && l == 0.0;
        for (size_t d = 0; d < s->v_dim; d++)
            untouched &= acc[d] == 0.0f;
        return untouched ? 0.0 : INFINITY;
    }
    if (!(fabs(m - w->top) <= 2.0 * w->slack + 4.0 * 0x1p-24 * fabs(w->top)))
        return INFINITY;
    worst = larger(worst, fabs(m + log(l) - w->lse) / (limit + 0x1p-22 * fabs(w->lse)));
    for (size_t d = 0; d < s->v_dim; d++) {
        double error = fabs((double)acc[d] / l - w->out[d]) / (2.0 * limit * w->size + nothing(s));
        worst = larger(worst, error);
    }
    return worst;
}

/* The same row of two states, normalised. */
static double apart(const scene *s, const state *a, const state *b, size_t r)
{
    const truth *w = &s->truths[r];
    const float *x = (const float *)(const void *)a->acc.data + r * s->v_dim;
    const float *y = (const float *)(const void *)b->acc.data + r * s->v_dim;
    double lx = (double)((const float *)(const void *)a->l.data)[r];
    double ly = (double)((const float *)(const void *)b->l.data)[r], worst = 0.0;
    for (size_t d = 0; w->seen && d < s->v_dim; d++) {
        double error = fabs((double)x[d] / lx - (double)y[d] / ly)
                       / (2.0 * weight_error(s, w) * w->size + nothing(s));
        worst = larger(worst, error);
    }
    return worst;
}

static void check_level(const scene *s, const pc__kernels *kernels, const state *reference)
{
    state whole = state_new(s->rows, s->v_dim), pieces = state_new(s->rows, s->v_dim),
          alone = state_new(s->rows, s->v_dim);
    double worst = 0.0;
    attend(s, kernels, &whole, 0, s->rows, s->first_page, s->last_page);
    for (size_t r = 0; r < s->rows; r++) {
        worst = larger(worst, check_row(s, &whole, r));
        worst = larger(worst, apart(s, &whole, reference, r));
        attend(s, kernels, &alone, r, 1, s->first_page, s->last_page);
    }
    if (!CHECK(worst <= 1.0))
        fprintf(stderr,
                "    %s %s: dims %zu and %zu, %zu rows, %zu tokens, kind %d: %.3g of the limit\n",
                kernels->name, s->bf16 ? "bf16" : "f32", s->k_dim, s->v_dim, s->rows, s->tokens,
                (int)s->kind, worst);
    CHECK(state_equal(&whole, &alone));
    for (size_t p = s->first_page; p < s->last_page; p++)
        attend(s, kernels, &pieces, 0, s->rows, p, p + 1);
    CHECK(state_equal(&whole, &pieces));
    CHECK(guarded_intact(&whole.m) && guarded_intact(&whole.l) && guarded_intact(&whole.acc));
    CHECK(guarded_intact(&alone.m) && guarded_intact(&alone.l) && guarded_intact(&alone.acc));
    state_free(&whole);
    state_free(&pieces);
    state_free(&alone);
}

static void free_scene(scene *s)
{
    guarded *all[] = {&s->pages, &s->q_in,  &s->q16_in,   &s->lo,
                      &s->hi,    &s->slope, &s->distance, &s->relative};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->map)
            guarded_free(all[i]);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->truths);
}

typedef struct options {
    int cap, slopes, holes, all, skip;
} options;

static void try_scene(scene *s, options o, uint64_t seed)
{
    static const char *const levels[] = {"c", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};
    pc_test_rng rng = {seed};
    size_t pages = (s->tokens + PC__PAGE - 1) / PC__PAGE;
    s->heads = 1 + seed % 3;
    s->first_page = o.skip && pages > 1 ? 1 : 0;
    s->last_page = o.skip && pages > 2 ? pages - 1 : pages;
    fill(s, &rng);
    pack_pages(s);
    make_queries(s);
    make_ranges(s, o.all, &rng);
    make_terms(s, o.cap, o.slopes, o.holes, &rng);
    s->truths = malloc(s->rows * sizeof *s->truths);
    for (size_t r = 0; r < s->rows; r++)
        s->truths[r] = truth_of(s, r);
    state reference = state_new(s->rows, s->v_dim);
    attend(s, pc__kernels_named("c"), &reference, 0, s->rows, s->first_page, s->last_page);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (pc__kernels_named(levels[i]))
            check_level(s, pc__kernels_named(levels[i]), &reference);
    state_free(&reference);
    free_scene(s);
}

/* Every dimension with every number of rows, the other things drawn. */
static void dims_and_rows(int bf16)
{
    static const size_t dims[] = {1, 2, 15, 16, 33, 64, 80, 96, 128, 192, 256};
    enum { DIMS = sizeof dims / sizeof *dims };
    uint64_t seed = 1;
    for (size_t d = 0; d < DIMS; d++)
        for (size_t rows = 1; rows <= MAX_ROWS; rows++) {
            pc_test_rng rng = {seed++ * 77};
            scene s = {.bf16 = bf16,
                       .kind = (kind)below(&rng, KINDS),
                       .rows = rows,
                       .tokens = 1 + below(&rng, MAX_TOKENS)};
            uint32_t bits = below(&rng, 64);
            s.k_dim = dims[d];
            s.v_dim = rows % 3 ? dims[d] : dims[(d + rows) % DIMS];
            try_scene(&s,
                      (options){bits % 4 == 1, bits / 4 % 2 == 1, bits / 8 % 2 == 1, 0,
                                bits / 16 % 4 == 3},
                      seed);
        }
}

/* More rows than any kernel computes at a time, dimensions that no vector divides, and the limits
 * of the longest pieces of a product. */
static void odd_and_tall(int bf16)
{
    static const size_t dims[] = {257, 3, 127, 31, 65, 129, 255, 7, 95, 1, 47, 256, 193};
    enum { DIMS = sizeof dims / sizeof *dims };
    for (size_t rows = 1; rows <= 40; rows += rows < 14 ? 3 : 1) {
        pc_test_rng rng = {rows * 991 + (uint64_t)bf16};
        scene s = {.bf16 = bf16,
                   .kind = (kind)(rows % KINDS),
                   .rows = rows,
                   .tokens = 1 + below(&rng, 140)};
        s.k_dim = dims[rows % DIMS];
        s.v_dim = dims[(rows / DIMS + 3 * rows) % DIMS];
        try_scene(&s,
                  (options){.all = rows % 3 == 0,
                            .cap = rows % 7 == 1,
                            .slopes = rows % 5 == 1,
                            .holes = rows % 10 == 1},
                  rows);
    }
}

/* Every length of the last page, every kind of scores. */
static void tails(int bf16)
{
    for (size_t tokens = 1; tokens <= 2 * PC__PAGE + 2; tokens++)
        for (int k = 0; k < KINDS; k++) {
            scene s = {.bf16 = bf16,
                       .kind = (kind)k,
                       .rows = 1 + tokens % 7,
                       .tokens = tokens,
                       .k_dim = 17,
                       .v_dim = 18};
            try_scene(&s, (options){.all = tokens % 2 == 0, .slopes = k == 3},
                      tokens * 5 + (uint64_t)k);
        }
}

/* If none of the rows sees anything, the state stays as it was, whatever its contents. */
static void nothing_seen(const pc__kernels *kernels, int bf16)
{
    scene s = {.bf16 = bf16,
               .rows = 8,
               .tokens = 100,
               .k_dim = 20,
               .v_dim = 20,
               .heads = 1,
               .last_page = 2};
    pc_test_rng rng = {9};
    fill(&s, &rng);
    pack_pages(&s);
    make_queries(&s);
    make_ranges(&s, 1, &rng);
    for (size_t r = 0; r < s.rows; r++)
        ((uint32_t *)(void *)s.lo.data)[r] = ((uint32_t *)(void *)s.hi.data)[r] = (uint32_t)r * 14;
    state before = state_new(s.rows, s.v_dim), after = state_new(s.rows, s.v_dim);
    for (size_t i = 0; i < s.rows * s.v_dim; i++)
        ((float *)(void *)before.acc.data)[i] = pc_test_normal(&rng);
    for (size_t r = 0; r < s.rows; r++) {
        ((float *)(void *)before.m.data)[r] = pc_test_normal(&rng);
        ((float *)(void *)before.l.data)[r] = 1.5f;
    }
    memcpy(after.m.data, before.m.data, before.m.bytes);
    memcpy(after.l.data, before.l.data, before.l.bytes);
    memcpy(after.acc.data, before.acc.data, before.acc.bytes);
    attend(&s, kernels, &after, 0, s.rows, 0, 2);
    CHECK(state_equal(&before, &after));
    attend(&s, kernels, &after, 0, s.rows, 1, 1); /* no page at all */
    ((uint32_t *)(void *)
         s.hi.data)[3] = 50; /* one row sees something: the others of its block stay as they were */
    attend(&s, kernels, &after, 0, s.rows, 0, 2);
    CHECK(memcmp(before.l.data, after.l.data, before.l.bytes));
    for (size_t r = 0; r < s.rows; r++)
        CHECK(r == 3
              || !memcmp(before.acc.data + r * s.v_dim * 4, after.acc.data + r * s.v_dim * 4,
                         s.v_dim * 4));
    state_free(&before);
    state_free(&after);
    free_scene(&s);
}

int main(void)
{
    static const char *const levels[] = {"c", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        dims_and_rows(bf16);
        tails(bf16);
        odd_and_tall(bf16);
        for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
            if (pc__kernels_named(levels[i]))
                nothing_seen(pc__kernels_named(levels[i]), bf16);
    }
    return pc_test_end();
}
