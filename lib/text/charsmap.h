/* The precompiled_charsmap of SentencePiece's normalizer: strings and their replacements.
 *
 * Bytes, little-endian: u32 size of the trie in bytes · its units, u32 each · the replacements,
 * each ended by a NUL. The trie is a double array (Aoe 1989). A unit has in bits 0-7 the byte that
 * leads to it (bit 31 clear), in bit 8 whether a string ends here, and in bits 9-31 the offset of
 * its children: child = index ^ (bits 10-31, times 256 if bit 9 is set) ^ byte. The child of byte 0
 * of a unit where a string ends has the offset of the replacement in bits 0-30. */
#ifndef PC_TEXT_CHARSMAP_H
#define PC_TEXT_CHARSMAP_H

#include "text/tokenizer.h"

typedef struct pc__charsmap {
    uint32_t *units;
    size_t count;
    char *texts; /* the replacements, with a NUL at the end */
    size_t size;
} pc__charsmap;

/* Copies. PC_ERR_FORMAT: the sizes do not fit. Units are checked in each look-up. */
pc_status pc__charsmap_new(pc__charsmap *map, const pc_allocator *mem, const void *bytes,
                           size_t size, const char *where);
void pc__charsmap_free(pc__charsmap *map, const pc_allocator *mem);
/* The size of the shortest or longest string of the map that `text` begins with, 0: none; and its
 * replacement, borrowed. */
size_t pc__charsmap_find(const pc__charsmap *map, const char *text, size_t size, int shortest,
                         pc__text *replacement);

#endif
