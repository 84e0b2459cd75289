/* Byte planes: bytes of equal weight of many values are stored together, and each plane is
 * entropy-coded or plain. This is PC_CODEC_ZSTD, and the second step of I8 and I4.
 *
 * Values of 2 and 4 bytes are numbers (sign, exponent, fraction). Rotated left by one bit, the sign
 * is at the end and the highest byte is the exponent of bf16 and fp32. Of its 8 bits about 2.6 are
 * information in real K and V; the rest of a number is noise. So a Huffman code of that byte gains
 * nearly all there is. Searching for repeated strings loses more than it finds and is switched off
 * (negative level). doc/format.md, "Codecs", has the bytes and the measurements. */
#ifndef PC_STORE_CODEC_PLANES_H
#define PC_STORE_CODEC_PLANES_H

#include "base/mem.h"

enum { PC__CHUNK = 32768 }; /* values in a chunk */

typedef struct pc__planes
    pc__planes; /* memory and state for several blocks. One thread at a time */

/* `value`: bytes of a value, 1, 2 or 4. `find_repeats`: searches for repeated strings, for bytes of
 * unknown kind. */
pc_status pc__planes_new(pc__planes **out, const pc_allocator *mem, size_t value, int find_repeats,
                         int decode);
void pc__planes_free(pc__planes *planes); /* NULL does nothing */

/* Largest size of a run of `bytes`. */
size_t pc__planes_bound(size_t value, size_t bytes);
/* Writes a run at *out and moves *out. `bytes` need not be a multiple of a value. The room is that
 * of pc__planes_bound. */
pc_status pc__planes_encode(pc__planes *planes, const uint8_t *data, size_t bytes, uint8_t **out,
                            const uint8_t *end);
/* Reads a run of `bytes` from *in and moves *in. PC_ERR_FORMAT: it is not a run. */
pc_status pc__planes_decode(pc__planes *planes, const uint8_t **in, const uint8_t *end,
                            uint8_t *data, size_t bytes);

#endif
