/* An index as bytes: words of four of them, little-endian, and what stands before them. */
#ifndef PC_MEMO_INDEX_FILE_H
#define PC_MEMO_INDEX_FILE_H

#include "memo/index/index.h"

pc_status pc__index_put_words(pc__bytes *out, const void *words, size_t count);
void pc__index_get_words(void *words, const uint8_t *data, size_t count);

/* What index some bytes are said to be: its options, and its ids, i64 each, *count of them (-1:
 * removed). NULL, with the text of an error: none. */
const uint8_t *pc__index_bytes_header(const void *data, size_t size, pc__index_options *options,
                                      size_t *count);

#endif
