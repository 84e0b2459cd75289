/* A block in PC_LAYOUT_PAGES as codecs see it: which of its values are those of tokens, and which
 * only fill the last page up. */
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

/* 1: the block is what its shape says, no more and no less. 0: it is not in pages, or is not of
 * this size. */
int pc__block_pages_of(const pc_codec_block *block, pc__block_pages *out);

/* The last page of all heads without what fills it up: of each row of K the used tokens, of V the
 * rows (groups of tokens) in which there is one, and what stands behind both (scales). */
size_t pc__packed_last_page_bytes(const pc__block_pages *pages);
/* Writes that from the last page of the block to `to`. 0: what fills it up is not zero, so that it
 * has to be kept too. */
int pc__pack_last_page(const pc__block_pages *pages, const uint8_t *block, uint8_t *to);
void pc__unpack_last_page(const pc__block_pages *pages, const uint8_t *from, uint8_t *block);

#endif
