/* How blocks are written in records. Built-in codecs and a host's are the same table
 * (pc_codec_ops). */
#ifndef PC_STORE_CODEC_H
#define PC_STORE_CODEC_H

#include "store/image.h"

#include <promptcache/extend.h>

/* The codecs of one cache. Immutable once made. */
typedef struct pc__codecs pc__codecs;

/* The built-in ones and copies of the host's. PC_ERR_INVALID: an id below PC_CODEC_APPLICATION or
 * twice, a function missing, a name too long. */
pc_status pc__codecs_new(pc__codecs **out, const pc_allocator *mem, const pc_codec_ops *application,
                         size_t count);
void pc__codecs_free(pc__codecs *codecs); /* NULL does nothing */
/* NULL: none of this id. PC_CODEC_RAW is one too (it copies). */
const pc_codec_ops *pc__codecs_find(const pc__codecs *codecs, uint32_t id);

/* The built-in ones: what they need of memory beside the output they take from `user`, which is the
 * pc_allocator. */
pc_codec_ops pc__codec_raw(const pc_allocator *mem);
pc_codec_ops pc__codec_zstd(
    const pc_allocator *mem); /* byte planes of 2- and 4-byte types, each compressed or stored; any
                                 layout and dtype */
pc_codec_ops pc__codec_i8(const pc_allocator *mem); /* PC_LAYOUT_PAGES in F32, BF16, F16 */
pc_codec_ops pc__codec_i4(const pc_allocator *mem); /* the same */

/* Block `index` of an image as the codecs see it. */
pc_codec_block pc__image_block(const pc__image *image, size_t index);

#endif
