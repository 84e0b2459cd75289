/* Which records of a folder are mapped instead of read, and how much of it is mapped at a time.
 *
 * A mapping costs nothing of what reading costs (memory that has to be found, a copy), but it is a
 * promise of the file system's: a page that it cannot give later, because the file was cut short or
 * the server has gone, ends the process (SIGBUS). So only records on file systems that are known to
 * be local are mapped; none that are small, which gain nothing; and no more at a time than a
 * process can do without (Linux gives it 65530 mappings in all). */
#ifndef PC_STORE_MAPPED_FILES_H
#define PC_STORE_MAPPED_FILES_H

#include "base/mem.h"

typedef struct pc__mapped_files pc__mapped_files;

/* how: PC__MAP_…. *out is NULL where nothing is to be mapped: that is PC_OK. */
pc_status pc__mapped_files_new(pc__mapped_files **out, const pc_allocator *mem, int folder,
                               uint32_t how);
/* Who has mapped records outlives the tier. */
pc__mapped_files *pc__mapped_files_ref(pc__mapped_files *maps);
void pc__mapped_files_unref(pc__mapped_files *maps); /* NULL does nothing */
int pc__mapped_files_reserve(
    pc__mapped_files *maps,
    uint64_t bytes); /* 1: so large a record may be mapped now, and is counted */
void pc__mapped_files_unreserve(pc__mapped_files *maps, uint64_t bytes);
uint64_t pc__mapped_files_bytes(const pc__mapped_files *maps); /* NULL: 0 */

#endif
