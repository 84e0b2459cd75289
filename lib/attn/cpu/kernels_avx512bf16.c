/* The AVX-512 level with bf16 dot products: rounding, and the table of the level. */
#include "attn/cpu/kernels_internal.h"
#include "attn/cpu/vec512.h"

static void to_bf16(const float *x, size_t count, uint16_t *out)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(out + i),
                            (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
    pc__to_bf16_c(x + i, count - i, out + i);
}

const pc__kernels pc__kernels_avx512bf16 = {
    KERNELS_AVX512,
    .name = "avx512bf16",
    .attend_bf16 = pc__attend_bf16_avx512bf16,
    .attend_i8 = pc__attend_i8_avx512vnni,
    .panel_bf16 = pc__panel_bf16_avx512bf16,
    .panel_quantised = pc__panel_quantised_avx512vnni,
    .to_bf16 = to_bf16,
    .map_bf16 = pc__map_bf16_avx512bf16,
    .bf16_dot = 1,
};
