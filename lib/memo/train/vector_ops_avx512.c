/* Vectors of 16 floats. */
#include <immintrin.h>

#include "memo/train/vector_ops.h"

#define VEC_BYTES 64
#define ROWS 4
#define LOOPS pc__vector_ops_avx512
#define LOOPS_NAME "avx512"
#define HALF_LANES                                                                       \
    return (lanes)                                                                       \
    {                                                                                    \
        {                                                                                \
            (vec) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at)) \
        }                                                                                \
    }
#define BYTE_LANES                                                                        \
    return (lanes)                                                                        \
    {                                                                                     \
        {                                                                                 \
            (vec) _mm512_cvtepi32_ps(                                                     \
                _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)at))) \
        }                                                                                 \
    }
#include "memo/train/vector_ops_internal.h"
