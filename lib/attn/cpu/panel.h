/* The kernels of linear layers of all levels. */
#ifndef PC_ATTN_CPU_PANEL_H
#define PC_ATTN_CPU_PANEL_H

#include "attn/kernels.h"

pc__panel_kernel pc__panel_bf16_c, pc__panel_f32_avx2, pc__panel_bf16_avx2, pc__panel_f32_avx512,
    pc__panel_bf16_avx512, pc__panel_bf16_avx512bf16, pc__panel_bf16_amx, pc__panel_f32_f16_avx2,
    pc__panel_f32_bf16_avx2, pc__panel_f32_f16_avx512, pc__panel_f32_bf16_avx512;
pc__quantised_kernel pc__panel_quantised_c, pc__panel_quantised_avx2,
    pc__panel_quantised_avx512vnni;

#endif
