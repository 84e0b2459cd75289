/* Blocks for tests of codecs, and the cases that every codec has to pass. */
#ifndef PC_CODEC_CASES_H
#define PC_CODEC_CASES_H

#include "testing.h"

#include <promptcache/extend.h>

/* A block in pages, without its bytes being set: dims, dtype and tokens as given. */
pc_codec_block pc_case_block(uint32_t dtype, int32_t heads, int32_t k_dim, int32_t v_dim,
                             size_t tokens);
/* The same without V blocks (PC_LAYOUT_LATENT). */
pc_codec_block pc_case_latent(uint32_t dtype, int32_t heads, int32_t k_dim, int32_t v_dim,
                              size_t tokens);
/* Pages of states as models have them (channels of different size and place), through
 * pc_pages_write. To be freed by free(). */
void *pc_case_states(const pc_codec_block *block, uint64_t seed);
/* The same with random bytes as the values of all tokens: NaNs, infinities and subnormal numbers
 * among them. */
void *pc_case_noise(const pc_codec_block *block, uint64_t seed);

/* Encodes into memory of exactly the bound; NULL if that failed. To be freed by free(). */
void *pc_case_encode(const pc_codec_ops *codec, const pc_codec_block *block, const void *data,
                     size_t *size);
/* `try` with blocks of states of all formats of floats, odd dimensions, partial last pages. */
void pc_case_every_shape(size_t (*try)(const pc_codec_block *block, const void *data));
/* Blocks that are not pages of floats, or not as long as they say. */
void pc_case_refused(const pc_codec_ops *codec);
/* Truncated at many lengths, flipped bits, random bytes, and another block's description: decode
 * may refuse, or write anything inside its output. All buffers are exact allocations, for
 * AddressSanitizer; the bytes around the output are checked without it too. */
void pc_case_abuse(const pc_codec_ops *codec, const pc_codec_block *block, const void *stored,
                   size_t size);
/* Fails each allocation of encode and of decode in turn. `make` makes the codec with an allocator.
 */
void pc_case_starve(pc_codec_ops (*make)(const pc_allocator *mem), const pc_codec_block *block,
                    const void *data);

#endif
