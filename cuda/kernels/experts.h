/* MLPs of experts: products of each expert's rows with its weights, and the sum of the experts of a
 * row. Entries are sorted by expert (route.h).
 *
 * pc__cuda_expert_linear_bf16, _f16, _f32 (by the weights): y[entry] = W[expert] x + bias, with
 * PC__CUDA_EXPERT_THREADS threads and PC__CUDA_EXPERT_SHARED bytes of shared memory for each
 * PC__CUDA_EXPERT_OUT outputs (x) and expert (y). For few rows an expert, as while answers are
 * generated: each weight is read from memory once for up to 32 rows. Inputs are rounded to the
 * weights' format (fp16: above 65504 they become that), sums are fp32 in an order that depends on
 * `in` alone; in tensor cores each step may drop what lies below the last place.
 *
 * pc__cuda_expert_many_bf16, _f16: the same products, with the same bits, for many rows an expert,
 * which were rounded to the format of the weights before (convert.h). PC__CUDA_EXPERT_MANY_THREADS
 * threads and PC__CUDA_EXPERT_MANY_SHARED bytes of shared memory for each PC__CUDA_EXPERT_TILE
 * outputs (x) and rows of one expert (y). The host does not know how many rows an expert has:
 * pc__cuda_expert_tiles is the most that there can be, and a block without rows ends at once.
 *
 * pc__cuda_expert_sum: a block of PC__CUDA_EXPERT_THREADS threads for each row. The order is that
 * of the CPU: the shared MLP, then experts ascending, each operation rounded: the same bits, but
 * for the exp in the sigmoid. */
#ifndef PC_CUDA_KERNELS_EXPERTS_H
#define PC_CUDA_KERNELS_EXPERTS_H

#include <stdint.h>

enum {
    PC__CUDA_EXPERT_THREADS = 128,
    PC__CUDA_EXPERT_OUT = 64,
    PC__CUDA_EXPERT_SHARED = 32 * 576, /* 32 rows of 256 inputs, padded */
    PC__CUDA_EXPERT_TILE = 128,
    PC__CUDA_EXPERT_MANY_THREADS = 256,
    PC__CUDA_EXPERT_MANY_SHARED = 65536 /* 4 times 32 inputs of both sides */
};

/* The most tiles of `rows` rows: each expert has at most one that is not full. */
static inline uint32_t pc__cuda_expert_tiles(uint32_t entries, uint32_t experts, uint32_t rows)
{
    return entries / rows + (experts < entries ? experts : entries);
}

typedef struct pc__cuda_expert_linear {
    const uint64_t *weights; /* [experts] device addresses of W [out][in], at multiples of 16 */
    const uint64_t *bias;    /* [experts] of fp32 [out]; NULL: none */
    const float *x;          /* [any][in], at a multiple of 16 bytes */
    const uint32_t *row;     /* [entry] row of x; NULL: row `entry` */
    const uint32_t *first;   /* [experts + 1] */
    float *y;                /* [entry][out] */
    uint32_t experts, in, out;
    uint32_t unused;
} pc__cuda_expert_linear;

typedef struct pc__cuda_expert_many {
    const uint64_t *weights; /* as above; `in` is a multiple of 8 */
    const uint64_t *bias;
    const uint16_t *x; /* [any][in] as the weights, at a multiple of 16 bytes */
    const uint32_t *row, *first;
    float *y;
    uint32_t experts, in, out;
    uint32_t unused;
} pc__cuda_expert_many;

typedef struct pc__cuda_expert_sum_task {
    const float *results;      /* [entry - first][dim] */
    const uint32_t *of_row;    /* [row][used] entries, ascending */
    const float *share;        /* [entry]; NULL: 1 */
    const float *shared;       /* [row][dim] of the shared MLP; NULL: none; may be `out` */
    const float *shared_scale; /* [row] it is multiplied with sigmoid of this; NULL: 1 */
    float *out;                /* [row][dim] */
    uint32_t rows, dim, used;
    uint32_t first, entries; /* only these entries are added */
    uint32_t goes_on;        /* 1: adds to `out`; shared is not read */
} pc__cuda_expert_sum_task;

#endif
