/* The file of the indexes of one bucket: its head, and where each index lies in it (doc/format.md,
 * "Indexes of a memo"). */
#ifndef PC_MEMO_INDEX_FILE_H
#define PC_MEMO_INDEX_FILE_H

#include "base/mem.h"

enum {
    PC__INDEX_FILE_HEAD = 48,
    PC__INDEX_FILE_ROW = 32,
    PC__INDEX_FILE_SUM = 8,
    PC__INDEX_FILE_MOST = 1 << 22 /* indexes in a file */
};

/* An index, then 8 bytes for each of its positions: pc__memo_prompt_hash of the prompt. */
typedef struct pc__index_file_section {
    uint32_t tokens, layer;
    uint64_t at, size, sum;
} pc__index_file_section;

typedef struct pc__index_file_head {
    uint64_t projector; /* XXH3-64 of the projector's file */
    uint64_t bytes;     /* of the whole file */
    uint32_t count;
    pc__index_file_section *sections; /* [count], by tokens, then layer */
} pc__index_file_head;

/* Head, rows and checksum: the beginning of the file. */
uint64_t pc__index_file_head_size(size_t count);
void pc__index_file_head_put(const pc__index_file_head *head, uint8_t *out);
/* How many bytes the head has with its rows. data: the first PC__INDEX_FILE_HEAD bytes of a file of
 * `bytes` bytes. PC_ERR_FORMAT, PC_ERR_UNSUPPORTED (a later version). */
pc_status pc__index_file_head_measure(const uint8_t *data, uint64_t bytes, uint64_t *size);
/* Reads the head with its rows. PC_ERR_FORMAT: also where sections overlap, leave gaps or lie
 * outside the file. The caller frees `sections`. */
pc_status pc__index_file_head_get(pc__index_file_head *out, const pc_allocator *mem,
                                  const uint8_t *data, uint64_t bytes);
const pc__index_file_section *pc__index_file_find(const pc__index_file_head *head, uint32_t tokens,
                                                  uint32_t layer); /* NULL: not there */

#endif
