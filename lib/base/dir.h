/* A folder as a descriptor. Nothing in it is trusted: every name is opened relative to it without
 * following links, and only plain files of its owner, of this user or of root count. The path to
 * the folder itself may go through links. */
#ifndef PC_BASE_DIR_H
#define PC_BASE_DIR_H

#include <sys/stat.h>
#include <sys/types.h>

#include "base/mem.h"

typedef struct pc__dir {
    int fd;     /* -1: not open */
    char *path; /* for texts */
    uid_t owner;
} pc__dir;

/* Does it belong to `owner`, to this user or to root, and may nobody else write to it? PC_ERR_STATE
 * names the folder ("<path>", or "<path>/<name>" where `name` is not NULL), who may, and what to
 * do. */
pc_status pc__dir_check(const char *path, const char *name, const struct stat *st, uid_t owner);
/* make: made with mode 0700 if it is not there. PC_ERR_NOT_FOUND, PC_ERR_IO, PC_ERR_INVALID (no
 * path); PC_ERR_STATE: others may write to it, or it belongs to another user. */
pc_status pc__dir_open(pc__dir *out, const pc_allocator *mem, const char *path, int make);
void pc__dir_close(pc__dir *dir, const pc_allocator *mem); /* one that is not open: does nothing */
int pc__dir_is_gone(const pc__dir *dir);                   /* removed while we hold it */
int pc__dir_is_trusted(const pc__dir *dir,
                       const struct stat *st); /* is that a plain file that may be used? */

/* Opens a file of it (flags: O_RDONLY …, O_CREAT makes it with mode 0600). PC_ERR_NOT_FOUND;
 * PC_ERR_IO, also of a link; PC_ERR_STATE: not a plain file of ours. */
pc_status pc__dir_file(const pc__dir *dir, const char *name, int flags, int *fd, struct stat *st);
int pc__dir_has(const pc__dir *dir, const char *name,
                int fd); /* is that open file still the one of this name? */
/* flock(LOCK_EX) on a file of it, which is made, and still has the name then. *fd: -1, or what an
 * earlier call left; open in the end unless that failed. PC_AGAIN: others hold it beyond `deadline`
 * (pc__now clock; the error text says so). PC_ERR_IO, PC_ERR_STATE. */
pc_status pc__dir_lock(const pc__dir *dir, const char *name, double deadline, int *fd);
/* A whole file in place of the one that is there, or not at all: written as `draft`, which nobody
 * else uses, and renamed. sync: it is on the disk then. PC_ERR_IO leaves the one that is there, but
 * for a failed sync of the folder, after which the new one is there, perhaps not for good. */
pc_status pc__dir_publish(const pc__dir *dir, const char *draft, const char *name, const void *data,
                          size_t size, int sync);
/* The same in steps, for files that are written piece by piece: an empty draft; and what is in it
 * in place of the file that is there. error: errno of what went wrong between, 0: nothing; with one
 * the draft is only removed. The descriptor is closed in any case. */
pc_status pc__dir_draft(const pc__dir *dir, const char *draft, int *fd);
pc_status pc__dir_commit(const pc__dir *dir, const char *draft, const char *name, int fd, int error,
                         int sync);
/* "<folder>/<name>: the system's reason" of errno; that the folder is gone, if so. PC_ERR_IO. */
pc_status pc__dir_fault(const pc__dir *dir, const char *name);

#endif
