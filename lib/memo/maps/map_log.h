/* The log of a folder of maps as a file: entries are added at its end, or all of it is written
 * anew. One thread at a time.
 *
 * What went wrong once is not built upon: a log whose last write or sync failed, and could not be
 * undone, is `suspect`, and has to be written anew before anything else. */
#ifndef PC_MEMO_MAP_LOG_H
#define PC_MEMO_MAP_LOG_H

#include "base/dir.h"
#include "memo/maps/map_format.h"

typedef struct pc__map_log {
    int fd;       /* -1: not open, or only read */
    uint64_t end; /* behind the last entry */
    uint64_t entries;
    int is_suspect;
    int has_news; /* that were not synced */
} pc__map_log;

/* Not while it is suspect. An error leaves the log without the entry, or suspect. */
pc_status pc__map_log_add(pc__map_log *log, const pc__dir *dir, const pc__map_log_entry *entry,
                          int sync);
pc_status pc__map_log_sync(pc__map_log *log, const pc__dir *dir);
/* A whole log, header first, in place of the one there. An error leaves the one there, or it
 * suspect. */
pc_status pc__map_log_replace(pc__map_log *log, const pc__dir *dir, const void *data, size_t size);
/* Does the log, as it lies there now, still say that this record is where it was? 1 also if it
 * cannot be read. */
int pc__map_log_holds(const pc__dir *dir, const pc_allocator *mem,
                      const pc__map_signature *signature, const pc__map_log_entry *entry);
void pc__map_log_close(pc__map_log *log);

#endif
