/* Giving up records: to make room, because they have expired, by hand. All between pc__disk_enter
 * and pc__disk_leave, but for pc__disk_was_used_elsewhere. */
#ifndef PC_STORE_DISK_ROOM_H
#define PC_STORE_DISK_ROOM_H

#include "store/disk/disk_reuse.h"

/* Until `need` bytes more are within the budget. What killed writers left goes first, then what has
 * expired, then the least worth of the same or a lower priority. `before` (may be NULL) is what the
 * newcomer saw: it stays. `spare`: the file of the first that has to go, if it can be used again.
 * PC_MISS: there is not so much room to be had (there may be a spare all the same). A folder that
 * is beyond its budget already, because it was opened with a smaller one or others have a larger
 * one, only does not grow: what is too much in it goes by pc__disk_shrink, and no writer waits for
 * that. */
pc_status pc__disk_make_room(pc__disk *disk, uint64_t need, int32_t priority, const pc__id *parent,
                             pc__disk_spare *spare);
/* Bytes beyond the budget, as far as is known here; needs no lock. */
uint64_t pc__disk_bytes_over_budget(pc__disk *disk);
/* Within the budget at any priority, or until `until` (pc__now clock): PC_AGAIN then. PC_MISS: what
 * is left is being written. Between enter and leave. */
pc_status pc__disk_shrink_until(pc__disk *disk, double until);
/* The same by itself, a batch that holds the folder's lock only for a moment. PC_AGAIN also: others
 * have the lock. */
pc_status pc__disk_shrink(pc__disk *disk, double until);
pc_status pc__disk_drop_expired(pc__disk *disk);
/* One that has expired, as far as is known here: 1: another process has used it, which moved the
 * file's date and so its end. */
int pc__disk_was_used_elsewhere(pc__disk *disk, const pc__record_name *record_name, int64_t now);
/* kind: PC_EVENT_EVICT or PC_EVENT_REMOVE; lost: it is counted as lost, because it was damaged.
 * PC_MISS: was not there. */
pc_status pc__disk_erase(pc__disk *disk, const pc__record_name *record_name, uint32_t kind,
                         uint32_t reason, int lost);

#endif
