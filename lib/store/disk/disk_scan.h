/* Brings the table of records, or one record in it, in line with the folder. */
#ifndef PC_STORE_DISK_SCAN_H
#define PC_STORE_DISK_SCAN_H

#include "store/disk/disk.h"

/* Lists the sub-folders that have changed since the last scan (all: every one). Drops records that
 * are gone (counted as lost), adds new ones, removes what killed writers left, and corrects the
 * lock's sum. Between enter and leave; of a read-only folder under `work`. */
pc_status pc__disk_scan(pc__disk *disk, int all);
/* Lists the changed sub-folders without the lock, as readers do. */
pc_status pc__disk_list(pc__disk *disk);
/* Reads the headers of the records that a scan has added. Under `work`. */
pc_status pc__disk_read_headers(pc__disk *disk);
/* Learns what other processes have added and removed: scans, then reads headers. */
pc_status pc__disk_rescan(pc__disk *disk);
/* Removes the files in new/ of killed writers; *live: bytes of the others. Between enter and
 * leave. */
pc_status pc__disk_remove_abandoned(pc__disk *disk, uint64_t *live);
/* What the table knows of a record. 1: it is there; 0: it has expired; -1: nothing. */
int pc__disk_look_up(pc__disk *disk, const pc__record_name *record_name, uint64_t *bytes);
/* Adds a record of another process to the table, or one whose size is now `bytes`. 0: it has
 * expired. */
int pc__disk_add_foreign(pc__disk *disk, const pc__record_name *record_name, uint64_t bytes);
/* Drops a record that is no longer in the folder, if the table has it. */
void pc__disk_drop_lost(pc__disk *disk, const pc__record_name *record_name);

#endif
