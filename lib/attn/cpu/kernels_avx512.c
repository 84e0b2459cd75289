/* AVX-512 in fp32. Blocks of up to 6 rows x 64 keys and 6 rows x 64 values live in registers. */
#include "attn/cpu/softmax512.h"

enum { ROWS = 6 };
#define INLINE static inline __attribute__((always_inline))

INLINE void scores(const pc__attn_task *task, const float *k, size_t row, const int rows, float (*s)[PC__PAGE])
{
    __m512 sum[ROWS][4];
    const float *q = task->q + row * task->k_dim;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            sum[r][j] = _mm512_setzero_ps();
    for (size_t d = 0; d < task->k_dim; d++, k += PC__PAGE) {
        __m512 k0 = _mm512_load_ps(k), k1 = _mm512_load_ps(k + 16), k2 = _mm512_load_ps(k + 32), k3 = _mm512_load_ps(k + 48);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            __m512 x = _mm512_set1_ps(q[(size_t)r * task->k_dim + d]);
            sum[r][0] = _mm512_fmadd_ps(x, k0, sum[r][0]);
            sum[r][1] = _mm512_fmadd_ps(x, k1, sum[r][1]);
            sum[r][2] = _mm512_fmadd_ps(x, k2, sum[r][2]);
            sum[r][3] = _mm512_fmadd_ps(x, k3, sum[r][3]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            _mm512_storeu_ps(s[r] + 16 * j, sum[r][j]);
}

/* acc = acc * scale + p V for `rows` rows and up to 4 vectors of 16 columns; the last vector is masked. */
INLINE void values(const pc__attn_task *task, const float *v, size_t row, const int rows, const int vectors, __mmask16 last,
                   size_t column, float (*p)[PC__PAGE], const float *scale)
{
    __m512 sum[ROWS][4];
    float *acc = task->acc + row * task->v_dim + column;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            sum[r][j] = _mm512_mul_ps(_mm512_set1_ps(scale[r]), _mm512_maskz_loadu_ps(j + 1 < vectors ? 0xffff : last,
                                                                      acc + (size_t)r * task->v_dim + 16 * j));
    for (size_t t = 0; t < PC__PAGE; t++) {
        const float *line = v + t * task->v_dim + column;
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            __m512 x = _mm512_maskz_loadu_ps(j + 1 < vectors ? 0xffff : last, line + 16 * j);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
                sum[r][j] = _mm512_fmadd_ps(_mm512_set1_ps(p[r][t]), x, sum[r][j]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            _mm512_mask_storeu_ps(acc + (size_t)r * task->v_dim + 16 * j, j + 1 < vectors ? 0xffff : last, sum[r][j]);
}

INLINE void block(const pc__attn_task *task, size_t page, size_t row, const int rows)
{
    float s[ROWS][PC__PAGE], scale[ROWS];
    const uint8_t *data = task->pages + page * task->page_stride;
    const float *v = (const float *)(const void *)(data + task->v_offset);
    size_t column = 0;
    scores(task, (const float *)(const void *)data, row, rows, s);
    for (int r = 0; r < rows; r++) {
        size_t i = row + (size_t)r;
        scale[r] = pc__softmax512(task, i, page, s[r]);
        task->l[i] = task->l[i] * scale[r] + pc__sum_page512(s[r]);
    }
    for (; column + 64 <= task->v_dim; column += 64)
        values(task, v, row, rows, 4, 0xffff, column, s, scale);
    for (; column < task->v_dim; column += 16) {
        size_t left = task->v_dim - column;
        values(task, v, row, rows, 1, pc__lanes(0, left < 16 ? (uint32_t)left : 16, 0), column, s, scale);
    }
}

void pc__attend_f32_avx512(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    for (size_t page = first_page; page < last_page; page++)
        for (size_t row = 0; row < task->rows; row += ROWS) {
            size_t n = task->rows - row < ROWS ? task->rows - row : ROWS;
            if (!pc__block_sees(task, row, n, page))
                continue;
            switch (n) {
            case 1: block(task, page, row, 1); break;
            case 2: block(task, page, row, 2); break;
            case 3: block(task, page, row, 3); break;
            case 4: block(task, page, row, 4); break;
            case 5: block(task, page, row, 5); break;
            default: block(task, page, row, 6); break;
            }
        }
}

enum { PANEL_ROWS = 12 };

INLINE void panel_block(const float *w, size_t in, const float *x, size_t ldx, const int rows, float *y, size_t ldy,
                        __mmask16 m0, __mmask16 m1)
{
    __m512 sum[PANEL_ROWS][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    for (size_t i = 0; i < in; i++, w += PC__PANEL) {
        __m512 w0 = _mm512_load_ps(w), w1 = _mm512_load_ps(w + 16);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            __m512 v = _mm512_set1_ps(x[(size_t)r * ldx + i]);
            sum[r][0] = _mm512_fmadd_ps(v, w0, sum[r][0]);
            sum[r][1] = _mm512_fmadd_ps(v, w1, sum[r][1]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        _mm512_mask_storeu_ps(y + (size_t)r * ldy, m0, sum[r][0]);
        _mm512_mask_storeu_ps(y + (size_t)r * ldy + 16, m1, sum[r][1]);
    }
}

void pc__panel_f32_avx512(const void *panel, size_t in, const void *x, size_t ldx, size_t rows, float *y, size_t ldy,
                          size_t width)
{
    __mmask16 m0 = pc__lanes(0, (uint32_t)width, 0), m1 = pc__lanes(0, (uint32_t)width, 16);
    const float *line = x;
    for (size_t row = 0; row < rows;) {
        size_t left = rows - row;
        const float *from = line + row * ldx;
        float *to = y + row * ldy;
        if (left >= 12)
            panel_block(panel, in, from, ldx, 12, to, ldy, m0, m1), row += 12;
        else if (left >= 4)
            panel_block(panel, in, from, ldx, 4, to, ldy, m0, m1), row += 4;
        else
            panel_block(panel, in, from, ldx, 1, to, ldy, m0, m1), row += 1;
    }
}

void pc__silu_gate_avx512(float *x, const float *up, size_t count)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    for (size_t i = 0; i < count; i += 16) {
        __mmask16 lanes = pc__lanes(0, count - i < 16 ? (uint32_t)(count - i) : 16, 0);
        __m512 v = _mm512_maskz_loadu_ps(lanes, x + i), u = _mm512_maskz_loadu_ps(lanes, up + i);
        __m512 e = pc__exp512(_mm512_sub_ps(_mm512_setzero_ps(), v));
        _mm512_mask_storeu_ps(x + i, lanes, _mm512_mul_ps(_mm512_div_ps(v, _mm512_add_ps(one, e)), u));
    }
}

const pc__kernels pc__kernels_avx512 = {
    .name = "avx512",
    .attend_f32 = pc__attend_f32_avx512,
    .attend_bf16 = pc__attend_bf16_c,
    .panel_f32 = pc__panel_f32_avx512,
    .panel_bf16 = pc__panel_bf16_c,
    .grid = pc__grid_c,
    .silu_gate = pc__silu_gate_avx512,
    .to_bf16 = pc__to_bf16_c,
};
