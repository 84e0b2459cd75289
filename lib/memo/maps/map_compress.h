/* Layers of cold records: one zstd frame of the layer's bytes, of F16 and F32 maps plane by plane,
 * the highest bytes of all values first. Gives back every bit. */
#ifndef PC_MEMO_MAP_PACK_H
#define PC_MEMO_MAP_PACK_H

#include "base/mem.h"

typedef struct pc__map_compressor pc__map_compressor;
/* For layers of `bytes` of a format of attn/map.h. unpack: else it packs. */
pc_status pc__map_compressor_new(pc__map_compressor **out, const pc_allocator *mem, uint32_t format,
                                 size_t bytes, int unpack);
void pc__map_compressor_free(pc__map_compressor *packer); /* NULL does nothing */

/* Appends the frame, or the layer as it is where that is not larger, to `out`. PC_ERR_NOMEM. */
pc_status pc__map_compress(pc__map_compressor *packer, const void *layer, pc__bytes *out);
/* packed: as many bytes as the layer has: it is the layer. PC_ERR_NOMEM; PC_MISS: they are no frame
 * of a layer. */
pc_status pc__map_decompress(pc__map_compressor *packer, const void *packed, size_t size,
                             void *layer);

#endif
