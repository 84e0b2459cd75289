/* The index of a folder: what its records' headers say, and what only time told (uses, last use,
 * worth), in one file, so that opening a folder does not open its records (doc/format.md, "The
 * folder"). It is a hint: whoever loads it compares it with the folder (store/disk/disk_scan.h),
 * and one that is lost, damaged or old costs time only. */
#ifndef PC_STORE_DISK_INDEX_H
#define PC_STORE_DISK_INDEX_H

#include "store/disk/disk_root.h"
#include "store/disk/disk_table.h"

typedef struct pc__disk_index {
    uint8_t *data;
    size_t size;
    uint64_t rows;
} pc__disk_index;

/* The index of a folder. PC_MISS: there is none, or none that can be believed. PC_ERR_NOMEM. */
pc_status pc__disk_index_read(pc__disk_index *out, const pc_allocator *mem,
                              const pc__disk_root *root);
/* Fills an empty table, and `dates` of the sub-folders (0: unknown). In one that is not empty: adds
 * only the uses that others have counted. PC_ERR_NOMEM: what is in the table is right, but not all.
 */
pc_status pc__disk_index_apply(const pc__disk_index *index, pc__disk_table *table,
                               int64_t dates[PC__DISK_SUBS]);
/* The index of a table; all uses are in it. Once it stands in the folder, pc__disk_index_published
 * says so to the table; until then the uses count as unknown to others. */
pc_status pc__disk_index_make(pc__disk_index *out, pc__disk_table *table,
                              const int64_t dates[PC__DISK_SUBS]);
void pc__disk_index_published(pc__disk_table *table);
/* In place of the one that is there, under the folder's lock. PC_ERR_IO leaves that one. */
pc_status pc__disk_index_write(const pc__disk_index *index, const pc__disk_root *root);
void pc__disk_index_free(pc__disk_index *index, const pc_allocator *mem);

#endif
