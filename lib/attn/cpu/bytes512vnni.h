/* Byte dot products for int8 K/V and quantised weights. For files compiled with AVX512-VNNI. */
#ifndef PC_ATTN_CPU_BYTES512VNNI_H
#define PC_ATTN_CPU_BYTES512VNNI_H

#include "attn/cpu/vec512.h"

/* 32-bit sums. GCC 12 would copy variables of type __m512i, whose elements have 64 bits, around
 * every product. */
typedef int32_t sums __attribute__((vector_size(64)));

INLINE sums dot(sums sum, __m512i unsigned_bytes, __m512i signed_bytes)
{
    return (sums)_mm512_dpbusd_epi32((__m512i)sum, unsigned_bytes, signed_bytes);
}

/* The same four bytes in every 32-bit element. */
INLINE __m512i four(const void *x)
{
    int32_t bytes;
    __builtin_memcpy(&bytes, x, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

#endif
