/* Attention over int8 K and V with byte dot products. The scales go into the other factor: queries
 * times the scales of K's channels, and weights times the scales of V's tokens, are rounded to 16
 * bits of the largest value of their row and page, and multiplied as two unsigned bytes each. Sums
 * of a page are exact, so that rows may be computed in blocks of any size; only scaling and the
 * softmax state are fp32.
 *
 *   query:  x = 256 * high + low - 32768; the 32768 times the sum of a key's values is the same for
 *           all rows
 *   weight: x = 256 * high + low; 64 * 65535 * 127 < 2^31 */
#include "attn/cpu/bytes512vnni.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/softmax512.h"
#include "attn/cpu/rows_switch.h"
#include "base/unroll.h"

enum {
    ROWS = 6,
    SPLIT = 3 /* most rows for which 64 keys or columns fit the registers; above, 32 do */
};

typedef struct i8_block {
    const pc__attn_task *task;
    size_t page, row;
    const uint8_t *k, *v;
    const uint16_t *k_scale, *v_scale;                         /* bf16 */
    uint8_t high[ROWS][PC__MAX_HEAD], low[ROWS][PC__MAX_HEAD]; /* of queries */
    float query_step[ROWS];
    int32_t key_sum[PC__PAGE]; /* 128 times the sum of a key's values */
    float s[ROWS][PC__PAGE];
    uint8_t weight_high[ROWS][PC__PAGE], weight_low[ROWS][PC__PAGE];
    float weight_step[ROWS], scale[ROWS];
} i8_block;

INLINE __m512 bf16_scales(const uint16_t *bf16, __mmask16 mask)
{
    __m256i bits = _mm256_maskz_loadu_epi16(mask, bf16);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* x * by + from as 64 unsigned 16-bit numbers, in two bytes each. */
INLINE void split_16(const __m512 *x, float by, float from, uint8_t *high, uint8_t *low)
{
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4,
                                           0); /* packing works on 16 bytes at a time */
    __m512i u[4], first, second;
    PC__UNROLL(4)
    for (int j = 0; j < 4; j++)
        u[j] = _mm512_cvtps_epi32(_mm512_fmadd_ps(x[j], _mm512_set1_ps(by), _mm512_set1_ps(from)));
    first = _mm512_packus_epi32(u[0], u[1]);
    second = _mm512_packus_epi32(u[2], u[3]);
    u[0] = _mm512_packus_epi16(_mm512_srli_epi16(first, 8), _mm512_srli_epi16(second, 8));
    u[1] = _mm512_packus_epi16(_mm512_and_si512(first, _mm512_set1_epi16(255)),
                               _mm512_and_si512(second, _mm512_set1_epi16(255)));
    _mm512_storeu_si512(high, _mm512_permutexvar_epi32(order, u[0]));
    _mm512_storeu_si512(low, _mm512_permutexvar_epi32(order, u[1]));
}

/* Rounds q times the scales of K to 16 bits. Values beyond k_dim are undefined: K is zero there, or
 * not read. */
INLINE void split_query(i8_block *b, size_t r)
{
    size_t dim = b->task->k_dim;
    const float *q = b->task->q + (b->row + r) * dim;
    float x[PC__MAX_HEAD], most;
    __m512 top = _mm512_setzero_ps();
    for (size_t d = 0; d < dim; d += 16) {
        __mmask16 mask = pc__range512(0, (uint32_t)(dim - d), 0);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, q + d),
                                 bf16_scales(b->k_scale + d, mask));
        _mm512_storeu_ps(x + d, v);
        top = _mm512_max_ps(top, _mm512_abs_ps(v));
    }
    most = _mm512_reduce_max_ps(top);
    b->query_step[r] = most / 32767.0f;
    most = most > 0x1p-100f ? 32767.0f / most : 0.0f;
    for (size_t d = 0; d < dim; d += 64) {
        __m512 v[4];
        PC__UNROLL(4)
        for (size_t j = 0; j < 4; j++)
            v[j] = d + 16 * j < dim ? _mm512_loadu_ps(x + d + 16 * j) : _mm512_setzero_ps();
        split_16(v, most, 32768.0f, b->high[r] + d, b->low[r] + d);
    }
}

/* Once per page, for all rows. */
static void sum_keys(i8_block *b)
{
    const __m512i ones = _mm512_set1_epi8(1);
    sums sum[4] = {{0}, {0}, {0}, {0}};
    size_t dim = b->task->k_dim;
    for (size_t d = 0; d < dim; d += 4)
        PC__UNROLL(4)
    for (size_t j = 0; j < 4; j++)
        sum[j] = dot(sum[j], ones, _mm512_loadu_si512(b->k + d * PC__PAGE + 64 * j));
    PC__UNROLL(4)
    for (size_t j = 0; j < 4; j++)
        _mm512_storeu_si512(b->key_sum + 16 * j, _mm512_slli_epi32((__m512i)sum[j], 7));
}

INLINE void i8_scores(i8_block *b, const int rows, const int vectors, size_t key,
                      pc__prefetch *prefetch, const int lines)
{
    sums high[ROWS][4], low[ROWS][4];
    const uint8_t *k = b->k + key * 4;
    size_t dim = b->task->k_dim;
    pc__prefetch_cursor f = pc__prefetch_loop(prefetch, (dim + 3) / 4, (size_t)lines, k);
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int j = 0; j < vectors; j++)
        high[r][j] = low[r][j] = (sums)_mm512_setzero_si512();
    for (size_t d = 0; d < dim; d += 4, k += 4 * PC__PAGE) {
        __m512i x[4];
        pc__prefetch_step(&f, lines);
        PC__UNROLL(4)
        for (int j = 0; j < vectors; j++)
            x[j] = _mm512_loadu_si512(k + 64 * j);
        PC__UNROLL(8)
        for (int r = 0; r < rows; r++) {
            __m512i h = four(b->high[r] + d), l = four(b->low[r] + d);
            PC__UNROLL(4)
            for (int j = 0; j < vectors; j++) {
                high[r][j] = dot(high[r][j], h, x[j]);
                low[r][j] = dot(low[r][j], l, x[j]);
            }
        }
    }
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int j = 0; j < vectors; j++) {
        __m512i of_key = _mm512_loadu_si512(b->key_sum + key + 16 * (size_t)j);
        __m512 sum = _mm512_cvtepi32_ps(_mm512_sub_epi32((__m512i)high[r][j], of_key));
        sum = _mm512_fmadd_ps(sum, _mm512_set1_ps(256.0f), _mm512_cvtepi32_ps((__m512i)low[r][j]));
        _mm512_storeu_ps(b->s[r] + key + 16 * (size_t)j,
                         _mm512_mul_ps(sum, _mm512_set1_ps(b->query_step[r])));
    }
}

/* The common case, in registers: all of the page is visible, and scores are plain products. Returns
 * the factor for the row's old sums. */
INLINE float whole_page(const pc__attn_task *task, size_t row, __m512 *x)
{
    __m512 most = _mm512_max_ps(_mm512_max_ps(x[0], x[1]), _mm512_max_ps(x[2], x[3]));
    float old = task->m[row], scale = 1.0f;
    if (_mm512_cmp_ps_mask(most, _mm512_set1_ps(old), _CMP_GT_OQ)) {
        task->m[row] = _mm512_reduce_max_ps(most);
        scale = _mm512_cvtss_f32(pc__exp512(_mm512_set1_ps(old - task->m[row])));
    } else if (old == -INFINITY) {
        x[0] = x[1] = x[2] = x[3] = _mm512_setzero_ps();
        return 1.0f;
    }
    PC__UNROLL(4)
    for (int j = 0; j < 4; j++)
        x[j] = pc__exp512(_mm512_sub_ps(x[j], _mm512_set1_ps(task->m[row])));
    task->l[row] = task->l[row] * scale
                   + _mm512_reduce_add_ps(
                       _mm512_add_ps(_mm512_add_ps(x[0], x[1]), _mm512_add_ps(x[2], x[3])));
    return scale;
}

static float part_page(const pc__attn_task *task, size_t row, size_t page, float *s)
{
    float scale = pc__softmax512(task, row, page, s);
    task->l[row] = task->l[row] * scale + vec_sum_page(s);
    return scale;
}

/* Turns scores into weights, and rounds weights times V's scales to 16 bits. */
INLINE void i8_weights(i8_block *b, size_t r)
{
    const pc__attn_task *task = b->task;
    size_t row = b->row + r;
    uint32_t from, to;
    float most;
    __m512 x[4];
    int whole = !task->slope && task->soft_cap == 0.0f && pc__slice(task, row, b->page, &from, &to)
                && from == 0 && to == PC__PAGE;
    if (!whole)
        b->scale[r] = part_page(task, row, b->page, b->s[r]);
    PC__UNROLL(4)
    for (int j = 0; j < 4; j++)
        x[j] = _mm512_loadu_ps(b->s[r] + 16 * j);
    if (whole)
        b->scale[r] = whole_page(task, row, x);
    PC__UNROLL(4)
    for (int j = 0; j < 4; j++)
        x[j] = _mm512_mul_ps(x[j], bf16_scales(b->v_scale + 16 * j, 0xffff));
    most = _mm512_reduce_max_ps(
        _mm512_max_ps(_mm512_max_ps(x[0], x[1]), _mm512_max_ps(x[2], x[3])));
    b->weight_step[r] = most / 65535.0f;
    split_16(x, most > 0x1p-100f ? 65535.0f / most : 0.0f, 0.0f, b->weight_high[r],
             b->weight_low[r]);
}

/* acc = acc * scale + weights times up to 4 vectors of 16 columns; the last vector is masked. */
INLINE void i8_values(i8_block *b, const int rows, const int vectors, __mmask16 last, size_t column,
                      pc__prefetch *prefetch, const int lines)
{
    sums high[ROWS][4], low[ROWS][4];
    size_t dim = b->task->v_dim;
    float *acc = b->task->acc + b->row * dim + column;
    pc__prefetch_cursor f = pc__prefetch_loop(prefetch, PC__PAGE / 4, (size_t)lines, b->v);
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int j = 0; j < vectors; j++)
        high[r][j] = low[r][j] = (sums)_mm512_setzero_si512();
    for (size_t t = 0; t < PC__PAGE; t += 4) {
        const uint8_t *line = b->v + t * dim + 4 * column;
        __m512i x[4];
        pc__prefetch_step(&f, lines);
        PC__UNROLL(4)
        for (int j = 0; j < vectors; j++)
            x[j] = _mm512_maskz_loadu_epi32(j + 1 < vectors ? 0xffff : last, line + 64 * j);
        PC__UNROLL(8)
        for (int r = 0; r < rows; r++) {
            __m512i h = four(b->weight_high[r] + t), l = four(b->weight_low[r] + t);
            PC__UNROLL(4)
            for (int j = 0; j < vectors; j++) {
                high[r][j] = dot(high[r][j], h, x[j]);
                low[r][j] = dot(low[r][j], l, x[j]);
            }
        }
    }
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int j = 0; j < vectors; j++) {
        __mmask16 mask = j + 1 < vectors ? 0xffff : last;
        float *to = acc + (size_t)r * dim + 16 * j;
        __m512 sum = _mm512_cvtepi32_ps(
            _mm512_add_epi32(_mm512_slli_epi32((__m512i)high[r][j], 8), (__m512i)low[r][j]));
        __m512 old = _mm512_mul_ps(_mm512_set1_ps(b->scale[r]), _mm512_maskz_loadu_ps(mask, to));
        _mm512_mask_storeu_ps(to, mask,
                              _mm512_fmadd_ps(sum, _mm512_set1_ps(b->weight_step[r]), old));
    }
}

INLINE void attend_block(i8_block *b, const int rows, pc__prefetch *prefetch, const int lines)
{
    const int vectors = rows <= SPLIT ? 4 : 2;
    size_t dim = b->task->v_dim, column = 0, wide = 16 * (size_t)vectors;
    for (size_t r = 0; r < (size_t)rows; r++)
        split_query(b, r);
    for (size_t key = 0; key < PC__PAGE; key += wide)
        i8_scores(b, rows, vectors, key, prefetch, lines);
    for (size_t r = 0; r < (size_t)rows; r++)
        i8_weights(b, r);
    for (; column + wide <= dim; column += wide)
        i8_values(b, rows, vectors, 0xffff, column, prefetch, lines);
    for (; column < dim; column += 16)
        i8_values(b, rows, 1, pc__range512(0, (uint32_t)(dim - column), 0), column, prefetch,
                  lines);
}

void pc__attend_i8_avx512vnni(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    i8_block b; /* its arrays are filled row by row */
    pc__prefetch prefetch = {.task = task};
    b.task = task;
    prefetch.page_lines = (pc__task_page_bytes(task, pc__i8_v_scales(task->v_dim) + 2 * PC__PAGE)
                           + 63)
                          / 64;
    for (b.page = first_page; b.page < last_page; b.page++) {
        b.k = task->pages + b.page * task->page_stride;
        b.v = pc__task_values(task, b.k);
        b.k_scale = (const uint16_t *)(const void *)(b.k + pc__i8_k_scales(task->k_dim));
        b.v_scale = (const uint16_t *)(const void *)(b.v + pc__i8_v_scales(task->v_dim));
        int summed = 0;
        pc__prefetch_page(&prefetch, b.k, b.page + 1 == last_page && !task->goes_on);
        for (b.row = 0; b.row < task->rows; b.row += ROWS) {
            size_t n = task->rows - b.row < ROWS ? task->rows - b.row : ROWS;
            if (!pc__block_sees(task, b.row, n, b.page))
                continue;
            if (!summed++)
                sum_keys(&b);
#define ATTEND(n) attend_block(&b, n, &prefetch, n <= 3 ? 5 : n < 6 ? 2 : 1)
            ROWS_6(n, ATTEND)
        }
    }
}
