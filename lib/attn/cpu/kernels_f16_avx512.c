/* fp16 K and V: two values of a lane become two vectors of fp32 once for up to 6 rows; sums in fp32. Blocks of up to 6 rows x 64 keys and 6 rows x 64
 * values live in registers. */
#include "attn/cpu/ahead.h"
#include "attn/cpu/softmax512.h"

enum { ROWS = 6 };

/* 16 pairs: the first of each, the second of each. */
INLINE void open_pairs(__m512i pairs, __m512i order, __m512 *first, __m512 *second)
{
    __m512i apart = _mm512_permutexvar_epi16(order, pairs);
    *first = _mm512_cvtph_ps(_mm512_castsi512_si256(apart));
    *second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(apart, 1));
}

/* The even halfwords, then the odd ones. */
INLINE __m512i apart_order(void)
{
    const __m512i even = _mm512_set_epi32(0x001e001c, 0x001a0018, 0x00160014, 0x00120010, 0x000e000c, 0x000a0008, 0x00060004, 0x00020000,
                                          0x001e001c, 0x001a0018, 0x00160014, 0x00120010, 0x000e000c, 0x000a0008, 0x00060004, 0x00020000);
    return _mm512_mask_add_epi16(even, 0xffff0000u, even, _mm512_set1_epi16(1));
}

INLINE void scores(const pc__attn_task *task, const uint16_t *k, size_t row, const int rows, pc__ahead *ahead, const int fetch, float (*s)[PC__PAGE])
{
    __m512 sum[ROWS][4];
    const __m512i order = apart_order();
    const float *q = task->q + row * task->k_dim;
    size_t dim = task->k_dim;
    pc__fetching f = pc__ahead_loop(ahead, (dim + 1) / 2, (size_t)fetch, k);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            sum[r][j] = _mm512_setzero_ps();
    for (size_t d = 0; d < dim; d += 2, k += 2 * PC__PAGE) {
        size_t second = d + 1 < dim ? d + 1 : d; /* of an odd last one there is no second: K is zero there, or anything finite in padding */
        float present = d + 1 < dim ? 1.0f : 0.0f;
        pc__ahead_step(&f, fetch);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            __m512 k0, k1;
            open_pairs(_mm512_loadu_si512(k + 32 * j), order, &k0, &k1);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                const float *x = q + (size_t)r * dim;
                sum[r][j] = _mm512_fmadd_ps(_mm512_set1_ps(x[d]), k0, sum[r][j]);
                sum[r][j] = _mm512_fmadd_ps(_mm512_set1_ps(x[second] * present), k1, sum[r][j]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            _mm512_storeu_ps(s[r] + 16 * j, sum[r][j]);
}

/* acc = acc * scale + p V for `rows` rows and up to 4 vectors of 16 columns; the last vector is masked. */
INLINE void values(const pc__attn_task *task, const uint16_t *v, size_t row, const int rows, const int vectors, __mmask16 last, size_t column,
                   pc__ahead *ahead, const int fetch, float (*p)[PC__PAGE], const float *scale)
{
    __m512 sum[ROWS][4];
    const __m512i order = apart_order();
    float *acc = task->acc + row * task->v_dim + column;
    pc__fetching f = pc__ahead_loop(ahead, PC__PAGE / 2, (size_t)fetch, v);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            sum[r][j] = _mm512_mul_ps(_mm512_set1_ps(scale[r]),
                                      _mm512_maskz_loadu_ps(j + 1 < vectors ? 0xffff : last, acc + (size_t)r * task->v_dim + 16 * j));
    for (size_t t = 0; t < PC__PAGE; t += 2) {
        const uint16_t *line = v + t * task->v_dim + 2 * column;
        pc__ahead_step(&f, fetch);
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            __m512 v0, v1;
            open_pairs(_mm512_maskz_loadu_epi32(j + 1 < vectors ? 0xffff : last, line + 32 * j), order, &v0, &v1);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                sum[r][j] = _mm512_fmadd_ps(_mm512_set1_ps(p[r][t]), v0, sum[r][j]);
                sum[r][j] = _mm512_fmadd_ps(_mm512_set1_ps(p[r][t + 1]), v1, sum[r][j]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            _mm512_mask_storeu_ps(acc + (size_t)r * task->v_dim + 16 * j, j + 1 < vectors ? 0xffff : last, sum[r][j]);
}

INLINE void block(const pc__attn_task *task, size_t page, size_t row, const int rows, pc__ahead *ahead, const int fetch)
{
    float s[ROWS][PC__PAGE], scale[ROWS];
    const uint8_t *data = task->pages + page * task->page_stride;
    const uint16_t *v = (const uint16_t *)(const void *)(data + task->v_offset);
    size_t column = 0;
    scores(task, (const uint16_t *)(const void *)data, row, rows, ahead, fetch, s);
    for (int r = 0; r < rows; r++) {
        size_t i = row + (size_t)r;
        scale[r] = pc__softmax512(task, i, page, s[r]);
        task->l[i] = task->l[i] * scale[r] + vec_sum_page(s[r]);
    }
    for (; column + 64 <= task->v_dim; column += 64)
        values(task, v, row, rows, 4, 0xffff, column, ahead, fetch, s, scale);
    for (; column < task->v_dim; column += 16) {
        size_t left = task->v_dim - column;
        values(task, v, row, rows, 1, pc__lanes(0, left < 16 ? (uint32_t)left : 16, 0), column, ahead, fetch, s, scale);
    }
}

void pc__attend_f16_avx512(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    pc__ahead ahead = {.task = task, .page_lines = (task->v_offset + 2 * PC__PAGE * task->v_dim + 63) / 64};
    for (size_t page = first_page; page < last_page; page++) {
        pc__ahead_page(&ahead, task->pages + page * task->page_stride, page + 1 == last_page && !task->goes_on);
        for (size_t row = 0; row < task->rows; row += ROWS) {
            size_t n = task->rows - row < ROWS ? task->rows - row : ROWS;
            if (!pc__block_sees(task, row, n, page))
                continue;
            switch (n) {
            case 1: block(task, page, row, 1, &ahead, 4); break;
            case 2: block(task, page, row, 2, &ahead, 4); break;
            case 3: block(task, page, row, 3, &ahead, 4); break;
            case 4: block(task, page, row, 4, &ahead, 4); break;
            case 5: block(task, page, row, 5, &ahead, 4); break;
            default: block(task, page, row, 6, &ahead, 2); break;
            }
        }
    }
}
