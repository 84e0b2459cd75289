/* Reads a record's file as pc__source, or maps it. pc__mapped_files says which files are mapped,
 * and counts them and their bytes.
 *
 * Mapping saves the memory and the copy. But the file system promises every page: if it cannot give
 * one later (the file was cut short, the server has gone), the process dies of SIGBUS. So only
 * files of local file systems are mapped, no small ones, which gain nothing, and never more than a
 * process can afford (Linux allows 65530 mappings). */
#ifndef PC_STORE_DISK_SOURCE_H
#define PC_STORE_DISK_SOURCE_H

#include "store/disk/disk_root.h"
#include "store/record/record.h"

/* Reference-counted: mapped records outlive the tier. */
typedef struct pc__mapped_files pc__mapped_files;

/* how: PC__MAP_…. *out is NULL if no file is to be mapped; that is PC_OK. */
pc_status pc__mapped_files_new(pc__mapped_files **out, const pc_allocator *mem, int folder,
                               uint32_t how);
void pc__mapped_files_unref(pc__mapped_files *mapped); /* NULL does nothing */
/* 1: a file of this size may be mapped now, and is counted. */
int pc__mapped_files_reserve(pc__mapped_files *mapped, uint64_t bytes);
void pc__mapped_files_unreserve(pc__mapped_files *mapped, uint64_t bytes);
uint64_t pc__mapped_files_bytes(const pc__mapped_files *mapped); /* NULL: 0 */

/* Owns `fd`, also on failure. `mapped` counts the file if it is mapped; NULL: it never is.
 * deadline: pc__now clock, checked between chunks; 0: none. A local disk that hangs cannot be
 * interrupted; requests do not wait for it. */
pc_status pc__disk_source_new(pc__source **out, const pc_allocator *mem, const pc__dir *root,
                              const pc__record_name *record_name, int fd, uint64_t bytes,
                              double deadline, pc__mapped_files *mapped);
/* The whole file will be read: the kernel may start reading ahead. */
void pc__disk_source_prefetch(pc__source *source);

#endif
