/* Which experts the rows of a layer use (model/forward/route.h), decided on the device.
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
 * Every block looks at all entries, so that blocks need nothing of each other. */
#ifndef PC_CUDA_KERNELS_ROUTE_H
#define PC_CUDA_KERNELS_ROUTE_H

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

#endif
