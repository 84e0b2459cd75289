/* A record's file as bytes to read, and a draft of one as bytes to write. */
#ifndef PC_STORE_DISK_SOURCE_H
#define PC_STORE_DISK_SOURCE_H

#include "store/disk/mapped_files.h"
#include "store/disk/disk_root.h"
#include "store/record/record.h"

/* Takes `fd` in any case. `maps`: where it is counted when it is mapped; NULL: it is not. deadline:
 * pc__now clock, looked at between chunks (a local disk that hangs cannot be interrupted: the
 * cache's requests do not wait for it); 0: none. */
pc_status pc__disk_source_new(pc__source **out, const pc_allocator *mem, const pc__disk_root *root,
                              const pc__record_name *record_name, int fd, uint64_t bytes,
                              double deadline, pc__mapped_files *maps);
/* All of it will be read, not its header alone: the kernel may begin. */
void pc__disk_source_prefetch(pc__source *source);

typedef struct pc__disk_sink {
    pc__sink sink;
    int fd;
    const char *path; /* for texts */
    double deadline;
    int timed_out;
} pc__disk_sink;
void pc__disk_sink_init(pc__disk_sink *sink, int fd, const char *path, double deadline);

#endif
