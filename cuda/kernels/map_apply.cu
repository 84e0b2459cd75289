// Maps times values. A warp takes 16 rows and 128 dimensions. 16-bit values: weights, rounded, are
// operand A of the tensor cores, words of V operand B as they lie in the page.
#include "cuda/kernels/maps.cuh"

namespace {

constexpr uint32_t DIMS = PC__CUDA_MAP_DIMS, V_STRIDE = DIMS + 8, V_WORDS = 32 * V_STRIDE,
                   P_STRIDE = PC__MAP_KEYS + 8, TILES = DIMS / 8;

struct application {
    const pc__cuda_map_task &t;
    pc__map_place map;
    uint32_t first, rows_from, dims_from, dims; // rows_from: of this warp

    __device__ __forceinline__ explicit application(const pc__cuda_map_task &task)
        : t(task), map(task.lanes[task.blocks[blockIdx.x].lane], task.format, task.heads,
                       task.shape.kv_heads, task.layer),
          first(task.blocks[blockIdx.x].first),
          rows_from(first + threadIdx.x / PC__WARP * PC__MAP_WARP_ROWS),
          dims_from(blockIdx.z * DIMS), dims(min(task.shape.v_dim - dims_from, DIMS))
    {
    }
    __device__ __forceinline__ const uint8_t *values(uint32_t page) const
    {
        return map.page(t.shape, page) + t.shape.v_offset;
    }
    // Weight of a row and key; 0 beyond the end of either.
    __device__ __forceinline__ float weight(uint32_t row, uint32_t key) const
    {
        if (row >= map.lane.tokens || key >= map.keys(row))
            return 0.0f;
        uint64_t at = map.row_at(row) + key;
        if (t.format == PC__CUDA_MAP_F32)
            return ((const float *)map.weights)[at];
        if (t.format == PC__CUDA_MAP_F16)
            return pc__f16::to(((const uint16_t *)map.weights)[at]);
        return (float)map.weights[at];
    }
    __device__ __forceinline__ float scale(uint32_t row) const
    {
        return t.format == PC__CUDA_MAP_U8 && row < map.lane.tokens ? map.scales[row] : 1.0f;
    }
    __device__ __forceinline__ float *out(uint32_t row) const
    {
        return t.out + ((uint64_t)(map.lane.first_row + row) * t.heads + blockIdx.y) * t.shape.v_dim
               + dims_from;
    }
};

// Starts the copy of this slice of V's words of a page into [32][V_STRIDE].
__device__ __forceinline__ void fetch_values(const application &a, uint32_t page, uint32_t *to)
{
    uint32_t v_dim = a.t.shape.v_dim;
    const uint32_t *from = (const uint32_t *)a.values(page) + a.dims_from;
    if (v_dim % 4 == 0) {
        uint32_t fours = a.dims / 4;
        for (uint32_t i = threadIdx.x; i < 32 * fours; i += PC__CUDA_MAP_THREADS)
            copy16(to + i / fours * V_STRIDE + i % fours * 4,
                   from + i / fours * v_dim + i % fours * 4);
        return;
    }
    for (uint32_t i = threadIdx.x; i < 32 * a.dims; i += PC__CUDA_MAP_THREADS)
        copy4(to + i / a.dims * V_STRIDE + i % a.dims, from + i / a.dims * v_dim + i % a.dims);
}

// The warp's rows of weights for a page, rounded, into [16][P_STRIDE].
template <class FORMAT>
__device__ __forceinline__ void stage_weights(const application &a, uint32_t page, uint16_t *to)
{
    uint32_t lane = threadIdx.x % PC__WARP, key = page * PC__MAP_KEYS + lane;
#pragma unroll 8
    for (uint32_t r = 0; r < PC__MAP_WARP_ROWS; r++) {
        float low = a.weight(a.rows_from + r, key),
              high = a.weight(a.rows_from + r, key + PC__WARP);
        to[r * P_STRIDE + lane] = (uint16_t)FORMAT::from(low);
        to[r * P_STRIDE + lane + PC__WARP] = (uint16_t)FORMAT::from(high);
    }
}

template <class FORMAT>
__device__ __forceinline__ void add_page(const application &a, const uint16_t *p, const uint32_t *v,
                                         float (&d)[TILES][4])
{
    uint32_t group = threadIdx.x % PC__WARP / 4, third = threadIdx.x % 4;
    const uint32_t *words = (const uint32_t *)p + group * (P_STRIDE / 2) + third;
#pragma unroll
    for (uint32_t k = 0; k < PC__MAP_KEYS / 16; k++) {
        uint32_t w[4] = {words[k * 8], words[k * 8 + 8 * (P_STRIDE / 2)], words[k * 8 + 4],
                         words[k * 8 + 4 + 8 * (P_STRIDE / 2)]};
#pragma unroll
        for (uint32_t n = 0; n < TILES; n++) {
            uint32_t column = n * 8 + group, b0 = 0, b1 = 0;
            if (n * 8 >= a.dims)
                break;
            if (column < a.dims) {
                b0 = v[(k * 8 + third) * V_STRIDE + column];
                b1 = v[(k * 8 + third + 4) * V_STRIDE + column];
            }
            FORMAT::multiply(d[n], w, b0, b1);
        }
    }
}

__device__ __forceinline__ void put_tile(const application &a, const float (&d)[TILES][4])
{
    uint32_t group = threadIdx.x % PC__WARP / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t row = a.rows_from + group + h * 8;
        if (row >= a.map.lane.tokens)
            continue;
        float scale = a.scale(row), *out = a.out(row);
        bool pairs = a.t.shape.v_dim % 2 == 0 && ((uintptr_t)a.t.out & 7) == 0;
#pragma unroll
        for (uint32_t n = 0; n < TILES; n++) {
            uint32_t i = n * 8 + column;
            float x = pc__times(d[n][h * 2], scale), y = pc__times(d[n][h * 2 + 1], scale);
            if (pairs && i + 1 < a.dims) {
                store8(out + i, make_uint2(__float_as_uint(x), __float_as_uint(y)));
                continue;
            }
            if (i < a.dims)
                out[i] = x;
            if (i + 1 < a.dims)
                out[i + 1] = y;
        }
    }
}

template <class FORMAT> __device__ __forceinline__ void apply_half(const pc__cuda_map_task &t)
{
    application a(t);
    uint32_t *v = (uint32_t *)dynamic_shared(), pages = a.map.pages(a.first, PC__CUDA_MAP_ROWS),
             own = a.map.pages(a.rows_from, PC__MAP_WARP_ROWS);
    uint16_t *p = (uint16_t *)(v + 2 * V_WORDS) + threadIdx.x / PC__WARP * 16 * P_STRIDE;
    float d[TILES][4] = {};
    if (pages)
        fetch_values(a, 0, v);
    copy_commit();
    for (uint32_t page = 0; page < pages; page++) {
        if (page + 1 < pages)
            fetch_values(a, page + 1, v + (page + 1) % 2 * V_WORDS);
        copy_commit();
        if (page < own)
            stage_weights<FORMAT>(a, page, p);
        copy_wait<1>();
        __syncthreads();
        if (page < own)
            add_page<FORMAT>(a, p, v + page % 2 * V_WORDS, d);
        __syncthreads();
    }
    copy_wait<0>();
    put_tile(a, d);
}

// fp32 values: a lane takes 4 dimensions of the warp's 16 rows.
__device__ __forceinline__ pc__four load_value(const application &a, const float *row)
{
    uint32_t i = threadIdx.x % PC__WARP * 4;
    pc__four x = {};
    if (a.t.shape.v_dim % 4 == 0) {
        if (i < a.dims)
            x = pc__load4(row + i);
        return x;
    }
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
        if (i + k < a.dims)
            x.v[k] = row[i + k];
    return x;
}

__device__ __forceinline__ void add_page_f32(const application &a, uint32_t page, const float *p,
                                             float (&sum)[PC__MAP_WARP_ROWS][4])
{
    const float *values = (const float *)a.values(page) + a.dims_from;
    for (uint32_t t = 0; t < PC__MAP_KEYS; t += 4) {
        pc__four v[4];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            v[k] = load_value(a, values + (t + k) * a.t.shape.v_dim);
#pragma unroll
        for (uint32_t r = 0; r < PC__MAP_WARP_ROWS; r++) {
            pc__four w = pc__load4(p + r * PC__MAP_KEYS + t);
#pragma unroll
            for (uint32_t k = 0; k < 4; k++)
#pragma unroll
                for (uint32_t i = 0; i < 4; i++)
                    sum[r][i] = fmaf(w.v[k], v[k].v[i], sum[r][i]);
        }
    }
}

__device__ __forceinline__ void put_row_f32(const application &a, uint32_t r, const float (&sum)[4])
{
    uint32_t i = threadIdx.x % PC__WARP * 4, row = a.rows_from + r;
    if (row >= a.map.lane.tokens)
        return;
    float scale = a.scale(row), *out = a.out(row);
    pc__four y = {{pc__times(sum[0], scale), pc__times(sum[1], scale), pc__times(sum[2], scale),
                   pc__times(sum[3], scale)}};
    if (a.t.shape.v_dim % 4 == 0 && pc__aligned16(a.t.out)) {
        if (i < a.dims)
            pc__store4(out + i, y);
        return;
    }
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
        if (i + k < a.dims)
            out[i + k] = y.v[k];
}

} // namespace

KERNEL(pc__cuda_map_apply_bf16, pc__cuda_map_task, (PC__CUDA_MAP_THREADS), apply_half<pc__bf16>(t))
KERNEL(pc__cuda_map_apply_f16, pc__cuda_map_task, (PC__CUDA_MAP_THREADS), apply_half<pc__f16>(t))

extern "C" __global__ void __launch_bounds__(PC__CUDA_MAP_THREADS)
    pc__cuda_map_apply_f32(PARAM pc__cuda_map_task t)
{
    application a(t);
    uint32_t lane = threadIdx.x % PC__WARP, warp = threadIdx.x / PC__WARP,
             pages = a.map.pages(a.rows_from, PC__MAP_WARP_ROWS);
    float *p = (float *)dynamic_shared() + warp * PC__MAP_WARP_ROWS * PC__MAP_KEYS,
          sum[PC__MAP_WARP_ROWS][4] = {};
    for (uint32_t page = 0; page < pages; page++) {
        uint32_t key = page * PC__MAP_KEYS + lane;
        __syncwarp(); // the weights of the page before were read
        for (uint32_t r = 0; r < PC__MAP_WARP_ROWS; r++) {
            p[r * PC__MAP_KEYS + lane] = a.weight(a.rows_from + r, key);
            p[r * PC__MAP_KEYS + lane + PC__WARP] = a.weight(a.rows_from + r, key + PC__WARP);
        }
        __syncwarp();
        add_page_f32(a, page, p, sum);
    }
#pragma unroll
    for (uint32_t r = 0; r < PC__MAP_WARP_ROWS; r++)
        put_row_f32(a, r, sum[r]);
}
