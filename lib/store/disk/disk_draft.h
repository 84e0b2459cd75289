/* A record that is being written: a file in new/ with the largest size that the record can have, so
 * that its room is taken from the start, and locked by its writer as long as that lives. Published
 * by renaming; until then nobody reads it. */
#ifndef PC_STORE_DISK_DRAFT_H
#define PC_STORE_DISK_DRAFT_H

#include "store/disk/disk.h"

typedef struct pc__disk_draft {
    int fd;
    char name[32]; /* in new/ */
    uint64_t reserved;
} pc__disk_draft;

/* Room for `bytes`, and the file. PC_MISS: the budget has not so much to give. PC_AGAIN: others
 * held the folder beyond the deadline. PC_ERR_IO … */
pc_status pc__disk_draft_begin(pc__disk *disk, const pc__image *image, uint64_t bytes,
                               double deadline, pc__disk_draft *out);
/* Gives it its name and its size. PC_MISS: another process has published the same record. In any
 * case the draft is over. */
pc_status pc__disk_draft_publish(pc__disk *disk, pc__disk_draft *draft, const pc__image *image,
                                 uint64_t bytes, double seconds, double deadline);
void pc__disk_draft_drop(pc__disk *disk, pc__disk_draft *draft);

#endif
