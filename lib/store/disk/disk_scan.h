/* The table is brought in line with the folder. */
#ifndef PC_STORE_DISK_SCAN_H
#define PC_STORE_DISK_SCAN_H

#include "store/disk/disk.h"

/* Looks at the sub-folders that have changed since they were scanned (all: at each), forgets what
 * is gone (counted lost), notes what is new, removes what killed writers left, and with the
 * folder's lock corrects how much there is. Between enter and leave, or read_only under `work`. */
pc_status pc__disk_scan(pc__disk *disk, int all);
/* Reads the headers of what a scan has found. Under `work`. */
pc_status pc__disk_read_headers(pc__disk *disk);
/* What is in new/: *live bytes of writers that live; removes what others left. Between enter and
 * leave. */
pc_status pc__disk_remove_abandoned(pc__disk *disk, uint64_t *live);

#endif
