/* The index file of a folder (doc/format.md, "The folder"): the headers of all records, and what no
 * header holds (uses, last use, eviction score). With it a folder opens without opening its
 * records. The index is a hint. Its reader compares it with the folder (store/disk/disk_scan.h); a
 * lost, damaged or old index only costs time. */
#ifndef PC_STORE_DISK_INDEX_H
#define PC_STORE_DISK_INDEX_H

#include "store/disk/disk_root.h"
#include "store/disk/disk_table.h"

typedef struct pc__disk_index {
    uint8_t *data;
    size_t size;
    uint64_t rows;
} pc__disk_index;

/* PC_MISS: the folder has no index, or a damaged one. PC_ERR_NOMEM. */
pc_status pc__disk_index_read(pc__disk_index *out, const pc_allocator *mem, const pc__dir *root);
/* Fills an empty table, and `dates` of the sub-folders (0: unknown). Into a table with records it
 * only adds uses that other processes have counted. PC_ERR_NOMEM: the table holds a part of it. */
pc_status pc__disk_index_apply(const pc__disk_index *index, pc__disk_table *table,
                               int64_t dates[PC__DISK_SUBS]);
/* Makes the index of a table, with all uses. Call pc__disk_index_published once the file is in
 * place: until then the uses count as unsaved. */
pc_status pc__disk_index_make(pc__disk_index *out, pc__disk_table *table,
                              const int64_t dates[PC__DISK_SUBS]);
void pc__disk_index_published(pc__disk_table *table);
/* Replaces the file, under the folder's lock. PC_ERR_IO leaves the old one. */
pc_status pc__disk_index_write(const pc__disk_index *index, const pc__dir *root);
void pc__disk_index_free(pc__disk_index *index, const pc_allocator *mem);

#endif
