/* Byte planes: the bytes of equal weight of many values beside each other, each plane entropy-coded
 * or stored. What PC_CODEC_ZSTD is, and what stands behind the quantisation of I8 and I4.
 *
 * Values of 2 and 4 bytes are numbers (sign, exponent, fraction): turned left by one bit, so that
 * the sign goes to the end, their highest byte is the exponent of bf16 and fp32. Near 2.6 of its 8
 * bits are information in real K and V; what else there is of a number is noise. So a Huffman code
 * of that byte is nearly all there is to gain, and searching for repeated strings loses more than
 * it finds: it is switched off (negative level). doc/format.md, "Codecs", has the bytes and what
 * was measured. */
#ifndef PC_STORE_CODEC_PLANES_H
#define PC_STORE_CODEC_PLANES_H

#include "base/mem.h"

enum { PC__CHUNK = 32768 }; /* values that are coded together */

typedef struct pc__planes
    pc__planes; /* memory and state for coding one block or several. One thread at a time */

/* `value`: bytes of a value, 1, 2 or 4. `seek`: repeated strings are looked for (bytes of unknown
 * kind). */
pc_status pc__planes_new(pc__planes **out, const pc_allocator *mem, size_t value, int find_repeats,
                         int decode);
void pc__planes_free(pc__planes *planes); /* NULL does nothing */

/* Most bytes that a run of `bytes` may take. */
size_t pc__planes_bound(size_t value, size_t bytes);
/* Writes a run at *out and moves it on; `bytes` need be no multiple of a value. The room is that of
 * pc__planes_bound. */
pc_status pc__planes_encode(pc__planes *planes, const uint8_t *data, size_t bytes, uint8_t **out,
                            const uint8_t *end);
/* Reads a run of `bytes` from *in and moves it on. PC_ERR_FORMAT: it does not go on as a run does.
 */
pc_status pc__planes_decode(pc__planes *planes, const uint8_t **in, const uint8_t *end,
                            uint8_t *data, size_t bytes);

#endif
