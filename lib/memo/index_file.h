/* Words of four bytes, little-endian, in the bytes of an index. */
#ifndef PC_MEMO_INDEX_FILE_H
#define PC_MEMO_INDEX_FILE_H

#include "base/mem.h"

pc_status pc__index_put_words(pc__bytes *out, const void *words, size_t count);
void pc__index_get_words(void *words, const uint8_t *data, size_t count);

#endif
