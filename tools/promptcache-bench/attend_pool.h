/* bench attend --pool: the K and V of all runs once more, in the pages of a pool, as a runtime with
 * a paged cache has them. The pages of a run lie scattered. */
#ifndef PC_BENCH_ATTEND_POOL_H
#define PC_BENCH_ATTEND_POOL_H

#include <promptcache/attend.h>

typedef struct attend_pool {
    pc_pool shape;
    size_t layers;
    size_t part_bytes; /* K, or V, of a layer */
    unsigned char *memory;
    int32_t *table; /* of all runs, one behind another */
} attend_pool;

/* Makes a pool for runs of `tokens` tokens. `page` is a packed page of PC_PAGE_TOKENS tokens that
 * every run repeats. An exit code. */
int attend_pool_open(attend_pool *pool, const pc_attend_shape *shape, const void *page,
                     const pc_run *runs, size_t run_count, size_t layers);
/* Gives runs their pages. */
void attend_pool_place(const attend_pool *pool, pc_run *runs, size_t run_count);
/* Sets the pages of a layer. */
void attend_pool_set(const attend_pool *pool, size_t layer, pc_attend_args *args);
void attend_pool_close(attend_pool *pool);

#endif
