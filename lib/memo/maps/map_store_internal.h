/* The body of a map store, and what its files share.
 *
 * Two locks inside the process. `work` is held by whoever changes what the log says; `guard` for a
 * moment by whoever looks into the table or the room: pc__map_store_get takes only this one. Order:
 * work, guard. Records are written, and checked at their first use, under neither.
 *
 * Processes. The writer holds the folder's lock as long as it is open. Readers know the log as it
 * was when they opened it; a record that the writer has given up since may have had its room given
 * to another. So who reads from a read-only store holds a shared lock on the record's range of the
 * data file, and then looks whether its header still stands there; and the writer changes room that
 * was in use before only with the exclusive lock on it, the header first. In the writer's own
 * process counts do the same: room comes back when nobody holds the record.
 *
 * Worth. Who goes first when room is needed: as in lib/store/eviction.h, log2 of the uses, each
 * counting half as much with every half-life since, plus 1/4 log2 of what a use saves for the
 * record's bytes, for which its tokens stand. A half-life is 0.3 of the budget brought in; a record
 * that was not used yet counts as half a use. */
#ifndef PC_MEMO_MAP_STORE_BODY_H
#define PC_MEMO_MAP_STORE_BODY_H

#include <pthread.h>

#include "base/heap.h"
#include "memo/maps/map_log.h"
#include "memo/maps/map_space.h"
#include "memo/maps/mapped_data.h"

typedef struct pc__map_item {
    pc__map_log_entry entry;
    uint64_t order; /* of its entry in the log, while opening */
    uint64_t gets;
    double last; /* use or writing, pc__now clock */
    uint32_t holds;
    int is_checked;      /* its layers, by this process */
    int is_unpackable;   /* packed it would take as much room */
    int is_gone;         /* out of the table; lives as long as it is held */
    pc__heap_node place; /* in `order`, while nobody holds it */
} pc__map_item;

typedef struct pc__map_slot {
    int64_t id;
    pc__map_item *item; /* NULL: gone */
} pc__map_slot;

struct pc__map_store {
    pc_allocator mem;
    pc__map_store_options options;
    pc__dir dir; /* its path is in all texts */
    int lock_fd, data_fd;
    uint8_t nonce[PC__MAPS_NONCE];
    pthread_mutex_t work, guard;

    /* under `work` */
    pc__map_log log;
    int no_holes;        /* the file system cannot punch them */
    uint64_t generation; /* of the log; 0: its entries are not marked */

    /* under `guard` */
    pc__map_slot *slots; /* [slot_count] by id */
    size_t slot_count, slot_capacity, slot_live;
    pc__heap order; /* by worth */
    pc__map_space room;
    pc__mapped_data *view;
    int64_t next;
    double clock; /* half-lives */
    uint64_t log_bytes;
    uint64_t unsaved; /* uses that the log does not know of */
    pc__map_store_stats counts;
};

static inline uint64_t pc__map_extent(const pc__map_log_entry *entry)
{
    return pc__map_round_up(entry->bytes, PC__MAPS_PAGE);
}

/* ---- map_table.c; all under guard */
pc__map_item *pc__map_table_find(const pc__map_store *store, int64_t id);
pc__map_item *pc__map_table_next(const pc__map_store *store,
                                 int64_t id); /* the first with a larger id */
pc_status pc__map_table_reserve(pc__map_store *store,
                                size_t more); /* so that so many can be put in */
void pc__map_table_put(pc__map_store *store,
                       pc__map_item *item); /* in place of one of the same id, which is gone then */
void pc__map_table_remove(pc__map_store *store, pc__map_item *item, pc__map_removal why);
void pc__map_table_offer(pc__map_store *store,
                         pc__map_item *item); /* may be given up, if nobody holds it */
void pc__map_table_hold(pc__map_store *store, pc__map_item *item);
void pc__map_table_release(pc__map_store *store, pc__map_item *item);
void pc__map_table_hit(pc__map_store *store, pc__map_item *item);
void pc__map_table_age(pc__map_store *store, uint64_t bytes); /* so many were brought in */

/* ---- map_store_log.c; all under work */
pc_status pc__map_store_save_log(pc__map_store *store); /* the log anew */
pc_status pc__map_store_append(pc__map_store *store, const pc__map_log_entry *entry);
pc_status pc__map_store_drop(pc__map_store *store, int64_t id,
                             pc__map_removal why); /* PC_MISS: was not there */

/* A record that was written: into the log, and the table (in place of one of the same id).
 * map_store_add.c. An error leaves the item and its room to the caller. */
pc_status pc__map_store_commit(pc__map_store *store, pc__map_item *item, int is_new);

/* ---- map_data.c */
static inline uint64_t pc__map_store_spare(
    const pc__map_store *store) /* so that tidying has room to pack into */
{
    return store->options.cold_seconds > 0 ? store->options.budget_bytes / 64 : 0;
}
/* Room for `bytes`, a multiple of PC__MAPS_PAGE, within the budget less `keep_free`; locked against
 * readers until pc__map_data_unlock, and mapped. PC_MISS: there is none unless something is given
 * up. Under work. */
pc_status pc__map_data_place(pc__map_store *store, uint64_t bytes, uint64_t keep_free,
                             uint64_t *at);
void pc__map_data_unlock(pc__map_store *store, uint64_t at, uint64_t bytes);
void pc__map_data_free(pc__map_store *store, uint64_t at, uint64_t bytes);
/* Under work, both: all gaps become holes; the file ends behind its last record. As far as they
 * can. */
void pc__map_data_punch(pc__map_store *store);
void pc__map_data_truncate(pc__map_store *store);
uint64_t pc__map_data_occupied(const pc__map_store *store); /* under guard */

/* ---- map_data_write.c */
/* Writes a record, of layers of `sizes` bytes, or of the layout's where sizes is NULL. entry: all
 * but bytes and sum is set; at: placed for `extent` bytes at least. */
pc_status pc__map_data_write(pc__map_store *store, pc__map_log_entry *entry,
                             const pc__map_layout *layout, const void *metadata,
                             const void *const *maps, const uint64_t *sizes);

/* ---- map_store_get.c */
pc_status pc__map_store_borrow(pc__map_store *store, int64_t id, int how,
                               pc__maps *out); /* how: PC__MAP_PIN_USE or not */

/* ---- map_store_pin.c */
enum {
    PC__MAP_PIN_USE = 1,
    PC__MAP_PIN_LAYERS = 2 /* they are checked too, if they were not yet */
};
/* Holds a record, and the view it lies in. PC_MISS; PC_ERR_FORMAT: damaged, and removed by now. */
pc_status pc__map_store_pin(pc__map_store *store, int64_t id, int how, pc__map_item **item,
                            pc__mapped_data **view);
/* It is removed, if it still stands at entry->at. PC_ERR_FORMAT with a text. */
pc_status pc__map_store_damaged(pc__map_store *store, const pc__map_log_entry *entry,
                                const char *what);
void pc__map_store_unpin(pc__map_store *store, pc__map_item *item, pc__mapped_data *view);

#endif
