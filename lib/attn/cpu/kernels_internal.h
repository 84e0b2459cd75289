/* The tables of the CPU levels and their kernels. */
#ifndef PC_ATTN_CPU_KERNELS_INTERNAL_H
#define PC_ATTN_CPU_KERNELS_INTERNAL_H

#include "attn/cpu/attend.h"
#include "attn/cpu/map_kernels.h"
#include "attn/cpu/pack.h"
#include "attn/cpu/panel.h"
#include "attn/cpu/quantise.h"
#include "attn/cpu/quantised_panel.h"

extern const pc__kernels pc__kernels_c, pc__kernels_avx2, pc__kernels_avx512,
    pc__kernels_avx512vnni, pc__kernels_avx512bf16;

pc__gate_kernel pc__silu_gate_avx2, pc__silu_gate_avx512;
pc__activation_kernel pc__gelu_avx2, pc__gelu_avx512;
pc__add_rows_kernel pc__add_rows_avx2, pc__add_rows_avx512;
pc__narrow_kernel pc__to_bf16_c, pc__to_bf16_avx2, pc__to_f16_c, pc__to_f16_avx2;
pc__widen_kernel pc__from_bf16_c, pc__from_bf16_avx2, pc__from_bf16_avx512, pc__from_f16_c,
    pc__from_f16_avx2, pc__from_f16_avx512;
pc__rotate_kernel pc__rotate_avx2, pc__rotate_avx512;

/* What the tables of all levels with AVX-512 have in common. */
#define KERNELS_AVX512                                                                             \
    .attend_f32 = pc__attend_f32_avx512, .attend_f16 = pc__attend_f16_avx512,                      \
    .panel_f32_f16 = pc__panel_f32_f16_avx512, .panel_f32_bf16 = pc__panel_f32_bf16_avx512,        \
    .panel_f32 = pc__panel_f32_avx512, .quantise = pc__quantise_avx512,                            \
    .quantised_pack = pc__quantised_pack_avx2, .silu_gate = pc__silu_gate_avx512,                  \
    .gelu = pc__gelu_avx512, .add_rows = pc__add_rows_avx512, .rotate = pc__rotate_avx512,         \
    .to_f16 = pc__to_f16_avx2, .from_bf16 = pc__from_bf16_avx512, .from_f16 = pc__from_f16_avx512, \
    .pack_f32 = pc__pack_f32_avx512, .pack_16 = pc__pack_16_avx512, .pack_i8 = pc__pack_i8_avx512, \
    .map_f32 = pc__map_f32_avx512, .map_f16 = pc__map_f16_avx512, .weights = pc__weights_avx512

#endif
