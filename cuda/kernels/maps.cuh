// Where the weights of a map and the blocks of a page lie, for both directions (maps.h).
#ifndef PC_CUDA_KERNELS_MAPS_CUH
#define PC_CUDA_KERNELS_MAPS_CUH

#include "cuda/kernels/maps.h"
#include "cuda/kernels/words.cuh"

// 64 keys a page; rows of a block, of which each warp has 16.
constexpr uint32_t PC__MAP_KEYS = 64, PC__MAP_WARP_ROWS = 16;

struct pc__map_place {
    pc__cuda_map_lane lane;
    uint8_t *weights; // of this head
    float *scales;    // U8: [row] of this head
    uint32_t heads, kv_head, layer;

    __device__ __forceinline__ pc__map_place(const pc__cuda_map_lane &l, uint32_t format,
                                             uint32_t head_count, uint32_t kv_heads,
                                             uint32_t layer_index)
        : lane(l), heads(head_count), kv_head(blockIdx.y / (head_count / kv_heads)),
          layer(layer_index)
    {
        uint64_t each = row_at(lane.tokens), head = blockIdx.y;
        uint32_t width = format == PC__CUDA_MAP_F32 ? 4 : format == PC__CUDA_MAP_F16 ? 2 : 1;
        uint8_t *map = (uint8_t *)(uintptr_t)lane.map;
        weights = map + head * each * width;
        scales = (float *)(map + ((heads * each + 3) & ~(uint64_t)3)) + head * lane.tokens;
    }
    __device__ __forceinline__ uint64_t row_at(uint64_t row) const
    {
        return lane.causal ? row * (row + 1) / 2 : row * lane.tokens;
    }
    __device__ __forceinline__ uint32_t keys(uint32_t row) const
    {
        return lane.causal ? row + 1 : lane.tokens;
    }
    // Pages that rows [first, first + rows) need.
    __device__ __forceinline__ uint32_t pages(uint32_t first, uint32_t rows) const
    {
        uint32_t last = min(first + rows, lane.tokens);
        return last <= first ? 0 : (keys(last - 1) + PC__MAP_KEYS - 1) / PC__MAP_KEYS;
    }
    __device__ __forceinline__ const uint8_t *page(const pc__cuda_page_shape &shape,
                                                   uint32_t index) const
    {
        return (const uint8_t *)(uintptr_t)(lane.pages[index] + layer * lane.layer_stride)
               + (uint64_t)kv_head * shape.page_bytes;
    }
};

#endif
