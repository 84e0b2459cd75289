/* The tables of the CPU levels, and the kernels that several tables share. */
#ifndef PC_ATTN_CPU_KERNELS_INTERNAL_H
#define PC_ATTN_CPU_KERNELS_INTERNAL_H

#include "attn/cpu/attend.h"
#include "attn/cpu/map_kernels.h"
#include "attn/cpu/panel.h"
#include "attn/cpu/quantise.h"
#include "attn/cpu/rotate.h"

extern const pc__kernels pc__kernels_c, pc__kernels_avx2, pc__kernels_avx512,
    pc__kernels_avx512vnni, pc__kernels_avx512bf16;

void pc__to_bf16_c(const float *x, size_t count, uint16_t *out);
void pc__to_bf16_avx2(const float *x, size_t count, uint16_t *out);
void pc__silu_gate_avx512(float *x, const float *up, size_t count);
void pc__gelu_avx512(float *x, size_t count);
void pc__add_rows_avx512(const float *factor, const float *rows, size_t stride, size_t count,
                         float *y, size_t width);

#endif
