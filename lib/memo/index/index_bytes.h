/* An index as bytes (doc/format.md, "Indexes of a memo"). */
#ifndef PC_MEMO_INDEX_BYTES_H
#define PC_MEMO_INDEX_BYTES_H

#include "memo/index/index.h"

/* Words of four bytes, little-endian. */
void pc__index_set_words(uint8_t *data, const void *words, size_t count);
pc_status pc__index_put_words(pc__bytes *out, const void *words, size_t count);
void pc__index_get_words(void *words, const uint8_t *data, size_t count);

/* Reads the header of an index: its options, and the number of its positions. Returns their ids,
 * i64 each (-1: removed), or NULL with an error text. */
const uint8_t *pc__index_bytes_header(const void *data, size_t size, pc__index_options *options,
                                      size_t *count);

#endif
