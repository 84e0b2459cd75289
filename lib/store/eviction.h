/* What a tier keeps and what it gives up first; shared by RAM, COMPRESSED and DISK.
 *
 * An item is worth how often it has been used, each use counting half as much with every half-life
 * that has passed since, and what it costs to make for its bytes, the latter damped. In logarithms
 * neither changes its order with time, so that worth is a number that changes only when the item is
 * used: worth = log2(sum over uses of 2^(time of the use)) + 1/4 log2(seconds to make it / bytes)
 * This is LRFU (Lee et al., IEEE Transactions on Computers 50:12, 2001) with the cost of
 * GreedyDual-Size (Cao and Irani, USENIX ITS 1997). Time is what was brought in, a half-life is 0.3
 * of the budget; the first use counts half, so that a flood of what is used once passes by what was
 * used twice. What was evicted is remembered (its worth, not its states) for about four times as
 * many items as there are, and goes on from there when it comes back. On the two Mooncake traces
 * this was above LRU at 1/4 and 1/16 of the footprint, also with a flood of novel queries among
 * them, where GDSF, LFU with dynamic aging, LRU-2 and S3-FIFO each were below it somewhere (bench
 * trace).
 *
 * Chains. An item that saw another one (`before`) can be used only behind it, so the tail of a
 * chain goes first: an item is no candidate as long as one that saw it is there. It does not matter
 * in which order they come.
 *
 * Holds. Who pins an item, or has its memory in use, holds it: then neither it nor what it saw is a
 * candidate. So the heap has candidates only, the least worth on top, and how many bytes could be
 * freed at all is known at any time. All is O(log n); holding and dropping may walk up the chain.
 *
 * Nothing here locks. */
#ifndef PC_STORE_EVICTION_H
#define PC_STORE_EVICTION_H

#include "base/heap.h"
#include "base/hash_table.h"

typedef struct pc__eviction_siblings pc__eviction_siblings; /* those that saw the same item */

/* A share of the items (one tenant's) that is also kept in order for itself, once
 * pc__eviction_order_group was called. Zero-initialised. */
typedef struct pc__eviction_group {
    pc__heap order;
    int is_ordered;
    size_t items;
    uint64_t bytes, held_bytes;
} pc__eviction_group;

typedef struct pc__eviction_item {
    /* set by the owner before pc__eviction_add, never changed after */
    pc__id key;
    pc__id parent;
    uint32_t has_parent;
    int32_t priority; /* the lower goes first, whatever it is worth */
    uint64_t bytes;
    double cost;               /* seconds to make it anew */
    pc__eviction_group *group; /* or NULL */
    uint32_t
        holds; /* reasons to stay that there are from the start; later on by pc__eviction_hold */
    /* of eviction.c */
    uint32_t uses;
    double heat, value; /* the two terms of its worth */
    double score;       /* their sum */
    pc__heap_node place, group_place;
    pc__hash_link by_key;
    pc__eviction_siblings *children; /* those that saw this one; NULL: nobody */
    pc__eviction_siblings *siblings; /* this one's `before`; NULL: nothing */
} pc__eviction_item;

typedef struct pc__eviction_history { /* of one that was evicted */
    uint64_t hash;
    double heat;
} pc__eviction_history;

typedef struct pc__eviction { /* zero-initialised but for the first two: empty */
    pc_allocator mem;
    uint64_t budget; /* bytes; the measure of time. 0: what is there */
    pc__hash_table items, sibling_sets;
    pc__heap order;
    uint64_t bytes;                /* of all items */
    uint64_t held_bytes;           /* of those that are held, or seen by one that is */
    double clock;                  /* half-lives: what was ever brought in / (0.3 budget) */
    pc__eviction_history *history; /* [past_sets][4] */
    size_t history_sets;           /* a power of two */
} pc__eviction;

void pc__eviction_free(pc__eviction *eviction); /* the items are not its own */
pc__eviction_item *pc__eviction_find(const pc__eviction *eviction, const pc__id *key);
/* PC_ERR_NOMEM: nothing has changed. The key must not be there yet. */
pc_status pc__eviction_add(pc__eviction *eviction, pc__eviction_item *item);
void pc__eviction_hit(pc__eviction *eviction, pc__eviction_item *item); /* it was used */
/* Worth of another run of the program, which kept clock, heat and uses: right after
 * pc__eviction_add. The clock is set from what was kept, too. */
void pc__eviction_restore(pc__eviction *eviction, pc__eviction_item *item, double heat,
                          uint32_t uses);
void pc__eviction_hold(pc__eviction *eviction, pc__eviction_item *item);
void pc__eviction_unhold(pc__eviction *eviction, pc__eviction_item *item); /* undoes a hold */
pc_status pc__eviction_order_group(pc__eviction *eviction, pc__eviction_group *group);

/* The candidate that goes first, of all or of a group; NULL: there is none. */
pc__eviction_item *pc__eviction_candidate(const pc__eviction *eviction,
                                          const pc__eviction_group *group);
/* Takes a candidate out of the order, so that the next one (perhaps what it saw) stands first. It
 * is still found by its key. Then either pc__eviction_evict, or pc__eviction_put_back as if nothing
 * had been. */
void pc__eviction_pick(pc__eviction *eviction, pc__eviction_item *item);
void pc__eviction_put_back(pc__eviction *eviction, pc__eviction_item *item);
void pc__eviction_evict(pc__eviction *eviction,
                        pc__eviction_item *item); /* one that was picked is gone */
/* Takes any item out, for another reason than room. */
void pc__eviction_remove(pc__eviction *eviction, pc__eviction_item *item);
pc__eviction_item *pc__eviction_next(
    const pc__eviction *eviction,
    const pc__eviction_item *item); /* all: NULL starts (pc__hash_table_next) */

#endif
