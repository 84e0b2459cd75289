/* Attention maps in fp32 arithmetic with AVX-512. */
#include "attn/cpu/vec512.h"

#include "attn/cpu/map_kernels_vec.h"

void pc__map_f32_avx512(const pc__map_task *task)
{
    map_f32(task);
}

void pc__map_bf16_avx512(const pc__map_task *task)
{
    map_bf16(task);
}

void pc__map_f16_avx512(const pc__map_task *task)
{
    map_f16(task);
}

void pc__weights_avx512(const pc__attn_task *task, uint32_t dtype, size_t pages, float *to,
                        size_t stride)
{
    weights(task, dtype, pages, to, stride);
}
