// The rows of experts in tiles of one expert each, found by blocks (experts.h).
#ifndef PC_CUDA_KERNELS_EXPERT_TILES_CUH
#define PC_CUDA_KERNELS_EXPERT_TILES_CUH

#include "cuda/kernels/words.cuh"

// The entries [from, end) of an expert, at most TILE; from == end: none.
template <uint32_t TILE> struct pc__expert_tile {
    uint32_t expert, from, end;

    // Tile `index` among the tiles of all experts. A warp looks at 32 experts together.
    __device__ __forceinline__ pc__expert_tile(const uint32_t *first, uint32_t experts,
                                               uint32_t index)
        : expert(0), from(0), end(0)
    {
        uint32_t lane = threadIdx.x % PC__WARP, before = 0;
        for (uint32_t e = lane; e - lane < experts; e += PC__WARP) {
            uint32_t own = e < experts ? (first[e + 1] - first[e] + TILE - 1) / TILE : 0,
                     upto = own;
            for (uint32_t step = 1; step < PC__WARP; step *= 2) {
                uint32_t other = __shfl_up_sync(~0u, upto, step);
                upto += lane >= step ? other : 0;
            }
            uint32_t votes = __ballot_sync(~0u, before + upto > index);
            if (votes) {
                int of = __ffs((int)votes) - 1;
                uint32_t tile = index - before - __shfl_sync(~0u, upto - own, of);
                expert = e - lane + (uint32_t)of;
                from = first[expert] + tile * TILE;
                end = min(from + TILE, first[expert + 1]);
                return;
            }
            before += __shfl_sync(~0u, upto, PC__WARP - 1);
        }
    }
};

#endif
