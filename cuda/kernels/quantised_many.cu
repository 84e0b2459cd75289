// Quantised weights times many rows, of a layer or of an expert. A warp has a panel and 32 rows,
// and goes through the groups one after the other; the warps of a block use the same rows at the
// same time, so that the caches serve them.
#include "cuda/kernels/expert_tiles.cuh"
#include "cuda/kernels/quantised.cuh"

namespace {

constexpr uint32_t TILES = 4;

template <int BITS, int GROUP, class ROWS> struct many {
    using weights = pc__quantised_panel<BITS, GROUP>;
    static constexpr uint32_t GROUPS = weights::GROUPS;

    const pc__cuda_quantised_task &t;
    const pc__cuda_quantised_part &part;
    weights panel;
    const float *bias;
    const ROWS rows[TILES]; // 8 each
    uint32_t index, tiles, units, lane;
    float y[TILES][2][4];

    __device__ __forceinline__ many(const pc__cuda_quantised_task &task,
                                    const pc__cuda_quantised_part &p, const uint8_t *panels,
                                    const float *b, uint32_t i, const ROWS &first)
        : t(task), part(p), panel(task, panels, i),
          bias(b), rows{first, first.next(1), first.next(2), first.next(3)}, index(i),
          tiles(min(TILES, first.tiles())), units((task.groups + GROUPS - 1) / GROUPS),
          lane(threadIdx.x % PC__WARP)
    {
#pragma unroll
        for (uint32_t n = 0; n < TILES * 8; n++)
            y[n / 8][n / 4 % 2][n % 4] = 0.0f;
    }
    __device__ __forceinline__ pc__four scales(uint32_t group) const
    {
        const uint8_t *at = panel.panel + (uint64_t)group * panel.group_bytes + panel.scale_at;
        if (!panel.half)
            return pc__load4((const float *)at + lane / 4 * 4);
        uint2 w = load8(at + lane / 4 * 8);
        return {{float_of_f16((uint16_t)w.x), float_of_f16((uint16_t)(w.x >> 16)),
                 float_of_f16((uint16_t)w.y), float_of_f16((uint16_t)(w.y >> 16))}};
    }
    __device__ __forceinline__ void add(uint32_t n, uint32_t group, const pc__four &scale,
                                        const pc__four &minimum, const pc__group_products &products)
    {
        uint4 f = rows[n].factors(group);
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t output = i / 2, row = i % 2;
            float &sum = y[n][output / 2][output % 2 * 2 + row];
            int32_t product = products.d[output / 2][output % 2 * 2 + row];
            uint32_t step = row ? f.z : f.x;
            sum = fmaf(pc__stepped(product, step), scale.v[output], sum);
            if (t.format.minimum)
                sum = fmaf(pc__stepped((int32_t)(row ? f.w : f.y), step), minimum.v[output], sum);
        }
    }
    __device__ __forceinline__ void add_unit(uint32_t unit, const pc__unit_weights &w)
    {
        uint4 codes[TILES] = {};
#pragma unroll
        for (uint32_t n = 0; n < TILES; n++)
            if (n < tiles)
                codes[n] = rows[n].codes(unit, units);
#pragma unroll
        for (uint32_t which = 0; which < GROUPS; which++) {
            uint32_t group = unit * GROUPS + which;
            pc__four minimum = {};
            if (group >= t.groups)
                return;
            pc__four scale = scales(group);
            if (t.format.minimum)
                minimum = pc__load4((const float *)(panel.panel
                                                    + (uint64_t)group * panel.group_bytes
                                                    + panel.minimum_at)
                                    + lane / 4 * 4);
#pragma unroll
            for (uint32_t n = 0; n < TILES; n++)
                if (n < tiles)
                    add(n, group, scale, minimum, pc__multiply<GROUP>(w, codes[n], which));
        }
    }
    // -0 without a bias: adding it changes nothing, not even -0.
    __device__ __forceinline__ pc__four bias_at(uint32_t column) const
    {
        pc__four v = {{-0.0f, -0.0f, -0.0f, -0.0f}};
        if (bias && column < part.out && part.out % 4 == 0 && pc__aligned16(bias))
            return pc__load4(bias + column);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            if (bias && column + i < part.out)
                v.v[i] = bias[column + i];
        return v;
    }
    // A lane has 4 neighbouring outputs of a row.
    __device__ __forceinline__ void write() const
    {
        uint32_t column = index * 32 + lane / 4 * 4;
        pc__four more = bias_at(column);
#pragma unroll
        for (uint32_t n = 0; n < TILES; n++)
#pragma unroll
            for (uint32_t c = 0; c < 2; c++) {
                uint32_t r = lane % 4 * 2 + c;
                if (!rows[n].has(r) || column >= part.out)
                    continue;
                float *to = part.y + (uint64_t)rows[n].output(r) * part.out + column;
                pc__four v;
#pragma unroll
                for (uint32_t i = 0; i < 4; i++)
                    v.v[i] = pc__plus(y[n][i / 2][i % 2 * 2 + c], more.v[i]);
                if (part.out % 4 == 0) {
                    pc__store4(to, v);
                    continue;
                }
#pragma unroll
                for (uint32_t i = 0; i < 4; i++)
                    if (column + i < part.out)
                        to[i] = v.v[i];
            }
    }

    __device__ __forceinline__ void multiply_all()
    {
        typename weights::raw next = panel.load(0);
        for (uint32_t unit = 0; unit < units; unit++) {
            pc__unit_weights w = panel.unpack(next);
            next = panel.load(unit + 1);
            add_unit(unit, w);
        }
        write();
    }
};

// The panel of this warp.
__device__ __forceinline__ uint32_t own_panel()
{
    return (blockIdx.x * PC__CUDA_QUANTISED_MANY_THREADS + threadIdx.x) / PC__WARP;
}

template <int BITS, int GROUP> struct plain_layer {
    static __device__ __forceinline__ void run(const pc__cuda_quantised_task &t)
    {
        const pc__cuda_quantised_part &part = t.part[blockIdx.z];
        if (own_panel() * 32 < part.out)
            many<BITS, GROUP, pc__plain_rows>(t, part, part.panels, part.bias, own_panel(),
                                              {t, blockIdx.y * TILES})
                .multiply_all();
    }
};

template <int BITS, int GROUP> struct expert_layer {
    static __device__ __forceinline__ void run(const pc__cuda_quantised_experts &e)
    {
        pc__expert_tile<TILES * 8> tile(e.first, e.experts, blockIdx.y);
        if (tile.from == tile.end || own_panel() * 32 >= e.layer.part[0].out)
            return;
        many<BITS, GROUP, pc__expert_rows>(
            e.layer, e.layer.part[0], (const uint8_t *)(uintptr_t)e.panels[tile.expert],
            e.bias ? (const float *)(uintptr_t)e.bias[tile.expert] : nullptr, own_panel(),
            {e, tile.from, tile.end})
            .multiply_all();
    }
};

} // namespace

KERNEL(pc__cuda_quantised_many, pc__cuda_quantised_task, (PC__CUDA_QUANTISED_MANY_THREADS),
       pc__for_format<plain_layer>(t, t))
KERNEL(pc__cuda_quantised_experts_many, pc__cuda_quantised_experts,
       (PC__CUDA_QUANTISED_MANY_THREADS), pc__for_format<expert_layer>(t.layer, t))
