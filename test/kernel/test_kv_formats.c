/* Catches: an attention kernel for fp16 or int8 K and V, of any level, that differs from
 * double-precision attention over the stored values (channels and tokens of very different sizes,
 * one key with nearly all the weight, equal keys, masks, tails, soft cap, slopes); that uses
 * padding, reads past the end of an array or writes outside its state; whose rows depend on the
 * others or on how pages are divided into calls; rounding that loses more than is documented; plans
 * over runs of different formats that give anything but the attention over all their keys, or in
 * which sharing changes a bit; parts of int8 pages that an application may write. */
#include <promptcache/attend.h>
#include <promptcache/bench.h>
#include <float.h>
#include <math.h>

#include "attn/half.h"
#include "attn/kernels.h"
#include "guarded_state.h"
#include "pages_write.h"
#include "testing.h"

enum { MAX_TOKENS = 200, MAX_DIM = PC__MAX_HEAD, KINDS = 4 };

typedef enum kind { NORMAL, UNEVEN, PEAKED, EQUAL } kind;

typedef struct scene {
    uint32_t dtype;
    kind kind;
    size_t k_dim, v_dim, rows, tokens, heads, head;
    pc__kv_shape shape;
    float *q, *k, *v;         /* [rows][k_dim]; as stored: [tokens][k_dim], [tokens][v_dim] */
    float *k_first, *v_first; /* as they were before */
    guarded pages, q_in, lo, hi, slope, distance;
    pc__attn_task task; /* but for m, l and acc */
} scene;

static uint32_t below(pc_test_rng *rng, uint32_t n)
{
    return (uint32_t)(pc_test_bits(rng) % n);
}

/* UNEVEN: channels and tokens a thousand times as large as others. PEAKED: one key has nearly all
 * the weight. */
static float draw_k(const scene *s, size_t t, size_t d, pc_test_rng *rng)
{
    float x = pc_test_normal(rng);
    if (s->kind == EQUAL)
        return 0.5f;
    if (s->kind == UNEVEN)
        return d % 7 == 3 ? 20.0f * x : d % 7 == 5 ? 0.02f * x : x;
    return s->kind == PEAKED && t % 64 == 9 ? 30.0f + x : x;
}

static float draw_v(const scene *s, size_t t, pc_test_rng *rng)
{
    float x = pc_test_normal(rng);
    return s->kind == UNEVEN ? (t % 5 == 1 ? 30.0f * x : t % 5 == 2 ? 0.03f * x : x) : x;
}

/* Padding, which is read, is as large as it can be. */
static void poison_padding(const scene *s, uint8_t *page, size_t tokens)
{
    uint8_t *block = page + pc__kv_k_bytes(&s->shape);
    for (size_t t = tokens; t < PC__PAGE; t++)
        if (s->dtype == PC_DTYPE_F16) {
            for (size_t d = 0; d < s->k_dim; d++)
                ((uint16_t *)(void *)page)[(d / 2 * PC__PAGE + t) * 2 + d % 2] = 0x7bff;
            for (size_t d = 0; d < s->v_dim; d++)
                ((uint16_t *)(void *)block)[(t / 2 * s->v_dim + d) * 2 + t % 2] = 0xfbff;
        } else {
            for (size_t d = 0; d < s->k_dim; d++)
                page[(d / 4 * PC__PAGE + t) * 4 + d % 4] = 127;
            for (size_t d = 0; d < s->v_dim; d++)
                block[(t / 4 * s->v_dim + d) * 4 + t % 4] = 129;
            ((uint16_t *)(void *)(block + pc__i8_v_scales(s->v_dim)))[t] = 0x7f7f;
        }
}

/* All heads are written with the same values; the scene checks one of them. */
static void pack(scene *s)
{
    size_t count = (s->tokens + PC__PAGE - 1) / PC__PAGE, bytes = pc__kv_page_bytes(&s->shape),
           heads = s->heads;
    float *k = malloc(s->tokens * heads * s->k_dim * sizeof *k),
          *v = malloc(s->tokens * heads * s->v_dim * sizeof *v);
    uint8_t *layer;
    s->pages = guarded_new(count * heads * bytes);
    memset(s->pages.data, 0, s->pages.bytes);
    layer = s->pages.data;
    pc__kv view = {.shape = s->shape, .tokens = s->tokens, .layer = &layer};
    for (size_t i = 0; i < s->tokens * heads; i++) {
        memcpy(k + i * s->k_dim, s->k_first + i / heads * s->k_dim, s->k_dim * sizeof *k);
        memcpy(v + i * s->v_dim, s->v_first + i / heads * s->v_dim, s->v_dim * sizeof *v);
    }
    for (size_t t = 0; t < s->tokens; t++)
        if (s->dtype != PC_DTYPE_I8)
            pc__kv_write(&view, 0, t, k + t * heads * s->k_dim, v + t * heads * s->v_dim);
        else if (t % PC__PAGE == 0)
            pc__kv_write_i8(&s->shape, layer, t / PC__PAGE,
                            s->tokens - t < PC__PAGE ? s->tokens - t : PC__PAGE,
                            k + t * heads * s->k_dim, v + t * heads * s->v_dim);
    for (size_t t = 0; t < s->tokens; t++) {
        pc__kv_read(&view, 0, t, k, v);
        memcpy(s->k + t * s->k_dim, k + s->head * s->k_dim, s->k_dim * sizeof *k);
        memcpy(s->v + t * s->v_dim, v + s->head * s->v_dim, s->v_dim * sizeof *v);
    }
    for (size_t h = 0; h < heads && s->tokens % PC__PAGE; h++)
        poison_padding(s, layer + ((count - 1) * heads + h) * bytes, s->tokens % PC__PAGE);
    s->task.pages = layer + s->head * bytes;
    s->task.page_stride = heads * bytes;
    s->task.v_offset = pc__kv_k_bytes(&s->shape);
    free(k);
    free(v);
}

static void make_rows(scene *s, int terms, pc_test_rng *rng)
{
    uint32_t tokens = (uint32_t)s->tokens, *lo, *hi;
    s->q_in = guarded_new(s->rows * s->k_dim * sizeof(float));
    memcpy(s->q_in.data, s->q, s->q_in.bytes);
    s->lo = guarded_new(s->rows * 4);
    s->hi = guarded_new(s->rows * 4);
    lo = (uint32_t *)(void *)s->lo.data;
    hi = (uint32_t *)(void *)s->hi.data;
    for (size_t r = 0; r < s->rows; r++) {
        uint32_t how = below(rng, 5);
        lo[r] = how < 2 ? 0 : how == 2 ? tokens - 1 : below(rng, tokens + 1);
        hi[r] = how < 3 ? tokens : how == 3 ? lo[r] : lo[r] + below(rng, tokens - lo[r] + 1);
    }
    s->task.q = (const float *)(void *)s->q_in.data;
    s->task.lo = lo;
    s->task.hi = hi;
    s->task.soft_cap = terms & 1 ? 5.0f : 0.0f;
    if (!(terms & 2))
        return;
    s->slope = guarded_new(s->rows * sizeof(float));
    s->distance = guarded_new(s->rows * sizeof(int64_t));
    for (size_t r = 0; r < s->rows; r++) {
        ((float *)(void *)s->slope.data)[r] = 1.0f / (float)(2 + r);
        ((int64_t *)(void *)s->distance.data)[r] = (int64_t)(s->tokens + below(rng, 50));
    }
    s->task.slope = (const float *)(void *)s->slope.data;
    s->task.distance = (const int64_t *)(void *)s->distance.data;
}

static void make(scene *s, int terms, pc_test_rng *rng)
{
    s->shape = (pc__kv_shape){1, (int32_t)s->heads, (int32_t)s->k_dim, (int32_t)s->v_dim, s->dtype,
                              0};
    s->q = malloc(s->rows * s->k_dim * sizeof *s->q);
    s->k = malloc(s->tokens * s->k_dim * sizeof *s->k);
    s->v = malloc(s->tokens * s->v_dim * sizeof *s->v);
    s->k_first = malloc(s->tokens * s->k_dim * sizeof *s->k);
    s->v_first = malloc(s->tokens * s->v_dim * sizeof *s->v);
    for (size_t i = 0; i < s->rows * s->k_dim; i++)
        s->q[i] = s->kind == EQUAL ? 1.0f : pc_test_normal(rng) / sqrtf((float)s->k_dim);
    for (size_t i = 0; i < s->tokens * s->k_dim; i++)
        s->k_first[i] = draw_k(s, i / s->k_dim, i % s->k_dim, rng);
    for (size_t i = 0; i < s->tokens * s->v_dim; i++)
        s->v_first[i] = draw_v(s, i / s->v_dim, rng);
    pack(s);
    make_rows(s, terms, rng);
}

static void free_scene(scene *s)
{
    guarded *all[] = {&s->pages, &s->q_in, &s->lo, &s->hi, &s->slope, &s->distance};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->map)
            guarded_free(all[i]);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->k_first);
    free(s->v_first);
}

/* Rows [row, row + rows). */
static void attend(const scene *s, const pc__kernels *kernels, const state *st, size_t row,
                   size_t rows, size_t first, size_t last)
{
    pc__attn_task task = s->task;
    const uint8_t *later[2] = {s->pages.data, s->pages.data}; /* prefetching must change nothing */
    task.prefetch_pages = later;
    task.prefetch_count = row % 3;
    task.rows = rows;
    task.k_dim = s->k_dim;
    task.v_dim = s->v_dim;
    task.q += row * s->k_dim;
    task.lo += row;
    task.hi += row;
    task.slope = task.slope ? task.slope + row : NULL;
    task.distance = task.distance ? task.distance + row : NULL;
    task.m = (float *)(void *)st->m.data + row;
    task.l = (float *)(void *)st->l.data + row;
    task.acc = (float *)(void *)st->acc.data + row * s->v_dim;
    pc__attend_of(kernels, s->dtype)(&task, first, last);
}

typedef struct truth {
    double out[MAX_DIM], lse, top, slack, size;
    int seen;
} truth;

/* The error of a score if q is rounded to 16 bits of the largest of its page, with the channels'
 * scales multiplied in: half a step a channel. */
static double query_slack(const scene *s, size_t r, size_t t)
{
    const uint8_t *page = s->task.pages + t / PC__PAGE * s->task.page_stride;
    const uint16_t *scale = (const uint16_t *)(const void *)(page + pc__i8_k_scales(s->k_dim));
    double most = 0.0, sum = 0.0;
    for (size_t d = 0; d < s->k_dim; d++) {
        most = fmax(most, fabs((double)s->q[r * s->k_dim + d] * (double)pc__bf16_to(scale[d])));
        sum += abs(((const int8_t *)page)[(d / 4 * PC__PAGE + t % PC__PAGE) * 4 + d % 4]);
    }
    return most * sum / 65278.0 * 1.001;
}

static double score(const scene *s, const float *k, size_t r, size_t t, double *slack)
{
    const double unit = 0x1p-24;
    double sum = 0.0, size = 0.0;
    for (size_t d = 0; d < s->k_dim; d++) {
        double term = (double)s->q[r * s->k_dim + d] * (double)k[t * s->k_dim + d];
        sum += term;
        size += fabs(term);
    }
    *slack = (4.0 * sqrt((double)s->k_dim) + 4.0) * unit * size
             + (s->dtype == PC_DTYPE_I8 ? query_slack(s, r, t) : 0.0);
    if (s->task.soft_cap != 0.0f) {
        sum = (double)s->task.soft_cap * tanh(sum / (double)s->task.soft_cap);
        *slack += 8.0 * unit * (double)s->task.soft_cap;
    }
    if (s->task.slope) {
        double shift = (double)s->task.slope[r] * (double)(s->task.distance[r] - (int64_t)t);
        *slack += 2.0 * unit * (fabs(shift) + fabs(sum));
        sum -= shift;
    }
    return sum;
}

static truth truth_of(const scene *s, const float *k, const float *v, size_t r)
{
    truth w = {.top = -INFINITY};
    double at[MAX_TOKENS], slack[MAX_TOKENS], sum = 0.0;
    for (size_t t = s->task.lo[r]; t < s->task.hi[r]; t++) {
        at[t] = score(s, k, r, t, &slack[t]);
        w.top = fmax(w.top, at[t]);
    }
    w.seen = w.top > -INFINITY;
    for (size_t t = s->task.lo[r]; t < s->task.hi[r]; t++) {
        double weight = exp(at[t] - w.top);
        if (at[t] + slack[t] > w.top - 100.0)
            w.slack = fmax(w.slack, slack[t]);
        sum += weight;
        for (size_t d = 0; d < s->v_dim; d++) {
            w.out[d] += weight * (double)v[t * s->v_dim + d];
            w.size = fmax(w.size, fabs((double)v[t * s->v_dim + d]));
        }
    }
    for (size_t d = 0; w.seen && d < s->v_dim; d++)
        w.out[d] /= sum;
    w.lse = w.seen ? w.top + log(sum) : -INFINITY;
    return w;
}

static double larger(double a, double b)
{
    return b <= a ? a : isnan(b) ? INFINITY : b;
}

/* The worst difference in units of the allowed one. Weights of int8 values are rounded to 16 bits
 * of the largest of their page: half a step each of 64. */
static double check_row(const scene *s, const state *st, size_t r)
{
    truth w = truth_of(s, s->k, s->v, r);
    const float *acc = (const float *)(const void *)st->acc.data + r * s->v_dim;
    double m = (double)((const float *)(const void *)st->m.data)[r],
           l = (double)((const float *)(const void *)st->l.data)[r];
    double limit = expm1(2.0 * w.slack) + 64.0 * 0x1p-24,
           values = s->dtype == PC_DTYPE_I8 ? 64.0 / 131070.0 : 0.0, worst;
    if (!w.seen) {
        int untouched = isinf(m) && m < 0.0 && l == 0.0;
        for (size_t d = 0; d < s->v_dim; d++)
            untouched &= acc[d] == 0.0f;
        return untouched ? 0.0 : INFINITY;
    }
    if (!(fabs(m - w.top) <= 2.0 * w.slack + 4.0 * 0x1p-24 * fabs(w.top)))
        return INFINITY;
    worst = larger(0.0, fabs(m + log(l) - w.lse) / (limit + 0x1p-22 * fabs(w.lse)));
    for (size_t d = 0; d < s->v_dim; d++)
        worst = larger(worst,
                       fabs((double)acc[d] / l - w.out[d]) / ((2.0 * limit + values) * w.size));
    return worst;
}

static void check_level(const scene *s, const pc__kernels *kernels)
{
    state whole = state_new(s->rows, s->v_dim), pieces = state_new(s->rows, s->v_dim),
          alone = state_new(s->rows, s->v_dim);
    size_t pages = (s->tokens + PC__PAGE - 1) / PC__PAGE;
    double worst = 0.0;
    attend(s, kernels, &whole, 0, s->rows, 0, pages);
    for (size_t r = 0; r < s->rows; r++) {
        worst = larger(worst, check_row(s, &whole, r));
        attend(s, kernels, &alone, r, 1, 0, pages);
    }
    if (!CHECK(worst <= 1.0))
        fprintf(
            stderr,
            "    %s dtype %u: dims %zu and %zu, %zu rows, %zu tokens, kind %d: %.3g of the limit\n",
            kernels->name, s->dtype, s->k_dim, s->v_dim, s->rows, s->tokens, (int)s->kind, worst);
    CHECK(state_equal(&whole, &alone));
    for (size_t p = 0; p < pages; p++)
        attend(s, kernels, &pieces, 0, s->rows, p, p + 1);
    CHECK(state_equal(&whole, &pieces));
    CHECK(guarded_intact(&whole.m) && guarded_intact(&whole.l) && guarded_intact(&whole.acc));
    CHECK(guarded_intact(&alone.m) && guarded_intact(&alone.l) && guarded_intact(&alone.acc));
    state_free(&whole);
    state_free(&pieces);
    state_free(&alone);
}

/* Against the values before they were rounded. fp16: 2^-11 of every value. int8, NORMAL: half a
 * step of 127 (a bf16 ulp more) of the largest of a channel's 64 or a token's v_dim values. */
static void check_loss(const scene *s)
{
    for (size_t i = 0; s->dtype == PC_DTYPE_F16 && i < s->tokens * s->k_dim; i++)
        CHECK(fabsf(s->k[i] - s->k_first[i]) <= 0x1p-11f * fabsf(s->k_first[i]) + 0x1p-25f);
    for (size_t t = 0; s->dtype == PC_DTYPE_I8 && t < s->tokens; t++) {
        float most = 0.0f, off = 0.0f;
        for (size_t d = 0; d < s->v_dim; d++) {
            most = fmaxf(most, fabsf(s->v_first[t * s->v_dim + d]));
            off = fmaxf(off, fabsf(s->v[t * s->v_dim + d] - s->v_first[t * s->v_dim + d]));
        }
        CHECK(off <= most / 254.0f * (1.0f + 0x1p-7f));
    }
    for (size_t r = 0; s->kind == NORMAL && r < s->rows; r++) {
        truth a = truth_of(s, s->k, s->v, r), b = truth_of(s, s->k_first, s->v_first, r);
        double most = s->dtype == PC_DTYPE_F16 ? 4e-3 : 6e-2;
        for (size_t d = 0; b.seen && d < s->v_dim; d++)
            CHECK(fabs(a.out[d] - b.out[d]) <= most);
    }
}

static const char *const levels[] = {"c", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};
enum { LEVELS = sizeof levels / sizeof *levels };

static void try_scene(scene *s, int terms, uint64_t seed)
{
    pc_test_rng rng = {seed};
    s->heads = 1 + seed % 3;
    s->head = seed / 3 % s->heads;
    make(s, terms, &rng);
    check_loss(s);
    for (size_t i = 0; i < LEVELS; i++)
        if (pc__kernels_named(levels[i]))
            check_level(s, pc__kernels_named(levels[i]));
    free_scene(s);
}

static void dims_and_rows(uint32_t dtype)
{
    static const size_t dims[] = {1, 2, 3, 16, 33, 64, 80, 96, 128, 256},
                        rows[] = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 24, 31};
    enum { DIMS = sizeof dims / sizeof *dims };
    uint64_t seed = 1;
    for (size_t d = 0; d < DIMS; d++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            pc_test_rng rng = {seed++ * 77};
            scene s = {.dtype = dtype,
                       .kind = (kind)below(&rng, KINDS),
                       .rows = rows[r],
                       .tokens = 1 + below(&rng, MAX_TOKENS)};
            s.k_dim = dims[d];
            s.v_dim = r % 3 ? dims[d] : dims[(d + r) % DIMS];
            try_scene(&s, (int)below(&rng, 4), seed);
        }
}

static void tails(uint32_t dtype)
{
    for (size_t tokens = 1; tokens <= 2 * PC__PAGE + 2; tokens++)
        for (int k = 0; k < KINDS; k++) {
            scene s = {.dtype = dtype,
                       .kind = (kind)k,
                       .rows = 1 + tokens % 8,
                       .tokens = tokens,
                       .k_dim = 18,
                       .v_dim = 17};
            try_scene(&s, k == 3 ? 2 : 0, tokens * 5 + (uint64_t)k);
        }
}

/* The largest heads: sums of bytes are the longest. */
static void largest(uint32_t dtype)
{
    for (int k = 0; k < KINDS; k++) {
        scene s = {.dtype = dtype,
                   .kind = (kind)k,
                   .rows = 8,
                   .tokens = 100,
                   .k_dim = MAX_DIM,
                   .v_dim = MAX_DIM - (size_t)k};
        try_scene(&s, 0, (uint64_t)k);
    }
}

/* Queries and values at the end of their range, and zeros: no NaN may result. */
static void extremes(uint32_t dtype)
{
    static const float q[] = {0.0f, 1e-30f, 1e4f};
    for (int i = 0; i < 9; i++) {
        scene s = {.dtype = dtype,
                   .kind = EQUAL,
                   .rows = 7,
                   .tokens = 70,
                   .k_dim = 40,
                   .v_dim = 24,
                   .heads = 1};
        pc_test_rng rng = {(uint64_t)i};
        float size = i / 3 == 0 ? 0.0f : i / 3 == 1 ? 6e4f : 1e-7f;
        make(&s, 0, &rng);
        guarded_free(&s.pages);
        for (size_t k = 0; k < s.tokens * s.k_dim; k++)
            s.k_first[k] = k % 3 ? -size : size;
        for (size_t v = 0; v < s.tokens * s.v_dim; v++)
            s.v_first[v] = v % 5 ? size : -size;
        for (size_t k = 0; k < s.rows * s.k_dim; k++)
            s.q[k] = ((float *)(void *)s.q_in.data)[k] = q[i % 3];
        pack(&s);
        for (size_t l = 0; l < LEVELS; l++)
            if (pc__kernels_named(levels[l])) {
                state st = state_new(s.rows, s.v_dim);
                attend(&s, pc__kernels_named(levels[l]), &st, 0, s.rows, 0, 2);
                for (size_t r = 0; r < s.rows; r++)
                    for (size_t d = 0; s.task.lo[r] < s.task.hi[r] && d < s.v_dim; d++) {
                        float out = ((float *)(void *)st.acc.data)[r * s.v_dim + d]
                                    / ((float *)(void *)st.l.data)[r];
                        CHECK(fabsf(out) <= size * 1.01f + 0x1p-25f);
                    }
                state_free(&st);
            }
        free_scene(&s);
    }
}

/* If none of the rows sees anything, the state stays as it was, whatever its contents. */
static void nothing_seen(uint32_t dtype)
{
    for (size_t i = 0; i < LEVELS; i++) {
        scene s = {.dtype = dtype, .rows = 8, .tokens = 100, .k_dim = 20, .v_dim = 20, .heads = 1};
        pc_test_rng rng = {9};
        if (!pc__kernels_named(levels[i]))
            continue;
        make(&s, 0, &rng);
        state before = state_new(s.rows, s.v_dim), after = state_new(s.rows, s.v_dim);
        for (size_t r = 0; r < s.rows; r++) {
            ((uint32_t *)(void *)s.lo.data)[r] = ((uint32_t *)(void *)s.hi.data)[r] = (uint32_t)r
                                                                                      * 14;
            ((float *)(void *)before.m.data)[r] = pc_test_normal(&rng);
            ((float *)(void *)before.l.data)[r] = 1.5f;
        }
        for (size_t k = 0; k < s.rows * s.v_dim; k++)
            ((float *)(void *)before.acc.data)[k] = pc_test_normal(&rng);
        memcpy(after.m.data, before.m.data, before.m.bytes);
        memcpy(after.l.data, before.l.data, before.l.bytes);
        memcpy(after.acc.data, before.acc.data, before.acc.bytes);
        attend(&s, pc__kernels_named(levels[i]), &after, 0, s.rows, 0, 2);
        CHECK(state_equal(&before, &after));
        ((uint32_t *)(void *)s.hi.data)[3] =
            50; /* one row sees something: the others of its block stay as they were */
        attend(&s, pc__kernels_named(levels[i]), &after, 0, s.rows, 0, 2);
        CHECK(memcmp(before.l.data, after.l.data, before.l.bytes));
        for (size_t r = 0; r < s.rows; r++)
            CHECK(r == 3
                  || !memcmp(before.acc.data + r * s.v_dim * 4, after.acc.data + r * s.v_dim * 4,
                             s.v_dim * 4));
        state_free(&before);
        state_free(&after);
        free_scene(&s);
    }
}

/* ---------------------------------------------------- several formats in one plan */

enum { HEADS = 4, KV_HEADS = 2, DIM = 32, RUNS = 5, ROWS = 6, LONGEST = 1100 };

typedef struct forest {
    pc_attend_shape shape;
    pc_run runs[RUNS];
    uint32_t dtypes[RUNS];
    void *pages[RUNS];
    float *k[RUNS], *v[RUNS]; /* as stored */
    int64_t positions[ROWS];
    uint32_t first[ROWS + 1];
    pc_row_span spans[2 * ROWS];
    float q[ROWS * HEADS * DIM];
} forest;

static void fill_run(forest *f, size_t i, pc_test_rng *rng)
{
    size_t n = f->runs[i].tokens, floats = n * KV_HEADS * DIM;
    pc_attend_shape shape = f->shape;
    f->k[i] = malloc(floats * sizeof(float));
    f->v[i] = malloc(floats * sizeof(float));
    for (size_t j = 0; j < floats; j++) {
        f->k[i][j] = pc_test_normal(rng);
        f->v[i][j] = pc_test_normal(rng);
    }
    shape.dtype = f->dtypes[i] ? f->dtypes[i] : f->shape.dtype;
    f->pages[i] = aligned_alloc(64, pc_pages_bytes(&shape, n));
    memset(f->pages[i], shape.dtype == PC_DTYPE_I8 ? 0xff : 0, pc_pages_bytes(&shape, n));
    CHECK_OK(write_pages(&shape, f->pages[i], 0, n, f->k[i], f->v[i]));
    if (shape.dtype == PC_DTYPE_I8
        && n > PC_PAGE_TOKENS) { /* a page again, as a run that grows packs it */
        size_t at = (n - 1) / PC_PAGE_TOKENS * PC_PAGE_TOKENS;
        CHECK_OK(write_pages(&shape, f->pages[i], at, n - at, f->k[i] + at * KV_HEADS * DIM,
                             f->v[i] + at * KV_HEADS * DIM));
    }
    uint8_t *layer = f->pages[i];
    pc__kv view = {.shape = {1, KV_HEADS, DIM, DIM, shape.dtype}, .tokens = n, .layer = &layer};
    for (size_t t = 0; t < n; t++)
        pc__kv_read(&view, 0, t, f->k[i] + t * KV_HEADS * DIM, f->v[i] + t * KV_HEADS * DIM);
}

/* A row's prefix is run 0, the rest is one of the others. */
static void make_forest(forest *f)
{
    static const size_t tokens[RUNS] = {LONGEST, 70, 130, 64, 9};
    static const uint32_t dtypes[RUNS] = {PC_DTYPE_I8, PC_DTYPE_DEFAULT, PC_DTYPE_F16, PC_DTYPE_F32,
                                          PC_DTYPE_I8};
    pc_test_rng rng = {5};
    memset(f, 0, sizeof *f);
    f->shape = (pc_attend_shape){sizeof f->shape, HEADS, KV_HEADS, DIM, DIM, PC_DTYPE_BF16, 0};
    for (size_t i = 0; i < RUNS; i++) {
        f->runs[i].tokens = tokens[i];
        f->dtypes[i] = dtypes[i];
        fill_run(f, i, &rng);
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t own = 1 + r % (RUNS - 1);
        f->positions[r] = LONGEST + 200;
        f->spans[2 * r] = (pc_row_span){0, 0, 0, LONGEST, 0};
        f->spans[2 * r + 1] = (pc_row_span){LONGEST, own, 0, (uint32_t)tokens[own], 0};
        f->first[r + 1] = 2 * r + 2;
    }
    for (size_t i = 0; i < ROWS * HEADS * DIM; i++)
        f->q[i] = pc_test_normal(&rng);
}

static double worst_of(const forest *f, const float *out, const float *lse, size_t r, size_t h)
{
    double top = -INFINITY, sum = 0.0, want[DIM] = {0}, worst;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = f->first[r]; i < f->first[r + 1]; i++)
            for (size_t t = 0; t < f->spans[i].hi; t++) {
                size_t at = (t * KV_HEADS + h / (HEADS / KV_HEADS)) * DIM;
                double s = 0.0;
                for (size_t d = 0; d < DIM; d++)
                    s += (double)f->q[(r * HEADS + h) * DIM + d]
                         * (double)f->k[f->spans[i].run][at + d] / sqrt((double)DIM);
                top = pass ? top : fmax(top, s);
                sum += pass ? exp(s - top) : 0.0;
                for (size_t d = 0; pass && d < DIM; d++)
                    want[d] += exp(s - top) * (double)f->v[f->spans[i].run][at + d];
            }
    worst = fabs(top + log(sum) - (double)lse[r * HEADS + h]);
    for (size_t d = 0; d < DIM; d++)
        worst = fmax(worst, fabs(want[d] / sum - (double)out[(r * HEADS + h) * DIM + d]));
    return worst;
}

static pc_plan_args args_of(const forest *f, uint64_t flags)
{
    pc_plan_args from = PC_PLAN_ARGS_INIT;
    from.shape = &f->shape;
    from.runs = f->runs;
    from.run_stride = sizeof(pc_run);
    from.run_count = RUNS;
    from.positions = f->positions;
    from.first = f->first;
    from.spans = f->spans;
    from.span_stride = sizeof(pc_row_span);
    from.row_count = ROWS;
    from.flags = flags;
    from.dtypes = f->dtypes;
    return from;
}

static void mixed_plan(void)
{
    static forest f;
    static float out[2][ROWS * HEADS * DIM], lse[2][ROWS * HEADS];
    pc_context *context;
    make_forest(&f);
    CHECK_OK(pc_context_new(&context, NULL));
    for (int i = 0; i < 2; i++) {
        pc_plan_args from = args_of(&f, i ? PC_PLAN_PER_ROW : 0);
        pc_attend_args args = PC_ATTEND_ARGS_INIT;
        pc_plan *plan;
        CHECK_OK(pc_plan_new(&plan, context, &from));
        args.pages = (const void *const *)f.pages;
        args.q = f.q;
        args.out = out[i];
        args.lse = lse[i];
        CHECK_OK(pc_attend(plan, &args));
        pc_plan_free(plan);
    }
    CHECK(!memcmp(out[0], out[1], sizeof out[0]) && !memcmp(lse[0], lse[1], sizeof lse[0]));
    for (size_t r = 0; r < ROWS; r++)
        for (size_t h = 0; h < HEADS; h++) {
            double worst = worst_of(&f, out[0], lse[0], r, h),
                   limit = f.spans[2 * r + 1].run == 1 ? 3e-2 : 2e-4;
            if (!CHECK(worst <= limit)) /* only run 1 is bf16 */
                fprintf(stderr, "    row %zu head %zu: %g\n", r, h, worst);
        }
    f.dtypes[2] = 9;
    pc_plan_args from = args_of(&f, 0);
    pc_plan *plan;
    CHECK_STATUS(pc_plan_new(&plan, context, &from), PC_ERR_INVALID);
    CHECK_ERROR_HAS("dtypes[2] is 9, which does not exist");
    for (size_t i = 0; i < RUNS; i++) {
        free(f.pages[i]);
        free(f.k[i]);
        free(f.v[i]);
    }
    pc_context_free(context);
}

/* Pages of an application: their sizes, and int8 pages only whole. */
static void host_pages(void)
{
    pc_attend_shape shape = {sizeof shape, 1, 1, 128, 128, PC_DTYPE_F16, 0};
    static float values[PC_PAGE_TOKENS * 128];
    CHECK_INT(pc_pages_bytes(&shape, 65), 2 * 32768);
    shape.dtype = PC_DTYPE_I8;
    CHECK_INT(pc_pages_bytes(&shape, 64), 16768);
    CHECK_INT(pc_pages_bytes(&shape, 65), 2 * 16768);
    guarded pages = guarded_new(2 * 16768);
    CHECK_OK(write_pages(&shape, pages.data, 0, 64, values, values));
    CHECK_INT(pages.data[16768], GUARDED_POISON);
    CHECK_STATUS(write_pages(&shape, pages.data, 65, 1, values, values), PC_ERR_INVALID);
    CHECK_ERROR_HAS("token 65 is not the first");
    CHECK_STATUS(write_pages(&shape, pages.data, 1, 64, values, values), PC_ERR_INVALID);
    CHECK_OK(write_pages(&shape, pages.data, 64, 1, values, values));
    CHECK(guarded_intact(&pages));
    guarded_free(&pages);
    shape.dtype = PC_DTYPE_I16;
    CHECK_INT(pc_pages_bytes(&shape, 64), 0);
    CHECK_ERROR_HAS("dtype is PC_DTYPE_I16, which K and V cannot have");
}

int main(void)
{
    static const uint32_t dtypes[] = {PC_DTYPE_F16, PC_DTYPE_I8};
    for (int i = 0; i < 2; i++) {
        dims_and_rows(dtypes[i]);
        tails(dtypes[i]);
        largest(dtypes[i]);
        extremes(dtypes[i]);
        nothing_seen(dtypes[i]);
    }
    mixed_plan();
    host_pages();
    return pc_test_end();
}
