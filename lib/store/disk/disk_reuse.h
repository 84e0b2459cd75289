/* The file of a record that gives way becomes the draft of the one that comes: no file is removed
 * and none is made, which is most of what a full folder costs a writer (on ext4 without a journal
 * each new file is sought among all that were removed in the last minutes).
 *
 * A record never changes, and who has it open or mapped may go on using it (doc/format.md, "The
 * folder"). So only a file is taken that nobody else has: the kernel says so by granting a write
 * lease on it (fcntl, F_SETLEASE), and keeps others from opening it as long as the lease is held,
 * which is until it has lost its name. Mappings count, too, where the file system is known to count
 * them. Readers of ours also hold a shared lock (flock) on what they have open or mapped, and look
 * at its name again: one that has looked the name up before the lease and opens after it finds the
 * file locked, or without its name. Whoever cannot be told for certain is not asked: other file
 * systems, files with more names than one, threads that a SIGIO could reach (the kernel sends it to
 * a holder of a lease who is asked to give it up). Then the record is removed as ever. */
#ifndef PC_STORE_DISK_REUSE_H
#define PC_STORE_DISK_REUSE_H

#include "store/disk/disk.h"

/* A file in new/ that is locked by us, and as good as empty. */
typedef struct pc__disk_spare {
    int fd; /* -1: none */
    char name[32];
} pc__disk_spare;

/* A name in new/ that nobody has had. Under `work`. */
void pc__disk_draft_name(pc__disk *disk, char name[32]);
/* 1: the file of the record is the spare, *bytes it had. 0: it is not; the record may still be
 * there. Between enter and leave, after pc__disk_lock_mark. */
int pc__disk_reuse(pc__disk *disk, const pc__record_name *record_name, pc__disk_spare *spare,
                   uint64_t *bytes);
/* 1: it has `bytes` now, which are to be counted, and is the caller's as *fd. */
int pc__disk_spare_use(pc__disk *disk, pc__disk_spare *spare, uint64_t bytes, int *fd);
void pc__disk_spare_drop(pc__disk *disk,
                         pc__disk_spare *spare); /* one that is none: does nothing */

#endif
