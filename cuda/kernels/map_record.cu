// Records maps: weights exp(score - LSE), packed. A block takes 64 rows and goes over the pages; of
// each page it multiplies some dimensions at a time, then each warp packs its 16 rows. Of U8 maps
// the largest weight of a row is needed first, so they take two ways over the pages.
#include "cuda/kernels/maps.cuh"

namespace {

constexpr uint32_t ROWS = PC__CUDA_MAP_ROWS, KEYS = PC__MAP_KEYS, OWN = PC__MAP_WARP_ROWS,
                   S_STRIDE = KEYS + 8, K_STRIDE = KEYS + 8;

struct recording {
    const pc__cuda_map_task &t;
    pc__map_place map;
    uint32_t first, own; // rows of the block, of this warp
    float slope;

    __device__ __forceinline__ explicit recording(const pc__cuda_map_task &task)
        : t(task), map(task.lanes[task.blocks[blockIdx.x].lane], task.format, task.heads,
                       task.shape.kv_heads, task.layer),
          first(task.blocks[blockIdx.x].first), own(first + threadIdx.x / PC__WARP * OWN),
          slope(task.slopes ? task.slopes[blockIdx.y] : 0.0f)
    {
    }
    __device__ __forceinline__ uint64_t row_head(uint32_t row) const
    {
        return (uint64_t)(map.lane.first_row + row) * t.heads + blockIdx.y;
    }
    // Numbers d … d + 3 of the query of row `first + r`, scaled; zeros beyond the end of either.
    __device__ __forceinline__ pc__four query(uint32_t r, uint32_t d) const
    {
        pc__four x = {};
        uint32_t dim = t.shape.k_dim;
        if (first + r >= map.lane.tokens || d >= dim)
            return x;
        const float *q = t.q + row_head(first + r) * dim + d;
        if (dim % 4 == 0)
            x = pc__load4(q);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            if (dim % 4 && d + i < dim)
                x.v[i] = q[i];
            x.v[i] = pc__times(x.v[i], t.scale);
        }
        return x;
    }
};

// Two codes as the bf16 of a word, exact.
__device__ __forceinline__ uint32_t two_codes(uint32_t low, uint32_t high)
{
    return pack_bf16((float)(int8_t)low, (float)(int8_t)high);
}

// Products of 16-bit keys, or (I8) of codes as such: 64 dimensions at a time. Q: queries in shared
// memory, PARTS times word [row][36]: rounded, then what rounding took from the part before. The
// scales of codes go into the queries, which are made anew for each page.
template <class FORMAT, uint32_t PARTS, bool I8> struct half_scores {
    static constexpr uint32_t CHUNK = 64, Q_STRIDE = CHUNK / 2 + 4, Q_WORDS = ROWS * Q_STRIDE;
    float s[KEYS / 8][4];

    static __device__ __forceinline__ uint32_t *keys_at()
    {
        return (uint32_t *)dynamic_shared() + PARTS * Q_WORDS;
    }
    static __device__ __forceinline__ float *scores_at()
    {
        return (float *)(keys_at() + CHUNK / 2 * K_STRIDE);
    }

    static __device__ __forceinline__ void stage_words(const recording &a, const uint8_t *page,
                                                       uint32_t d)
    {
        uint32_t words = (a.t.shape.k_dim + 1) / 2;
        for (uint32_t i = threadIdx.x; i < CHUNK / 2 * (KEYS / 4); i += PC__CUDA_MAP_THREADS) {
            uint32_t row = i / (KEYS / 4), t = i % (KEYS / 4) * 4;
            uint4 word = make_uint4(0, 0, 0, 0);
            if (d / 2 + row < words)
                word = load16((const uint32_t *)page + (d / 2 + row) * KEYS + t);
            store16(keys_at() + row * K_STRIDE + t, word);
        }
    }

    // A word of four dimensions becomes two.
    static __device__ __forceinline__ void stage_codes(const recording &a, const uint8_t *page,
                                                       uint32_t d)
    {
        uint32_t words = (a.t.shape.k_dim + 3) / 4;
        for (uint32_t i = threadIdx.x; i < CHUNK / 4 * (KEYS / 4); i += PC__CUDA_MAP_THREADS) {
            uint32_t row = i / (KEYS / 4), t = i % (KEYS / 4) * 4, *to = keys_at() + t;
            uint4 x = make_uint4(0, 0, 0, 0);
            if (d / 4 + row < words)
                x = load16((const uint32_t *)page + (d / 4 + row) * KEYS + t);
            store16(to + row * 2 * K_STRIDE,
                    make_uint4(two_codes(x.x, x.x >> 8), two_codes(x.y, x.y >> 8),
                               two_codes(x.z, x.z >> 8), two_codes(x.w, x.w >> 8)));
            store16(to + (row * 2 + 1) * K_STRIDE,
                    make_uint4(two_codes(x.x >> 16, x.x >> 24), two_codes(x.y >> 16, x.y >> 24),
                               two_codes(x.z >> 16, x.z >> 24), two_codes(x.w >> 16, x.w >> 24)));
        }
    }

    // Multiplies numbers d … d + 3 of a query by the scales of their dimensions, behind which the
    // page has zeros.
    static __device__ __forceinline__ void scale_query(const recording &a, const uint8_t *page,
                                                       uint32_t d, pc__four &x)
    {
        uint32_t dim = a.t.shape.k_dim;
        if (d >= dim)
            return;
        uint2 word = load8(page + (dim + 3) / 4 * 4 * KEYS + d * 2);
        float2 low = unpack_bf16(word.x), high = unpack_bf16(word.y);
        x.v[0] *= low.x;
        x.v[1] *= low.y;
        x.v[2] *= high.x;
        x.v[3] *= high.y;
    }

    static __device__ __forceinline__ void stage(const recording &a, const uint8_t *page,
                                                 uint32_t d)
    {
        uint32_t *q = (uint32_t *)dynamic_shared();
        if (I8)
            stage_codes(a, page, d);
        else
            stage_words(a, page, d);
        for (uint32_t i = threadIdx.x; i < ROWS * (CHUNK / 4); i += PC__CUDA_MAP_THREADS) {
            uint32_t r = i / (CHUNK / 4), column = i % (CHUNK / 4) * 4;
            pc__four x = a.query(r, d + column);
            if (I8)
                scale_query(a, page, d + column, x);
#pragma unroll
            for (uint32_t part = 0; part < PARTS; part++) {
                uint32_t h[4];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    h[j] = FORMAT::from(x.v[j]);
                    x.v[j] = pc__plus(x.v[j], -FORMAT::to(h[j]));
                }
                store8(q + part * Q_WORDS + r * Q_STRIDE + column / 2,
                       make_uint2(h[0] | h[1] << 16, h[2] | h[3] << 16));
            }
        }
    }

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (uint32_t n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                s[n][i] = 0.0f;
    }

    __device__ __forceinline__ void add()
    {
        uint32_t group = threadIdx.x % PC__WARP / 4, third = threadIdx.x % 4;
        const uint32_t *q = (const uint32_t *)dynamic_shared()
                            + (threadIdx.x / PC__WARP * OWN + group) * Q_STRIDE + third,
                       *k = keys_at();
#pragma unroll
        for (uint32_t w = 0; w < CHUNK / 2; w += 8) {
            uint32_t a[PARTS][4];
#pragma unroll
            for (uint32_t part = 0; part < PARTS; part++) {
                const uint32_t *from = q + part * Q_WORDS + w;
                a[part][0] = from[0];
                a[part][1] = from[8 * Q_STRIDE];
                a[part][2] = from[4];
                a[part][3] = from[8 * Q_STRIDE + 4];
            }
#pragma unroll
            for (uint32_t n = 0; n < KEYS / 8; n++) {
                uint32_t b0 = k[(w + third) * K_STRIDE + n * 8 + group],
                         b1 = k[(w + third + 4) * K_STRIDE + n * 8 + group];
#pragma unroll
                for (uint32_t part = 0; part < PARTS; part++)
                    FORMAT::multiply(s[n], a[part], b0, b1);
            }
        }
    }

    // The warp's scores into [row of the block][S_STRIDE].
    __device__ __forceinline__ void put() const
    {
        uint32_t group = threadIdx.x % PC__WARP / 4, column = threadIdx.x % 4 * 2;
        float *to = scores_at() + (threadIdx.x / PC__WARP * OWN + group) * S_STRIDE + column;
#pragma unroll
        for (uint32_t n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (uint32_t h = 0; h < 2; h++)
                store8(to + h * 8 * S_STRIDE + n * 8,
                       make_uint2(__float_as_uint(s[n][h * 2]), __float_as_uint(s[n][h * 2 + 1])));
    }
};

// Products of fp32 keys: 32 dimensions at a time. A lane takes keys lane and lane + 32 of 16 rows.
struct f32_scores {
    static constexpr uint32_t CHUNK = 32;
    float s[OWN][2];

    static __device__ __forceinline__ float *keys_at()
    {
        return (float *)dynamic_shared() + ROWS * CHUNK;
    }
    static __device__ __forceinline__ float *scores_at()
    {
        return keys_at() + CHUNK * KEYS;
    }

    static __device__ __forceinline__ void stage(const recording &a, const uint8_t *page,
                                                 uint32_t d)
    {
        float *q = (float *)dynamic_shared(), *k = keys_at();
        for (uint32_t i = threadIdx.x; i < CHUNK * (KEYS / 4); i += PC__CUDA_MAP_THREADS) {
            uint32_t row = i / (KEYS / 4), t = i % (KEYS / 4) * 4;
            pc__four x = {};
            if (d + row < a.t.shape.k_dim)
                x = pc__load4((const float *)page + (d + row) * KEYS + t);
            pc__store4(k + row * KEYS + t, x);
        }
        for (uint32_t i = threadIdx.x; i < ROWS * (CHUNK / 4); i += PC__CUDA_MAP_THREADS) {
            uint32_t r = i / (CHUNK / 4), column = i % (CHUNK / 4) * 4;
            pc__store4(q + r * CHUNK + column, a.query(r, d + column));
        }
    }

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (uint32_t r = 0; r < OWN; r++)
            s[r][0] = s[r][1] = 0.0f;
    }

    __device__ __forceinline__ void add()
    {
        const float *q = (const float *)dynamic_shared() + threadIdx.x / PC__WARP * OWN * CHUNK,
                    *k = keys_at() + threadIdx.x % PC__WARP;
        for (uint32_t d = 0; d < CHUNK; d += 4) {
            float x[4][2];
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                x[i][0] = k[(d + i) * KEYS];
                x[i][1] = k[(d + i) * KEYS + PC__WARP];
            }
#pragma unroll
            for (uint32_t r = 0; r < OWN; r++) {
                pc__four y = pc__load4(q + r * CHUNK + d);
#pragma unroll
                for (uint32_t i = 0; i < 4; i++)
#pragma unroll
                    for (uint32_t h = 0; h < 2; h++)
                        s[r][h] = fmaf(y.v[i], x[i][h], s[r][h]);
            }
        }
    }

    __device__ __forceinline__ void put() const
    {
        float *to = scores_at() + threadIdx.x / PC__WARP * OWN * S_STRIDE + threadIdx.x % PC__WARP;
#pragma unroll
        for (uint32_t r = 0; r < OWN; r++) {
            to[r * S_STRIDE] = s[r][0];
            to[r * S_STRIDE + PC__WARP] = s[r][1];
        }
    }
};

// The weight of a row and key with this product of query and key.
__device__ __forceinline__ float weight_of(const recording &a, uint32_t row, uint32_t key, float s)
{
    const pc__cuda_map_lane &lane = a.map.lane;
    if (lane.seen && (key < lane.seen[row * 2] || key >= lane.seen[row * 2 + 1]))
        return 0.0f;
    if (a.t.soft_cap != 0.0f)
        s = pc__times(a.t.soft_cap, tanhf(s / a.t.soft_cap));
    if (a.t.slopes) {
        int64_t at = lane.relative ? lane.relative[key] : (int64_t)key;
        s = pc__plus(s, -pc__times(a.slope, (float)(lane.distance[row] - at)));
    }
    return expf(pc__plus(s, -a.t.lse[a.row_head(row)]));
}

__device__ __forceinline__ void pack(const recording &a, uint32_t row, uint32_t key, float weight,
                                     float steps)
{
    uint64_t at = a.map.row_at(row) + key;
    if (a.t.format == PC__CUDA_MAP_F32) {
        ((float *)a.map.weights)[at] = weight;
    } else if (a.t.format == PC__CUDA_MAP_F16) {
        ((uint16_t *)a.map.weights)[at] = (uint16_t)pc__f16::from(weight);
    } else {
        float x = pc__plus(pc__times(weight, steps), 0.5f);
        x = x > 0.0f ? x : 0.0f; // NaN too
        a.map.weights[at] = (uint8_t)(x < 255.0f ? x : 255.0f);
    }
}

// The warp's rows of a page: their largest weights so far, or (write) their packed weights. Lane r
// keeps the largest weight of row r.
__device__ __forceinline__ void finish_page(const recording &a, uint32_t page, const float *scores,
                                            bool write, float &most)
{
    uint32_t lane = threadIdx.x % PC__WARP, key = page * KEYS + lane;
    scores += threadIdx.x / PC__WARP * OWN * S_STRIDE + lane;
    for (uint32_t r = 0; r < OWN && a.own + r < a.map.lane.tokens; r++) {
        uint32_t row = a.own + r, keys = a.map.keys(row);
        float of_row = __shfl_sync(~0u, most, (int)r),
              steps = of_row > 0.0f ? 255.0f / of_row : 0.0f, largest = 0.0f;
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            if (key + h * PC__WARP >= keys)
                continue;
            float weight = weight_of(a, row, key + h * PC__WARP,
                                     scores[r * S_STRIDE + h * PC__WARP]);
            largest = weight > largest ? weight : largest;
            if (write)
                pack(a, row, key + h * PC__WARP, weight, steps);
        }
        if (write)
            continue;
        largest = pc__warp_max(largest);
        most = lane == r && largest > most ? largest : most;
    }
}

// Once over all pages.
template <class SCORES>
__device__ __forceinline__ void go_over(const recording &a, bool write, float &most)
{
    uint32_t pages = a.map.pages(a.first, ROWS), own = a.map.pages(a.own, OWN);
    SCORES scores;
    for (uint32_t page = 0; page < pages; page++) {
        scores.clear();
        for (uint32_t d = 0; d < a.t.shape.k_dim; d += SCORES::CHUNK) {
            __syncthreads(); // what lies in shared memory was read
            SCORES::stage(a, a.map.page(a.t.shape, page), d);
            __syncthreads();
            if (page < own)
                scores.add();
        }
        if (page >= own)
            continue;
        scores.put();
        __syncwarp();
        finish_page(a, page, SCORES::scores_at(), write, most);
        __syncwarp();
    }
}

template <class SCORES> __device__ __forceinline__ void record(const pc__cuda_map_task &t)
{
    recording a(t);
    float most = 0.0f;
    if (t.format == PC__CUDA_MAP_U8) {
        uint32_t lane = threadIdx.x % PC__WARP;
        go_over<SCORES>(a, false, most);
        if (lane < OWN && a.own + lane < a.map.lane.tokens)
            a.map.scales[a.own + lane] = most / 255.0f;
    }
    go_over<SCORES>(a, true, most);
}

} // namespace

KERNEL(pc__cuda_map_record_f32, pc__cuda_map_task, (PC__CUDA_MAP_THREADS, 2), record<f32_scores>(t))
KERNEL(pc__cuda_map_record_bf16, pc__cuda_map_task, (PC__CUDA_MAP_THREADS, 2),
       record<half_scores<pc__bf16, 1, false>>(t))
KERNEL(pc__cuda_map_record_f16, pc__cuda_map_task, (PC__CUDA_MAP_THREADS, 2),
       record<half_scores<pc__f16, 2, false>>(t))
KERNEL(pc__cuda_map_record_i8, pc__cuda_map_task, (PC__CUDA_MAP_THREADS, 2),
       record<half_scores<pc__bf16, 3, true>>(t))
