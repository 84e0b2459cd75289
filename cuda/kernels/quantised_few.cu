// Quantised weights times up to 32 rows, of a layer or of an expert. 8 warps share the groups of a
// panel, so that much of it is on its way from memory at a time. They take 8 rows after another,
// with weights that stay in registers as they were loaded: they leave products in shared
// memory; then each thread adds the products of one output and row, group after group. The next
// weights come while the last rows are added.
#include "cuda/kernels/quantised.cuh"

namespace {

constexpr uint32_t WARPS = PC__CUDA_QUANTISED_THREADS / PC__WARP, CHUNK = 32, // groups at a time
    ALL = 256,                                                                // outputs x rows
    TILES = PC__CUDA_QUANTISED_ROWS / 8;

struct panel_chunk {
    float product[CHUNK][ALL]; // [p * 2 + h][g][row]
    float scale[CHUNK][32], minimum[CHUNK][32];
    float sums[CHUNK][8];
    float y[TILES][ALL]; // what each thread has added so far
};
static_assert(sizeof(panel_chunk) <= PC__CUDA_QUANTISED_SHARED, "room of a chunk");

template <int BITS, int GROUP, class ROWS> struct few {
    using weights = pc__quantised_panel<BITS, GROUP>;
    // units of a warp and chunk
    static constexpr uint32_t GROUPS = weights::GROUPS, UNITS = CHUNK / GROUPS / WARPS;

    const pc__cuda_quantised_task &t;
    const pc__cuda_quantised_part &part;
    weights panel;
    ROWS first; // 8 rows
    uint32_t units, warp, lane;
    typename weights::raw raw[UNITS];
    uint4 codes[UNITS]; // of the rows that come

    __device__ __forceinline__ few(const pc__cuda_quantised_task &task,
                                   const pc__cuda_quantised_part &p, const uint8_t *panels,
                                   const ROWS &r)
        : t(task), part(p), panel(task, panels, blockIdx.x), first(r),
          units((task.groups + GROUPS - 1) / GROUPS), warp(threadIdx.x / PC__WARP),
          lane(threadIdx.x % PC__WARP)
    {
    }
    __device__ __forceinline__ uint32_t unit_of(uint32_t chunk, uint32_t u) const
    {
        return chunk * (CHUNK / GROUPS) + u * WARPS + warp;
    }
    __device__ __forceinline__ void load_weights(uint32_t chunk)
    {
#pragma unroll
        for (uint32_t u = 0; u < UNITS; u++)
            raw[u] = panel.load(unit_of(chunk, u));
    }
    __device__ __forceinline__ void load_codes(const ROWS &rows, uint32_t chunk)
    {
#pragma unroll
        for (uint32_t u = 0; u < UNITS; u++) {
            uint32_t unit = unit_of(chunk, u);
            codes[u] = make_uint4(0, 0, 0, 0);
            if (unit < units)
                codes[u] = rows.codes(unit, units);
        }
    }
    // The scales of the chunk's groups, once for all rows.
    __device__ __forceinline__ void put_scales(panel_chunk &c, uint32_t chunk) const
    {
#pragma unroll
        for (uint32_t u = 0; u < UNITS * GROUPS; u++) {
            uint32_t group = unit_of(chunk, u / GROUPS) * GROUPS + u % GROUPS,
                     at = group - chunk * CHUNK;
            if (group >= t.groups)
                continue;
            c.scale[at][lane] = panel.scale(group, lane);
            if (t.format.minimum)
                c.minimum[at][lane] = panel.minimum(group, lane);
        }
    }
    static __device__ __forceinline__ void put_two(float *to, float a, float b)
    {
        store8(to, make_uint2(__float_as_uint(a), __float_as_uint(b)));
    }
    // Products of a group, with the sums of its inputs, at place `at` of the chunk.
    __device__ __forceinline__ void put(panel_chunk &c, const ROWS &rows, uint32_t at,
                                        uint32_t group, const pc__group_products &products) const
    {
        uint4 f = rows.factors(group);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            put_two(&c.product[at][i * 64 + lane * 2],
                    pc__stepped(products.d[i / 2][i % 2 * 2], f.x),
                    pc__stepped(products.d[i / 2][i % 2 * 2 + 1], f.z));
        if (t.format.minimum && lane < 4)
            put_two(&c.sums[at][lane * 2], pc__stepped((int32_t)f.y, f.x),
                    pc__stepped((int32_t)f.w, f.z));
    }
    __device__ __forceinline__ void multiply(panel_chunk &c, const ROWS &rows, uint32_t chunk) const
    {
#pragma unroll
        for (uint32_t u = 0; u < UNITS; u++) {
            pc__unit_weights w = panel.unpack(raw[u]);
            uint32_t unit = unit_of(chunk, u);
#pragma unroll
            for (uint32_t which = 0; which < GROUPS; which++) {
                uint32_t group = unit * GROUPS + which;
                pc__group_products products = pc__multiply<GROUP>(w, codes[u], which);
                if (group < t.groups)
                    put(c, rows, group - chunk * CHUNK, group, products);
            }
        }
    }
    // This thread's output and row.
    __device__ __forceinline__ float add(const panel_chunk &c, uint32_t count, float y) const
    {
        uint32_t output = threadIdx.x % 64 / 8 * 4 + threadIdx.x / 64, row = threadIdx.x % 8;
#pragma unroll 4
        for (uint32_t g = 0; g < count; g++) {
            y = fmaf(c.product[g][threadIdx.x], c.scale[g][output], y);
            if (t.format.minimum)
                y = fmaf(c.sums[g][row], c.minimum[g][output], y);
        }
        return y;
    }
    // In shared memory, such that neither way of reading and writing meets in a bank.
    static __device__ __forceinline__ uint32_t place(uint32_t row, uint32_t output)
    {
        return row * 32 + (output ^ (row % 4 | row / 4 * 16));
    }
    // Through shared memory, so that a warp writes 32 outputs of a row.
    __device__ __forceinline__ void write(const ROWS &rows, float y, float *shared,
                                          const float *bias) const
    {
        uint32_t output = threadIdx.x % 64 / 8 * 4 + threadIdx.x / 64, r = threadIdx.x / 32,
                 column = blockIdx.x * 32 + threadIdx.x % 32;
        shared[place(threadIdx.x % 8, output)] = y;
        __syncthreads();
        if (rows.has(r) && column < part.out) {
            y = shared[place(r, threadIdx.x % 32)];
            part.y[(uint64_t)rows.output(r) * part.out + column] = bias ? pc__plus(y, bias[column])
                                                                        : y;
        }
        __syncthreads(); // shared memory is free again
    }
    // All rows of a chunk.
    __device__ __forceinline__ void multiply_chunk(panel_chunk &c, uint32_t chunk, uint32_t tiles)
    {
        put_scales(c, chunk);
#pragma unroll 1
        for (uint32_t n = 0; n < tiles; n++) {
            float &y = c.y[n][threadIdx.x];
            bool last = n + 1 == tiles;
            multiply(c, first.next(n), chunk);
            if (last)
                load_weights(chunk + 1);
            load_codes(first.next(last ? 0 : n + 1), last ? chunk + 1 : chunk);
            __syncthreads();
            y = add(c, min(CHUNK, t.groups - chunk * CHUNK), chunk ? y : 0.0f);
            __syncthreads();
        }
    }
    // Up to 32 rows.
    __device__ __forceinline__ void multiply_all(const float *bias)
    {
        panel_chunk &c = *(panel_chunk *)dynamic_shared();
        uint32_t tiles = min(TILES, first.tiles());
        load_weights(0);
        load_codes(first, 0);
        for (uint32_t chunk = 0; chunk * CHUNK < t.groups; chunk++)
            multiply_chunk(c, chunk, tiles);
        for (uint32_t n = 0; n < tiles; n++)
            write(first.next(n), c.y[n][threadIdx.x], (float *)dynamic_shared(), bias);
    }
};

template <int BITS, int GROUP> struct plain_layer {
    static __device__ __forceinline__ void run(const pc__cuda_quantised_task &t)
    {
        const pc__cuda_quantised_part &part = t.part[blockIdx.z];
        if (blockIdx.x * 32 < part.out)
            few<BITS, GROUP, pc__plain_rows>(t, part, part.panels, {t, blockIdx.y * TILES})
                .multiply_all(part.bias);
    }
};

template <int BITS, int GROUP> struct expert_layer {
    static __device__ __forceinline__ void run(const pc__cuda_quantised_experts &e)
    {
        const uint8_t *panels = (const uint8_t *)(uintptr_t)e.panels[blockIdx.y];
        const float *bias = e.bias ? (const float *)(uintptr_t)e.bias[blockIdx.y] : nullptr;
        uint32_t end = e.first[blockIdx.y + 1];
        for (uint32_t from = e.first[blockIdx.y]; from < end; from += PC__CUDA_QUANTISED_ROWS)
            few<BITS, GROUP, pc__expert_rows>(e.layer, e.layer.part[0], panels, {e, from, end})
                .multiply_all(bias);
    }
};

} // namespace

KERNEL(pc__cuda_quantised_few, pc__cuda_quantised_task, (PC__CUDA_QUANTISED_THREADS, 2),
       pc__for_format<plain_layer>(t, t))
KERNEL(pc__cuda_quantised_experts_few, pc__cuda_quantised_experts, (PC__CUDA_QUANTISED_THREADS, 2),
       pc__for_format<expert_layer>(t.layer, t))
