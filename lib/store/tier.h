/* One tier of the store. A tier locks itself; it releases segments only after it has unlocked, because a release may call the
 * host. */
#ifndef PC_STORE_TIER_H
#define PC_STORE_TIER_H

#include "store/key.h"
#include "store/segment.h"

typedef struct pc__tier pc__tier;

typedef struct pc__tier_ops {
    /* the contracts of pc__cache_get, _put, _knows; pin by +1 or -1 */
    pc_status (*get)(pc__tier *tier, const pc__id *key, const int32_t *tokens, size_t count, pc_segment **out);
    pc_status (*put)(pc__tier *tier, const pc__id *key, const pc__id *content, pc_segment *segment, double cost,
                     pc_segment **winner);
    int (*knows)(pc__tier *tier, const pc__id *content);
    pc_status (*pin)(pc__tier *tier, const pc__id *key, int by);
    void (*clear)(pc__tier *tier); /* what is neither in use nor pinned */
    void (*add_stats)(pc__tier *tier, pc_cache_stats *stats);
    void (*free)(pc__tier *tier);
} pc__tier_ops;

struct pc__tier {
    const pc__tier_ops *ops;
};

pc_status pc__tier_host_new(pc__tier **out, const pc_allocator *mem, uint64_t budget);

#endif
