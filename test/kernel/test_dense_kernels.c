/* Catches: a panel, gate, rounding or quantising kernel of any level that computes something else,
 * reads past the end of an array, writes outside its columns, or whose rows depend on the rows
 * beside them. */
#include <float.h>
#include <math.h>

#include "attn/half.h"
#include "attn/cpu/kernels_internal.h"
#include "guarded.h"
#include "testing.h"

static const char *const levels[] = {"c", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};
enum { LEVELS = sizeof levels / sizeof *levels, MOST = 300 };

/* x / (1 + exp(-x)) * up. Results below the normal numbers may be zero. */
static void silu_gate(const pc__kernels *kernels, size_t count, pc_test_rng *rng)
{
    static const float special[] = {0.0f,  -0.0f,  1e-30f, -1e-30f, 30.0f, -30.0f,
                                    87.0f, -87.0f, -95.0f, 1e30f,   -1e30f};
    guarded x = guarded_new(count * 4), up = guarded_new(count * 4);
    float *gx = (float *)(void *)x.data, *gu = (float *)(void *)up.data, before[MOST];
    double worst = 0.0;
    for (size_t i = 0; i < count; i++) {
        gx[i] = before[i] = i % 3 == 1 ? special[i / 3 % 11] : 4.0f * pc_test_normal(rng);
        gu[i] = pc_test_normal(rng);
    }
    if (count > 4)
        gx[4] = before[4] = NAN;
    kernels->silu_gate(gx, gu, count);
    for (size_t i = 0; i < count; i++) {
        double want = (double)before[i] / (1.0 + exp(-(double)before[i])) * (double)gu[i];
        double error = fabs((double)gx[i] - want)
                       / (8.0 * 0x1p-24 * fabs(want) + 100.0 * (double)FLT_MIN);
        if (i == 4)
            CHECK(isnan(gx[i]));
        else if (!(error <= worst))
            worst = isnan(error) ? INFINITY : error;
    }
    if (!CHECK(worst <= 1.0))
        fprintf(stderr, "    %s, %zu values: %.3g of the limit\n", kernels->name, count, worst);
    CHECK(guarded_intact(&x) && guarded_intact(&up));
    guarded_free(&x);
    guarded_free(&up);
}

/* x / 2 * (1 + erf(x / sqrt 2)); the same bits wherever a value stands. */
static void gelu(const pc__kernels *kernels, size_t count, pc_test_rng *rng)
{
    static const float special[] = {0.0f, -0.0f, 1e-30f, -1e-30f, 5.6f,  -5.6f,
                                    5.7f, -5.7f, 40.0f,  -40.0f,  1e30f, -1e30f};
    guarded x = guarded_new(count * 4);
    float *gx = (float *)(void *)x.data, before[MOST];
    double worst = 0.0;
    for (size_t i = 0; i < count; i++)
        gx[i] = before[i] = i % 3 == 1 ? special[i / 3 % 12] : 2.0f * pc_test_normal(rng);
    if (count > 4)
        gx[4] = before[4] = NAN;
    kernels->gelu(gx, count);
    for (size_t i = 0; i < count; i++) {
        double v = (double)before[i], want = 0.5 * v * (1.0 + erf(v * 0.70710678118654752440));
        double error = fabs((double)gx[i] - want) / (4e-7 * fabs(v) + (double)FLT_MIN);
        float alone = before[i];
        kernels->gelu(&alone, 1);
        CHECK(!memcmp(&alone, &gx[i], sizeof alone));
        if (i == 4)
            CHECK(isnan(gx[i]));
        else if (!(error <= worst))
            worst = isnan(error) ? INFINITY : error;
    }
    if (!CHECK(worst <= 1.0))
        fprintf(stderr, "    gelu %s, %zu values: %.3g of the limit\n", kernels->name, count,
                worst);
    CHECK(guarded_intact(&x));
    guarded_free(&x);
}

/* A few rows of a wider matrix, added up in order. */
static void add_rows(const pc__kernels *kernels, size_t width, pc_test_rng *rng)
{
    enum { ROWS = 7 };
    size_t stride = width + 3;
    guarded rows = guarded_new(((ROWS - 1) * stride + width) * 4), y = guarded_new(width * 4);
    float *w = (float *)(void *)rows.data, *gy = (float *)(void *)y.data, factor[ROWS],
          before[MOST];
    double worst = 0.0;
    for (size_t i = 0; i < (ROWS - 1) * stride + width; i++)
        w[i] = pc_test_normal(rng);
    for (size_t r = 0; r < ROWS; r++)
        factor[r] = pc_test_normal(rng);
    for (size_t i = 0; i < width; i++)
        gy[i] = before[i] = pc_test_normal(rng);
    kernels->add_rows(factor, w, stride, ROWS, gy, width);
    for (size_t i = 0; i < width; i++) {
        double want = (double)before[i], size = fabs(want), error;
        float alone = before[i];
        for (size_t r = 0; r < ROWS; r++) {
            want += (double)factor[r] * (double)w[r * stride + i];
            size += fabs((double)factor[r] * (double)w[r * stride + i]);
        }
        error = fabs((double)gy[i] - want) / (8.0 * 0x1p-24 * size);
        worst = error <= worst ? worst : error;
        kernels->add_rows(factor, w + i, stride, ROWS, &alone, 1);
        CHECK(!memcmp(&alone, &gy[i], sizeof alone));
    }
    if (!CHECK(worst <= 1.0))
        fprintf(stderr, "    add_rows %s, %zu values: %.3g of the limit\n", kernels->name, width,
                worst);
    CHECK(guarded_intact(&rows) && guarded_intact(&y));
    guarded_free(&rows);
    guarded_free(&y);
}

/* Bit for bit; only numbers below the normal ones may become zeros of their sign (AVX-512 rounds
 * so). */
static void to_bf16(const pc__kernels *kernels, size_t count, pc_test_rng *rng)
{
    static const uint32_t special[] = {0x00000000, 0x80000000, 0x3f808000, 0x3f818000, 0x3f808001,
                                       0x3f807fff, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001,
                                       0x7fc00000, 0xffbfffff, 0x00000001, 0x807fffff};
    guarded x = guarded_new(count * 4), out = guarded_new(count * 2);
    const uint16_t *got = (const uint16_t *)(const void *)out.data;
    int same = 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = i % 2 ? special[i / 2 % 14] : (uint32_t)pc_test_bits(rng);
        memcpy(x.data + 4 * i, &bits, sizeof bits);
    }
    kernels->to_bf16((const float *)(const void *)x.data, count, (uint16_t *)(void *)out.data);
    for (size_t i = 0; i < count; i++) {
        float value = ((const float *)(const void *)x.data)[i];
        int small = fpclassify(value) == FP_SUBNORMAL;
        same &= got[i] == pc__bf16_from(value)
                || (small && got[i] == (signbit(value) ? 0x8000 : 0));
    }
    if (!CHECK(same))
        fprintf(stderr, "    %s, %zu values\n", kernels->name, count);
    CHECK(guarded_intact(&out));
    guarded_free(&x);
    guarded_free(&out);
}

typedef struct product {
    int bf16;
    size_t in, even, rows, width, ldx, ldy;
    guarded panel, x;  /* packed */
    float *w, *values; /* [PC__PANEL][in], [rows][in] in the dtype's values */
} product;

static float rounded(const product *p, float x)
{
    return p->bf16 ? pc__bf16_to(pc__bf16_from(x)) : x;
}

static product make_product(int bf16, size_t in, size_t rows, size_t width, pc_test_rng *rng)
{
    product p = {.bf16 = bf16,
                 .in = in,
                 .even = bf16 ? in + in % 2 : in,
                 .rows = rows,
                 .width = width,
                 .ldy = width + 3};
    size_t element = bf16 ? 2 : 4;
    p.ldx = p.even + (rows % 2 ? 6 : 0);
    p.panel = guarded_new((p.even * PC__PANEL * element + 63) / 64 * 64);
    p.x = guarded_new(((rows - 1) * p.ldx + p.even) * element);
    p.w = malloc(PC__PANEL * in * sizeof *p.w);
    p.values = malloc(rows * in * sizeof *p.values);
    memset(p.panel.data, 0, p.panel.bytes);
    for (size_t n = 0; n < PC__PANEL; n++)
        for (size_t i = 0; i < in; i++) {
            float v = p.w[n * in + i] = rounded(&p, pc_test_normal(rng));
            if (bf16)
                ((uint16_t *)(void *)
                     p.panel.data)[(i / 2 * PC__PANEL + n) * 2 + i % 2] = pc__bf16_from(v);
            else
                ((float *)(void *)p.panel.data)[i * PC__PANEL + n] = v;
        }
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < p.even; i++) {
            float v = i < in ? rounded(&p, pc_test_normal(rng)) : 0.0f;
            if (i < in)
                p.values[r * in + i] = v;
            if (bf16)
                ((uint16_t *)(void *)p.x.data)[r * p.ldx + i] = pc__bf16_from(v);
            else
                ((float *)(void *)p.x.data)[r * p.ldx + i] = v;
        }
    return p;
}

static double off(const product *p, size_t r, size_t n, float got)
{
    double sum = 0.0, size = 0.0;
    for (size_t i = 0; i < p->in; i++) {
        double term = (double)p->w[n * p->in + i] * (double)p->values[r * p->in + i];
        sum += term;
        size += fabs(term);
    }
    double error = fabs((double)got - sum) / ((4.0 * sqrt((double)p->in) + 4.0) * 0x1p-24 * size);
    return isnan(error) ? INFINITY : error;
}

static void panel(const pc__kernels *kernels, const product *p)
{
    size_t element = p->bf16 ? 2 : 4, last = (p->rows - 1) * p->ldy + p->width;
    guarded y = guarded_new(last * 4), one = guarded_new(p->width * 4);
    pc__panel_fn multiply = p->bf16 ? kernels->panel_bf16 : kernels->panel_f32;
    const float *got = (const float *)(const void *)y.data;
    double worst = 0.0;
    int alone = 1, gaps = 1;
    multiply(&(pc__panel_task){p->panel.data, p->even, p->x.data, p->ldx, p->rows,
                               (float *)(void *)y.data, p->ldy, p->width,
                               p->in % 2 ? p->panel.data : NULL});
    for (size_t r = 0; r < p->rows; r++) {
        for (size_t n = 0; n < p->width; n++)
            worst = fmax(worst, off(p, r, n, got[r * p->ldy + n]));
        for (size_t b = p->width * 4; r + 1 < p->rows && b < p->ldy * 4; b++)
            gaps &= y.data[r * p->ldy * 4 + b] == GUARDED_POISON;
        multiply(&(pc__panel_task){p->panel.data, p->even, p->x.data + r * p->ldx * element, p->ldx,
                                   1, (float *)(void *)one.data, p->ldy, p->width, NULL});
        alone &= !memcmp(one.data, got + r * p->ldy, p->width * 4);
    }
    if (!CHECK(worst <= 1.0))
        fprintf(stderr, "    %s %s, %zu inputs, %zu rows, %zu wide: %.3g of the limit\n",
                kernels->name, p->bf16 ? "bf16" : "f32", p->in, p->rows, p->width, worst);
    CHECK(alone);
    CHECK(gaps && guarded_intact(&y) && guarded_intact(&one));
    guarded_free(&y);
    guarded_free(&one);
}

static void every_level(int bf16, size_t in, size_t rows, pc_test_rng *rng)
{
    product p = make_product(bf16, in, rows, 1 + (rows * 7 + in) % PC__PANEL, rng);
    for (size_t l = 0; l < LEVELS; l++)
        if (pc__kernels_named(levels[l]))
            panel(pc__kernels_named(levels[l]), &p);
    guarded_free(&p.panel);
    guarded_free(&p.x);
    free(p.w);
    free(p.values);
}

/* Panels of 16-bit floats have the bits of the same numbers in fp32. */
static void halves(const pc__kernels *kernels, int bf16, size_t in, size_t rows, pc_test_rng *rng)
{
    size_t width = 1 + (rows * 7 + in) % PC__PANEL, ldy = width + 3, count = in * PC__PANEL;
    guarded small = guarded_new(count * 2), wide = guarded_new(count * 4),
            x = guarded_new(rows * in * 4), y = guarded_new(rows * ldy * 4),
            want = guarded_new(rows * ldy * 4);
    pc__panel_task task = {wide.data, in,    x.data, in, rows, (float *)(void *)want.data,
                           ldy,       width, NULL};
    for (size_t i = 0; i < count; i++) {
        float v = pc_test_normal(rng) * (i % 50 ? 1.0f : 1e-6f);
        uint16_t half = bf16 ? pc__bf16_from(v) : pc__half_from(v);
        ((uint16_t *)(void *)small.data)[i] = half;
        ((float *)(void *)wide.data)[i] = bf16 ? pc__bf16_to(half) : pc__half_to(half);
    }
    for (size_t i = 0; i < rows * in; i++)
        ((float *)(void *)x.data)[i] = pc_test_normal(rng);
    kernels->panel_f32(&task);
    task.panel = small.data;
    task.y = (float *)(void *)y.data;
    (bf16 ? kernels->panel_f32_bf16 : kernels->panel_f32_f16)(&task);
    if (!CHECK(!memcmp(y.data, want.data, rows * ldy * 4)))
        fprintf(stderr, "    %s, %zu inputs, %zu rows\n", kernels->name, in, rows);
    CHECK(guarded_intact(&y));
    guarded_free(&small), guarded_free(&wide), guarded_free(&x), guarded_free(&y);
    guarded_free(&want);
}

static void all_halves(pc_test_rng *rng)
{
    static const size_t ins[] = {1, 3, 64, 127, 128, 129, 300};
    for (size_t l = 0; l < LEVELS; l++) {
        const pc__kernels *kernels = pc__kernels_named(levels[l]);
        for (size_t i = 0; kernels && kernels->panel_f32_f16 && i < 7; i++)
            for (size_t rows = 1; rows <= 20; rows += rows < 10 ? 1 : 5) {
                halves(kernels, 0, ins[i], rows, rng);
                halves(kernels, 1, ins[i], rows, rng);
            }
    }
}

/* The longer ones end and begin where kernels store sums and load them again. */
static void panels(pc_test_rng *rng)
{
    static const size_t ins[] = {1, 2, 3, 16, 33, 130}, long_ins[] = {255, 256, 257, 515, 1026};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        for (size_t i = 0; i < 6; i++)
            for (size_t rows = 1; rows <= 40; rows += rows < 30 ? 1 : 3)
                every_level(bf16, ins[i], rows, rng);
        for (size_t i = 0; i < 5; i++)
            for (size_t rows = 1; rows <= 25; rows += 4)
                every_level(bf16, long_ins[i], rows, rng);
    }
}

/* Rows of groups that differ much in size; every third with something special in it. */
static void fill_row(float *x, size_t groups, size_t group, size_t kind, pc_test_rng *rng)
{
    static const float special[] = {NAN,      INFINITY, -INFINITY, FLT_MAX,
                                    -FLT_MAX, 1e-45f,   1e-38f,    1e-36f};
    for (size_t g = 0; g < groups; g++) {
        float size = g % 9 == 8 ? 0.0f : ldexpf(1.0f, (int)(pc_test_bits(rng) % 16) - 14);
        for (size_t i = g * group; i < (g + 1) * group; i++)
            x[i] = pc_test_normal(rng) * size;
    }
    for (size_t i = 0; i < groups * group && kind % 3 == 1;
         i++) /* halves and whole ones of some step */
        x[i] = i ? ldexpf((float)(pc_test_bits(rng) % 254) - 127.0f + (kind % 2 ? 0.5f : 0.0f),
                          -(int)(i / group % 13))
                 : 127.0f;
    for (size_t i = 0; i < groups * group && kind % 6 == 4; i++)
        x[i] *= kind % 12 == 4
                    ? 1e-41f
                    : 1e-34f; /* below the normal numbers, and below PC__QUANTISE_LEAST */
    if (kind % 3 == 2)
        x[pc_test_bits(rng) % (groups * group)] = special[kind / 3 % 8];
}

typedef struct quantised_row {
    guarded high, low, step, negative_sum, wide;
    pc__quantised_inputs to;
} quantised_row;

enum { APART = 3 }; /* of three rows the one in the middle */

static quantised_row quantised_new(size_t groups, size_t group)
{
    quantised_row c = {guarded_new(groups * group),     guarded_new(groups * group),
                       guarded_new(4 * APART * groups), guarded_new(4 * APART * groups),
                       guarded_new(APART * groups),     {0}};
    memset(c.step.data, 0x5a, 4 * APART * groups);
    memset(c.negative_sum.data, 0x5a, 4 * APART * groups);
    memset(c.wide.data, 0x5a, APART * groups);
    c.to = (pc__quantised_inputs){(int8_t *)c.high.data,
                                  (int8_t *)c.low.data,
                                  (float *)(void *)c.step.data + 1,
                                  (int32_t *)(void *)c.negative_sum.data + 1,
                                  c.wide.data + 1,
                                  APART};
    return c;
}

static int quantised_intact(const quantised_row *c)
{
    return guarded_intact(&c->high) && guarded_intact(&c->low) && guarded_intact(&c->step)
           && guarded_intact(&c->negative_sum) && guarded_intact(&c->wide);
}

static void quantised_free(quantised_row *c)
{
    guarded_free(&c->high), guarded_free(&c->low), guarded_free(&c->step),
        guarded_free(&c->negative_sum), guarded_free(&c->wide);
}

static float largest(const float *x, size_t count)
{
    float most = 0.0f;
    for (size_t i = 0; i < count; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* log2 of the geometric mean of the groups' largest magnitudes, zeros left out, each to within
 * 1/256 and the error of reading a float's bits as its logarithm (at most 0.087). */
static double mean_log(const float *x, size_t groups, size_t group)
{
    double sum = 0.0, count = 0.0;
    for (size_t g = 0; g < groups; g++) {
        float most = largest(x + g * group, group);
        sum += most >= PC__QUANTISE_LEAST ? log2((double)most) : 0.0;
        count += most >= PC__QUANTISE_LEAST;
    }
    return count > 0.0 ? sum / count : 0.0;
}

/* Group g in whole steps: within half a step of the values (and its rounding), with the smallest
 * step that has room for them, and their sum. */
static int good_codes(const float *x, size_t g, size_t group, const pc__quantised_inputs *to)
{
    const int wide = to->wide[g * APART];
    const double end = wide ? 32512.0 : 127.0, most = (double)largest(x, group),
                 step = (double)to->step[g * APART];
    const int zeros = most < (double)PC__QUANTISE_LEAST;
    int32_t negative_sum = 0;
    int good = zeros ? step == 0.0 : fabs(step * end / most - 1.0) < 3e-7;
    for (size_t i = 0; i < group; i++) {
        int32_t whole = wide ? to->high[g * group + i] * 256 + to->low[g * group + i]
                             : to->high[g * group + i];
        negative_sum -= whole;
        good &= zeros ? whole == 0
                      : abs(whole) <= end && fabs((double)whole - (double)x[i] / step) <= 0.51;
    }
    return good && negative_sum == to->negative_sum[g * APART];
}

/* Wide groups stand out by half an octave, and those that do are wide. */
static int good_width(const float *x, size_t group, double mean, int all_wide, int wide)
{
    double out = log2((double)largest(x, group)) - mean;
    return all_wide ? wide == 1 : wide == 0 ? out < 0.6 : wide == 1 && out > 0.4;
}

static int untouched(size_t g, const pc__quantised_inputs *to)
{
    uint32_t after;
    memcpy(&after, &to->step[g * APART + 1], sizeof after);
    return after == 0x5a5a5a5a && to->negative_sum[g * APART - 1] == 0x5a5a5a5a
           && to->wide[g * APART + 1] == 0x5a;
}

static void check_quantised(const pc__kernels *kernels, const float *x, size_t groups, size_t group,
                            int all_wide, const pc__quantised_inputs *to)
{
    double mean = mean_log(x, groups, group);
    int numbers = 1;
    for (size_t i = 0; i < groups * group; i++)
        numbers &= isfinite(x[i]) != 0;
    for (size_t g = 0; g < groups; g++) {
        const float *from = x + g * group;
        int good = untouched(g, to);
        if (numbers)
            good &= good_codes(from, g, group, to)
                    && (largest(from, group) < PC__QUANTISE_LEAST
                        || good_width(from, group, mean, all_wide, to->wide[g * APART]));
        else
            good &= isnan(to->step[g * APART]) && !to->negative_sum[g * APART]
                    && !to->wide[g * APART];
        if (!CHECK(good))
            fprintf(stderr, "    quantise %s: group %zu, largest %g, step %g, wide %d\n",
                    kernels->name, g, (double)largest(from, group), (double)to->step[g * APART],
                    to->wide[g * APART]);
    }
}

/* Low bytes count in wide groups only. */
static int same_quantised(const quantised_row *a, const quantised_row *b, size_t groups,
                          size_t group)
{
    int same = !memcmp(a->high.data, b->high.data, groups * group)
               && !memcmp(a->step.data, b->step.data, 4 * APART * groups)
               && !memcmp(a->negative_sum.data, b->negative_sum.data, 4 * APART * groups)
               && !memcmp(a->wide.data, b->wide.data, APART * groups);
    for (size_t g = 0; g < groups && same; g++)
        same = !a->to.wide[g * APART]
               || !memcmp(a->low.data + g * group, b->low.data + g * group, group);
    return same;
}

static void quantise(size_t groups, size_t group, int all_wide, size_t kind, pc_test_rng *rng)
{
    guarded x = guarded_new(4 * groups * group);
    quantised_row c[LEVELS];
    const float *from = (const float *)(void *)x.data;
    fill_row((float *)(void *)x.data, groups, group, kind, rng);
    for (size_t l = 0; l < LEVELS; l++) {
        const pc__kernels *kernels = pc__kernels_named(levels[l]);
        if (!kernels)
            continue;
        c[l] = quantised_new(groups, group);
        kernels->quantise(from, groups, group, all_wide, &c[l].to);
        CHECK(guarded_intact(&x) && quantised_intact(&c[l]));
        check_quantised(kernels, from, groups, group, all_wide, &c[l].to);
        if (!CHECK(same_quantised(&c[l], &c[0], groups, group)))
            fprintf(stderr, "    quantise %s, %zu groups of %zu: other bits than the reference\n",
                    kernels->name, groups, group);
    }
    for (size_t l = 0; l < LEVELS; l++)
        if (pc__kernels_named(levels[l]))
            quantised_free(&c[l]);
    guarded_free(&x);
}

int main(void)
{
    pc_test_rng rng = {3};
    for (size_t l = 0; l < LEVELS; l++) {
        const pc__kernels *kernels = pc__kernels_named(levels[l]);
        for (size_t count = 0; kernels && count <= MOST; count += count < 70 ? 1 : 23) {
            silu_gate(kernels, count, &rng);
            gelu(kernels, count, &rng);
            if (count)
                add_rows(kernels, count, &rng);
            to_bf16(kernels, count, &rng);
        }
    }
    panels(&rng);
    all_halves(&rng);
    for (size_t group = 16; group <= 64; group += 16)
        for (size_t groups = 1; groups <= 75; groups += groups < 4 ? 1 : 71)
            for (size_t kind = 0; kind < 48; kind++)
                quantise(groups, group, kind % 2 != 0, kind / 2, &rng);
    return pc_test_end();
}
