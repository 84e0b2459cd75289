/* The eviction score of all stores: LRFU (Lee et al., IEEE Transactions on Computers 50:12, 2001)
 * with the cost of GreedyDual-Size (Cao and Irani, USENIX ITS 1997). store/eviction.h says why.
 *
 *   score = log_uses + 1/4 log2(cost / bytes)
 *
 * `log_uses` is log2 of the sum of 2^(time of the use) over all uses. Time counts half-lives, so a
 * use counts half as much with every half-life that passes, and a score changes only with a use.
 * The lowest score is evicted first. */
#ifndef PC_BASE_LRFU_H
#define PC_BASE_LRFU_H

#include <math.h>
#include <stdint.h>

#define PC__LRFU_HALF_LIFE 0.3  /* of the budget, in bytes that were brought in */
#define PC__LRFU_FIRST_USE -1.0 /* log2 of the weight of the first use */
#define PC__LRFU_COST_WEIGHT 0.25

/* Half-lives that pass while `bytes` are brought in. */
static inline double pc__lrfu_half_lives(uint64_t bytes, uint64_t budget)
{
    return (double)bytes / (PC__LRFU_HALF_LIFE * (double)budget);
}

/* log_uses after one more use now. */
static inline double pc__lrfu_use(double log_uses, double now)
{
    double more = log_uses > now ? log_uses : now, less = log_uses > now ? now : log_uses;
    return more + log2(1 + exp2(less - more));
}

/* The term of the cost. bytes: not 0. */
static inline double pc__lrfu_value(double cost, uint64_t bytes)
{
    return PC__LRFU_COST_WEIGHT * log2(cost / (double)bytes);
}

#endif
