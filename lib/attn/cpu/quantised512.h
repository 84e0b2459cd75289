/* Shared by the AVX-512 and AMX kernels of quantised weights. */
#ifndef PC_ATTN_CPU_QUANTISED512_H
#define PC_ATTN_CPU_QUANTISED512_H

#include "attn/cpu/vec512.h"

/* Scales of features 16 j … 16 j + 15 of a group; its scales begin at `from`. */
INLINE __m512 pc__quantised_scales512(const uint8_t *from, size_t j, const int half)
{
    return half ? _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)(from + 32 * j)))
                : _mm512_load_ps((const float *)(const void *)(from + 64 * j));
}

#endif
