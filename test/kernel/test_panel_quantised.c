/* Catches: a kernel of quantised weights whose bits are not those of the C reference (all formats,
 * row counts, widths, extreme inputs), or that writes past its width or reads past its inputs; a
 * linear layer with quantised weights that is further from the exact product than its
 * inputs allow, whose rows depend on each other or on the number of threads, that hides a NaN, or
 * that leaks when an allocation fails. It tests the kernels of one level and runs once a CPU level.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/cpu/linear_internal.h"
#include "attn/cpu/quantised_panel.h"
#include "attn/half.h"
#include "attn/cpu/kernels_internal.h"
#include "block_formats.h"
#include "levels.h"
#include "testing.h"

enum { MOST_IN = 512, MOST_OUT = 100, MOST_ROWS = 35 };

typedef struct matrix {
    pc__block_format format;
    size_t in, out;
    pc__block_rows rows;
    uint16_t memory[MOST_OUT * MOST_IN];
} matrix;

/* A number of the dtype of d that is neither NaN nor infinite, up to about 0.01. */
static uint16_t random_d(const pc__block_format *format, pc_test_rng *rng)
{
    float value = pc_test_normal(rng) * 0.004f;
    if (pc_test_bits(rng) % 16 == 0)
        value = 0x1p-16f; /* subnormal in fp16 */
    return format->scales == PC__SCALES_BF16 ? pc__bf16_from(value) : pc__half_from(value);
}

static void make_matrix(matrix *m, pc__block_format format, size_t in, size_t out, pc_test_rng *rng)
{
    *m = (matrix){.format = format, .in = in, .out = out};
    m->rows = pc__block_rows_in(m->memory, &format, in, out);
    CHECK(pc__block_rows_bytes(&format, in, out) <= sizeof m->memory);
    for (size_t i = 0; i < in * out; i++)
        m->rows.q[i] = (uint8_t)(pc_test_bits(rng) & ((1u << format.bits) - 1));
    for (size_t i = 0; i < in * out / format.block; i++) {
        m->rows.d[i] = random_d(&format, rng);
        m->rows.dmin[i] = random_d(&format, rng);
    }
    for (size_t i = 0; i < in * out / format.group; i++) {
        int mask = format.scales == PC__SCALES_NIBBLES ? 15 : 255;
        m->rows.scale[i] = (int8_t)(pc_test_bits(rng) & (uint64_t)mask);
        m->rows.minimum[i] = (int8_t)(pc_test_bits(rng) & (uint64_t)mask);
    }
}

static void give_quantised(void *user, size_t first, size_t count, const pc__block_rows *to)
{
    const matrix *m = user;
    const pc__block_format *format = &m->format;
    pc__block_rows from = pc__block_rows_at(&m->rows, format, m->in, first);
    size_t blocks = count * m->in / format->block, groups = count * m->in / format->group;
    memcpy(to->q, from.q, count * m->in);
    memcpy(to->d, from.d, blocks * sizeof *to->d);
    if (format->minimum)
        memcpy(to->dmin, from.dmin, blocks * sizeof *to->dmin);
    if (pc__has_group_scales(format))
        memcpy(to->scale, from.scale, groups);
    if (format->minimum && pc__has_group_scales(format))
        memcpy(to->minimum, from.minimum, groups);
}

static double scale_of(const matrix *m, size_t at)
{
    return (double)pc__block_scale(&m->format, m->rows.d[at / m->format.block],
                                   m->rows.scale[at / m->format.group]);
}

static double weight(const matrix *m, size_t n, size_t k)
{
    size_t at = n * m->in + k;
    double w = scale_of(m, at) * pc__block_value(&m->format, m->rows.q[at]);
    if (!m->format.minimum)
        return w;
    return w
           - (double)pc__block_scale(&m->format, m->rows.dmin[at / m->format.block],
                                     m->rows.minimum[at / m->format.group]);
}

/* ------------------------------------------------------------- the kernels, bit for bit */

typedef struct inputs {
    int8_t high[MOST_ROWS * MOST_IN], low[MOST_ROWS * MOST_IN];
    float step[MOST_ROWS * MOST_IN / 16];
    int32_t negative_sum[MOST_ROWS * MOST_IN / 16];
    uint8_t wide[MOST_ROWS * MOST_IN / 16];
} inputs;

/* Which groups are wide. */
typedef enum mixture { NONE, ALL, SOME_ROWS, SOME_GROUPS, MIXTURES } mixture;

static int is_wide(mixture which, size_t row, size_t group, pc_test_rng *rng)
{
    return which == ALL || (which == SOME_GROUPS && group % 3 == 1)
           || (which == SOME_ROWS && (row % 5 == 1 || pc_test_bits(rng) % 4 == 0));
}

/* The low bytes of groups that are not wide are junk. */
static void make_inputs(inputs *x, const pc__block_format *format, size_t in, size_t rows,
                        int extreme, mixture which, pc_test_rng *rng)
{
    size_t groups = in / format->group;
    for (size_t i = 0; i < rows * groups; i++) {
        x->step[i] = pc_test_normal(rng) * 1e-3f;
        x->wide[i] = (uint8_t)is_wide(which, i % rows, i / rows, rng);
    }
    for (size_t i = 0; i < rows * in; i++) {
        size_t at = i % in / format->group * rows + i / in;
        int32_t *negative_sum = &x->negative_sum[at];
        *negative_sum = i % format->group ? *negative_sum : 0;
        x->high[i] = extreme ? (int8_t)(extreme > 0 ? 127 : -127)
                             : (int8_t)((int)(pc_test_bits(rng) % 255) - 127);
        x->low[i] = x->wide[at] && (extreme || abs(x->high[i]) == 127)
                        ? 0
                        : (int8_t)((int)(pc_test_bits(rng) % 256) - 128);
        *negative_sum -= x->wide[at] ? 256 * x->high[i] + x->low[i] : x->high[i];
    }
}

static void same_as_reference(pc__block_format format, size_t groups, size_t rows, size_t width,
                              int extreme, mixture which, pc_test_rng *rng)
{
    enum { LD = PC__PANEL + 3 };
    static inputs x;
    float want[MOST_ROWS * LD], got[MOST_ROWS * LD];
    size_t bytes = pc__quantised_panel_bytes(&format, groups * format.group);
    uint8_t *panel = aligned_alloc(64, bytes);
    const pc__kernels *best = pc__kernels_get();
    for (size_t i = 0; i < bytes; i++)
        panel[i] = extreme ? 0xff : (uint8_t)pc_test_bits(rng);
    for (size_t i = 0; i < bytes; i += pc__panel_block_bytes(&format))
        for (size_t n = 0; n < PC__PANEL * (1 + format.minimum); n++) { /* d and dmin */
            uint16_t d = random_d(&format, rng);
            memcpy(panel + i + 2 * n, &d, sizeof d);
        }
    make_inputs(&x, &format, groups * format.group, rows, extreme, which, rng);
    memset(want, 0xa5, sizeof want);
    memset(got, 0xa5, sizeof got);
    pc__quantised_task task = {panel,
                               format,
                               groups,
                               {x.high, x.low, x.step, x.negative_sum, x.wide, rows},
                               rows,
                               want,
                               LD,
                               width,
                               rows % 2 ? panel : NULL};
    pc__panel_quantised_c(&task);
    task.y = got;
    best->panel_quantised(&task);
    CHECK(!memcmp(want, got, sizeof want)); /* and nothing beyond the width */
    free(panel);
}

static void kernels(pc_test_rng *rng)
{
    static const size_t widths[] = {1, 15, 16, 17, 31, 32};
    for (size_t i = 0; i < FORMATS; i++)
        for (size_t rows = 1; rows <= MOST_ROWS; rows += rows < 9 || rows >= 14 ? 1 : 5)
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                size_t each = formats[i].block / formats[i].group, /* groups of a block */
                    some = each * (each == 1 ? 1 + rows % 5 : 1 + (rows % 7 == 3)),
                       few = each == 1 ? 2 : each;
                for (mixture which = NONE; which < MIXTURES; which++)
                    same_as_reference(formats[i], some, rows, widths[w], 0, which, rng);
                same_as_reference(formats[i], few, rows, widths[w], w % 2 ? 1 : -1, ALL, rng);
                same_as_reference(formats[i], few, rows, widths[w], w % 2 ? -1 : 1, NONE, rng);
            }
}

/* -------------------------------------------------------------------- the layer */

static void check_layer(const matrix *m, const float *x, const float *bias, const float *y,
                        size_t rows, double steps)
{
    double worst = 0.0;
    for (size_t r = 0; r < rows; r++)
        for (size_t n = 0; n < m->out; n++) {
            double exact = bias ? (double)bias[n] : 0.0, room = 1e-6;
            for (size_t g = 0; g < m->in; g += m->format.group) {
                double most = 0.0, sum = 0.0;
                for (size_t k = g; k < g + m->format.group; k++) {
                    double w = weight(m, n, k);
                    exact += w * (double)x[r * m->in + k];
                    most = fmax(most, fabs((double)x[r * m->in + k]));
                    sum += fabs(w) + fabs(scale_of(m, n * m->in + g)) * 256;
                }
                room += sum * (0.5 * most / steps + most * 1e-6); /* half a step, and fp32 sums */
            }
            worst = fmax(worst, fabs((double)y[r * m->out + n] - exact) / room);
        }
    CHECK(worst <= 1.0);
}

static pc_status new_layer(pc__linear **out, pc_context *context, matrix *m, uint32_t compute,
                           const float *bias)
{
    pc__weight_source source = {.user = m, .format = m->format, .quantised_rows = give_quantised};
    return pc__linear_new(out, context, m->out, m->in, compute, &source, bias);
}

/* The last rows of a list of rows: their bits. */
static void some_rows(const pc__linear *linear, const float *x, size_t out, const float *want,
                      float *y)
{
    static const uint32_t row[] = {MOST_ROWS - 1, 0, 2, 2, 1};
    pc__linear_job part = {linear, x, row, 5, 2, 3, y};
    CHECK_OK(pc__linear_run_jobs(&part, 1));
    for (size_t i = 0; i < 3; i++)
        CHECK(!memcmp(y + i * out, want + row[2 + i] * out, out * sizeof(float)));
}

static void layer(pc_context *one, pc_context *three, pc__block_format format, size_t in,
                  size_t out, uint32_t compute, pc_test_rng *rng)
{
    static matrix m;
    static float x[MOST_ROWS * MOST_IN], y[2][MOST_ROWS * MOST_OUT], bias[MOST_OUT];
    pc__linear *a = NULL, *b = NULL;
    make_matrix(&m, format, in, out, rng);
    for (size_t i = 0; i < MOST_ROWS * in; i++)
        x[i] = pc_test_normal(rng) * (i % 97 ? 1.0f : i % 4 ? 50.0f : 1e5f);
    memset(x + in, 0, format.group * sizeof *x); /* a group of zeros */
    for (size_t n = 0; n < out; n++)
        bias[n] = pc_test_normal(rng);
    CHECK_OK(new_layer(&a, one, &m, compute, bias));
    CHECK_OK(new_layer(&b, three, &m, compute, bias));
    CHECK(a->ops == &pc__linear_quantised);
    CHECK_OK(pc__linear_run(a, x, MOST_ROWS, y[0]));
    check_layer(&m, x, bias, y[0], MOST_ROWS, compute == PC_DTYPE_I16 ? 32512 : 127);
    CHECK_OK(pc__linear_run(b, x, MOST_ROWS, y[1]));
    CHECK(!memcmp(y[0], y[1], MOST_ROWS * out * sizeof(float)));
    for (size_t r = 0; r < MOST_ROWS; r++) {
        CHECK_OK(pc__linear_run(a, x + r * in, 1, y[1]));
        CHECK(!memcmp(y[1], y[0] + r * out, out * sizeof(float)));
    }
    some_rows(b, x, out, y[0], y[1]);
    x[in + 1] = NAN;
    x[2 * in + 3] = INFINITY;
    CHECK_OK(pc__linear_run(a, x, 4, y[1]));
    CHECK(isnan(y[1][out]) && isnan(y[1][2 * out])
          && !memcmp(y[1] + 3 * out, y[0] + 3 * out, out * sizeof(float)));
    pc__linear_free(a);
    pc__linear_free(b);
}

/* Packed rows are the same weights. */
static void read_back(pc__block_format format, pc_test_rng *rng)
{
    static matrix m;
    static float got[MOST_IN];
    uint8_t *panel = aligned_alloc(64, pc__quantised_panel_bytes(&format, MOST_IN));
    make_matrix(&m, format, MOST_IN, PC__PANEL - 1, rng);
    pc__kernels_get()->quantised_pack(&format, m.in, &m.rows, m.out, panel);
    for (size_t n = 0; n < m.out; n++) {
        pc__quantised_unpack(&format, m.in, panel, n, 0, got);
        for (size_t k = 0; k < m.in; k++)
            CHECK((float)weight(&m, n, k) == got[k]);
        pc__quantised_unpack(&format, m.in, panel, n, 1, got);
        for (size_t k = 0; k < m.in; k++)
            CHECK(2 * (float)weight(&m, n, k) == got[k]);
    }
    pc__quantised_unpack(&format, m.in, panel, m.out, 0, got); /* padding */
    for (size_t k = 0; k < m.in; k++)
        CHECK(got[k] == 0.0f);
    free(panel);
}

static void fail_everywhere(pc_test_rng *rng)
{
    static matrix m;
    float x[64] = {1.0f}, y[MOST_OUT];
    make_matrix(&m, formats[4], 64, 40, rng);
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator allocator = pc_test_allocator(&memory);
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context;
        pc__linear *linear = NULL;
        options.allocator = &allocator;
        options.threads = 1;
        if (pc_context_new(&context, &options) == PC_OK
            && new_layer(&linear, context, &m, at % 2 ? PC_DTYPE_I16 : PC_DTYPE_I8, y) == PC_OK) {
            pc_status status = pc__linear_run(linear, x, 1, y);
            CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        }
        pc__linear_free(linear);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        if (memory.calls < at)
            break;
    }
}

int main(void)
{
    static const size_t sizes[][2] = {{32, 1},    {64, 31},  {96, 33},
                                      {512, 100}, {256, 64}, {256, 31}};
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *one, *three;
    pc_test_rng rng = {77};
    pc_test_need_level();
    options.threads = 1;
    CHECK_OK(pc_context_new(&one, &options));
    options.threads = 3;
    CHECK_OK(pc_context_new(&three, &options));
    kernels(&rng);
    for (size_t i = 0; i < FORMATS; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int narrow = 0; narrow < 2 && sizes[s][0] % formats[i].block == 0; narrow++)
                layer(one, three, formats[i], sizes[s][0], sizes[s][1],
                      narrow ? PC_DTYPE_I8 : PC_DTYPE_I16, &rng);
    for (size_t i = 0; i < FORMATS; i++)
        read_back(formats[i], &rng);
    fail_everywhere(&rng);
    pc_context_free(one);
    pc_context_free(three);
    return pc_test_end();
}
