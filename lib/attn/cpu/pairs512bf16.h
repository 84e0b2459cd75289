/* Dot products of pairs of bf16. For files compiled with AVX512-BF16. */
#ifndef PC_ATTN_CPU_PAIRS512BF16_H
#define PC_ATTN_CPU_PAIRS512BF16_H

#include "attn/cpu/vec512.h"

INLINE __m512 dot(__m512 sum, __m512i a, __m512i b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

/* The same pair in every 32-bit element. */
INLINE __m512i pair(const uint16_t *x)
{
    int32_t both;
#ifdef __SANITIZE_THREAD__ /* is much slower with unaligned reads of four bytes */
    both = (int32_t)((uint32_t)x[1] << 16 | x[0]);
#else
    __builtin_memcpy(&both, x, sizeof both);
#endif
    return _mm512_set1_epi32(both);
}

#endif
