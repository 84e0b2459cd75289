/* Spearman's rank correlation, ties by their mean rank. */
#ifndef PC_MEMO_RANK_H
#define PC_MEMO_RANK_H

#include "base/mem.h"

/* -1 … 1; 0 where one of the two is constant or count < 2. Numbers, not NaN. PC_ERR_NOMEM. */
pc_status pc__rank_correlation(const pc_allocator *mem, const double *a, const double *b, size_t count, double *out);

#endif
