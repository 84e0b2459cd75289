/* A precompiled map of characters, as SentencePiece's normalizer has it: strings, what stands in
 * their place.
 *
 * Bytes, little-endian: u32 size of the trie in bytes · its units, u32 each · the replacements,
 * each ended by a NUL. The trie is a double array (Aoe 1989). Of a unit: bits 0-7 the byte that
 * leads to it (with bit 31 clear), bit 8 whether a string ends here, bit 9 and 10-31 what the place
 * of its children is found by: index ^ (bits 10-31, times 256 where bit 9 is set) ^ byte. At byte 0
 * of a place where a string ends: a unit with the place of its replacement in bits 0-30. */
#ifndef PC_TEXT_CHARSMAP_H
#define PC_TEXT_CHARSMAP_H

#include "text/tokenizer.h"

typedef struct pc__charsmap {
    uint32_t *units;
    size_t count;
    char *texts; /* NUL-terminated as a whole, too */
    size_t size;
} pc__charsmap;

/* Copies. PC_ERR_FORMAT: sizes that lead outside. What its units say is checked when it is asked.
 */
pc_status pc__charsmap_new(pc__charsmap *map, const pc_allocator *mem, const void *bytes,
                           size_t size, const char *where);
void pc__charsmap_free(pc__charsmap *map, const pc_allocator *mem);
/* Of the strings of the map that `text` starts with, the shortest or the longest: its size, or 0
 * where there is none; and its replacement, borrowed. */
size_t pc__charsmap_find(const pc__charsmap *map, const char *text, size_t size, int shortest,
                         pc__text *replacement);

#endif
