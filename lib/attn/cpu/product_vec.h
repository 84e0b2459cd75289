/* The inner loop of all fp32 arithmetic: y = scale * y + x B, a few rows of x times a wide matrix B
 * in fp32 or bf16. Scores are queries times K, outputs are weights times V, linear layers are
 * inputs times panels: K and V of a page and a panel have the same layout. Sums of VEC_ROWS rows
 * stay in registers. Every column's sum runs over the steps in order, so that a row's result does
 * not depend on the other rows and columns. */
#ifndef PC_ATTN_CPU_PRODUCT_VEC_H
#define PC_ATTN_CPU_PRODUCT_VEC_H

#include <string.h>

#include "attn/cpu/prefetch.h"
#include "attn/cpu/rows_switch.h"
#include "base/unroll.h"

typedef struct vec_product {
    const void *b;      /* fp32 [steps][line], bf16 [steps / 2][line][2]; columns [0, width) */
    size_t line, steps; /* steps is even in bf16 */
    const float *x;     /* [rows][ldx] */
    size_t ldx;
    const float *scale; /* [rows]; NULL: 0, y is not read */
    float *y;           /* [rows][ldy] */
    size_t ldy, width;
    ptrdiff_t prefetch; /* prefetch that many bytes ahead of each read of B; 0: none */
    pc__prefetch_rows *prefetch_rows; /* or these rows; NULL: none */
} vec_product;

/* Steps of a panel that stay in the first-level cache for several rows. */
enum { PIECE = 256 };

/* The scale of sums that continue. */
static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};

INLINE void prefetch_b(const float *b, const int vectors, ptrdiff_t by)
{
    const char *at = (const char *)b + by;
    if (!by)
        return;
    PC__UNROLL(4)
    for (int bytes = 0; bytes < vectors * VEC * 4; bytes += 64)
        pc__prefetch_line(at + bytes);
}

/* The same address. clang would keep the values read from there in registers and spill sums for it;
 * gcc reads again by itself. */
INLINE const float *read_again(const float *b)
{
#if defined(__clang__)
    __asm__("" : "+r"(b));
#endif
    return b;
}

INLINE vec load_b(const float *b, int j, const int vectors, const int partial, vec_mask last)
{
    return partial && j + 1 == vectors ? vec_load_masked(last, b + VEC * j) : vec_load(b + VEC * j);
}

/* One step in fp32, or one half of a double step in bf16: `part` is 0 (fp32), 1 or 2. */
INLINE void step(vec (*sum)[8], const float *b, const float *x, size_t ldx, const int part,
                 const int rows, const int vectors, const int partial, vec_mask last)
{
    vec w[8], v[VEC_ROWS];
    if (rows <= vectors) {
        PC__UNROLL(8)
        for (int r = 0; r < rows; r++)
            v[r] = vec_broadcast(x + (size_t)r * ldx);
    } else {
        PC__UNROLL(8)
        for (int j = 0; j < vectors; j++) {
            w[j] = load_b(b, j, vectors, partial, last);
            w[j] = part == 0 ? w[j] : part == 1 ? vec_first(w[j]) : vec_second(w[j]);
        }
    }
    if (rows <= vectors) {
        PC__UNROLL(8)
        for (int j = 0; j < vectors; j++) {
            vec wide = load_b(b, j, vectors, partial, last);
            wide = part == 0 ? wide : part == 1 ? vec_first(wide) : vec_second(wide);
            PC__UNROLL(8)
            for (int r = 0; r < rows; r++)
                sum[r][j] = vec_fma(v[r], wide, sum[r][j]);
        }
    } else {
        PC__UNROLL(8)
        for (int r = 0; r < rows; r++) {
            vec one = vec_broadcast(x + (size_t)r * ldx);
            PC__UNROLL(8)
            for (int j = 0; j < vectors; j++)
                sum[r][j] = vec_fma(one, w[j], sum[r][j]);
        }
    }
}

/* `vectors` vectors of columns; the last one is masked if `partial`. */
INLINE void tile(const vec_product *p, size_t column, const int bf16, const int rows,
                 const int vectors, const int partial, vec_mask last, const int has_rows)
{
    const float *b = (const float *)p->b + column; /* a pair of bf16 is as wide as a float */
    const float *x = p->x;
    size_t line = p->line, steps = p->steps, ldx = p->ldx;
    ptrdiff_t prefetch = p->prefetch;
    float *y = p->y + column;
    const int lines = vectors * VEC * 4 > 64 ? vectors * VEC * 4 / 64 : 1;
    pc__rows_cursor f = pc__rows_loop(has_rows ? p->prefetch_rows : NULL,
                                      steps / (bf16 ? 2 : 1) * (size_t)lines, b);
    vec sum[VEC_ROWS][8];
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++, y += p->ldy)
        PC__UNROLL(8)
    for (int j = 0; j < vectors; j++)
        sum[r][j] = p->scale ? vec_mul(vec_set(p->scale[r]), load_b(y, j, vectors, partial, last))
                             : vec_zero();
    for (size_t i = 0; i < steps; i += bf16 ? 2 : 1, b += line) {
        prefetch_b(b, vectors, prefetch);
        if (has_rows)
            pc__rows_step(&f, lines);
        step(sum, b, x + i, ldx, bf16, rows, vectors, partial, last);
        if (bf16)
            step(sum, read_again(b), x + i + 1, ldx, 2, rows, vectors, partial, last);
    }
    y = p->y + column;
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++, y += p->ldy)
        PC__UNROLL(8)
    for (int j = 0; j < vectors; j++)
        if (partial && j + 1 == vectors)
            vec_store_masked(last, y + VEC * j, sum[r][j]);
        else
            vec_store(y + VEC * j, sum[r][j]);
}

INLINE void all_columns(const vec_product *p, const int bf16, const int rows)
{
    const int most = vec_columns(rows);
    const vec_mask all = vec_range(0, VEC, 0);
    size_t column = 0, left;
    for (; column + (size_t)most * VEC <= p->width; column += (size_t)most * VEC)
        if (pc__rows_left(p->prefetch_rows))
            tile(p, column, bf16, rows, most, 0, all, 1);
        else
            tile(p, column, bf16, rows, most, 0, all, 0);
    left = p->width - column;
    if (most > 4 && left >= 4 * VEC)
        tile(p, column, bf16, rows, 4, 0, all, 0), column += 4 * VEC, left -= 4 * VEC;
    if (most > 2 && left >= 2 * VEC)
        tile(p, column, bf16, rows, 2, 0, all, 0), column += 2 * VEC, left -= 2 * VEC;
    if (left >= VEC)
        tile(p, column, bf16, rows, 1, 0, all, 0), column += VEC, left -= VEC;
    if (left)
        tile(p, column, bf16, rows, 1, 1, vec_range(0, (uint32_t)left, 0), 0);
}

/* 1 to VEC_ROWS rows */
INLINE void any_rows(const vec_product *p, const int bf16, size_t rows)
{
#define COLUMNS(n) all_columns(p, bf16, n)
    switch (rows) {
        ROWS_CASES_1_TO_5(COLUMNS)
#if defined(__AVX512F__)
        ROWS_CASE(7, COLUMNS)
        ROWS_CASE(8, COLUMNS)
#endif
    default:
        COLUMNS(6);
        break;
    }
#undef COLUMNS
}

static void multiply_f32(const vec_product *p, size_t rows)
{
    any_rows(p, 0, rows);
}

static void multiply_bf16(const vec_product *p, size_t rows)
{
    any_rows(p, 1, rows);
}

static void widen(const uint16_t *from, size_t count, float *to)
{
    size_t i = 0;
    for (; i + VEC <= count; i += VEC)
        vec_store(to + i, vec_from_bf16(from + i));
    for (; i < count; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

/* The rows of a block, so that all blocks have equal size: a short one is slow. */
INLINE size_t block_rows(size_t rows)
{
    size_t blocks = (rows + VEC_ROWS - 1) / VEC_ROWS;
    return (rows + blocks - 1) / blocks;
}

static void multiply_widened(const vec_product *p, const uint16_t *x, size_t ldx, size_t rows)
{
    float wide[VEC_ROWS][PIECE];
    vec_product own = *p;
    own.x = wide[0];
    own.ldx = PIECE;
    for (size_t r = 0; r < rows; r++)
        widen(x + r * ldx, p->steps, wide[r]);
    multiply_bf16(&own, rows);
}

/* y = x B for any number of rows: x [rows][ldx] has B's dtype; p->x and p->scale are not used. */
INLINE void multiply_all(const vec_product *p, const void *x, size_t ldx, size_t rows,
                         const int bf16)
{
    size_t n;
    for (size_t at = 0; at < p->steps; at += PIECE)
        for (size_t row = 0; row < rows; row += n) {
            vec_product piece = *p;
            size_t first = row * ldx + at;
            n = block_rows(rows - row);
            piece.b = (const float *)p->b + (bf16 ? at / 2 : at) * p->line;
            piece.steps = p->steps - at < PIECE ? p->steps - at : PIECE;
            piece.scale = at ? ones : NULL;
            piece.y += row * p->ldy;
            piece.prefetch = row == 0 ? p->prefetch : 0;
            piece.prefetch_rows = row == 0 ? p->prefetch_rows : NULL;
            if (bf16) {
                multiply_widened(&piece, (const uint16_t *)x + first, ldx, n);
            } else {
                piece.x = (const float *)x + first;
                piece.ldx = ldx;
                multiply_f32(&piece, n);
            }
        }
}

#endif
