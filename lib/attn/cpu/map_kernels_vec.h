/* Maps times values, and weights of maps, in fp32 arithmetic, in vectors of any width: include
 * vec256.h or vec512.h before, in one file per width. */
#ifndef PC_ATTN_CPU_MAP_KERNELS_VEC_H
#define PC_ATTN_CPU_MAP_KERNELS_VEC_H

#include "attn/cpu/map_kernels.h"
#include "attn/cpu/softmax_vec.h"

#include "attn/cpu/product_vec.h"

/* OPEN: columns of fp16 values that are widened at a time. BF16, F16: formats of values. */
enum { GROUP = 24, OPEN = 64, BF16 = 1, F16 = 2 };

/* A page for up to GROUP rows while it is in the first-level cache. */
typedef struct map_mixing {
    const pc__map_task *task;
    const uint8_t *values;
    size_t page, row, rows; /* rows [row, row + rows) of the head */
    float p[GROUP][PC__PAGE];
    float wide[PC__PAGE][OPEN]; /* of fp16 values */
} map_mixing;

INLINE void load_weights(map_mixing *m, size_t r)
{
    uint8_t own[PC__PAGE * 4];
    const void *from = pc__map_page(m->task, m->row + r, m->page, own);
    for (size_t t = 0; t < PC__PAGE; t += VEC) {
        vec x = m->task->format == PC_MAP_F32   ? vec_load((const float *)from + t)
                : m->task->format == PC_MAP_F16 ? vec_from_half((const uint16_t *)from + t)
                                                : vec_from_bytes((const uint8_t *)from + t);
        vec_store(m->p[r] + t, x);
    }
}

/* Columns [column, column + width) of rows [at, at + n) of the group, over a page. */
INLINE void block_product(map_mixing *m, size_t at, size_t n, const void *b, size_t line,
                          size_t column, size_t width, const int bf16)
{
    const pc__map_task *task = m->task;
    vec_product p = {.b = b,
                     .line = line,
                     .steps = pc__map_steps(task, m->row + at + n - 1, m->page),
                     .x = m->p[at],
                     .ldx = PC__PAGE,
                     .scale = m->page ? ones : NULL,
                     .y = task->out + (m->row - task->first + at) * task->out_stride + column,
                     .ldy = task->out_stride,
                     .width = width};
    if (p.steps)
        (bf16 ? multiply_bf16 : multiply_f32)(&p, n);
}

INLINE void blocks(map_mixing *m, const void *b, size_t line, size_t column, size_t width,
                   const int bf16)
{
    size_t step = block_rows(m->rows);
    for (size_t at = 0; at < m->rows; at += step)
        block_product(m, at, m->rows - at < step ? m->rows - at : step, b, line, column, width,
                      bf16);
}

static void open_halves(map_mixing *m, size_t column, size_t width)
{
    const uint16_t *from = (const uint16_t *)(const void *)m->values;
    for (size_t t = 0; t < PC__PAGE; t += 2, from += 2 * m->task->v_dim)
        for (size_t d = 0; d < width; d += VEC) {
            vec a, b,
                both = vec_load_masked(
                    vec_range(0, (uint32_t)(width - d < VEC ? width - d : VEC), 0),
                    (const float *)(const void *)(from + 2 * (column + d)));
            vec_halves(both, &a, &b);
            vec_store(m->wide[t] + d, a);
            vec_store(m->wide[t + 1] + d, b);
        }
}

INLINE void page_of_group(map_mixing *m, const int of)
{
    size_t dim = m->task->v_dim;
    for (size_t r = 0; r < m->rows; r++)
        load_weights(m, r);
    if (of != F16) {
        blocks(m, m->values, dim, 0, dim, of == BF16);
        return;
    }
    for (size_t column = 0; column < dim; column += OPEN) {
        size_t width = dim - column < OPEN ? dim - column : OPEN;
        open_halves(m, column, width);
        blocks(m, m->wide, OPEN, column, width, 0);
    }
}

INLINE void scale_row(const pc__map_task *task, size_t row)
{
    float *out = task->out + (row - task->first) * task->out_stride;
    vec scale = vec_set(pc__map_scale(task, row));
    for (size_t d = 0; d < task->v_dim; d += VEC) {
        vec_mask mask = vec_range(0, (uint32_t)(task->v_dim - d < VEC ? task->v_dim - d : VEC), 0);
        vec_store_masked(mask, out + d, vec_mul(vec_load_masked(mask, out + d), scale));
    }
}

INLINE void mix_rows(const pc__map_task *task, const int of)
{
    map_mixing m; /* its arrays are filled before they are read */
    m.task = task;
    for (m.row = task->first; m.row < task->first + task->rows; m.row += m.rows) {
        size_t left = task->first + task->rows - m.row, keys;
        m.rows = left < GROUP ? left : GROUP;
        keys = pc__map_keys(task, m.row + m.rows - 1);
        for (m.page = 0; m.page * PC__PAGE < keys; m.page++) {
            m.values = task->values + m.page * task->page_stride;
            page_of_group(&m, of);
        }
        for (size_t r = 0; r < m.rows && task->format == PC_MAP_U8; r++)
            scale_row(task, m.row + r);
    }
}

void AT_LEVEL(pc__map_f32)(const pc__map_task *task)
{
    mix_rows(task, 0);
}

void AT_LEVEL(pc__map_bf16)(const pc__map_task *task)
{
    mix_rows(task, BF16);
}

void AT_LEVEL(pc__map_f16)(const pc__map_task *task)
{
    mix_rows(task, F16);
}

static void row_weights(const pc__attn_task *task, size_t r, size_t page, float *s)
{
    uint32_t a, b;
    if (!pc__slice(task, r, page, &a, &b)) {
        memset(s, 0, PC__PAGE * sizeof *s);
        return;
    }
    pc__score_terms(task, r, page, a, b, s);
    for (uint32_t t = 0; t < PC__PAGE; t += VEC)
        vec_store(s + t, vec_keep(vec_range(a, b, t),
                                  vec_exp(vec_sub(vec_load(s + t), vec_set(task->m[r])))));
}

void AT_LEVEL(pc__weights)(const pc__attn_task *task, uint32_t dtype, size_t pages, float *to,
                           size_t stride)
{
    size_t n;
    if (task->k_dim % 2) {
        pc__weights_c(task, dtype, pages, to, stride);
        return;
    }
    for (size_t page = 0; page < pages; page++)
        for (size_t row = 0; row < task->rows; row += n) {
            n = block_rows(task->rows - row);
            vec_product p = {.b = task->pages + page * task->page_stride,
                             .line = PC__PAGE,
                             .steps = task->k_dim,
                             .x = task->q + row * task->k_dim,
                             .ldx = task->k_dim,
                             .y = to + row * stride + page * PC__PAGE,
                             .ldy = stride,
                             .width = PC__PAGE};
            (dtype == PC_DTYPE_BF16 ? multiply_bf16 : multiply_f32)(&p, n);
            for (size_t r = row; r < row + n; r++)
                row_weights(task, r, page, to + r * stride + page * PC__PAGE);
        }
}

#endif
