/* Reads a record's file as pc__source, and writes a draft as pc__sink. */
#ifndef PC_STORE_DISK_SOURCE_H
#define PC_STORE_DISK_SOURCE_H

#include "store/disk/disk_root.h"
#include "store/disk/mapped_files.h"
#include "store/record/record.h"

/* Owns `fd`, also on failure. `mapped` counts the file if it is mapped; NULL: it never is.
 * deadline: pc__now clock, checked between chunks; 0: none. A local disk that hangs cannot be
 * interrupted; requests do not wait for it. */
pc_status pc__disk_source_new(pc__source **out, const pc_allocator *mem, const pc__disk_root *root,
                              const pc__record_name *record_name, int fd, uint64_t bytes,
                              double deadline, pc__mapped_files *mapped);
/* The whole file will be read: the kernel may start reading ahead. */
void pc__disk_source_prefetch(pc__source *source);

typedef struct pc__disk_sink {
    pc__sink sink;
    int fd;
    const char *path; /* for error texts */
    double deadline;
    int timed_out;
} pc__disk_sink;
void pc__disk_sink_init(pc__disk_sink *sink, int fd, const char *path, double deadline);

#endif
