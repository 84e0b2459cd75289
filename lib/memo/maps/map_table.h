/* The records that a map store has in memory: by id, and in the order of eviction (base/lrfu.h; the
 * cost of a record is its number of tokens). Nothing here locks. */
#ifndef PC_MEMO_MAP_TABLE_H
#define PC_MEMO_MAP_TABLE_H

#include "base/heap.h"
#include "memo/maps/map_format.h"

typedef struct pc__map_item {
    pc__map_log_entry entry;
    uint64_t log_index; /* of its entry, while the store is opened */
    uint64_t gets;      /* uses in this process */
    double last;        /* last use, or writing; pc__now clock */
    uint32_t holds;
    int is_checked;        /* this process has verified the checksums of its layers */
    int is_incompressible; /* compressed it would take as many pages */
    int is_gone;           /* not in the table any more; lives as long as it is held */
    pc__heap_node node;    /* in `order`, unless it is held */
} pc__map_item;

typedef struct pc__map_slot {
    int64_t id;
    pc__map_item *item; /* NULL: gone */
} pc__map_slot;

typedef struct pc__map_table { /* zero-initialise, but for the first two */
    const pc_allocator *mem;
    int never_evicts;    /* keeps no order */
    pc__map_slot *slots; /* [count] by id */
    size_t count, capacity, live;
    pc__heap order;
    double clock;     /* half-lives */
    uint64_t unsaved; /* uses that the log does not have yet */
} pc__map_table;

void pc__map_table_free(pc__map_table *table); /* and all items in it */
pc__map_item *pc__map_table_find(const pc__map_table *table, int64_t id);
/* The item with the smallest larger id. */
pc__map_item *pc__map_table_next(const pc__map_table *table, int64_t id);
/* Makes room, so that `more` calls of pc__map_table_put cannot fail. */
pc_status pc__map_table_reserve(pc__map_table *table, size_t more);
/* Returns the item of the same id that the new one replaces, or NULL. The caller frees it, once
 * nobody holds it. */
pc__map_item *pc__map_table_put(pc__map_table *table, pc__map_item *item);
/* The caller frees the item, once nobody holds it. */
void pc__map_table_remove(pc__map_table *table, pc__map_item *item);

/* Makes an item a candidate for eviction again, unless it is held or gone. */
void pc__map_table_offer(pc__map_table *table, pc__map_item *item);
void pc__map_table_hold(pc__map_table *table, pc__map_item *item);
/* 1: nobody holds it any more. */
int pc__map_table_release(pc__map_table *table, pc__map_item *item);
void pc__map_table_hit(pc__map_table *table, pc__map_item *item);

#endif
