/* The AVX2 level (with FMA): fp32 arithmetic in vectors of 8. */
#include "attn/cpu/vec256.h"

#include "attn/cpu/kernels_vec.h"

/* Rounds eight floats to nearest even, NaN stays NaN: the bits of pc__bf16_from(), in the lower
 * half of each element. */
INLINE __m256i round_eight(const float *x)
{
    __m256 value = _mm256_loadu_ps(x);
    __m256i bits = _mm256_castps_si256(value), high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i near = _mm256_srli_epi32(
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(near, quiet,
                              _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q)));
}

void pc__to_bf16_avx2(const float *x, size_t count, uint16_t *out)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i both = _mm256_packus_epi32(round_eight(x + i), round_eight(x + i + 8));
        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_permute4x64_epi64(both, 0xd8));
    }
    pc__to_bf16_c(x + i, count - i, out + i);
}

void pc__to_f16_avx2(const float *x, size_t count, uint16_t *out)
{
    const __m256 most = _mm256_set1_ps(65504.0f), least = _mm256_set1_ps(-65504.0f);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) { /* a NaN in the second operand stays */
        __m256 v = _mm256_max_ps(least, _mm256_min_ps(most, _mm256_loadu_ps(x + i)));
        _mm_storeu_si128((__m128i *)(void *)(out + i),
                         _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    pc__to_f16_c(x + i, count - i, out + i);
}

const pc__kernels pc__kernels_avx2 = {
    .name = "avx2",
    .attend_f32 = pc__attend_f32_avx2,
    .attend_bf16 = pc__attend_bf16_avx2,
    .attend_f16 = pc__attend_f16_avx2,
    .attend_i8 = pc__attend_i8_avx2,
    .panel_f32 = pc__panel_f32_avx2,
    .panel_f32_f16 = pc__panel_f32_f16_avx2,
    .panel_f32_bf16 = pc__panel_f32_bf16_avx2,
    .panel_bf16 = pc__panel_bf16_avx2,
    .panel_quantised = pc__panel_quantised_avx2,
    .quantised_pack = pc__quantised_pack_avx2,
    .quantise = pc__quantise_c,
    .silu_gate = pc__silu_gate_avx2,
    .gelu = pc__gelu_avx2,
    .add_rows = pc__add_rows_avx2,
    .to_bf16 = pc__to_bf16_avx2,
    .to_f16 = pc__to_f16_avx2,
    .from_bf16 = pc__from_bf16_avx2,
    .from_f16 = pc__from_f16_avx2,
    .pack_f32 = pc__pack_f32_avx2,
    .pack_16 = pc__pack_16_avx2,
    .pack_i8 = pc__pack_i8_avx2,
    .rotate = pc__rotate_avx2,
    .map_f32 = pc__map_f32_avx2,
    .map_bf16 = pc__map_bf16_avx2,
    .map_f16 = pc__map_f16_avx2,
    .weights = pc__weights_avx2,
};
