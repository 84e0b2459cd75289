/* Vectors of 8 floats. */
#include <immintrin.h>

#include "memo/train/vector_ops.h"

#define VEC_BYTES 32
#define ROWS 2
#define LOOPS pc__vector_ops_avx2
#define LOOPS_NAME "avx2"
#define HALVES(from) (vec) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from)))
#define BYTES(from)           \
    (vec) _mm256_cvtepi32_ps( \
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(from))))
#define HALF_LANES                     \
    return (lanes)                     \
    {                                  \
        {                              \
            HALVES(at), HALVES(at + 8) \
        }                              \
    }
#define BYTE_LANES                   \
    return (lanes)                   \
    {                                \
        {                            \
            BYTES(at), BYTES(at + 8) \
        }                            \
    }
#include "memo/train/vector_ops_internal.h"
