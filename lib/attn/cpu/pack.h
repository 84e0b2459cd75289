/* Rows of a pool as a packed page (pc__pack_task), element by element: the whole of it in plain C,
 * and what is left over at other levels. */
#ifndef PC_ATTN_CPU_PACK_H
#define PC_ATTN_CPU_PACK_H

#include <string.h>

#include "attn/cpu/prefetch.h"
#include "attn/kernels.h"

pc__pack_kernel pc__pack_f32_c, pc__pack_16_c, pc__pack_i8_c, pc__pack_f32_avx2, pc__pack_16_avx2,
    pc__pack_i8_avx2, pc__pack_f32_avx512, pc__pack_16_avx512, pc__pack_i8_avx512;

/* Bytes of an element of a row. */
enum { PC__PACK_I8 = 1, PC__PACK_16 = 2, PC__PACK_F32 = 4 };

#define PC__PACK_PART static inline __attribute__((always_inline)) void

/* Dimensions [from, k_dim) of K of tokens [token, end); `from` is even. */
PC__PACK_PART pc__pack_k_rest(const pc__pack_task *task, const int bytes, size_t from, size_t token,
                              size_t end)
{
    float *to = task->k_block;
    uint16_t *to16 = task->k_block;
    for (size_t t = token; t < end; t++) {
        const uint8_t *row = task->k[t];
        for (size_t d = from; d < task->k_dim; d++)
            if (bytes == PC__PACK_F32)
                memcpy(to + d * PC__PAGE + t, row + 4 * d, 4);
            else if (bytes == PC__PACK_16)
                memcpy(to16 + (d / 2 * PC__PAGE + t) * 2 + d % 2, row + 2 * d, 2);
            else
                to[d * PC__PAGE + t] = task->k_scale * (float)(int8_t)row[d];
        if (bytes == PC__PACK_16 && task->k_dim % 2)
            to16[(task->k_dim / 2 * PC__PAGE + t) * 2 + 1] = 0;
    }
}

/* Dimensions [from, v_dim) of V of one token; 16 bits: of it and the next one, `token` is even. */
PC__PACK_PART pc__pack_v_rest(const pc__pack_task *task, const int bytes, size_t token, size_t from)
{
    float *to = (float *)task->v_block + token * task->v_dim;
    uint16_t *to16 = (uint16_t *)task->v_block + token * task->v_dim;
    for (size_t d = from; d < task->v_dim; d++)
        if (bytes == PC__PACK_F32) {
            memcpy(to + d, task->v[token] + 4 * d, 4);
        } else if (bytes == PC__PACK_16) {
            memcpy(to16 + 2 * d, task->v[token] + 2 * d, 2);
            memcpy(to16 + 2 * d + 1, task->v[token + 1] + 2 * d, 2);
        } else {
            to[d] = task->v_scale * (float)(int8_t)task->v[token][d];
        }
}

#endif
