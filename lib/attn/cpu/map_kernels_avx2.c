/* Attention maps in fp32 arithmetic with AVX2. */
#include "attn/cpu/vec256.h"

#include "attn/cpu/map_kernels_vec.h"

void pc__map_f32_avx2(const pc__map_task *task)
{
    map_f32(task);
}

void pc__map_bf16_avx2(const pc__map_task *task)
{
    map_bf16(task);
}

void pc__map_f16_avx2(const pc__map_task *task)
{
    map_f16(task);
}

void pc__weights_avx2(const pc__attn_task *task, uint32_t dtype, size_t pages, float *to,
                      size_t stride)
{
    weights(task, dtype, pages, to, stride);
}
