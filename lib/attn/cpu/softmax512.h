/* softmax_vec.h in 16 lanes, and what the kernels of more than plain AVX-512 need beside it. */
#ifndef PC_ATTN_CPU_SOFTMAX512_H
#define PC_ATTN_CPU_SOFTMAX512_H

#include "attn/cpu/exp512.h"
#include "attn/cpu/softmax_vec.h"

static inline __mmask16 pc__lanes(uint32_t a, uint32_t b, uint32_t base)
{
    return vec_lanes(a, b, base);
}

/* vec_softmax() */
static inline float pc__softmax512(const pc__attn_task *task, size_t r, size_t page, float *s)
{
    return vec_softmax(task, r, page, s);
}

#endif
