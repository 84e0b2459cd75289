/* A record that is being written: a file in new/, locked by its writer. It has the largest size
 * that the record can reach, so that its room is taken from the start. Renaming publishes it;
 * nobody reads it before. */
#ifndef PC_STORE_DISK_DRAFT_H
#define PC_STORE_DISK_DRAFT_H

#include "store/disk/disk.h"

typedef struct pc__disk_draft {
    int fd;
    char name[32]; /* in new/ */
    uint64_t reserved;
} pc__disk_draft;

/* Makes room for `bytes` and creates the file. PC_MISS: the budget has no such room. PC_AGAIN:
 * another process held the folder beyond the deadline. PC_ERR_IO. */
pc_status pc__disk_draft_begin(pc__disk *disk, const pc__image *image, uint64_t bytes,
                               double deadline, pc__disk_draft *out);
/* Cuts the file to `bytes` and renames it. PC_MISS: another process has published the same record.
 * The draft ends in any case. */
pc_status pc__disk_draft_publish(pc__disk *disk, pc__disk_draft *draft, const pc__image *image,
                                 uint64_t bytes, double seconds, double deadline);
void pc__disk_draft_drop(pc__disk *disk, pc__disk_draft *draft);

#endif
