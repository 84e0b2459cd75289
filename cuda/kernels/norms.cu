// RMS and layer norm. A thread keeps 32 numbers of its row in registers; rows of more than 8192
// numbers are read again, chunk by chunk.
#include "cuda/kernels/norms.h"

#include "cuda/kernels/words.cuh"

namespace {

enum { EACH = 32 }; // numbers of a thread and chunk

// A sum and what rounding took from it.
struct exact_sum {
    float sum, rest;
};

__device__ __forceinline__ exact_sum join(const exact_sum &a, const exact_sum &b)
{
    float sum = pc__plus(a.sum, b.sum), of_b = pc__plus(sum, -a.sum), of_a = pc__plus(sum, -of_b),
          lost = pc__plus(pc__plus(a.sum, -of_a), pc__plus(b.sum, -of_b));
    return {sum, pc__plus(pc__plus(a.rest, b.rest), lost)};
}

// The threads of a row: a warp or a whole block. FOUR: a thread's numbers come in fours.
template <int THREADS, bool FOUR> struct norm_row {
    const pc__cuda_norm &t;
    float *x;
    const float *add, *gain, *bias;
    float *y;
    uint32_t thread;
    float v[EACH];

    __device__ __forceinline__ norm_row(const pc__cuda_norm &task, uint32_t row)
        : t(task), x(task.x + (uint64_t)row * task.dim),
          add(task.add ? task.add + (uint64_t)row * task.dim : nullptr),
          gain(of_row(task, task.gain, row)), bias(of_row(task, task.bias, row)),
          y(task.y + (uint64_t)row * task.dim), thread(threadIdx.x % THREADS)
    {
    }

    static __device__ __forceinline__ const float *of_row(const pc__cuda_norm &t,
                                                          const float *vectors, uint32_t row)
    {
        return vectors ? vectors + (uint64_t)(row % t.vectors) * t.dim : nullptr;
    }

    // Index of number j of this thread.
    __device__ __forceinline__ uint32_t at(uint32_t chunk, int j) const
    {
        uint32_t first = chunk * THREADS * EACH;
        return FOUR ? first + (j / 4 * THREADS + thread) * 4 + j % 4 : first + j * THREADS + thread;
    }

    __device__ __forceinline__ void fill(const float *from, uint32_t chunk, float (&to)[EACH]) const
    {
#pragma unroll
        for (int j = 0; j < EACH; j += FOUR ? 4 : 1) {
            uint32_t i = at(chunk, j);
            if (FOUR) {
                pc__four four = {};
                if (i < t.dim)
                    four = pc__load4(from + i);
                for (int k = 0; k < 4; k++)
                    to[(j + k) % EACH] = four.v[k];
            } else {
                to[j] = i < t.dim ? from[i] : 0.0f;
            }
        }
    }

    __device__ __forceinline__ void put(float *to, uint32_t chunk) const
    {
#pragma unroll
        for (int j = 0; j < EACH; j += FOUR ? 4 : 1) {
            uint32_t i = at(chunk, j);
            if (i < t.dim && FOUR)
                pc__store4(to + i, pc__four{{v[j], v[(j + 1) % EACH], v[(j + 2) % EACH],
                                             v[(j + 3) % EACH]}});
            else if (i < t.dim)
                to[i] = v[j];
        }
    }

    // The chunk as it is on the first way, with the addend; x is written if it is still needed.
    __device__ __forceinline__ void first_load(uint32_t chunk, uint32_t chunks)
    {
        fill(x, chunk, v);
        if (!add)
            return;
        float more[EACH];
        fill(add, chunk, more);
#pragma unroll
        for (int j = 0; j < EACH; j++)
            v[j] = pc__plus(v[j], pc__times(more[j], t.add_scale));
        if (chunks > 1 || x != y)
            put(x, chunk);
    }

    __device__ __forceinline__ exact_sum chunk_sum() const
    {
        exact_sum sum = {0.0f, 0.0f};
#pragma unroll
        for (int j = 0; j < EACH; j++)
            sum = join(sum, {v[j], 0.0f});
        return sum;
    }

    __device__ __forceinline__ float chunk_squares(uint32_t chunk, float mean) const
    {
        float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            float d = at(chunk, j) < t.dim ? pc__plus(v[j], -mean) : 0.0f;
            sums[j % 4] = fmaf(d, d, sums[j % 4]);
        }
        return pc__plus(pc__plus(sums[0], sums[1]), pc__plus(sums[2], sums[3]));
    }

    __device__ __forceinline__ void write(uint32_t chunk, float mean, float scale)
    {
        float more[EACH];
#pragma unroll
        for (int j = 0; j < EACH; j++)
            v[j] = pc__times(pc__plus(v[j], -mean), scale);
        if (gain) {
            fill(gain, chunk, more);
#pragma unroll
            for (int j = 0; j < EACH; j++)
                v[j] = pc__times(v[j], more[j]);
        }
        if (bias) {
            fill(bias, chunk, more);
#pragma unroll
            for (int j = 0; j < EACH; j++)
                v[j] = pc__plus(v[j], more[j]);
        }
        put(y, chunk);
    }

    __device__ __forceinline__ exact_sum over_threads(exact_sum sum, exact_sum *shared) const
    {
        for (int step = 1; step < PC__WARP; step *= 2) {
            exact_sum other = {__shfl_xor_sync(~0u, sum.sum, step),
                               __shfl_xor_sync(~0u, sum.rest, step)};
            sum = join(sum, other);
        }
        if (THREADS == PC__WARP)
            return sum;
        __syncthreads(); // the sums of the way before were read
        if (thread % PC__WARP == 0)
            shared[thread / PC__WARP] = sum;
        __syncthreads();
        sum = shared[0];
        for (int warp = 1; warp < THREADS / PC__WARP; warp++)
            sum = join(sum, shared[warp]);
        return sum;
    }

    __device__ __forceinline__ void run(exact_sum *shared)
    {
        uint32_t chunks = (t.dim + THREADS * EACH - 1) / (THREADS * EACH);
        float mean = 0.0f, scale;
        exact_sum sum = {0.0f, 0.0f};
        for (uint32_t chunk = 0; chunk < chunks && t.mean; chunk++) {
            first_load(chunk, chunks);
            sum = join(sum, chunk_sum());
        }
        if (t.mean) {
            sum = over_threads(sum, shared);
            mean = pc__plus(sum.sum, sum.rest) / (float)t.dim;
        }
        sum = {0.0f, 0.0f};
        for (uint32_t chunk = 0; chunk < chunks; chunk++) {
            if (!t.mean)
                first_load(chunk, chunks);
            else if (chunks > 1)
                fill(x, chunk, v);
            sum.sum = pc__plus(sum.sum, chunk_squares(chunk, mean));
        }
        sum = over_threads(sum, shared);
        scale = 1.0f / sqrtf(pc__plus(pc__plus(sum.sum, sum.rest) / (float)t.dim, t.eps));
        for (uint32_t chunk = 0; chunk < chunks; chunk++) {
            if (chunks > 1)
                fill(x, chunk, v);
            write(chunk, mean, scale);
        }
    }
};

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_NORM_WARP_THREADS, 2)
    pc__cuda_norm_warp(PARAM pc__cuda_norm t)
{
    uint32_t row = (blockIdx.x * PC__CUDA_NORM_WARP_THREADS + threadIdx.x) / PC__WARP;
    if (row >= t.rows)
        return;
    if (t.dim % 4 == 0)
        norm_row<PC__WARP, true>(t, row).run(nullptr);
    else
        norm_row<PC__WARP, false>(t, row).run(nullptr);
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_NORM_BLOCK_THREADS)
    pc__cuda_norm_block(PARAM pc__cuda_norm t)
{
    exact_sum *shared = (exact_sum *)dynamic_shared();
    if (t.dim % 4 == 0)
        norm_row<PC__CUDA_NORM_BLOCK_THREADS, true>(t, blockIdx.x).run(shared);
    else
        norm_row<PC__CUDA_NORM_BLOCK_THREADS, false>(t, blockIdx.x).run(shared);
}
