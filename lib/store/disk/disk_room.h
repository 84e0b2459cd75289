/* Removing records: to make room, because they expired, or on request. The caller stands between
 * pc__disk_enter and pc__disk_leave, unless a function says otherwise.
 *
 * Reuse. In a full folder the file of an evicted record becomes the draft of the next one. Removing
 * a file and creating another is most of what a full folder costs a writer: ext4 without a journal
 * searches for an inode among all that were freed in the last minutes.
 *
 * A record never changes, so a file is reused only if nobody else has it open or mapped. The kernel
 * tells: it grants a write lease (fcntl, F_SETLEASE) only then, and keeps others from opening the
 * file until the lease is dropped, after the file has lost its name. Our own readers also hold a
 * shared lock (flock) and check the name after opening: a reader that looked the name up before the
 * lease and opens the file after it finds it locked, or without its name.
 * Not reused: files of other file systems than those that count mappings, files with several
 * names, and files of a thread that a SIGIO could reach (the kernel sends it to the holder of a
 * lease). These are removed. */
#ifndef PC_STORE_DISK_ROOM_H
#define PC_STORE_DISK_ROOM_H

#include "store/disk/disk.h"

/* A file of an evicted record, moved to new/, locked by us and nearly empty. */
typedef struct pc__disk_spare {
    int fd; /* -1: none */
    char name[32];
} pc__disk_spare;

/* Makes room for `need` bytes of an image's record, within the budget and the limit of its tenant.
 * Removes first what killed writers left, then expired records, then those with the lowest eviction
 * scores of the same or a lower priority, but not the parent; store/tenants.h decides whose.
 * `spare` gets the first file that can be reused. PC_MISS: not enough can be removed (there may be
 * a spare), *reason (else NONE) says why. A folder or a tenant that is already over its limit only
 * stops growing: pc__disk_shrink removes the excess, so that no writer waits for it. What other
 * processes have written for a tenant counts a second later at the latest. */
pc_status pc__disk_make_room(pc__disk *disk, uint64_t need, const pc__image *image,
                             pc__disk_spare *spare, uint32_t *reason);
/* 1: the folder or a tenant is over its limit, as far as this process knows. Needs no lock. */
int pc__disk_is_over(pc__disk *disk);
/* Evicts until the folder and all tenants are within their limits, at any priority. PC_AGAIN:
 * `until` came first (pc__now clock; 0: no limit). PC_MISS: the rest is being written, or is needed
 * by records of others. */
pc_status pc__disk_shrink_until(pc__disk *disk, double until);
/* One short batch of the same, which enters and leaves by itself. PC_AGAIN also if another process
 * holds the lock. */
pc_status pc__disk_shrink(pc__disk *disk, double until);
pc_status pc__disk_drop_expired(pc__disk *disk);
/* Of a record that has expired as far as this process knows. 1: another process has used it since,
 * which moved the file's date and so its end. Needs no lock. */
int pc__disk_was_used_elsewhere(pc__disk *disk, const pc__record_name *record_name, int64_t now);
/* kind: PC_EVENT_EVICT or PC_EVENT_REMOVE. lost: counts it as lost (damaged). PC_MISS: missing. */
pc_status pc__disk_erase(pc__disk *disk, const pc__record_name *record_name, uint32_t kind,
                         uint32_t reason, int lost);

/* A new name for a file in new/. Under `work`. */
void pc__disk_draft_name(pc__disk *disk, char name[32]);
/* 1: the spare has `bytes` now and is the caller's as *fd and `name`; the caller counts it. */
int pc__disk_spare_use(pc__disk *disk, pc__disk_spare *spare, uint64_t bytes, int *fd,
                       char name[32]);
/* Removes the spare, if there is one. */
void pc__disk_spare_drop(pc__disk *disk, pc__disk_spare *spare);

#endif
