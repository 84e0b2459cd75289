/* Vectors of 32 bytes, for the kernels of quantised weights with AVX2. */
#ifndef PC_ATTN_CPU_BYTES256_H
#define PC_ATTN_CPU_BYTES256_H

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

typedef uint16_t words256 __attribute__((vector_size(32)));

/* Shifts bits within bytes, for masks that leave out what comes from other bytes; left if n > 0. */
INLINE __m256i shifted256(__m256i x, const int n)
{
    return n >= 0 ? (__m256i)((words256)x << n) : (__m256i)((words256)x >> -n);
}

INLINE __m256i load256(const uint8_t *from)
{
    return _mm256_load_si256((const __m256i *)(const void *)from);
}

INLINE void store256(uint8_t *to, __m256i x)
{
    _mm256_store_si256((__m256i *)(void *)to, x);
}

#endif
