/* Attention over fp16 and int8 K and V in fp32 arithmetic, in vectors of any width: include
 * vec256.h or vec512.h before, in one file per width. 32 bits hold 2 halves or 4 bytes, of
 * neighbouring dimensions (K) or tokens (V); they are widened in registers once for up to ROWS
 * rows. The int8 scales go into the other factor: queries times the scales of K's channels, weights
 * times the scales of V's tokens. */
#ifndef PC_ATTN_CPU_ATTEND_FORMATS_VEC_H
#define PC_ATTN_CPU_ATTEND_FORMATS_VEC_H

#include "attn/half.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/softmax_vec.h"
#include "attn/cpu/rows_switch.h"
#include "base/unroll.h"

enum { ROWS = 6, HALVES = 2, BYTES = 4 /* of 32 bits */ };

/* y = scale * y + x B, B [steps / of][line][of] */
typedef struct opened_product {
    const uint8_t *b;
    size_t line, steps; /* steps: a multiple of `of` */
    const float *x;
    size_t ldx;
    const float *scale; /* [rows]; NULL: 0, y is not read */
    float *y;
    size_t ldy, width;
    pc__prefetch *prefetch;
} opened_product;

INLINE vec load_masked(const float *at, const int partial, vec_mask last)
{
    return partial ? vec_load_masked(last, at) : vec_load(at);
}

INLINE void tile(const opened_product *p, size_t column, const int of, const int rows,
                 const int vectors, const int partial, vec_mask last, const int has_rows)
{
    const float *b = (const float *)(const void *)p->b + column, *x = p->x;
    size_t line = p->line, ldx = p->ldx, steps = p->steps;
    float *y = p->y + column;
    const int lines = vectors * VEC * 4 > 64 ? vectors * VEC * 4 / 64 : 1;
    pc__prefetch_cursor f = {0};
    pc__rows_cursor pool_rows = {0};
    if (has_rows)
        pool_rows = pc__rows_loop(p->prefetch->task->prefetch_rows,
                                  steps / (size_t)of * (size_t)lines, b);
    else
        f = pc__prefetch_loop(p->prefetch, steps / (size_t)of, (size_t)lines, b);
    vec sum[ROWS][8];
    PC__UNROLL(6)
    for (int r = 0; r < rows; r++, y += p->ldy)
        PC__UNROLL(8)
    for (int j = 0; j < vectors; j++)
        sum[r][j] = p->scale
                        ? vec_mul(vec_set(p->scale[r]), load_masked(y + VEC * j, partial, last))
                        : vec_zero();
    for (size_t i = 0; i < steps; i += (size_t)of, b += line) {
        if (has_rows)
            pc__rows_step(&pool_rows, lines);
        else
            pc__prefetch_step(&f, lines);
        PC__UNROLL(8)
        for (int j = 0; j < vectors; j++) {
            vec packed = load_masked(b + VEC * j, partial, last), part[4];
            if (of == HALVES)
                vec_halves(packed, &part[0], &part[1]);
            else
                PC__UNROLL(4)
            for (int k = 0; k < of; k++)
                part[k] = vec_byte(packed, k);
            PC__UNROLL(4)
            for (int k = 0; k < of; k++)
                PC__UNROLL(6)
            for (int r = 0; r < rows; r++)
                sum[r][j] = vec_fma(vec_broadcast(x + (size_t)r * ldx + i + (size_t)k), part[k],
                                    sum[r][j]);
        }
    }
    y = p->y + column;
    PC__UNROLL(6)
    for (int r = 0; r < rows; r++, y += p->ldy)
        PC__UNROLL(8)
    for (int j = 0; j < vectors; j++)
        if (partial)
            vec_store_masked(last, y + VEC * j, sum[r][j]);
        else
            vec_store(y + VEC * j, sum[r][j]);
}

INLINE void multiply(const opened_product *p, const int of, const int rows)
{
    const int most = vec_columns(rows);
    const vec_mask all = vec_range(0, VEC, 0);
    size_t column = 0;
    for (; column + (size_t)most * VEC <= p->width; column += (size_t)most * VEC)
        if (pc__prefetches_rows(p->prefetch))
            tile(p, column, of, rows, most, 0, all, 1);
        else
            tile(p, column, of, rows, most, 0, all, 0);
    for (; column + VEC <= p->width; column += VEC)
        tile(p, column, of, rows, 1, 0, all, 0);
    if (column < p->width)
        tile(p, column, of, rows, 1, 1, vec_range(0, (uint32_t)(p->width - column), 0), 0);
}

typedef struct formats_block {
    const pc__attn_task *task;
    size_t page, row;
    const uint8_t *data;
    pc__prefetch prefetch;
    float q[ROWS][PC__MAX_HEAD]; /* with the scales of K; padded with zeros to 32 bits */
    float s[ROWS][PC__PAGE], scale[ROWS];
} formats_block;

static void scale_query(formats_block *b, size_t r, size_t padded, const int of)
{
    size_t dim = b->task->k_dim;
    const float *q = b->task->q + (b->row + r) * dim;
    const uint16_t *scale = (const uint16_t *)(const void *)(b->data + pc__i8_k_scales(dim));
    for (size_t d = 0; d < dim; d++)
        b->q[r][d] = of == BYTES ? q[d] * pc__bf16_to(scale[d]) : q[d];
    for (size_t d = dim; d < padded; d++)
        b->q[r][d] = 0.0f;
}

static void weigh(formats_block *b, size_t r, const int of)
{
    const pc__attn_task *task = b->task;
    size_t row = b->row + r;
    const uint16_t *scale = (const uint16_t *)(const void *)(pc__task_values(task, b->data)
                                                             + pc__i8_v_scales(task->v_dim));
    b->scale[r] = vec_softmax(task, row, b->page, b->s[r]);
    task->l[row] = task->l[row] * b->scale[r] + vec_sum_page(b->s[r]);
    for (size_t t = 0; of == BYTES && t < PC__PAGE; t++)
        b->s[r][t] *= pc__bf16_to(scale[t]);
}

INLINE void attend_block(formats_block *b, const int of, const int rows)
{
    const pc__attn_task *task = b->task;
    size_t padded = (task->k_dim + (size_t)of - 1) / (size_t)of * (size_t)of;
    opened_product scores = {.b = b->data,
                             .line = PC__PAGE,
                             .steps = padded,
                             .x = b->q[0],
                             .ldx = PC__MAX_HEAD,
                             .y = b->s[0],
                             .ldy = PC__PAGE,
                             .width = PC__PAGE,
                             .prefetch = &b->prefetch};
    opened_product values = {.b = pc__task_values(task, b->data),
                             .line = task->v_dim,
                             .steps = PC__PAGE,
                             .x = b->s[0],
                             .ldx = PC__PAGE,
                             .scale = b->scale,
                             .y = task->acc + b->row * task->v_dim,
                             .ldy = task->v_dim,
                             .width = task->v_dim,
                             .prefetch = &b->prefetch};
    if (of == BYTES || padded > task->k_dim) {
        for (size_t r = 0; r < (size_t)rows; r++)
            scale_query(b, r, padded, of);
    } else {
        scores.x = task->q + b->row * task->k_dim;
        scores.ldx = task->k_dim;
    }
    multiply(&scores, of, rows);
    for (size_t r = 0; r < (size_t)rows; r++)
        weigh(b, r, of);
    multiply(&values, of, rows);
}

INLINE void attend(const pc__attn_task *task, size_t first_page, size_t last_page,
                   size_t page_bytes, const int of)
{
    formats_block b; /* its arrays are filled row by row */
    b.task = task;
    b.prefetch = (pc__prefetch){.task = task, .page_lines = (page_bytes + 63) / 64};
    for (b.page = first_page; b.page < last_page; b.page++) {
        b.data = task->pages + b.page * task->page_stride;
        pc__prefetch_page(&b.prefetch, b.data, b.page + 1 == last_page && !task->goes_on);
        for (b.row = 0; b.row < task->rows; b.row += ROWS) {
            size_t n = task->rows - b.row < ROWS ? task->rows - b.row : ROWS;
            if (!pc__block_sees(task, b.row, n, b.page))
                continue;
#define ATTEND(n) attend_block(&b, of, n)
            ROWS_6(n, ATTEND)
        }
    }
}

void AT_LEVEL(pc__attend_f16)(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend(task, first_page, last_page, pc__task_page_bytes(task, 2 * PC__PAGE * task->v_dim),
           HALVES);
}

void AT_LEVEL(pc__attend_i8)(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend(task, first_page, last_page,
           pc__task_page_bytes(task, pc__i8_v_scales(task->v_dim) + 2 * PC__PAGE), BYTES);
}

#endif
