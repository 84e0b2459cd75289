/* Attention maps as data (attn/map.h) on the device: maps times values, and recording of maps.
 *
 * A launch has a list of blocks: PC__CUDA_MAP_ROWS rows of a lane each, for every head. Rows depend
 * on themselves alone.
 *
 * pc__cuda_map_apply_f32, _bf16, _f16 (by the format of V): PC__CUDA_MAP_THREADS threads and
 * PC__CUDA_MAP_SHARED bytes of shared memory for each block (x), head (y) and PC__CUDA_MAP_DIMS
 * dimensions of V (z). Sums are fp32. With 16-bit values the weights are rounded to their format,
 * once: each is off by 2^-8 of itself (bf16), by 2^-11 of itself or 2^-25 (fp16).
 *
 * pc__cuda_map_record_f32, _bf16, _f16, _i8 (by the format of K): the same threads for each block
 * (x) and head (y), and the same shared memory, but PC__CUDA_MAP_SHARED_I8 for int8. For fp16 a
 * query is the sum of two fp16, so that scores are those of fp32 queries to about 2^-20 of them;
 * for int8 a query times the keys' scales is the sum of three bf16, which is as exact as fp32; for
 * bf16 queries are rounded, as on the CPU. */
#ifndef PC_CUDA_KERNELS_MAPS_H
#define PC_CUDA_KERNELS_MAPS_H

#include "cuda/kernels/kv_write.h"

enum {
    PC__CUDA_MAP_ROWS = 64,
    PC__CUDA_MAP_DIMS = 128,
    PC__CUDA_MAP_THREADS = 128,
    PC__CUDA_MAP_SHARED = 46080,
    PC__CUDA_MAP_SHARED_I8 = 55296
};
enum { PC__CUDA_MAP_F32, PC__CUDA_MAP_F16, PC__CUDA_MAP_U8 };

typedef struct pc__cuda_map_lane {
    uint64_t map;          /* device address of the map of the layer */
    const uint64_t *pages; /* device addresses of the run's pages in layer 0, of head 0 */
    uint64_t layer_stride; /* bytes, of the run */
    uint32_t tokens;       /* rows, and keys of the last one */
    uint32_t causal;       /* 1: row r has r + 1 keys, else all tokens */
    uint32_t first_row;    /* of out, or of q and lse */
    uint32_t unused;
    /* only to record; of each row, position minus the start of the run; NULL: no slopes */
    const int64_t *distance;
    const int64_t *relative; /* of each key; NULL: 0, 1, 2 … */
    const uint32_t *seen;    /* [row][2] the first key that it sees, the first behind; NULL: all */
} pc__cuda_map_lane;

typedef struct pc__cuda_map_block {
    uint32_t lane, first; /* rows [first, first + PC__CUDA_MAP_ROWS) */
} pc__cuda_map_block;

typedef struct pc__cuda_map_task {
    const pc__cuda_map_lane *lanes;
    const pc__cuda_map_block *blocks;
    pc__cuda_page_shape shape;
    uint32_t format; /* PC__CUDA_MAP_F32 … */
    uint32_t heads, layer, count;
    float *out; /* to apply: [row][head][v_dim] */
    /* to record: */
    const float *q;      /* [row][head][k_dim] rotated, at a multiple of 16 bytes */
    const float *lse;    /* [row][head] */
    const float *slopes; /* [head] of ALiBi; NULL: none */
    float scale;         /* of q */
    float soft_cap;      /* 0: none */
} pc__cuda_map_task;

#endif
