/* Shared by the attention kernels of all levels: the visible part of a page, and the optional score
 * terms. */
#ifndef PC_ATTN_CPU_ATTEND_H
#define PC_ATTN_CPU_ATTEND_H

#include <math.h>

#include "attn/kernels.h"

pc__attend_kernel pc__attend_f32_c, pc__attend_bf16_c, pc__attend_f16_c, pc__attend_i8_c,
    pc__attend_f32_avx2, pc__attend_bf16_avx2, pc__attend_f16_avx2, pc__attend_i8_avx2,
    pc__attend_f32_avx512, pc__attend_bf16_avx512, pc__attend_f16_avx512, pc__attend_i8_avx512,
    pc__attend_i8_avx512vnni, pc__attend_bf16_avx512bf16, pc__attend_bf16_amx;

/* Tokens [*a, *b) of page `page` are visible to row r; returns 0 if none is. */
static inline int pc__slice(const pc__attn_task *task, size_t r, size_t page, uint32_t *a,
                            uint32_t *b)
{
    size_t base = page * PC__PAGE, lo = task->lo[r], hi = task->hi[r];
    *a = lo > base ? (uint32_t)(lo - base < PC__PAGE ? lo - base : PC__PAGE) : 0;
    *b = hi > base ? (uint32_t)(hi - base < PC__PAGE ? hi - base : PC__PAGE) : 0;
    return *a < *b;
}

/* 1 if any row of [row, row + n) sees a token of the page. */
static inline int pc__block_sees(const pc__attn_task *task, size_t row, size_t n, size_t page)
{
    uint32_t a, b;
    for (size_t r = row; r < row + n; r++)
        if (pc__slice(task, r, page, &a, &b))
            return 1;
    return 0;
}

/* Soft cap and ALiBi on the visible scores of one row and page. */
static inline void pc__score_terms(const pc__attn_task *task, size_t r, size_t page, uint32_t a,
                                   uint32_t b, float *s)
{
    if (task->soft_cap != 0.0f)
        for (uint32_t t = a; t < b; t++)
            s[t] = task->soft_cap * tanhf(s[t] / task->soft_cap);
    if (task->slope)
        for (uint32_t t = a; t < b; t++) {
            size_t token = page * PC__PAGE + t;
            int64_t key = task->relative ? task->relative[token] : (int64_t)token;
            s[t] -= task->slope[r] * (float)(task->distance[r] - key);
        }
}

#endif
