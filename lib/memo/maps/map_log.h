/* The log as a file: entries are appended, or all of it is written anew. One thread at a time.
 *
 * After a failed write or sync that could not be undone, the log is `suspect`: it must be written
 * anew before anything is added. */
#ifndef PC_MEMO_MAP_LOG_H
#define PC_MEMO_MAP_LOG_H

#include "base/dir.h"
#include "memo/maps/map_format.h"

typedef struct pc__map_log {
    int fd;       /* -1: not open */
    uint64_t end; /* of the last entry */
    uint64_t entries;
    int is_suspect;
    int has_news; /* entries that were not synced */
} pc__map_log;

/* Appends an entry; not to a suspect log. An error leaves the log without the entry, or suspect. */
pc_status pc__map_log_add(pc__map_log *log, const pc__dir *dir, const pc__map_log_entry *entry,
                          int sync);
pc_status pc__map_log_sync(pc__map_log *log, const pc__dir *dir);
/* Replaces the log by another one, header first. An error leaves the old one, which may be suspect.
 */
pc_status pc__map_log_replace(pc__map_log *log, const pc__dir *dir, const void *data, size_t size);
/* 1: the log on the disk still says that this record is at this place, or cannot be read. */
int pc__map_log_holds(const pc__dir *dir, const pc_allocator *mem,
                      const pc__map_signature *signature, const pc__map_log_entry *entry);
void pc__map_log_close(pc__map_log *log);

#endif
