/* Which experts the rows of a layer use (model/forward/route.h), decided on the device; products of
 * each expert's rows with its weights, and the sum of the experts of a row.
 *
 * pc__cuda_route: a warp a row, 4 rows in a block of PC__CUDA_ROUTE_THREADS threads. The choice is
 * that of the CPU: the largest logits first, equal ones by number, NaN behind all others by number.
 * Where a bias or groups count, pc__cuda_route_choice goes before, in blocks of the same kind: it
 * writes what the choice compares instead of logits.
 * The weights differ from the CPU's in the rounding of exp (2 places) and in the order of the sum
 * over experts: by less than (count / 32 + 12) * 2^-24 of themselves here.
 *
 * pc__cuda_route_sort: sorts the entries (row, expert) by expert, ascending in rows, with a block
 * of PC__CUDA_SORT_THREADS threads and PC__CUDA_SORT_SHARED bytes of shared memory for each expert.
 * Every block looks at all entries, so that blocks need nothing of each other.
 *
 * pc__cuda_expert_linear_bf16, _f16, _f32 (by the weights): y[entry] = W[expert] x + bias, with
 * PC__CUDA_EXPERT_THREADS threads and PC__CUDA_EXPERT_SHARED bytes of shared memory for each
 * PC__CUDA_EXPERT_OUT outputs (x) and expert (y). For few rows an expert, as while answers are
 * generated: each weight is read from memory once for up to 32 rows. Inputs are rounded to the
 * weights' format (fp16: above 65504 they become that), sums are fp32 in an order that depends on
 * `in` alone; in tensor cores each step may drop what lies below the last place.
 *
 * pc__cuda_expert_many_bf16, _f16: the same products, with the same bits, for many rows an expert,
 * which were rounded to the format of the weights before (flat.h). PC__CUDA_EXPERT_MANY_THREADS
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

enum { PC__CUDA_ROUTE_THREADS = 128, PC__CUDA_SORT_THREADS = 256, PC__CUDA_SORT_SHARED = 64 };

typedef struct pc__cuda_route_choice_task {
    const float *logits; /* [row][count] */
    const float *bias;   /* [count] of the scores; NULL: none */
    float *choice;       /* [row][count] scores with their bias; -inf in groups that are not open */
    float *group_sum;    /* [row][groups] the sum of the `group_best` largest of each group */
    uint32_t rows, count;
    uint32_t sigmoid;                         /* 1: scores are sigmoid(logit); 0: softmax */
    uint32_t groups, groups_used, group_best; /* groups 0: none; else they divide count */
} pc__cuda_route_choice_task;

typedef struct pc__cuda_route_task {
    const float *logits; /* [row][count] */
    const float *choice; /* [row][count] what the choice compares; NULL: logits */
    int32_t *chosen;     /* [row][used] by descending choice */
    float *weight;       /* [row][used] score: softmax over all experts, or sigmoid */
    uint32_t rows, count, used;
    uint32_t renormalise; /* 1: divided by the sum of the chosen ones */
    float scale;          /* factor after that; 0: none */
    uint32_t sigmoid;
} pc__cuda_route_task;

typedef struct pc__cuda_route_sort_task {
    const int32_t *chosen; /* [row][used], different within a row */
    const float *weight;   /* [row][used] */
    uint32_t *first;       /* [count + 1] entries of expert e: [first[e], first[e + 1]) */
    uint32_t *row;         /* [entry] */
    float *share;          /* [entry] its weight */
    uint32_t *of_row;      /* [row][used] entries of the row, ascending */
    uint32_t rows, count, used;
    uint32_t unused;
} pc__cuda_route_sort_task;

static inline uint32_t pc__cuda_route_blocks(uint32_t rows)
{
    return (rows + PC__CUDA_ROUTE_THREADS / 32 - 1) / (PC__CUDA_ROUTE_THREADS / 32);
}

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
