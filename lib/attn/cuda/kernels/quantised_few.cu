// Quantised weights times 8 rows. 8 warps share the groups of a panel, so that much of it is on its
// way from memory at a time. They leave exact products in shared memory; then each thread adds the
// products of one output and row, group after group, while the next weights come.
#include "attn/cuda/kernels/quantised.cuh"

namespace {

constexpr uint32_t WARPS = PC__CUDA_QUANTISED_THREADS / PC__WARP, CHUNK = 32, // groups at a time
    ALL = 256;                                                                // outputs x rows

struct panel_chunk {
    int32_t product[CHUNK][ALL]; // [p * 2 + h][g][row]
    float scale[CHUNK][32], minimum[CHUNK][32];
    int32_t sums[CHUNK][8];
};
static_assert(sizeof(panel_chunk) <= PC__CUDA_QUANTISED_SHARED, "room of a chunk");

template <int BITS, int GROUP> struct few {
    using weights = pc__quantised_panel<BITS, GROUP>;
    // units of a warp and chunk
    static constexpr uint32_t GROUPS = weights::GROUPS, UNITS = CHUNK / GROUPS / WARPS;

    const pc__cuda_quantised_task &t;
    weights panel;
    uint32_t tile, units, warp, lane;
    typename weights::raw raw[UNITS];
    uint4 codes[UNITS];

    __device__ __forceinline__ explicit few(const pc__cuda_quantised_task &task)
        : t(task), panel(task, blockIdx.x), tile(blockIdx.y),
          units((task.groups + GROUPS - 1) / GROUPS), warp(threadIdx.x / PC__WARP),
          lane(threadIdx.x % PC__WARP)
    {
    }
    __device__ __forceinline__ uint32_t unit_of(uint32_t chunk, uint32_t u) const
    {
        return chunk * (CHUNK / GROUPS) + u * WARPS + warp;
    }
    __device__ __forceinline__ void load(uint32_t chunk)
    {
#pragma unroll
        for (uint32_t u = 0; u < UNITS; u++) {
            uint32_t unit = unit_of(chunk, u);
            raw[u] = panel.load(unit);
            codes[u] = make_uint4(0, 0, 0, 0);
            if (unit < units)
                codes[u] = pc__load_codes(t, tile, unit, units);
        }
    }
    // Products of a group, with its scales and sums, at place `at` of the chunk.
    __device__ __forceinline__ void put(panel_chunk &c, uint32_t at, uint32_t group,
                                        const pc__group_products &products) const
    {
        const int32_t *factors = t.x.factors + ((uint64_t)tile * t.groups + group) * 16;
        uint4 f = load16(factors + lane % 4 * 4); // of rows 2k and 2k + 1
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            store8(&c.product[at][i * 64 + lane * 2],
                   make_uint2((uint32_t)products.d[i / 2][i % 2 * 2] * f.x,
                              (uint32_t)products.d[i / 2][i % 2 * 2 + 1] * f.z));
        c.scale[at][lane] = panel.scale(group, lane);
        if (t.minimum)
            c.minimum[at][lane] = panel.minimum(group, lane);
        if (t.minimum && lane < 4)
            store8(&c.sums[at][lane * 2], make_uint2(f.y, f.w));
    }
    __device__ __forceinline__ void multiply(panel_chunk &c, uint32_t chunk) const
    {
#pragma unroll
        for (uint32_t u = 0; u < UNITS; u++) {
            pc__unit_weights w = panel.unpack(raw[u]);
            uint32_t unit = unit_of(chunk, u);
#pragma unroll
            for (uint32_t which = 0; which < GROUPS; which++) {
                uint32_t group = unit * GROUPS + which;
                pc__group_products products = pc__multiply<GROUP>(w, codes[u], which, t.bytes == 2);
                if (group < t.groups)
                    put(c, group - chunk * CHUNK, group, products);
            }
        }
    }
    // This thread's output and row.
    __device__ __forceinline__ float add(const panel_chunk &c, uint32_t count, float y) const
    {
        uint32_t output = threadIdx.x % 64 / 8 * 4 + threadIdx.x / 64, row = threadIdx.x % 8;
#pragma unroll 4
        for (uint32_t g = 0; g < count; g++) {
            y = fmaf((float)c.product[g][threadIdx.x], c.scale[g][output], y);
            if (t.minimum)
                y = fmaf((float)c.sums[g][row], c.minimum[g][output], y);
        }
        return y;
    }
    // In shared memory, such that neither way of reading and writing meets in a bank.
    static __device__ __forceinline__ uint32_t place(uint32_t row, uint32_t output)
    {
        return row * 32 + (output ^ (row % 4 | row / 4 * 16));
    }
    // Through shared memory, so that a warp writes 32 outputs of a row.
    __device__ __forceinline__ void write(float y, float *shared) const
    {
        uint32_t output = threadIdx.x % 64 / 8 * 4 + threadIdx.x / 64,
                 row = tile * 8 + threadIdx.x / 32, column = blockIdx.x * 32 + threadIdx.x % 32;
        __syncthreads();
        shared[place(threadIdx.x % 8, output)] = y;
        __syncthreads();
        if (row >= t.rows || column >= t.out)
            return;
        y = pc__times(shared[place(threadIdx.x / 32, threadIdx.x % 32)], t.x.scale[row]);
        t.y[(uint64_t)row * t.out + column] = t.bias ? pc__plus(y, t.bias[column]) : y;
    }

    static __device__ __forceinline__ void run(const pc__cuda_quantised_task &task)
    {
        few f(task);
        panel_chunk &c = *(panel_chunk *)dynamic_shared();
        float y = 0.0f;
        f.load(0);
        for (uint32_t chunk = 0; chunk * CHUNK < task.groups; chunk++) {
            f.multiply(c, chunk);
            f.load(chunk + 1);
            __syncthreads();
            y = f.add(c, min(CHUNK, task.groups - chunk * CHUNK), y);
            __syncthreads();
        }
        f.write(y, (float *)dynamic_shared());
    }
};

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_QUANTISED_THREADS, 2)
    pc__cuda_quantised_few(PARAM pc__cuda_quantised_task t)
{
    pc__for_format<few>(t);
}
