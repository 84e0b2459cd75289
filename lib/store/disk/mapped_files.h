/* Which files of records are mapped instead of read, and how many bytes are mapped at a time.
 *
 * Mapping saves the memory and the copy. But the file system promises every page: if it cannot give
 * one later (the file was cut short, the server has gone), the process dies of SIGBUS. So only
 * files of local file systems are mapped, no small ones, which gain nothing, and never more than a
 * process can afford (Linux allows 65530 mappings).
 *
 * Reference-counted: mapped records outlive the tier. */
#ifndef PC_STORE_MAPPED_FILES_H
#define PC_STORE_MAPPED_FILES_H

#include "base/mem.h"

typedef struct pc__mapped_files pc__mapped_files;

/* how: PC__MAP_…. *out is NULL if no file is to be mapped; that is PC_OK. */
pc_status pc__mapped_files_new(pc__mapped_files **out, const pc_allocator *mem, int folder,
                               uint32_t how);
pc__mapped_files *pc__mapped_files_ref(pc__mapped_files *mapped);
void pc__mapped_files_unref(pc__mapped_files *mapped); /* NULL does nothing */
/* 1: a file of this size may be mapped now, and is counted. */
int pc__mapped_files_reserve(pc__mapped_files *mapped, uint64_t bytes);
void pc__mapped_files_unreserve(pc__mapped_files *mapped, uint64_t bytes);
uint64_t pc__mapped_files_bytes(const pc__mapped_files *mapped); /* NULL: 0 */

#endif
