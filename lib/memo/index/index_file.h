/* The file that keeps the indexes of a memo's bucket: its head, and where in it they are
 * (doc/format.md, "Indexes of a memo"). */
#ifndef PC_MEMO_KEPT_INDEX_H
#define PC_MEMO_KEPT_INDEX_H

#include "base/mem.h"

enum {
    PC__INDEX_FILE_HEAD = 48,
    PC__INDEX_FILE_ROW = 32,
    PC__INDEX_FILE_SUM = 8,
    PC__INDEX_FILE_MOST = 1 << 22 /* indexes of a file */
};

typedef struct pc__index_file_section { /* an index, then 8 bytes of each place's prompt
                                         * (pc__kept_prompt)
                                         */
    uint32_t tokens, layer;
    uint64_t at, size, sum;
} pc__index_file_section;

typedef struct pc__index_file_head {
    uint64_t projector; /* XXH3-64 of the file of the projector that made the features */
    uint64_t bytes;     /* of the whole file */
    size_t count;
    pc__index_file_section *sections; /* [count], ascending by tokens, then unit */
} pc__index_file_head;

/* Head, rows and checksum, as they stand at the beginning of the file. */
uint64_t pc__index_file_head_size(size_t count);
void pc__index_file_head_put(const pc__index_file_head *head, uint8_t *out);
/* data: the first PC__INDEX_FILE_HEAD bytes of a file of `bytes` bytes -> how many the head has
 * with its rows. PC_ERR_FORMAT, PC_ERR_UNSUPPORTED (a later version). */
pc_status pc__index_file_head_measure(const uint8_t *data, uint64_t bytes, uint64_t *size);
/* All of it. Sections lie behind it, in order, within the file, and do not overlap. `sections` is
 * to be freed. */
pc_status pc__index_file_head_get(pc__index_file_head *out, const pc_allocator *mem,
                                  const uint8_t *data, uint64_t bytes);
const pc__index_file_section *pc__index_file_find(const pc__index_file_head *head, uint32_t tokens,
                                                  uint32_t layer); /* NULL: not there */

#endif
