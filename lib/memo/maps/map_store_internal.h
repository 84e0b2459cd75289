/* The map store's own parts: map_log.h (the log), map_data.h (the data file), map_table.h (what is
 * in memory), and how the map_store_*.c join them.
 *
 * Threads. `work` is held by whoever changes what the log says, `guard` for a moment by whoever
 * looks into the table; pc__map_store_get takes only `guard`. Order: work, guard, the data file's
 * own lock. Records are written, and checked at their first use, under neither.
 *
 * Processes. The writer holds the folder's lock as long as the store is open. A reader knows the
 * log as it was when the reader opened it; since then the writer may have given the room of a
 * record to another one. So a reader holds a shared lock on the record's extent, and then compares
 * the header with the log entry. The writer changes bytes only under the exclusive lock on them,
 * the header first. Inside one process the item's count of holds does the same. */
#ifndef PC_MEMO_MAP_STORE_INTERNAL_H
#define PC_MEMO_MAP_STORE_INTERNAL_H

#include <pthread.h>

#include "base/process.h"
#include "memo/maps/map_data.h"
#include "memo/maps/map_log.h"
#include "memo/maps/map_table.h"

struct pc__map_store {
    pc_allocator mem;
    pc__map_store_options options;
    pc__dir dir; /* error texts begin with its path */
    int lock_fd, is_open;
    pid_t process; /* that has opened it */
    pthread_mutex_t work, guard;
    pc__map_data data;
    pc__map_log log;     /* under `work`, as is the next */
    uint64_t generation; /* of the log; 0: its entries are not marked */
    pc__map_table table; /* under `guard`, as are the next */
    int64_t next_id;
    pc_memo_stats counts;
};

/* Bytes of the budget that adding leaves free, so that tidying has room to compress into. */
static inline uint64_t pc__map_store_spare(const pc__map_store *store)
{
    return store->options.cold_seconds > 0 ? store->options.budget_bytes / 64 : 0;
}

/* ---- map_store.c; the first two under `work` */
/* Writes the log anew. */
pc_status pc__map_store_save_log(pc__map_store *store);
/* PC_MISS: there is no such record. */
pc_status pc__map_store_drop(pc__map_store *store, int64_t id, pc__map_removal why);
/* Frees an item that is gone and held by nobody, with its extent. Under `guard`. */
void pc__map_store_free_item(pc__map_store *store, pc__map_item *item);
/* Writes a record into the locked extent at item->entry.at, and enters it into log and table; in
 * place of its other form `old`, whose uses it takes over, unless that is NULL. PC_MISS: `old` is
 * gone by now. An error leaves the item to the caller; the extent comes back. */
pc_status pc__map_store_write(pc__map_store *store, pc__map_item *item,
                              const pc__map_record_parts *parts, uint64_t extent,
                              const pc__map_item *old);

/* ---- map_store_get.c */
enum {
    PC__MAP_PIN_USE = 1,   /* counts as a use */
    PC__MAP_PIN_LAYERS = 2 /* verifies the layers, too, unless this process did so before */
};
/* A record that is held, with the mapping that it lies in. */
typedef struct pc__map_pin {
    pc__map_item *item;
    pc__mapped_data *view;
    pc__map_log_entry entry;
    pc__map_layout layout;
    const uint8_t *data; /* the record's bytes */
} pc__map_pin;
/* PC_MISS; PC_ERR_FORMAT: damaged, and removed. */
pc_status pc__map_store_pin(pc__map_store *store, int64_t id, int how, pc__map_pin *out);
void pc__map_store_unpin(pc__map_store *store, const pc__map_pin *pin);
/* pc__map_store_get, with or without PC__MAP_PIN_USE. */
pc_status pc__map_store_borrow(pc__map_store *store, int64_t id, int how, pc__maps *out);

#endif
