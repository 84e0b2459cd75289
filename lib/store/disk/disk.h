/* A folder of records in use, shared by the DISK tier and pc_folder.
 *
 * Locks, in their order:
 *   `work`             held by a thread that changes the folder, or that waits for the disk
 *   the folder's lock  held between pc__disk_enter and pc__disk_leave; excludes other processes
 *   `guard`            held for moments, around the table and the counters; requests take only this
 * No callback runs under a lock: pc__disk_leave reports queued events after it has unlocked. */
#ifndef PC_STORE_DISK_H
#define PC_STORE_DISK_H

#include <promptcache/cache.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/process.h"
#include "store/disk/disk_root.h"
#include "store/disk/disk_table.h"
#include "store/tier.h"

typedef struct pc__disk {
    pc_allocator mem;
    pid_t process;             /* that has opened it */
    const pc_context *context; /* for its log; may be NULL */
    pc__dir root;
    pc__record_options record;
    pc__tier_callbacks callbacks;
    uint64_t budget;
    int read_only;
    uint32_t share; /* that we want (pc__disk_lock); 0: whatever the folder says */
    int can_reuse;  /* files of evicted records (store/disk/disk_room.h) */
    pthread_mutex_t work, guard;

    /* under `work` */
    pc__disk_lock lock;
    /* Dates of the sub-folders at their last scan, ns since 1970; 0: to be scanned. */
    int64_t dates[PC__DISK_SUBS];
    uint64_t generation; /* of the folder, at our last leave */
    int share_is_due;    /* ours is still to be written into the lock file */
    double scanned;      /* time of the last scan, pc__now clock; 0: never */
    uint64_t drafts;     /* begun, for their names */
    int shrinking;       /* records are evicted in the background */
    pc_event *events;    /* [event_count] to be reported */
    size_t event_count, event_capacity;
    uint64_t reported_bytes;
    uint64_t reclaimed, reclaimed_bytes; /* files of killed writers that we have removed */

    /* under `guard` */
    pc__disk_table table;
    uint64_t staging; /* reserved by our drafts */
    uint64_t changes; /* of the table that the index file does not have */
    pc_tier_stats counts;
} pc__disk;

/* Opens the folder and fills the table from the index and the folder. The records count as found.
 * If another process holds the lock for longer than a moment (it may be stopped), they are read
 * without it, as readers do, and every change waits for the lock until its deadline.
 * make: see pc__disk_root_open. */
pc_status pc__disk_open(pc__disk *disk, const pc__tier_common *common, const char *path, int make);
/* Saves the index if it has changed. In a child after fork() it touches no file. */
void pc__disk_close(pc__disk *disk);

/* PC_AGAIN: another process or thread holds the folder beyond `deadline` (the error text says so).
 * PC_ERR_IO. Not for read-only folders. */
pc_status pc__disk_enter(pc__disk *disk, double deadline);
void pc__disk_leave(pc__disk *disk);
/* Queues an event for pc__disk_leave; under `work`. Without memory the event is lost. */
void pc__disk_queue_event(pc__disk *disk, uint32_t kind, uint32_t reason, const pc__id *key,
                          uint64_t bytes, size_t tokens, double seconds);
/* Reports an event at once; under no lock. */
void pc__disk_report_event(const pc__disk *disk, uint32_t kind, uint32_t reason, const pc__id *key,
                           uint64_t bytes, size_t tokens, double seconds);
/* Of all records and of our drafts, as far as this process knows. Takes `guard`. */
uint64_t pc__disk_bytes(pc__disk *disk);

/* Name of the record that we write and read under a key; other variants may lie beside it. */
pc__record_name pc__disk_record_name(const pc__disk *disk, const pc__id *key);
/* Reads the face of a record. PC_MISS: no such file. A header that cannot be read gives the state
 * PC__DISK_UNREADABLE. *usable (may be NULL, with `wanted`): PC_OK if we can open the record as one
 * of this image; else a writer of ours replaces it. */
pc_status pc__disk_read_facts(pc__disk *disk, const pc__record_name *record_name,
                              pc__disk_facts *facts, const pc__image *wanted, pc_status *usable);
/* Writes the index file; between enter and leave. */
pc_status pc__disk_save(pc__disk *disk);

#endif
