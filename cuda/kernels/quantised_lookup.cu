// Rows of quantised panels as numbers (quantised.h). A thread takes 4 neighbouring inputs, which
// are one word: of each sector that a row touches, an eighth is its own.
#include "cuda/kernels/quantised.h"

#include "cuda/kernels/words.cuh"

namespace {

// The scale and the minimum of an output in a group.
struct group_numbers {
    float scale, minimum;
    __device__ __forceinline__ group_numbers(const pc__cuda_quantised_lookup &t,
                                             const uint8_t *scales, uint32_t output)
        : minimum(0)
    {
        scale = t.format.half ? pc__f16::to(((const uint16_t *)scales)[output])
                              : ((const float *)scales)[output];
        if (t.format.minimum)
            minimum = ((const float *)(scales + 32 * (t.format.half ? 2 : 4)))[output];
    }
    __device__ __forceinline__ float of(int32_t value) const
    {
        return pc__plus(pc__times(scale, (float)value), -minimum);
    }
};

// Inputs k … k + 3 of the group, as bytes of a word.
__device__ __forceinline__ uint32_t load_word(const pc__cuda_quantised_lookup &t,
                                              const uint8_t *group, uint32_t output, uint32_t k)
{
    uint32_t middle = t.format.group / 2;
    if (t.format.bits == 8)
        return ((const uint32_t *)group)[k / 4 * 32 + output];
    return ((const uint32_t *)group)[k % middle / 4 * 32 + output] >> k / middle * 4 & 0x0f0f0f0fu;
}

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_QUANTISED_LOOKUP_THREADS)
    pc__cuda_lookup_quantised(PARAM pc__cuda_quantised_lookup t)
{
    uint32_t row = t.row[blockIdx.x], output = row % 32, dim = t.groups * t.format.group,
             scale_at = t.format.group * t.format.bits / 8 * 32,
             bytes = scale_at + 32 * (t.format.half ? 2 : 4) + (t.format.minimum ? 128 : 0);
    const uint8_t *panel = t.panels + row / 32 * t.panel_bytes;
    float *x = t.x + (uint64_t)blockIdx.x * dim;
    for (uint32_t i = threadIdx.x * 4; i < dim; i += PC__CUDA_QUANTISED_LOOKUP_THREADS * 4) {
        const uint8_t *group = panel + (uint64_t)(i / t.format.group) * bytes;
        group_numbers numbers(t, group + scale_at, output);
        uint32_t word = load_word(t, group, output, i % t.format.group);
        for (int k = 0; k < 4; k++) {
            float y = numbers.of((int32_t)(word >> 8 * k & 0xffu) - t.format.zero);
            x[i + k] = t.add ? pc__plus(x[i + k], y) : y;
        }
    }
}
