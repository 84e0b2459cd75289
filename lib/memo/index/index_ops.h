/* One kind of index behind index.h, which checks the arguments and holds the locks. Searches and
 * `rebuild` run at the same time as each other, everything else alone. */
#ifndef PC_MEMO_INDEX_OPS_H
#define PC_MEMO_INDEX_OPS_H

#include <pthread.h>

#include "base/module.h"
#include "memo/index/index.h"
#include "memo/index/id_map.h"

typedef struct pc__index_impl { /* first member of the struct of each kind */
    pc__id_map id_map;
    pc__index_options options; /* defaults filled in */
} pc__index_impl;

typedef struct pc__index_ops {
    pc_status (*create)(pc__index_impl **out, const pc_allocator *mem,
                        const pc__index_options *options);
    void (*destroy)(pc__index_impl *impl);
    pc_status (*add)(pc__index_impl *impl, size_t count, const float *vectors,
                     const int64_t *ids); /* all or nothing */
    void (*remove)(pc__index_impl *impl, size_t position);
    /* Squared distances, nearest first. Where there are fewer: infinity and -1. */
    pc_status (*search)(const pc__index_impl *impl, size_t queries, const float *vectors, size_t k,
                        float *distances, int64_t *ids);
    void (*copy_vectors)(const pc__index_impl *impl,
                         float *out); /* [id_map.count][dim], by position */
    /* Both NULL: never needs it. Searches use the old one while `rebuild` makes a new one. */
    int (*needs_rebuild)(const pc__index_impl *impl);
    pc_status (*rebuild)(const pc__index_impl *impl, pc__index_impl **fresh);
    /* What a file has beside ids and vectors. `read` fills an empty index from all of it. Both
     * NULL: nothing more; vectors are added. */
    pc_status (*write)(const pc__index_impl *impl, pc__bytes *out);
    pc_status (*read)(pc__index_impl *impl, size_t count, const int64_t *ids,
                      const float *copy_vectors, const uint8_t *data, size_t size);
} pc__index_ops;

/* Check what is added, or read from a file. */
pc_status pc__index_check_vectors(const pc__index *index, size_t count, const float *vectors);
pc_status pc__index_check_ids(const pc__index *index, size_t count, const int64_t *ids);

struct pc__index {
    const pc_allocator *mem;
    pc__index_kind kind;
    const pc__index_ops *ops;
    pthread_mutex_t writers; /* one adds, removes or rebuilds at a time */
    pthread_rwlock_t lock;   /* of `impl` and all in it */
    pc__index_impl *impl;
};

extern const pc__index_ops pc__index_scan_ops;
/* Of the plug-in module faiss, which this opens; NULL: it is missing, *reason says why. Only with
 * PC_HAVE_FAISS. */
const pc__index_ops *pc__index_faiss(const char **reason);
extern const pc__module *const pc__linked_faiss;

#endif
