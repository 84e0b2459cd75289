/* What the built-in codecs share: blocks as pages, and byte planes. */
#ifndef PC_STORE_CODEC_INTERNAL_H
#define PC_STORE_CODEC_INTERNAL_H

#include "attn/kv.h"
#include "base/mem.h"
#include "store/codec/codec.h"
#include "store/image.h"

/* A block in PC_LAYOUT_PAGES as codecs see it: which values belong to tokens, and which only fill
 * the last page. */
typedef struct pc__block_pages {
    pc__kv_shape shape; /* of one layer */
    size_t pages;
    size_t page_bytes; /* of one head */
    size_t tokens;
    size_t last; /* tokens of the last page, 1 … PC__PAGE */
} pc__block_pages;

/* 1: the block has exactly the bytes of its shape. 0: it is not in pages, or has another size. */
int pc__block_pages_of(const pc_codec_block *block, pc__block_pages *out);

/* Bytes of the last page of all heads without its padding: of each row of K the used tokens, of V
 * the rows (groups of tokens) with a token, and the scales of both. */
size_t pc__packed_last_page_bytes(const pc__block_pages *pages);
/* Writes them to `to`. 0: the padding is not zero, so that it must be kept. */
int pc__pack_last_page(const pc__block_pages *pages, const uint8_t *block, uint8_t *to);
void pc__unpack_last_page(const pc__block_pages *pages, const uint8_t *from, uint8_t *block);

/* Byte planes: bytes of equal weight of many values are stored together, and each plane is
 * entropy-coded or plain. This is PC_CODEC_ZSTD, and the second step of I8 and I4.
 *
 * Values of 2 and 4 bytes are numbers (sign, exponent, fraction). Rotated left by one bit, the sign
 * is at the end and the highest byte is the exponent of bf16 and fp32. Of its 8 bits about 2.6 are
 * information in real K and V; the rest of a number is noise. So a Huffman code of that byte gains
 * nearly all there is. Searching for repeated strings loses more than it finds and is switched off
 * (negative level). doc/format.md, "Codecs", has the bytes and the measurements. */
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
