/* Giving up records: to make room, because they have expired, by hand. All between pc__disk_enter and pc__disk_leave, but for pc__disk_lives_on. */
#ifndef PC_STORE_DISK_ROOM_H
#define PC_STORE_DISK_ROOM_H

#include "store/disk/disk.h"

/* Until `need` bytes more are within the budget. What killed writers left goes first, then what has expired, then the least worth of the same or a lower
 * priority. `before` (may be NULL) is what the newcomer saw: it stays. PC_MISS: there is not so much room to be had. */
pc_status pc__disk_make_room(pc__disk *disk, uint64_t need, int32_t priority, const pc__id *before);
pc_status pc__disk_drop_expired(pc__disk *disk);
/* One that has expired, as far as is known here: 1: another process has used it, which moved the file's date and so its end. */
int pc__disk_lives_on(pc__disk *disk, const pc__spot *spot, int64_t now);
/* kind: PC_EVENT_EVICT or PC_EVENT_REMOVE; lost: it is counted as lost, because it was damaged. PC_MISS: was not there. */
pc_status pc__disk_erase(pc__disk *disk, const pc__spot *spot, uint32_t kind, uint32_t reason, int lost);

#endif
