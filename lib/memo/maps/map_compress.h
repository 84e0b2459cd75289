/* Compresses the layers of cold records: one zstd frame per layer. F16 and F32 maps are split into
 * byte planes first, the highest bytes of all values in front. Lossless. */
#ifndef PC_MEMO_MAP_COMPRESS_H
#define PC_MEMO_MAP_COMPRESS_H

#include "base/mem.h"

typedef struct pc__map_compressor pc__map_compressor;
/* For layers of `bytes` bytes, of a format of attn/map.h. decompress: 0 makes one that compresses.
 */
pc_status pc__map_compressor_new(pc__map_compressor **out, const pc_allocator *mem, uint32_t format,
                                 size_t bytes, int decompress);
void pc__map_compressor_free(pc__map_compressor *compressor); /* NULL does nothing */

/* Appends the frame; or the layer itself, where the frame is not smaller. PC_ERR_NOMEM. */
pc_status pc__map_compress(pc__map_compressor *compressor, const void *layer, pc__bytes *out);
/* size == the layer's bytes: it is the layer itself. PC_ERR_NOMEM; PC_MISS: not a frame of a layer.
 */
pc_status pc__map_decompress(pc__map_compressor *compressor, const void *compressed, size_t size,
                             void *layer);

#endif
