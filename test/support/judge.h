/* Measures a projector: whether the neighbour that its features find has maps like the query's. For
 * tests of training. */
#ifndef PC_TEST_JUDGE_H
#define PC_TEST_JUDGE_H

#include "memo/train/projector.h"

typedef struct judge_input {
    const float *pooled; /* [count][pooled] */
    size_t count;
    size_t stored; /* items [0, stored) are in the memo, the others are queries; 0: each item is a
                      query against all others */
    const uint32_t *groups; /* [count] or NULL: neighbours are of the query's group */
    float (*label)(void *user, size_t i, size_t j); /* called from several threads */
    void *label_user;
    size_t queries;    /* at most, drawn by the seed; 0: 200 */
    size_t candidates; /* stored ones per query at most, drawn by the seed; 0: 500. Labels computed:
                          queries * candidates */
    uint64_t seed;
} judge_input;

typedef struct judge_result {
    size_t queries, pairs;   /* queries with a stored item of their group */
    double rank_correlation; /* Spearman's correlation of feature distance and label over all these
                                pairs */
    double nearest_label;    /* means over queries: label of the item that is nearest by feature, */
    double best_label;       /* of the item with the smallest label, */
    double random_label;     /* of all candidates */
    double share; /* (random - nearest) / (random - best): 1 is perfect, 0 is chance; 0 if best is
                     no better than random */
} judge_result;

/* PC_ERR_INVALID: no pairs; a label or feature that is not finite. The same result with any number
 * of threads. */
pc_status judge_projector(const pc__projector *projector, pc_context *context,
                          const judge_input *judging, judge_result *out);

/* Spearman's rank correlation with mean ranks for ties: -1 to 1; 0 where one of the two is constant
 * or count < 2. The numbers are not NaN. PC_ERR_NOMEM. */
pc_status rank_correlation(const pc_allocator *mem, const double *a, const double *b, size_t count,
                           double *out);

#endif
