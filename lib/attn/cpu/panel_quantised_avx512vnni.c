/* Quantised weights with byte dot products: unsigned values times the signed bytes of the codes,
 * exact in 32 bits. A chunk of 256 inputs is unpacked to bytes, which stay in the first-level cache
 * for all rows; between chunks the sums of the rows are in the outputs. */
#include <string.h>

#include "attn/cpu/bytes512vnni.h"
#include "attn/cpu/panel.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/quantised512.h"
#include "attn/cpu/rows_switch.h"

enum { ROWS = 6 }; /* of a block */

/* Adds the products of one group with one byte of the codes. */
INLINE void group_products(sums sum[ROWS][2], const uint8_t *q, const int8_t *x, size_t stride,
                           const int group, const int rows)
{
    PC__UNROLL(8)
    for (int k = 0; k < group; k += 4, q += PC__LINE) {
        __m512i w0 = _mm512_load_si512(q), w1 = _mm512_load_si512(q + 64);
        PC__UNROLL(6)
        for (int r = 0; r < rows; r++) {
            __m512i v = four(x + (size_t)r * stride + k);
            sum[r][0] = dot(sum[r][0], w0, v);
            sum[r][1] = dot(sum[r][1], w1, v);
        }
        /* GCC would load the weights of all steps first, and keep the sums in memory instead. */
        __asm__ volatile("" : : : "memory");
    }
}

/* Units of a panel, unpacked. */
enum { CHUNK = 64, FEW_BLOCKS = 3 };
typedef struct unit_chunk {
    unit512 unit[CHUNK];
    size_t first, count; /* units */
    /* 1: one block of rows, which unpacks each unit when it comes to it, so that memory is read in
     * one stream */
    int streams;
    /* 1: so few blocks that the first, which waits for memory, has to prefetch its own panel */
    int few;
} unit_chunk;

/* Lines that a block of rows prefetches: a few each unit, so that products need not wait. */
typedef struct prefetch_share {
    const uint8_t *at, *end;
    size_t each;
} prefetch_share;

/* Only the first block of a chunk waits for memory; during the others memory is idle, so they
 * prefetch a share each of the chunk of the next panel. */
INLINE prefetch_share share_of(const pc__quantised_task *task, const unit_chunk *chunk,
                               size_t block, size_t blocks)
{
    size_t units = task->format.block / PC__UNIT, bytes = pc__panel_block_bytes(&task->format),
           lines = bytes * chunk->count / units / 64;
    if (!block || !task->next)
        return (prefetch_share){NULL, NULL, 0};
    const uint8_t *from = task->next + chunk->first * (bytes / units) / 64 * 64;
    prefetch_share share = {from + (block - 1) * lines / (blocks - 1) * 64,
                            from + block * lines / (blocks - 1) * 64, 0};
    share.each = ((size_t)(share.end - share.at) / 64 + chunk->count - 1) / chunk->count;
    return share;
}

INLINE void prefetch_some(prefetch_share *share)
{
    for (size_t i = 0; i < share->each && share->at < share->end; i++, share->at += 64)
        pc__prefetch_line(share->at);
}

/* Where a block of rows is in its inputs. */
typedef struct inputs_at {
    const int8_t *high, *low;
    const float *step;
    const int32_t *negative_sum;
    const uint8_t *wide;
    size_t stride, next; /* next: of factors, from group to group */
} inputs_at;

/* Which rows of a block are wide: a byte a row, 0 or 1. Whole words are loaded: bytes that are
 * joined in memory would have to reach it before they are read again. */
INLINE uint64_t wide_rows(const uint8_t *wide, const int rows)
{
    uint64_t all = 0;
    uint32_t four;
    uint16_t two;
    if (rows >= 4) {
        memcpy(&four, wide, sizeof four);
        all = four;
    }
    if (rows % 4 >= 2) {
        memcpy(&two, wide + rows / 4 * 4, sizeof two);
        all |= (uint64_t)two << rows / 4 * 32;
    }
    if (rows % 2)
        all |= (uint64_t)wide[rows - 1] << 8 * (rows - 1);
    return all;
}

/* By a shift: GCC would multiply the numbers one by one and then spread them. */
INLINE __m512i zero_part(const inputs_at *x, int r, const unsigned log_zero)
{
    return _mm512_slli_epi32(_mm512_set1_epi32(x->negative_sum[r]), log_zero);
}

/* Adds the products with the low bytes of rows [first, first + rows). The high byte counts 256
 * times, the part of the zero, which is in the sums, once. */
INLINE void low_products(sums sum[ROWS][2], const inputs_at *x, const uint8_t *values,
                         const int group, const unsigned log_zero, const int has_zero,
                         const int first, const int rows)
{
    PC__UNROLL(6)
    for (int r = first; r < first + rows; r++)
        for (int j = 0; j < 2; j++) {
            __m512i all = _mm512_slli_epi32((__m512i)sum[r][j], 8);
            if (has_zero) {
                __m512i part = zero_part(x, r, log_zero);
                all = _mm512_add_epi32(all, _mm512_sub_epi32(part, _mm512_slli_epi32(part, 8)));
            }
            sum[r][j] = (sums)all;
        }
    group_products(sum + first, values, x->low + (size_t)first * x->stride, x->stride, group, rows);
}

/* Exact products of a group: sum of (value - zero) * code. */
INLINE void exact_products(sums sum[ROWS][2], const inputs_at *x, const uint8_t *values,
                           const int group, const unsigned log_zero, const int has_zero,
                           const int rows)
{
    const uint64_t wide = wide_rows(x->wide, rows),
                   all = UINT64_C(0x010101010101) >> 8 * (6 - rows);
    PC__UNROLL(6)
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = has_zero ? (sums)zero_part(x, r, log_zero) : (sums){0};
    group_products(sum, values, x->high, x->stride, group, rows);
    if (__builtin_expect(!wide, 1))
        return;
    if (wide == all) {
        low_products(sum, x, values, group, log_zero, has_zero, 0, rows);
        return;
    }
    PC__UNROLL(6)
    for (int r = 0; r < rows; r++)
        if (wide >> 8 * r & 1)
            low_products(sum, x, values, group, log_zero, has_zero, r, 1);
}

/* Adds a group to y. Byte products, multiplications and FMAs share two of the four ports;
 * conversions use the others. */
INLINE void add_products(__m512 y[ROWS][2], sums sum[ROWS][2], const inputs_at *x,
                         const float *scale, const float *minimum, const int has_minimum,
                         const int rows)
{
    PC__UNROLL(6)
    for (int r = 0; r < rows; r++) {
        __m512 step = _mm512_set1_ps(x->step[r]), all = step;
        if (has_minimum)
            all = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_set1_epi32(x->negative_sum[r])), step);
        PC__UNROLL(2)
        for (int j = 0; j < 2; j++) {
            __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps((__m512i)sum[r][j]), step);
            y[r][j] = _mm512_fmadd_ps(product, _mm512_load_ps(scale + 16 * j), y[r][j]);
            if (has_minimum)
                y[r][j] = _mm512_fmadd_ps(all, _mm512_load_ps(minimum + 16 * j), y[r][j]);
        }
    }
}

INLINE void prefetch_outputs(const pc__quantised_task *task, size_t row, const int rows)
{
    for (int r = 0; r < rows; r++) { /* these lines are far apart and would delay the stores */
        pc__prefetch_write(task->y + (row + (size_t)r) * task->ldy);
        pc__prefetch_write(task->y + (row + (size_t)r) * task->ldy + 16);
    }
}

/* Unit `u` of the panel. */
static void unpack_at(const pc__quantised_task *task, size_t u, unit512 *to)
{
    size_t units = task->format.block / PC__UNIT;
    unpack_unit512(&task->format, task->panel + u / units * pc__panel_block_bytes(&task->format),
                   u % units, to);
}

/* The next units, up to `all`. */
static void unpack_chunk(const pc__quantised_task *task, size_t first, size_t all,
                         unit_chunk *chunk)
{
    chunk->first = first;
    chunk->count = chunk->streams || all - first < CHUNK ? all - first : CHUNK;
    for (size_t i = 0; !chunk->streams && i < chunk->count; i++) {
        if (chunk->few)
            pc__prefetch_panel(task, first + i, all);
        unpack_at(task, first + i, &chunk->unit[i]);
    }
}

/* The sums of the chunks before. */
INLINE void load_sums(const pc__quantised_task *task, size_t row, const int rows, int first,
                      const __mmask16 mask[2], __m512 y[ROWS][2])
{
    PC__UNROLL(6)
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 2; j++)
            y[r][j] = first ? _mm512_setzero_ps()
                            : _mm512_maskz_loadu_ps(mask[j], task->y + (row + (size_t)r) * task->ldy
                                                                 + 16 * j);
}

INLINE void store_sums(const pc__quantised_task *task, size_t row, const int rows,
                       const __mmask16 mask[2], __m512 y[ROWS][2])
{
    PC__UNROLL(6)
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 2; j++)
            _mm512_mask_storeu_ps(task->y + (row + (size_t)r) * task->ldy + 16 * j, mask[j],
                                  y[r][j]);
}

INLINE void rows_block(const pc__quantised_task *task, unit_chunk *chunk, prefetch_share share,
                       size_t row, const int rows, const int group, const int has_minimum,
                       const int has_zero)
{
    size_t stride = task->groups * (size_t)group, input = chunk->first * PC__UNIT,
           factors = input / (size_t)group * task->x.stride + row;
    unsigned log_zero = has_zero ? (unsigned)__builtin_ctz((unsigned)task->format.zero) : 0;
    const __mmask16 mask[2] = {vec_range(0, (uint32_t)task->width, 0),
                               vec_range(0, (uint32_t)task->width, 16)};
    const int groups = group == PC__UNIT ? 1 : 2; /* a division is checked by UBSan: no constant */
    inputs_at x = {task->x.high + row * stride + input,
                   task->x.low + row * stride + input,
                   task->x.step + factors,
                   task->x.negative_sum + factors,
                   task->x.wide + factors,
                   stride,
                   task->x.stride};
    __m512 y[ROWS][2];
    load_sums(task, row, rows, !chunk->first, mask, y);
    for (size_t u = 0; u < chunk->count; u++) {
        const unit512 *unit = &chunk->unit[chunk->streams ? 0 : u];
        if (chunk->streams) {
            pc__prefetch_panel(task, u, chunk->count);
            unpack_at(task, u, &chunk->unit[0]);
        } else {
            prefetch_some(&share);
        }
        PC__UNROLL(2)
        for (int g = 0; g < groups; g++) {
            sums sum[ROWS][2];
            exact_products(sum, &x, unit->values + g * (group / 4) * PC__LINE, group, log_zero,
                           has_zero, rows);
            add_products(y, sum, &x, unit->scale[g], unit->minimum[g], has_minimum, rows);
            x.high += group;
            x.low += group;
            x.step += x.next;
            x.negative_sum += x.next;
            x.wide += x.next;
        }
    }
    store_sums(task, row, rows, mask, y);
}

INLINE void all_rows(const pc__quantised_task *task, const int group, const int has_minimum,
                     const int has_zero)
{
    size_t blocks = (task->rows + ROWS - 1) / ROWS; /* of equal size: a short one is slow */
    size_t all = task->groups * (size_t)group / PC__UNIT;
    unit_chunk chunk;
    chunk.streams = blocks == 1;
    chunk.few = blocks <= FEW_BLOCKS;
    for (size_t first = 0; first < all; first += chunk.count) {
        unpack_chunk(task, first, all, &chunk);
        for (size_t i = 0, row = 0; i < blocks; i++) {
            size_t n = (task->rows - row) / (blocks - i);
            if (!first)
                prefetch_outputs(task, row, (int)n);
            const prefetch_share share = share_of(task, &chunk, i, blocks);
#define BLOCK(n) rows_block(task, &chunk, share, row, n, group, has_minimum, has_zero)
            ROWS_6(n, BLOCK)
            row += n;
        }
    }
}

/* A format has either minimums or a zero. */
void pc__panel_quantised_avx512vnni(const pc__quantised_task *task)
{
    const pc__block_format *format = &task->format;
    if (format->group == 32 && format->minimum)
        all_rows(task, 32, 1, 0);
    else if (format->group == 32)
        all_rows(task, 32, 0, 1);
    else if (format->minimum)
        all_rows(task, 16, 1, 0);
    else
        all_rows(task, 16, 0, 1);
}
