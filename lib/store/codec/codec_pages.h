/* A block in PC_LAYOUT_PAGES as codecs see it: which values belong to tokens, and which only fill
 * the last page. */
#ifndef PC_STORE_CODEC_PAGES_H
#define PC_STORE_CODEC_PAGES_H

#include "attn/kv.h"
#include "store/codec/codec.h"

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

#endif
