/* A folder of records in use: its files, what is known of them, and who may change it when. Shared
 * by the tier DISK and pc_folder.
 *
 * Two locks inside the process, and one between processes. `work` is held by whoever changes the
 * folder, or waits for the disk to know it better; `guard` for a moment, by whoever looks into the
 * table or counts: requests take only this one. The folder's own lock is held between
 * pc__disk_enter and pc__disk_leave. Order: work, the folder's, guard. Nobody is called back under
 * any of them: what has happened is noted, and told when pc__disk_leave has let go. */
#ifndef PC_STORE_DISK_H
#define PC_STORE_DISK_H

#include <pthread.h>

#include "base/clock.h"
#include "base/fail.h"
#include "store/disk/disk_lock.h"
#include "store/disk/disk_table.h"
#include "store/tier.h"

typedef struct pc__disk {
    pc_allocator mem;
    const pc_context *context; /* for its log; may be NULL */
    pc__disk_root root;
    pc__record_options record;
    char variant[PC__VARIANT]; /* of the records that we write and read */
    pc__tier_callbacks callbacks;
    uint64_t budget;
    int read_only;
    int can_reuse; /* files of records that give way (store/disk/disk_reuse.h) */
    pthread_mutex_t work, guard;

    /* under `work` */
    pc__disk_lock lock;
    int64_t dates[PC__DISK_SUBS]; /* of the sub-folders when they were scanned, ns since 1970; 0: to
                                     be scanned */
    uint64_t generation;          /* of the folder, when we left it last */
    double scanned;               /* when, pc__now clock; 0: never */
    uint64_t drafts;              /* begun, for their names */
    pc_event *news;               /* [news_count] to be told */
    size_t news_count, news_capacity;
    uint64_t told_bytes;
    uint64_t reclaimed, reclaimed_bytes; /* files of killed writers, removed */

    /* under `guard` */
    pc__disk_table table;
    uint64_t staging; /* reserved by drafts of ours */
    uint64_t changes; /* of the table that the index has not */
    pc_tier_stats counts;
} pc__disk;

/* Opens the folder, and learns what is there from the index and the folder. Nothing is counted yet
 * but as adopted. `make`: pc__disk_root_open. */
pc_status pc__disk_open(pc__disk *disk, const pc__tier_common *common, const char *path, int make);
/* Saves the index if there is something new. */
void pc__disk_close(pc__disk *disk);

/* PC_AGAIN: others hold it beyond `deadline` (the error text says so). PC_ERR_IO. Not for
 * read_only. */
pc_status pc__disk_enter(pc__disk *disk, double deadline);
void pc__disk_leave(pc__disk *disk);
/* For pc__disk_leave to tell; under `work`. Notes nothing if there is no memory. */
void pc__disk_queue_event(pc__disk *disk, uint32_t kind, uint32_t reason, const pc__id *key,
                          uint64_t bytes, uint32_t tokens, double seconds);
/* At once; under no lock. */
void pc__disk_report_event(const pc__disk *disk, uint32_t kind, uint32_t reason, const pc__id *key,
                           uint64_t bytes, uint32_t tokens, double seconds);

/* The record of a key that we write and read; others of the same key may lie beside it. */
pc__record_name pc__disk_record_name(const pc__disk *disk, const pc__id *key);
/* What the header of a record says. PC_MISS: no such file. What cannot be read is
 * PC__DISK_UNREADABLE. *usable (may be NULL): PC_OK: we can open it; else a writer of ours shall
 * put another in its place. */
pc_status pc__disk_read_facts(const pc__disk *disk, const pc__record_name *record_name,
                              pc__disk_facts *facts, pc_status *usable);
/* The index as of now; between enter and leave. */
pc_status pc__disk_save(pc__disk *disk);

#endif
