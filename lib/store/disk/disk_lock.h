/* Who changes a folder, and how much lies in it. The lock file holds one small record
 * (doc/format.md, "The folder"):
 *
 *   0 magic "PCFOLDER" · 8 u32 version 1 · 12 u32 1: dirty · 16 u64 bytes · 24 u64 generation · 32
 * boot id (16 bytes) · 48 zeros · 56 XXH3-64 of 0 … 55
 *
 * `bytes` is the sum of the sizes of all records and of all files in new/ whose writers live (they
 * have their largest size from the start: what is reserved). It is marked dirty before the first
 * change under the lock and written anew after the last: who finds it dirty, damaged, or from
 * before the machine was started (what had not reached the disk is lost then) counts again
 * (store/disk/disk_scan.h). */
#ifndef PC_STORE_DISK_LOCK_H
#define PC_STORE_DISK_LOCK_H

#include "store/disk/disk_root.h"

typedef struct pc__disk_lock {
    int fd;              /* -1: not open */
    uint64_t bytes;      /* valid while the lock is held */
    uint64_t generation; /* one more with every change by anybody */
    int is_trusted;      /* bytes is what lies there */
    int is_unknown; /* not trusted, and there may have been a crash of the machine: sizes may have
                       changed too */
    int is_dirty;   /* marked so by us */
    uint8_t boot[16];
} pc__disk_lock;

void pc__disk_lock_init(pc__disk_lock *lock);
void pc__disk_lock_close(pc__disk_lock *lock);
/* Waits until nobody else has it, at most until `deadline` (pc__now clock). PC_AGAIN: somebody
 * still has it (the error text says so). PC_ERR_IO. One thread at a time. */
pc_status pc__disk_lock_take(pc__disk_lock *lock, const pc__disk_root *root, double deadline);
/* Before the first change. PC_ERR_IO: then nothing may be changed. */
pc_status pc__disk_lock_mark(pc__disk_lock *lock, const pc__disk_root *root);
/* Writes `bytes` if there were changes, and lets go. */
void pc__disk_lock_drop(pc__disk_lock *lock);
void pc__disk_lock_add(pc__disk_lock *lock, uint64_t bytes);
void pc__disk_lock_subtract(pc__disk_lock *lock, uint64_t bytes);

#endif
