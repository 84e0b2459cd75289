/* How good a projector is at what a memo needs: whether the neighbour that its features find has
 * maps like the query's own. For tests of training. */
#ifndef PC_TEST_JUDGE_H
#define PC_TEST_JUDGE_H

#include "memo/train/projector.h"

typedef struct judge_input {
    const float *pooled; /* [count][pooled] */
    size_t count;
    size_t stored; /* items [0, stored) stand for what is in the memo, the others are queries that
                      it has not seen; 0: each item is a query against all others */
    const uint32_t *groups; /* [count] or NULL: a query is answered by items of its group only */
    float (*label)(void *user, size_t i, size_t j); /* called from several threads */
    void *label_user;
    size_t queries;    /* at most so many, drawn by the seed; 0: 200 */
    size_t candidates; /* at most so many stored ones a query, drawn by the seed; 0: 500. labels
                          asked for: queries * candidates */
    uint64_t seed;
} judge_input;

typedef struct judge_result {
    size_t queries,
        pairs; /* that were looked at; queries without a stored item of their group do not count */
    double rank_correlation; /* Spearman's, of feature distance and label over all these pairs */
    double nearest_label;    /* mean over queries: label of the item that is nearest by feature, */
    double best_label;       /* of the one whose label is least, */
    double random_label;     /* and of all its candidates on average */
    double share; /* (random - nearest) / (random - best): 1 as good as can be, 0 as good as chance;
                     0 where best is no better than random */
} judge_result;

/* PC_ERR_INVALID: nothing to judge by, a label or feature that is not finite. The same result with
 * any number of threads. */
pc_status judge_projector(const pc__projector *projector, pc_context *context,
                          const judge_input *judging, judge_result *out);

/* Spearman's rank correlation, ties by their mean rank: -1 … 1; 0 where one of the two is constant
 * or count < 2. Numbers, not NaN. PC_ERR_NOMEM. */
pc_status rank_correlation(const pc_allocator *mem, const double *a, const double *b, size_t count,
                           double *out);

#endif
