/* One kind of index behind lib/memo/index.h, which has checked the arguments and holds the locks: searches and pc__index_ops.renew run at the same time
 * as each other, everything else runs alone. */
#ifndef PC_MEMO_INDEX_OPS_H
#define PC_MEMO_INDEX_OPS_H

#include <pthread.h>

#include "memo/index.h"
#include "memo/places.h"

typedef struct pc__index_side { /* the first member of each kind's own struct */
    pc__places places;
    pc__index_options options; /* defaults filled in */
} pc__index_side;

typedef struct pc__index_ops {
    const char *name;
    pc_status (*new_side)(pc__index_side **out, const pc_allocator *mem, const pc__index_options *options);
    void (*free_side)(pc__index_side *side);
    pc_status (*add)(pc__index_side *side, size_t count, const float *vectors, const int64_t *ids); /* all or nothing; ids are new */
    void (*remove)(pc__index_side *side, size_t place);
    /* Squared distances, nearest first; filled up with infinity and -1. */
    pc_status (*search)(const pc__index_side *side, size_t queries, const float *vectors, size_t k, float *distances, int64_t *ids);
    void (*rows)(const pc__index_side *side, float *out); /* [places.count][dim], in the order of places */
    /* Both NULL where there is never anything to make anew. Searches go on while a fresh side is made, which then takes the old one's place. */
    int (*stale)(const pc__index_side *side);
    pc_status (*renew)(const pc__index_side *side, pc__index_side **fresh);
} pc__index_ops;

struct pc__index {
    const pc_allocator *mem;
    const pc__index_ops *ops;
    pthread_mutex_t writers; /* one adds, removes or renews at a time */
    pthread_rwlock_t lock;   /* of `side` and all that it holds */
    pc__index_side *side;
};

extern const pc__index_ops pc__index_scan_ops;
extern const pc__index_ops pc__index_faiss_ops; /* only with FAISS */

#endif
