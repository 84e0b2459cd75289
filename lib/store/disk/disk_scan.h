/* Brings the table of records in line with the folder. */
#ifndef PC_STORE_DISK_SCAN_H
#define PC_STORE_DISK_SCAN_H

#include "store/disk/disk.h"

/* Lists the sub-folders that have changed since the last scan (all: every one). Drops records that
 * are gone (counted as lost), adds new ones, removes what killed writers left, and corrects the
 * lock's sum. Between enter and leave; of a read-only folder under `work`. */
pc_status pc__disk_scan(pc__disk *disk, int all);
/* Reads the headers of the records that a scan has added. Under `work`. */
pc_status pc__disk_read_headers(pc__disk *disk);
/* Learns what other processes have added and removed: scans, then reads headers. */
pc_status pc__disk_rescan(pc__disk *disk);
/* Removes the files in new/ of killed writers; *live: bytes of the others. Between enter and
 * leave. */
pc_status pc__disk_remove_abandoned(pc__disk *disk, uint64_t *live);

#endif
