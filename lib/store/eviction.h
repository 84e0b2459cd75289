/* The eviction policy of the tiers RAM, COMPRESSED and DISK.
 *
 * Score. base/lrfu.h has the formula. In logarithms the order of two items never changes with time,
 * so a score changes only with a use. Time is measured in bytes brought in; a half-life is 0.3 of
 * the budget. A first use has half the weight, so that a flood of items used once does not displace
 * items used twice. The uses (first term) of evicted items are remembered, for about four times as
 * many items as there are; an item that comes back goes on from there. On both Mooncake traces this
 * beat LRU at 1/4 and 1/16 of the footprint, also with a flood of novel queries, where GDSF, LFU
 * with dynamic aging, LRU-2 and S3-FIFO each fell below it somewhere (bench trace).
 *
 * Chains. An item can only be used behind its parent, so children are evicted first: an item with
 * children here is no candidate. They may come in any order.
 *
 * Holds. An item that is pinned or in use is held; neither it nor its parents are candidates. So
 * the heap has candidates only, the lowest score on top, and the bytes that can be freed are always
 * known. All is O(log n); hold and unhold may walk up the chain.
 *
 * Locks nothing. */
#ifndef PC_STORE_EVICTION_H
#define PC_STORE_EVICTION_H

#include "base/heap.h"
#include "base/hash_table.h"

typedef struct pc__eviction_siblings pc__eviction_siblings; /* the children of one parent */

/* A part of the items (one tenant's), also in an order of its own after pc__eviction_order_group.
 * Zero-initialised. */
typedef struct pc__eviction_group {
    pc__heap order;
    int is_ordered;
    size_t items;
    uint64_t bytes, held_bytes;
} pc__eviction_group;

typedef struct pc__eviction_item {
    /* set by the caller before pc__eviction_add, then fixed */
    pc__id key;
    pc__id parent;
    uint32_t has_parent;
    int32_t priority; /* lower ones go first, whatever their scores */
    uint64_t bytes;
    double cost; /* seconds to compute it again */
    uint32_t has_content;
    pc__id content;            /* its tokens without their parent */
    pc__eviction_group *group; /* or NULL */
    uint32_t holds;            /* at the start; later by pc__eviction_hold */
    /* set by eviction.c */
    uint32_t uses;
    double log_uses, value; /* the terms of the score */
    double score;           /* their sum */
    pc__heap_node place, group_place;
    pc__hash_link by_key, by_content;
    pc__eviction_siblings *children; /* NULL: none are here */
    pc__eviction_siblings *siblings; /* with the same parent; NULL: it has no parent */
    struct pc__eviction_item *next_picked;
} pc__eviction_item;

typedef struct pc__eviction_history { /* of one that was evicted */
    uint64_t hash;
    double log_uses;
} pc__eviction_history;

typedef struct pc__eviction { /* zero-initialised but for the first two: empty */
    pc_allocator mem;
    uint64_t budget; /* bytes; the unit of time. 0: the bytes that are here */
    pc__hash_table items, contents, sibling_sets;
    pc__heap order;
    uint64_t bytes;                /* of all items */
    uint64_t held_bytes;           /* of those that are held, or the parents of held ones */
    double clock;                  /* half-lives: bytes ever brought in / (0.3 budget) */
    pc__eviction_history *history; /* [history_sets][4] */
    size_t history_sets;           /* a power of two */
} pc__eviction;

void pc__eviction_free(pc__eviction *eviction); /* frees no item */
pc__eviction_item *pc__eviction_find(const pc__eviction *eviction, const pc__id *key);
int pc__eviction_has_content(const pc__eviction *eviction, const pc__id *content);
/* PC_ERR_NOMEM: nothing has changed. The key must not be there yet. */
pc_status pc__eviction_add(pc__eviction *eviction, pc__eviction_item *item);
void pc__eviction_hit(pc__eviction *eviction, pc__eviction_item *item); /* counts a use */
/* Sets the uses of a file, right after pc__eviction_add. Does not count as bringing it in. */
void pc__eviction_restore(pc__eviction *eviction, pc__eviction_item *item, double log_uses,
                          uint32_t uses);
/* A hold, and its end. NULL does nothing. */
void pc__eviction_hold(pc__eviction *eviction, pc__eviction_item *item);
void pc__eviction_unhold(pc__eviction *eviction, pc__eviction_item *item);
pc_status pc__eviction_order_group(pc__eviction *eviction, pc__eviction_group *group);

/* The item that goes first, of all or of a group; NULL: none can. */
pc__eviction_item *pc__eviction_candidate(const pc__eviction *eviction,
                                          const pc__eviction_group *group);
/* Takes a candidate out of the order; the next one (perhaps its parent) comes first then. It is
 * still found by its key. Then call pc__eviction_evict, or pc__eviction_put_back to undo it. */
void pc__eviction_pick(pc__eviction *eviction, pc__eviction_item *item);
void pc__eviction_evict(pc__eviction *eviction, pc__eviction_item *item); /* drops a picked item */
/* Undoes picks, of a list by next_picked. */
void pc__eviction_put_back(pc__eviction *eviction, pc__eviction_item **picked);
/* Drops any item, for another reason than room. */
void pc__eviction_remove(pc__eviction *eviction, pc__eviction_item *item);
/* All items; NULL starts (pc__hash_table_next). */
pc__eviction_item *pc__eviction_next(const pc__eviction *eviction, const pc__eviction_item *item);

#endif
