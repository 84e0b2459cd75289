/* The data file as memory to read from. A view covers the file from its start and lies there until
 * the last who holds it lets go; a file that grows beyond it gets a larger one, so that what is
 * held is not moved. Views are larger than the file when they are made: what a mapping shows of a
 * file that grows within it is what the file has. Counted by the caller under its lock. */
#ifndef PC_MEMO_MAP_VIEW_H
#define PC_MEMO_MAP_VIEW_H

#include "base/mem.h"

typedef struct pc__mapped_data {
    const uint8_t *data;
    uint64_t bytes;
    size_t holds;
} pc__mapped_data;

/* *view covers [0, end) then; the one before it loses a hold. PC_ERR_NOMEM, PC_ERR_IO: as it was.
 * `spare`: room to grow into is wanted. */
pc_status pc__mapped_data_cover(pc__mapped_data **view, const pc_allocator *mem, int fd,
                                uint64_t end, int spare, const char *path);
pc__mapped_data *pc__mapped_data_ref(pc__mapped_data *view);
void pc__mapped_data_unref(pc__mapped_data *view, const pc_allocator *mem); /* NULL does nothing */

/* A lock on a part of the file that all its descriptors see, also other processes' (fcntl, open
 * file description locks). type: F_RDLCK, F_WRLCK, F_UNLCK. bytes 0: to the end of all files. Does
 * not wait: 0, EAGAIN if another descriptor holds one that is against it, or another errno. */
int pc__range_lock(int fd, int type, uint64_t at, uint64_t bytes);
int pc__range_is_locked(int fd, uint64_t at,
                        uint64_t bytes); /* by another descriptor, in any way */

#endif
