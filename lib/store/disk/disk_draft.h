/* Writes records. A draft is a file in new/, locked by its writer. It has the largest size that the
 * record can reach, so that its room is taken from the start. Renaming publishes it; nobody reads
 * it before. */
#ifndef PC_STORE_DISK_DRAFT_H
#define PC_STORE_DISK_DRAFT_H

#include "store/disk/disk.h"

/* As pc__tier_ops.put. deadline 0: a minute. */
pc_status pc__disk_put(pc__disk *disk, const pc__image *image, double deadline, uint32_t *reason);

#endif
