/* A folder as a descriptor. Its content is not trusted: names are opened relative to it without
 * following links, and only regular files of its owner, of this user or of root are used, if no
 * other user may write to them. The path of the folder itself may contain links. */
#ifndef PC_BASE_DIR_H
#define PC_BASE_DIR_H

#include <sys/stat.h>
#include <sys/types.h>

#include "base/mem.h"

typedef struct pc__dir {
    int fd;     /* -1: not open */
    char *path; /* for error texts */
    uid_t owner;
} pc__dir;

/* Checks that it belongs to `owner`, this user or root, and that no other user may write to it.
 * PC_ERR_STATE: the text names the folder (path, or path/name if `name` is not NULL), who may
 * write, and what to do. */
pc_status pc__dir_check(const char *path, const char *name, const struct stat *st, uid_t owner);
/* `make`: a missing folder is made, mode 0700. PC_ERR_NOT_FOUND, PC_ERR_IO, PC_ERR_INVALID (empty
 * path), PC_ERR_STATE (pc__dir_check). */
pc_status pc__dir_open(pc__dir *out, const pc_allocator *mem, const char *path, int make);
void pc__dir_close(pc__dir *dir, const pc_allocator *mem); /* not open: does nothing */
int pc__dir_is_gone(const pc__dir *dir);                   /* removed since it was opened */
/* A regular file that may be used, see above. */
int pc__dir_is_trusted(const pc__dir *dir, const struct stat *st);

/* Opens a file of it; O_CREAT makes it with mode 0600. PC_ERR_NOT_FOUND; PC_ERR_IO, also for a
 * link; PC_ERR_STATE: not a trusted file. */
pc_status pc__dir_file(const pc__dir *dir, const char *name, int flags, int *fd, struct stat *st);
/* Reads a file of at most `limit` bytes. *data: new memory, NULL after an error; *size: its bytes,
 * fewer if the file becomes shorter meanwhile, 0 after an error. As pc__dir_file; PC_ERR_FORMAT:
 * more than `limit`. */
pc_status pc__dir_read(const pc__dir *dir, const pc_allocator *mem, const char *name,
                       uint64_t limit, uint8_t **data, size_t *size);
/* The same for *size bytes at `at` of a file that is open. */
pc_status pc__dir_read_at(const pc__dir *dir, const pc_allocator *mem, const char *name, int fd,
                          uint64_t at, uint8_t **data, size_t *size);
/* Whether the open file still has this name. */
int pc__dir_has(const pc__dir *dir, const char *name, int fd);
/* flock(LOCK_EX) on a file of it, which is made if it is missing. *fd: -1, or the result of an
 * earlier call; afterwards the open file, unless opening failed. PC_AGAIN: others hold the lock
 * beyond `deadline` (pc__now clock; 0: it does not wait; the error text is set). PC_ERR_IO,
 * PC_ERR_STATE. */
pc_status pc__dir_lock(const pc__dir *dir, const char *name, double deadline, int *fd);
/* Replaces a file as a whole: writes `draft`, a name that only this process uses, and renames it.
 * `sync`: returns when it is on the disk. PC_ERR_IO: the old file stays; but if only the sync of
 * the folder failed, the new file is there and may be lost with the system. */
pc_status pc__dir_publish(const pc__dir *dir, const char *draft, const char *name, const void *data,
                          size_t size, int sync);
/* The same in two steps, for files that are written piece by piece: an empty draft, and its rename.
 * `error`: errno of a failure in between, then the draft is removed; 0: none. Closes `fd`. */
pc_status pc__dir_draft(const pc__dir *dir, const char *draft, int *fd);
pc_status pc__dir_commit(const pc__dir *dir, const char *draft, const char *name, int fd, int error,
                         int sync);
/* Removes the draft that is not to be published; leaves the error text as it is. Closes `fd`. */
void pc__dir_discard(const pc__dir *dir, const char *draft, int fd);
/* PC_ERR_IO with "folder/name: reason of errno", or that the folder has been removed. */
pc_status pc__dir_fault(const pc__dir *dir, const char *name);

#endif
