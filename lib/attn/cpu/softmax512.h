/* softmax_vec.h and exp_vec.h in AVX-512, for the kernels that need more than plain AVX-512. */
#ifndef PC_ATTN_CPU_SOFTMAX512_H
#define PC_ATTN_CPU_SOFTMAX512_H

#include "attn/cpu/vec512.h"

#include "attn/cpu/softmax_vec.h"

static inline __mmask16 pc__range512(uint32_t a, uint32_t b, uint32_t base)
{
    return vec_range(a, b, base);
}

static inline __m512 pc__exp512(__m512 x)
{
    return vec_exp(x);
}

static inline float pc__softmax512(const pc__attn_task *task, size_t r, size_t page, float *s)
{
    return vec_softmax(task, r, page, s);
}

#endif
