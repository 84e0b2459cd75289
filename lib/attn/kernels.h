/* The inner loops, one table of function pointers a CPU level. No allocation, no errors, no
 * globals. Every variant is tested against the C reference (test/kernel/); a row's result never
 * depends on the other rows of a call. */
#ifndef PC_ATTN_KERNELS_H
#define PC_ATTN_KERNELS_H

#include "attn/block_format.h"
#include "attn/kv.h"
#include "attn/rope.h"

/* Rows of queries against a run of pages of one K/V head; the state runs on from call to call.
 * Start: m = -inf, l = 0, acc = 0. End: out = acc / l, LSE = m + ln l (nothing seen: l is 0).
 * Row r sees tokens [lo[r], hi[r]) of the run; pages outside [first_page, last_page) are not read.
 * Padding of the last page is read but never used. Queries and weights of I8 may be taken to 16
 * bits of the largest of their row and page, after the scales of K and V are multiplied in: no
 * result is farther off than by that. Scores: q.k, then the soft cap, then - slope * (distance -
 * relative position of the key). */
typedef struct pc__attn_task {
    const uint8_t *pages;        /* page 0 of this head and layer, 64-byte aligned */
    size_t page_stride;          /* bytes */
    const uint8_t *const *fetch; /* pages of one head that will be wanted after this call, which may
                                    fetch them ahead; NULL if fetches is 0 */
    size_t fetches;
    int goes_on;             /* 1: the next call reads on behind this one's last page */
    size_t v_offset;         /* bytes from a page's K block to its V block */
    size_t k_dim, v_dim;     /* 1 … PC__MAX_HEAD */
    const int64_t *relative; /* of the run's tokens; NULL: 0, 1, 2 … */
    size_t rows;
    const float *q;          /* but for BF16: [rows][k_dim], turned and scaled */
    const uint16_t *q16;     /* BF16: [rows][k_dim rounded up to even], the padding zero */
    const uint32_t *lo, *hi; /* [rows] */
    const float *slope;      /* [rows] or NULL */
    const int64_t *distance; /* [rows] row position - run start; read only with slopes */
    float soft_cap;          /* 0: none */
    float *m, *l, *acc;      /* [rows], [rows], [rows][v_dim] */
} pc__attn_task;
enum {
    PC__BLOCK_ROWS = 6
}; /* rows that the bf16 kernel works on together: per block it fetches half a page of `fetch` while
      it multiplies one */
typedef void (*pc__attend_fn)(const pc__attn_task *task, size_t first_page, size_t last_page);

/* Panels of PC__PANEL output features. F32: [in][PC__PANEL]; BF16: [in rounded up to even /
 * 2][PC__PANEL][2]. 64-byte aligned. y[r][0 … width) = sum over in of x[r][i] * panel, in ascending
 * i. x: F32 [rows][ldx] floats; BF16 [rows][ldx] bf16 with ldx even, zero-padded. Only `width` <=
 * PC__PANEL features are written. */
enum { PC__PANEL = 32 };
typedef struct pc__panel_task {
    const void *panel;
    size_t in;
    const void *x;
    size_t ldx, rows;
    float *y; /* [rows][ldy] */
    size_t ldy, width;
    const void *next; /* a panel as this one that will be wanted after this call, which may fetch it
                         ahead; or NULL */
} pc__panel_task;
typedef void (*pc__panel_fn)(const pc__panel_task *task);

/* Inputs cut into whole numbers: step * 2^shift * x with one step for a row and a shift for a
 * group, so that groups of small values have small steps too. x = 256 * high + low with signed
 * bytes, or x = high where low is NULL. */
typedef struct pc__quantised_inputs {
    int8_t *high, *low;    /* [rows][groups * group]; low NULL: 8 bits */
    float *step;           /* [rows] */
    int32_t *shift, *less; /* [groups][apart], of which `rows` are used; less: of the group's x the
                              sum, negative */
    size_t apart;
} pc__quantised_inputs;
#define PC__QUANTISE_MOST_16 32512.0f /* 127 * 256: both of its bytes are signed ones */
#define PC__QUANTISE_MOST_8 127.0f
#define PC__QUANTISE_RANGE                                                                       \
    520192.0f /* either of them with its largest shift; a product of 32 such x with bytes of q - \
                 zero takes 32 bits */
enum { PC__SHIFT_MOST_16 = 4, PC__SHIFT_MOST_8 = 12 };

/* Panels on a grid. Of each group of inputs, one after the other: q, scale, minimum.
 *   8 bits: q [group / 4][PC__PANEL][4]; 4 bits: q [group / 8][PC__PANEL][4], in the low half of
 * each byte inputs 0 … group / 2 - 1, in the high half the others; scale [PC__PANEL] fp16 or fp32
 * (grid.half); minimum [PC__PANEL] fp32 (grid.minimum). 64-byte aligned. Per group and feature:
 * product = 2^shift * sum of (q - zero) x, exact in 32 bits; y = fma(product, scale, y); with
 * minimums y = fma(2^shift * less, minimum, y). After the last group y *= step. Same bits in every
 * variant. */
typedef struct pc__quantised_task {
    const uint8_t *panel;
    pc__block_format format;
    size_t groups;
    pc__quantised_inputs x; /* row 0 is the first one to compute */
    size_t rows;
    float *y; /* [rows][ldy], `width` <= PC__PANEL features are written */
    size_t ldy, width;
    const uint8_t *next; /* a panel as this one that will be wanted after this call, which may fetch
                            it ahead; or NULL */
} pc__quantised_task;
typedef void (*pc__quantised_fn)(const pc__quantised_task *task);

/* Row 0 of `to`: step, the largest of the row's values over PC__QUANTISE_RANGE; and of each of its
 * `groups` groups of `group` values, a multiple of 16, the smallest shift that leaves none of them
 * above PC__QUANTISE_MOST_16, or, where low is NULL, PC__QUANTISE_MOST_8; the values in whole steps
 * of that, rounded to the nearest; and less. A row with a value that is no number has a step that
 * is none, and zeros: its results are none. Same bits in every variant. */
typedef void (*pc__quantise_fn)(const float *x, size_t groups, size_t group,
                                const pc__quantised_inputs *to);

/* Bytes of a group of a panel, and where its scales and minimums begin. */
static inline size_t pc__quantised_scale_at(const pc__block_format *format)
{
    return (size_t)format->group * format->bits / 8 * PC__PANEL;
}

static inline size_t pc__quantised_minimum_at(const pc__block_format *format)
{
    return pc__quantised_scale_at(format) + PC__PANEL * (format->half ? 2u : 4u);
}

static inline size_t pc__quantised_group_bytes(const pc__block_format *format)
{
    return pc__quantised_minimum_at(format) + (format->minimum ? PC__PANEL * 4u : 0);
}

/* Rows of a map of one head (attn/map.h) times the values of its K/V head, sums in fp32 in
 * ascending order of the tokens. Pages beyond a row's last key are not read, padding is read and
 * multiplied by zero. Weights may be rounded to bf16 where the values are in bf16. */
typedef struct pc__map_task {
    uint32_t format;
    int causal;
    size_t tokens;
    const void *weights;   /* of row 0, aligned as one weight is; those of a row behind the last key
                              are not the row's own */
    const void *scale;     /* U8: [tokens] fp32, aligned to 4 */
    size_t first, rows;    /* the rows to compute */
    const uint8_t *values; /* the V block of page 0 of the K/V head, 64-byte aligned */
    size_t page_stride;    /* bytes */
    size_t v_dim;          /* 1 … PC__MAX_HEAD */
    float *out;            /* row `first` */
    size_t out_stride;     /* floats between rows */
} pc__map_task;
typedef void (*pc__map_fn)(const pc__map_task *task);

/* Weights of a task's rows over pages [0, pages): weights [rows][stride], exp(score - m[r]) of the
 * tokens that the row sees, 0 of all others of these pages. q is fp32 whatever the dtype of K. l,
 * acc, fetch and q16 are not used. */
typedef void (*pc__weights_fn)(const pc__attn_task *task, uint32_t dtype, size_t pages,
                               float *weights, size_t stride);

/* to = from * scale, `heads` vectors of `dim` floats, then turned as pc__rope_rotate() does, to the
 * same bits; rope NULL: not turned. from may be to. */
typedef void (*pc__rotate_fn)(const pc__rope *rope, const float *cosine, const float *sine,
                              float scale, const float *from, float *to, size_t heads, size_t dim);

typedef struct pc__kernels {
    const char *name;
    pc__attend_fn attend_f32, attend_bf16, attend_f16,
        attend_i8; /* by the dtype of K and V; see pc__attend_of */
    pc__panel_fn panel_f32, panel_bf16;
    pc__quantised_fn panel_quantised;
    pc__quantise_fn quantise;
    void (*silu_gate)(float *x, const float *up, size_t count); /* x = x / (1 + exp(-x)) * up */
    void (*gelu)(float *x,
                 size_t count); /* x = x / 2 * (1 + erf(x / sqrt 2)), off by at most 4e-7 |x| */
    /* y[0 … width) += sum of factor[r] * rows[r * stride …], r = 0 … count - 1 in this order; y
     * apart from the rows */
    void (*add_rows)(const float *factor, const float *rows, size_t stride, size_t count, float *y,
                     size_t width);
    void (*to_bf16)(const float *x, size_t count, uint16_t *out);
    pc__rotate_fn rotate;
    pc__map_fn map_f32, map_bf16, map_f16; /* by the dtype of V; see pc__map_of */
    pc__weights_fn weights;                /* K in F32, BF16; see pc__weights_of */
    int bf16_dot;                          /* 1: bf16 products are faster than fp32 ones here */
} pc__kernels;

/* The best that this CPU and its operating system support; chosen once. PC_CPU_MASK=c, avx2,
 * avx512, avx512vnni, avx512bf16 or amx in the environment sets an upper limit (for tests;
 * base/cpu_mask.h). */
const pc__kernels *pc__kernels_get(void);
/* What computes states in this process, by name: those whose names are equal give equal bits for
 * equal work. The kernels, and oneDNN with its version and instruction set where linear layers may
 * go that way ("avx512bf16", "c+dnn3.1.1-7f"). */
enum { PC__KERNELS_CLASS = 32 };
const char *pc__kernels_class(void); /* for good; shorter than PC__KERNELS_CLASS */
/* By name, for tests; NULL: not built or not supported here. */
const pc__kernels *pc__kernels_named(const char *name);

/* The kernel for K and V of a format: the table's, or the reference where it has none. */
pc__attend_fn pc__attend_of(const pc__kernels *kernels, uint32_t dtype);
pc__weights_fn pc__weights_of(const pc__kernels *kernels, uint32_t dtype);
pc__map_fn pc__map_of(const pc__kernels *kernels, uint32_t dtype); /* F32, BF16 or F16 */

extern const pc__kernels pc__kernels_c;
#if defined(__x86_64__)
extern const pc__kernels pc__kernels_avx2;
extern const pc__kernels pc__kernels_avx512;
extern const pc__kernels pc__kernels_avx512vnni;
extern const pc__kernels pc__kernels_avx512bf16;
void pc__attend_f32_avx512(const pc__attn_task *task, size_t first_page, size_t last_page);
void pc__attend_f16_avx2(const pc__attn_task *task, size_t first_page, size_t last_page);
void pc__attend_f16_avx512(const pc__attn_task *task, size_t first_page, size_t last_page);
void pc__attend_i8_avx2(const pc__attn_task *task, size_t first_page, size_t last_page);
void pc__attend_i8_avx512(const pc__attn_task *task, size_t first_page, size_t last_page);
void pc__attend_i8_avx512vnni(const pc__attn_task *task, size_t first_page, size_t last_page);
void pc__panel_f32_avx512(const pc__panel_task *task);
void pc__panel_bf16_avx512bf16(const pc__panel_task *task);
void pc__panel_quantised_avx2(const pc__quantised_task *task);
void pc__to_bf16_avx2(const float *x, size_t count, uint16_t *out);
void pc__panel_quantised_avx512vnni(const pc__quantised_task *task);
void pc__quantise_avx512(const float *x, size_t groups, size_t group,
                         const pc__quantised_inputs *to);
void pc__add_rows_avx512(const float *factor, const float *rows, size_t stride, size_t count,
                         float *y, size_t width);
void pc__gelu_avx512(float *x, size_t count);
void pc__rotate_avx2(const pc__rope *rope, const float *cosine, const float *sine, float scale,
                     const float *from, float *to, size_t heads, size_t dim);
void pc__rotate_avx512(const pc__rope *rope, const float *cosine, const float *sine, float scale,
                       const float *from, float *to, size_t heads, size_t dim);
void pc__silu_gate_avx512(float *x, const float *up, size_t count);
void pc__map_f32_avx2(const pc__map_task *task);
void pc__map_bf16_avx2(const pc__map_task *task);
void pc__map_f16_avx2(const pc__map_task *task);
void pc__weights_avx2(const pc__attn_task *task, uint32_t dtype, size_t pages, float *to,
                      size_t stride);
void pc__map_f32_avx512(const pc__map_task *task);
void pc__map_bf16_avx512(const pc__map_task *task);
void pc__map_f16_avx512(const pc__map_task *task);
void pc__weights_avx512(const pc__attn_task *task, uint32_t dtype, size_t pages, float *to,
                        size_t stride);
void pc__map_bf16_avx512bf16(const pc__map_task *task);
#endif
void pc__attend_bf16_c(const pc__attn_task *task, size_t first_page, size_t last_page);
void pc__attend_f16_c(const pc__attn_task *task, size_t first_page, size_t last_page);
void pc__attend_i8_c(const pc__attn_task *task, size_t first_page, size_t last_page);
void pc__panel_bf16_c(const pc__panel_task *task);
void pc__panel_quantised_c(const pc__quantised_task *task);
void pc__quantise_c(const float *x, size_t groups, size_t group, const pc__quantised_inputs *to);
void pc__to_bf16_c(const float *x, size_t count, uint16_t *out);
void pc__weights_c(const pc__attn_task *task, uint32_t dtype, size_t pages, float *weights,
                   size_t stride);
void pc__map_f32_c(const pc__map_task *task);
void pc__map_bf16_c(const pc__map_task *task);
void pc__map_f16_c(const pc__map_task *task);

#endif
