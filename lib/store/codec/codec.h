/* Codecs: how blocks are written in records. Built-in codecs and those of applications are the same
 * struct (pc_codec_ops). */
#ifndef PC_STORE_CODEC_H
#define PC_STORE_CODEC_H

#include "store/image.h"

#include <promptcache/extend.h>

/* The codecs of one cache. Immutable. */
typedef struct pc__codecs pc__codecs;

/* The built-in codecs and copies of the application's. PC_ERR_INVALID: an id below
 * PC_CODEC_APPLICATION or used twice, a missing function, a name too long. */
pc_status pc__codecs_new(pc__codecs **out, const pc_allocator *mem, const pc_codec_ops *application,
                         size_t count);
void pc__codecs_free(pc__codecs *codecs); /* NULL does nothing */
/* NULL: there is none with this id. PC_CODEC_RAW is one (it copies). */
const pc_codec_ops *pc__codecs_find(const pc__codecs *codecs, uint32_t id);

/* The built-in codecs. `user` is the pc_allocator for memory beside the output. */
pc_codec_ops pc__codec_raw(const pc_allocator *mem);
/* Byte planes of 2- and 4-byte types, each compressed or stored; any layout and dtype. */
pc_codec_ops pc__codec_zstd(const pc_allocator *mem);
pc_codec_ops pc__codec_i8(const pc_allocator *mem); /* PC_LAYOUT_PAGES in F32, BF16, F16 */
pc_codec_ops pc__codec_i4(const pc_allocator *mem); /* the same */

/* Block `index` of an image, for codecs. */
pc_codec_block pc__image_block(const pc__image *image, size_t index);

#endif
