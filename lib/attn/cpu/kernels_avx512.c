/* The AVX-512 levels without bf16 dot products: fp32 arithmetic in vectors of 16. */
#include "attn/cpu/vec512.h"

#include "attn/cpu/kernels_vec.h"

const pc__kernels pc__kernels_avx512 = {
    KERNELS_AVX512,
    .name = "avx512",
    .attend_bf16 = pc__attend_bf16_avx512,
    .attend_i8 = pc__attend_i8_avx512,
    .panel_bf16 = pc__panel_bf16_avx512,
    .panel_quantised = pc__panel_quantised_avx2,
    .to_bf16 = pc__to_bf16_avx2,
    .map_bf16 = pc__map_bf16_avx512,
};

/* The same with byte dot products, for CPUs older than bf16 dot products. */
const pc__kernels pc__kernels_avx512vnni = {
    KERNELS_AVX512,
    .name = "avx512vnni",
    .attend_bf16 = pc__attend_bf16_avx512,
    .attend_i8 = pc__attend_i8_avx512vnni,
    .panel_bf16 = pc__panel_bf16_avx512,
    .panel_quantised = pc__panel_quantised_avx512vnni,
    .to_bf16 = pc__to_bf16_avx2,
    .map_bf16 = pc__map_bf16_avx512,
};
