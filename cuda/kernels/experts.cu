// The sum of the experts of a row.
#include "cuda/kernels/experts.h"

#include "cuda/kernels/words.cuh"

namespace {

// N neighbouring numbers from i on.
template <int N> struct numbers {
    float v[N];
    __device__ __forceinline__ void load(const float *from)
    {
        if (N == 1) {
            v[0] = *from;
            return;
        }
        pc__four x = pc__load4(from);
        for (int k = 0; k < N; k++)
            v[k] = x.v[k % 4];
    }
    __device__ __forceinline__ void store(float *to) const
    {
        if (N == 1)
            *to = v[0];
        else
            pc__store4(to, pc__four{{v[0], v[1 % N], v[2 % N], v[3 % N]}});
    }
};

template <int N> __device__ __forceinline__ void sum_row(const pc__cuda_expert_sum_task &t)
{
    uint64_t row = blockIdx.x;
    const uint32_t *entries = t.of_row + row * t.used;
    const float *begin = t.goes_on ? t.out : t.shared;
    float scale = 1.0f;
    if (t.shared_scale && !t.goes_on)
        scale = 1.0f / pc__plus(1.0f, expf(-t.shared_scale[row]));
    for (uint32_t i = threadIdx.x * N; i < t.dim; i += PC__CUDA_EXPERT_THREADS * N) {
        numbers<N> sum = {}, more;
        if (begin)
            sum.load(begin + row * t.dim + i);
        for (int k = 0; k < N && t.shared_scale && !t.goes_on; k++)
            sum.v[k] = pc__times(sum.v[k], scale);
        for (uint32_t u = 0; u < t.used; u++) {
            uint32_t entry = entries[u] - t.first; // of another part: wraps around
            if (entry >= t.entries)
                continue;
            float share = t.share ? t.share[entries[u]] : 1.0f;
            more.load(t.results + (uint64_t)entry * t.dim + i);
            for (int k = 0; k < N; k++)
                sum.v[k] = pc__plus(sum.v[k], pc__times(share, more.v[k]));
        }
        sum.store(t.out + row * t.dim + i);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_EXPERT_THREADS)
    pc__cuda_expert_sum(PARAM pc__cuda_expert_sum_task t)
{
    if (t.dim % 4 == 0 && pc__aligned16(t.results) && pc__aligned16(t.out)
        && pc__aligned16(t.shared))
        sum_row<4>(t);
    else
        sum_row<1>(t);
}
