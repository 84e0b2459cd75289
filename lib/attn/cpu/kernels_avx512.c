/* The AVX-512 levels without bf16 dot products: fp32 arithmetic in vectors of 16. */
#include "attn/cpu/vec512.h"

#include "attn/cpu/kernels_internal.h"
#include "attn/cpu/kernels_vec.h"

void pc__attend_f32_avx512(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend_f32(task, first_page, last_page);
}

void pc__panel_f32_avx512(const pc__panel_task *task)
{
    panel_f32(task);
}

void pc__silu_gate_avx512(float *x, const float *up, size_t count)
{
    silu_gate(x, up, count);
}

void pc__add_rows_avx512(const float *factor, const float *rows, size_t stride, size_t count,
                         float *y, size_t width)
{
    add_rows(factor, rows, stride, count, y, width);
}

void pc__gelu_avx512(float *x, size_t count)
{
    gelu(x, count);
}

const pc__kernels pc__kernels_avx512 = {
    .name = "avx512",
    .attend_f32 = attend_f32,
    .attend_bf16 = attend_bf16,
    .attend_f16 = pc__attend_f16_avx512,
    .attend_i8 = pc__attend_i8_avx512,
    .panel_f32 = panel_f32,
    .panel_bf16 = panel_bf16,
    .panel_quantised = pc__panel_quantised_avx2,
    .quantise = pc__quantise_avx512,
    .silu_gate = silu_gate,
    .gelu = gelu,
    .add_rows = add_rows,
    .to_bf16 = pc__to_bf16_avx2,
    .rotate = pc__rotate_avx512,
    .map_f32 = pc__map_f32_avx512,
    .map_bf16 = pc__map_bf16_avx512,
    .map_f16 = pc__map_f16_avx512,
    .weights = pc__weights_avx512,
};

/* The same with byte dot products, for CPUs older than bf16 dot products. */
const pc__kernels pc__kernels_avx512vnni = {
    .name = "avx512vnni",
    .attend_f32 = attend_f32,
    .attend_bf16 = attend_bf16,
    .attend_f16 = pc__attend_f16_avx512,
    .attend_i8 = pc__attend_i8_avx512vnni,
    .panel_f32 = panel_f32,
    .panel_bf16 = panel_bf16,
    .panel_quantised = pc__panel_quantised_avx512vnni,
    .quantise = pc__quantise_avx512,
    .silu_gate = silu_gate,
    .gelu = gelu,
    .add_rows = add_rows,
    .to_bf16 = pc__to_bf16_avx2,
    .rotate = pc__rotate_avx512,
    .map_f32 = pc__map_f32_avx512,
    .map_bf16 = pc__map_bf16_avx512,
    .map_f16 = pc__map_f16_avx512,
    .weights = pc__weights_avx512,
};
