/* The kernels: one table of functions per CPU level. Kernels do not allocate, fail or use globals.
 * Every variant is tested against the C reference (test/kernel/). A row's result never depends on
 * the other rows of a call. */
#ifndef PC_ATTN_KERNELS_H
#define PC_ATTN_KERNELS_H

#include "attn/block_format.h"
#include "attn/kv.h"
#include "attn/rope.h"

/* Rows of a pool (attn/kv_pool.h) that are needed after a call, for prefetching. */
typedef struct pc__prefetch_rows {
    const uint8_t *const *rows; /* [count] */
    size_t count, lines;        /* lines: cache lines of each row */
    size_t done;                /* lines that were prefetched; kernels count them */
} pc__prefetch_rows;

/* Attention of query rows over a run of pages of one K/V head. The softmax state continues from
 * call to call. Start: m = -inf, l = 0, acc = 0. End: out = acc / l, LSE = m + ln l (l is 0 if the
 * row saw nothing). Row r sees tokens [lo[r], hi[r]) of the run. Pages outside [first_page,
 * last_page) are not read. Padding of the last page is read but not used. For I8, queries and
 * weights are multiplied by the scales of K and V and may then be rounded to 16 bits of the largest
 * value of their row and page; the result is off by no more than that. Score: q.k, then the soft
 * cap, then - slope * (distance - relative position of the key). */
typedef struct pc__attn_task {
    const uint8_t *pages; /* page 0 of this head and layer, 64-byte aligned */
    size_t page_stride;   /* bytes */
    /* pages of one head that are needed after this call, for prefetching; NULL if prefetch_count is
     * 0 */
    const uint8_t *const *prefetch_pages;
    size_t prefetch_count;
    /* [2] after these, rows to prefetch, one list after the other; NULL: none */
    pc__prefetch_rows *prefetch_rows;
    int goes_on;     /* 1: the next call continues behind the last page */
    size_t v_offset; /* bytes from the K block of a page to its V block */
    /* V block of the one page of the call, 64-byte aligned, of a run whose pages have none; NULL:
     * each page has its own */
    const uint8_t *values;
    size_t k_dim, v_dim;     /* 1 … PC__MAX_HEAD */
    const int64_t *relative; /* of the run's tokens; NULL: 0, 1, 2 … */
    size_t rows;
    const float *q;          /* unless BF16: [rows][k_dim], rotated and scaled */
    const uint16_t *q16;     /* BF16: [rows][k_dim rounded up to even], padded with zeros */
    const uint32_t *lo, *hi; /* [rows] */
    const float *slope;      /* [rows] or NULL */
    const int64_t *distance; /* [rows] row position - run start; read only with slopes */
    float soft_cap;          /* 0: none */
    float *m, *l, *acc;      /* [rows], [rows], [rows][v_dim] */
} pc__attn_task;
/* Rows that the bf16 kernel computes together. It prefetches half a page per block and page. */
enum { PC__BLOCK_ROWS = 6 };
typedef void pc__attend_kernel(const pc__attn_task *task, size_t first_page, size_t last_page);
typedef pc__attend_kernel *pc__attend_fn;

/* The V block of a page, and the bytes of a page whose V block would have so many. */
static inline const uint8_t *pc__task_values(const pc__attn_task *task, const uint8_t *page)
{
    return task->values ? task->values : page + task->v_offset;
}

static inline size_t pc__task_page_bytes(const pc__attn_task *task, size_t v_bytes)
{
    return task->v_offset + (task->values ? 0 : v_bytes);
}

/* Packs PC__PAGE rows of K and of V of a pool (attn/kv_pool.h) into one page of one head. Rows need
 * only be aligned to their elements; nothing behind their last element is read. */
typedef struct pc__pack_task {
    const uint8_t *const *k, *const *v; /* [PC__PAGE] rows of [k_dim] and [v_dim] elements */
    size_t k_dim, v_dim;                /* 1 … PC__MAX_HEAD */
    float k_scale, v_scale;             /* I8 is packed as fp32, times these */
    void *k_block, *v_block;            /* of the page, 64-byte aligned */
    /* [PC__PAGE] rows that are packed next, for prefetching; NULL: none */
    const uint8_t *const *next_k, *const *next_v;
} pc__pack_task;
typedef void pc__pack_kernel(const pc__pack_task *task);
typedef pc__pack_kernel *pc__pack_fn;

/* Linear layers over panels of PC__PANEL output features. F32: [in][PC__PANEL], of fp32, or in
 * panel_f32_f16 and panel_f32_bf16 of fp16 and bf16, which are widened in registers; BF16: [in
 * rounded up to even / 2][PC__PANEL][2]; 64-byte aligned. y[r][0 … width) = sum over i of x[r][i] *
 * panel, in ascending i. x: F32 [rows][ldx] floats; BF16 [rows][ldx] bf16 with ldx even, padded
 * with zeros. Only `width` <= PC__PANEL features are written. */
enum { PC__PANEL = 32 };
typedef struct pc__panel_task {
    const void *panel;
    size_t in;
    const void *x;
    size_t ldx, rows;
    float *y; /* [rows][ldy] */
    size_t ldy, width;
    /* the panel that is needed after this call, of the same size, for prefetching; or NULL */
    const void *next;
} pc__panel_task;
typedef void pc__panel_kernel(const pc__panel_task *task);
typedef pc__panel_kernel *pc__panel_fn;

/* Quantised activations: x = code * step, with one step per group. A code has 8 bits, `high`, or,
 * in wide groups, 16: 256 * high + low with signed bytes. */
typedef struct pc__quantised_inputs {
    int8_t *high, *low; /* [rows][groups * group]; low: undefined in groups that are not wide */
    /* [groups][stride], of which `rows` are used; negative_sum: minus the sum of the group's codes;
     * wide: 0 or 1 */
    float *step;
    int32_t *negative_sum;
    uint8_t *wide;
    size_t stride;
} pc__quantised_inputs;
#define PC__QUANTISE_MOST 127.0f /* the largest code of 8 bits; of 16: 256 times that */
/* Groups whose largest magnitude is smaller are zeros: steps and their products are normal
 * numbers. */
#define PC__QUANTISE_LEAST 0x1p-100f

/* Linear layers over panels of quantised weights (layout: attn/cpu/quantised_panel.h). Per group
 * and feature: product = sum of (value - zero) * code, exact in 32 bits; with scale = d * s,
 * y = fma(product * step, scale, y); with minimums, minimum = dmin * m,
 * y = fma(negative_sum * step, minimum, y). All variants give the same bits. */
size_t pc__quantised_panel_bytes(const pc__block_format *format, size_t in);
typedef struct pc__quantised_task {
    const uint8_t *panel; /* 64-byte aligned */
    pc__block_format format;
    size_t groups;
    pc__quantised_inputs x; /* row 0 is the first to compute */
    size_t rows;
    float *y; /* [rows][ldy]; `width` <= PC__PANEL features are written */
    size_t ldy, width;
    /* the panel that is needed after this call, of the same size, for prefetching; or NULL */
    const uint8_t *next;
} pc__quantised_task;
typedef void pc__quantised_kernel(const pc__quantised_task *task);
typedef pc__quantised_kernel *pc__quantised_fn;

/* Writes `rows` <= PC__PANEL rows of `in` inputs, in memory of exactly that size, into such a panel
 * (64-byte aligned); the features behind them are zero. All variants give the same bits. */
typedef void pc__quantised_pack_kernel(const pc__block_format *format, size_t in,
                                       const pc__block_rows *from, size_t rows, uint8_t *panel);
typedef pc__quantised_pack_kernel *pc__quantised_pack_fn;

/* Quantises one row into row 0 of `to`: `groups` groups of `group` values (a multiple of 16). The
 * largest magnitude of a group becomes the largest code, the others are rounded to nearest. Wide
 * are all groups, or, unless all_wide, those that stand out (attn/cpu/quantise.h): their steps
 * would be much larger than those of the row's other groups. If any value of the row is NaN or
 * infinite, its steps are NaN and its codes are 0, so that all its outputs are NaN. All variants
 * give the same bits. */
typedef void pc__quantise_kernel(const float *x, size_t groups, size_t group, int all_wide,
                                 const pc__quantised_inputs *to);
typedef pc__quantise_kernel *pc__quantise_fn;

/* Rows of an attention map of one head (attn/map.h) times the values of its K/V head; fp32 sums in
 * ascending order of the tokens. Pages beyond a row's last key are not read. Padding is read and
 * multiplied by zero. Weights may be rounded to bf16 where the values are bf16. */
typedef struct pc__map_task {
    uint32_t format;
    int causal;
    size_t tokens;
    /* of row 0, aligned like one weight; behind a row's last key another row may begin */
    const void *weights;
    const void *scale;     /* U8: [tokens] fp32, aligned to 4 */
    size_t first, rows;    /* the rows to compute */
    const uint8_t *values; /* the V block of page 0 of the K/V head, 64-byte aligned */
    size_t page_stride;    /* bytes */
    size_t v_dim;          /* 1 … PC__MAX_HEAD */
    float *out;            /* row `first` */
    size_t out_stride;     /* floats between rows */
} pc__map_task;
typedef void pc__map_kernel(const pc__map_task *task);
typedef pc__map_kernel *pc__map_fn;

/* Attention weights of a task's rows over pages [0, pages): weights [rows][stride] = exp(score -
 * m[r]) for the tokens that the row sees, 0 for all others of these pages. q is fp32 for every
 * dtype of K. l, acc, prefetch_pages and q16 are not used. */
typedef void pc__weights_kernel(const pc__attn_task *task, uint32_t dtype, size_t pages,
                                float *weights, size_t stride);
typedef pc__weights_kernel *pc__weights_fn;

/* RoPE: to = from * scale, for `heads` vectors of `dim` floats, then rotated with the bits of
 * pc__rope_rotate(); rope NULL: not rotated. `from` may be `to`. */
typedef void pc__rotate_kernel(const pc__rotation *rope, const float *cosine, const float *sine,
                               float scale, const float *from, float *to, size_t heads, size_t dim);
typedef pc__rotate_kernel *pc__rotate_fn;

typedef void pc__gate_kernel(float *x, const float *up, size_t count);
typedef void pc__activation_kernel(float *x, size_t count);
/* y[0 … width) += sum of factor[r] * rows[r * stride …], r ascending; y overlaps no row */
typedef void pc__add_rows_kernel(const float *factor, const float *rows, size_t stride,
                                 size_t count, float *y, size_t width);
/* to_f16: values beyond 65504 become 65504; a NaN stays a NaN, of any bits */
typedef void pc__narrow_kernel(const float *x, size_t count, uint16_t *out);
typedef void pc__widen_kernel(const uint16_t *x, size_t count, float *out);

typedef struct pc__kernels {
    const char *name;
    /* by the dtype of K and V; see pc__attend_of */
    pc__attend_fn attend_f32, attend_bf16, attend_f16, attend_i8;
    pc__panel_fn panel_f32, panel_bf16;
    pc__panel_fn panel_f32_f16, panel_f32_bf16; /* the bits of panel_f32; NULL in plain C */
    pc__quantised_fn panel_quantised;
    pc__quantised_pack_fn quantised_pack;
    pc__quantise_fn quantise;
    pc__gate_kernel *silu_gate; /* x = x / (1 + exp(-x)) * up */
    /* x = x / 2 * (1 + erf(x / sqrt 2)), with an error of at most 4e-7 |x| */
    pc__activation_kernel *gelu;
    pc__add_rows_kernel *add_rows;
    pc__narrow_kernel *to_bf16, *to_f16;
    pc__widen_kernel *from_bf16, *from_f16;
    pc__pack_fn pack_f32, pack_16, pack_i8; /* by the dtype of the pool; see pc__pack_of */
    pc__rotate_fn rotate;
    pc__map_fn map_f32, map_bf16, map_f16; /* by the dtype of V; see pc__map_of */
    pc__weights_fn weights;                /* K in F32, BF16; see pc__weights_of */
    int bf16_dot;                          /* 1: bf16 products are faster here than fp32 ones */
} pc__kernels;

/* The best kernels that the CPU and its operating system support; chosen once. PC_CPU_MASK=c, avx2,
 * avx512, avx512vnni, avx512bf16 or amx in the environment sets an upper limit (for tests;
 * base/cpu_mask.h). */
const pc__kernels *pc__kernels_get(void);
/* The name of the class of kernels: processes with equal names compute equal bits. It names the
 * kernels and, where linear layers may use oneDNN, its version and instruction set ("avx512bf16",
 * "c+dnn3.1.1-7f"). */
enum { PC__KERNELS_CLASS = 32 };
const char *pc__kernels_class(void); /* never freed; shorter than PC__KERNELS_CLASS */
/* 1: layers in fp32 keep weights of 16 bits as they are. */
int pc__keeps_halves(void);
/* By name, for tests; NULL: not built, or not supported by this CPU. */
const pc__kernels *pc__kernels_named(const char *name);

/* The kernel for a dtype of K and V. */
pc__attend_fn pc__attend_of(const pc__kernels *kernels, uint32_t dtype);
pc__pack_fn pc__pack_of(const pc__kernels *kernels, uint32_t dtype);
pc__weights_fn pc__weights_of(const pc__kernels *kernels, uint32_t dtype);
pc__map_fn pc__map_of(const pc__kernels *kernels, uint32_t dtype); /* F32, BF16 or F16 */

#endif
