/* Attention, linear layers, activations and RoPE in fp32 arithmetic, in vectors of any width:
 * include vec256.h or vec512.h before, in one file per width. bf16 K, V and weights are widened in
 * registers; attention weights are not rounded. */
#ifndef PC_ATTN_CPU_KERNELS_VEC_H
#define PC_ATTN_CPU_KERNELS_VEC_H

#include "attn/cpu/kernels_internal.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/softmax_vec.h"

#include "attn/cpu/product_vec.h"

enum { GROUP = 24 };

/* A page for up to GROUP rows: K for all of them while it is in the first-level cache, then the
 * weights, then V. */
typedef struct rows_group {
    const pc__attn_task *task;
    const uint8_t *data; /* the page */
    size_t page, row, rows;
    size_t begun; /* pages of task->prefetch_pages that were prefetched */
    float s[GROUP][PC__PAGE], scale[GROUP];
} rows_group;

/* Bytes to the page that a block of rows prefetches: the first block the next page of the run, the
 * others the task's prefetch_pages. */
INLINE ptrdiff_t prefetch_by(rows_group *g, size_t row, int last_page)
{
    if (row == 0 && !last_page)
        return (ptrdiff_t)g->task->page_stride;
    return g->begun < g->task->prefetch_count ? g->task->prefetch_pages[g->begun++] - g->data : 0;
}

INLINE void block_scores(rows_group *g, size_t at, size_t rows, const int bf16, ptrdiff_t prefetch)
{
    const pc__attn_task *task = g->task;
    size_t dim = bf16 ? task->k_dim + task->k_dim % 2 : task->k_dim, row = g->row + at;
    vec_product p = {.b = g->data,
                     .line = PC__PAGE,
                     .steps = dim,
                     .y = g->s[at],
                     .ldy = PC__PAGE,
                     .width = PC__PAGE,
                     .prefetch = prefetch,
                     .prefetch_rows = prefetch ? NULL : task->prefetch_rows};
    const void *q = bf16 ? (const void *)(task->q16 + row * dim) : task->q + row * dim;
    multiply_all(&p, q, dim, rows, bf16);
}

INLINE void block_values(rows_group *g, size_t at, size_t rows, const int bf16, ptrdiff_t prefetch)
{
    const pc__attn_task *task = g->task;
    vec_product p = {.b = pc__task_values(task, g->data),
                     .line = task->v_dim,
                     .steps = PC__PAGE,
                     .x = g->s[at],
                     .ldx = PC__PAGE,
                     .scale = g->scale + at,
                     .y = task->acc + (g->row + at) * task->v_dim,
                     .ldy = task->v_dim,
                     .width = task->v_dim,
                     .prefetch = task->values ? 0 : prefetch,
                     .prefetch_rows = prefetch ? NULL : task->prefetch_rows};
    (bf16 ? multiply_bf16 : multiply_f32)(&p, rows);
}

INLINE void row_weights(rows_group *g, size_t at)
{
    size_t row = g->row + at;
    float *l = &g->task->l[row];
    g->scale[at] = vec_softmax(g->task, row, g->page, g->s[at]);
    *l = *l * g->scale[at] + vec_sum_page(g->s[at]);
}

/* Skips blocks of rows that see nothing of the page, as in a causal prefill. */
INLINE void group_page(rows_group *g, int last_page, const int bf16)
{
    size_t step_rows = block_rows(g->rows);
    int sees[GROUP];
    ptrdiff_t prefetch[GROUP];
    for (size_t at = 0; at < g->rows; at += step_rows) {
        size_t n = g->rows - at < step_rows ? g->rows - at : step_rows;
        if (!(sees[at] = pc__block_sees(g->task, g->row + at, n, g->page)))
            continue;
        prefetch[at] = prefetch_by(g, g->row + at, last_page);
        block_scores(g, at, n, bf16, prefetch[at]);
        for (size_t r = at; r < at + n; r++)
            row_weights(g, r);
    }
    for (size_t at = 0; at < g->rows; at += step_rows)
        if (sees[at])
            block_values(g, at, g->rows - at < step_rows ? g->rows - at : step_rows, bf16,
                         prefetch[at]);
}

INLINE void attend(const pc__attn_task *task, size_t first_page, size_t last_page, const int bf16)
{
    rows_group g; /* too large to clear for a single row */
    g.task = task;
    g.begun = 0;
    for (g.page = first_page; g.page < last_page; g.page++) {
        g.data = task->pages + g.page * task->page_stride;
        for (g.row = 0; g.row < task->rows; g.row += GROUP) {
            g.rows = task->rows - g.row < GROUP ? task->rows - g.row : GROUP;
            group_page(&g, g.page + 1 == last_page && !task->goes_on, bf16);
        }
    }
}

void AT_LEVEL(pc__attend_f32)(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend(task, first_page, last_page, 0);
}

void AT_LEVEL(pc__attend_bf16)(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend(task, first_page, last_page, 1);
}

/* How many bytes several rows prefetch ahead of what the hardware prefetches; a single row reads
 * faster than instructions can prefetch. */
enum { PANEL_PREFETCH = 2048 };

INLINE void panel_of(const pc__panel_task *task, const int bf16)
{
    vec_product p = {.b = task->panel,
                     .line = PC__PANEL,
                     .steps = task->in,
                     .y = task->y,
                     .ldy = task->ldy,
                     .width = task->width,
                     .prefetch = task->rows > 1 ? PANEL_PREFETCH : 0};
    multiply_all(&p, task->x, task->ldx, task->rows, bf16);
}

void AT_LEVEL(pc__panel_f32)(const pc__panel_task *task)
{
    panel_of(task, 0);
}

void AT_LEVEL(pc__panel_bf16)(const pc__panel_task *task)
{
    panel_of(task, 1);
}

/* Inputs of a panel that are widened at a time: they stay in the first-level cache for all rows. */
enum { WIDENED = 128 };

/* Panels of 16-bit floats: the sums of panel_f32, with its bits. */
INLINE void panel_of_halves(const pc__panel_task *task, const int bf16)
{
    const uint16_t *panel = task->panel;
    float wide[WIDENED * PC__PANEL];
    for (size_t at = 0, n; at < task->in; at += WIDENED, panel += WIDENED * PC__PANEL) {
        n = task->in - at < WIDENED ? task->in - at : WIDENED;
        for (size_t i = 0; i < n * PC__PANEL; i += VEC) {
            if (task->rows > 1 && i % PC__PANEL == 0)
                pc__prefetch_line((const char *)(panel + i) + PANEL_PREFETCH);
            vec_store(wide + i, bf16 ? vec_from_bf16(panel + i) : vec_from_half(panel + i));
        }
        for (size_t row = 0, rows; row < task->rows; row += rows) {
            vec_product piece = {.b = wide,
                                 .line = PC__PANEL,
                                 .steps = n,
                                 .x = (const float *)task->x + row * task->ldx + at,
                                 .ldx = task->ldx,
                                 .scale = at ? ones : NULL,
                                 .y = task->y + row * task->ldy,
                                 .ldy = task->ldy,
                                 .width = task->width};
            rows = block_rows(task->rows - row);
            multiply_f32(&piece, rows);
        }
    }
}

void AT_LEVEL(pc__panel_f32_f16)(const pc__panel_task *task)
{
    panel_of_halves(task, 0);
}

void AT_LEVEL(pc__panel_f32_bf16)(const pc__panel_task *task)
{
    panel_of_halves(task, 1);
}

void AT_LEVEL(pc__silu_gate)(float *x, const float *up, size_t count)
{
    for (size_t i = 0; i < count; i += VEC) {
        vec_mask mask = vec_range(0, count - i < VEC ? (uint32_t)(count - i) : VEC, 0);
        vec v = vec_load_masked(mask, x + i), e = vec_exp(vec_sub(vec_zero(), v));
        v = vec_mul(vec_div(v, vec_add(vec_set(1.0f), e)), vec_load_masked(mask, up + i));
        vec_store_masked(mask, x + i, v);
    }
}

/* erf as z P(z^2) / Q(z^2), 1 beyond 4; the fit has an error of 2e-8, rounding makes it 3e-7. */
INLINE vec vec_erf(vec z)
{
    static const float over[] = {1.974798578885384e-06f,  2.880383108276874e-04f,
                                 4.0036276914179325e-03f, 5.346742644906044e-02f,
                                 1.9624894857406616e-01f, 1.128378987312317f};
    static const float under[] = {3.748036397155374e-05f,  1.2163501232862473e-03f,
                                  1.5444392338395119e-02f, 1.1647637188434601e-01f,
                                  5.072522759437561e-01f,  1.0f};
    vec t, p = vec_set(over[0]), q = vec_set(under[0]);
    z = vec_min(vec_set(4.0f), vec_max(vec_set(-4.0f), z));
    t = vec_mul(z, z);
    for (int i = 1; i < 6; i++) {
        p = vec_fma(p, t, vec_set(over[i]));
        q = vec_fma(q, t, vec_set(under[i]));
    }
    return vec_min(vec_set(1.0f), vec_max(vec_set(-1.0f), vec_div(vec_mul(z, p), q)));
}

void AT_LEVEL(pc__gelu)(float *x, size_t count)
{
    for (size_t i = 0; i < count; i += VEC) {
        vec_mask mask = vec_range(0, count - i < VEC ? (uint32_t)(count - i) : VEC, 0);
        vec v = vec_load_masked(mask, x + i),
            e = vec_erf(vec_mul(v, vec_set(0.70710678118654752f)));
        v = vec_mul(vec_mul(vec_set(0.5f), v), vec_add(vec_set(1.0f), e));
        vec_store_masked(mask, x + i, v);
    }
}

void AT_LEVEL(pc__from_bf16)(const uint16_t *x, size_t count, float *out)
{
    widen(x, count, out);
}

void AT_LEVEL(pc__from_f16)(const uint16_t *x, size_t count, float *out)
{
    size_t i = 0;
    for (; i + VEC <= count; i += VEC)
        vec_store(out + i, vec_from_half(x + i));
    pc__from_f16_c(x + i, count - i, out + i);
}

void AT_LEVEL(pc__add_rows)(const float *factor, const float *rows, size_t stride, size_t count,
                            float *y, size_t width)
{
    size_t i = 0;
    for (; i + 4 * VEC <= width; i += 4 * VEC) {
        vec sum[4];
        for (size_t n = 0; n < 4; n++)
            sum[n] = vec_load(y + i + n * VEC);
        for (size_t r = 0; r < count; r++)
            for (size_t n = 0; n < 4; n++)
                sum[n] = vec_fma(vec_broadcast(factor + r),
                                 vec_load(rows + r * stride + i + n * VEC), sum[n]);
        for (size_t n = 0; n < 4; n++)
            vec_store(y + i + n * VEC, sum[n]);
    }
    for (; i < width; i += VEC) {
        vec_mask mask = vec_range(0, width - i < VEC ? (uint32_t)(width - i) : VEC, 0);
        vec sum = vec_load_masked(mask, y + i);
        for (size_t r = 0; r < count; r++)
            sum = vec_fma(vec_broadcast(factor + r), vec_load_masked(mask, rows + r * stride + i),
                          sum);
        vec_store_masked(mask, y + i, sum);
    }
}

/* RoPE. Products and sums are rounded one by one, in the order of pc__rope_rotate(), so that all
 * variants give the same bits. All heads of a call share their angles. */
typedef struct rope_rotation {
    const float *cosine, *sine, *from;
    float *to;
    size_t half, heads, dim;
    vec scale;
} rope_rotation;

/* Pairs (i, i + half). */
INLINE void rotate_halves(const rope_rotation *t)
{
    for (size_t i = 0; i < t->half; i += VEC) {
        vec_mask mask = vec_range(0, (uint32_t)t->half, (uint32_t)i);
        vec c = vec_load_masked(mask, t->cosine + i), s = vec_load_masked(mask, t->sine + i);
        const float *from = t->from + i;
        float *to = t->to + i;
        for (size_t h = 0; h < t->heads; h++, from += t->dim, to += t->dim) {
            vec a = vec_mul(vec_load_masked(mask, from), t->scale),
                b = vec_mul(vec_load_masked(mask, from + t->half), t->scale);
            vec_store_masked(mask, to, vec_sub(vec_mul(a, c), vec_mul(b, s)));
            vec_store_masked(mask, to + t->half, vec_add(vec_mul(a, s), vec_mul(b, c)));
        }
    }
}

/* Pairs (2i, 2i + 1). */
INLINE void rotate_pairs(const rope_rotation *t)
{
    for (size_t i = 0; i < t->half; i += VEC / 2) {
        size_t angles = t->half - i < VEC / 2 ? t->half - i : VEC / 2;
        vec_mask mask = vec_range(0, (uint32_t)(2 * angles), 0);
        vec c = vec_twice(t->cosine + i, angles), s = vec_twice(t->sine + i, angles);
        const float *from = t->from + 2 * i;
        float *to = t->to + 2 * i;
        for (size_t h = 0; h < t->heads; h++, from += t->dim, to += t->dim) {
            vec x = vec_mul(vec_load_masked(mask, from), t->scale);
            vec_store_masked(mask, to, vec_sub_add(vec_mul(x, c), vec_mul(vec_swap(x), s)));
        }
    }
}

/* Dimensions that are in no pair are only scaled. */
INLINE void scale_rest(const rope_rotation *t)
{
    for (size_t h = 0; h < t->heads; h++)
        for (size_t i = 2 * t->half; i < t->dim; i += VEC) {
            vec_mask mask = vec_range(0, (uint32_t)t->dim, (uint32_t)i);
            vec_store_masked(mask, t->to + h * t->dim + i,
                             vec_mul(vec_load_masked(mask, t->from + h * t->dim + i), t->scale));
        }
}

void AT_LEVEL(pc__rotate)(const pc__rotation *rope, const float *cosine, const float *sine,
                          float scale, const float *from, float *to, size_t heads, size_t dim)
{
    rope_rotation t = {.cosine = cosine,
                       .sine = sine,
                       .from = from,
                       .to = to,
                       .half = rope ? (size_t)rope->dims / 2 : 0,
                       .heads = heads,
                       .dim = dim,
                       .scale = vec_set(scale)};
    if (rope && rope->interleaved)
        rotate_pairs(&t);
    else
        rotate_halves(&t);
    scale_rest(&t);
}

#endif
