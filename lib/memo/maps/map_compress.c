/* Layers to zstd frames and back; zstd allocates from the store's allocator. */
#include "memo/maps/map_compress.h"

#include <string.h>
#define ZSTD_STATIC_LINKING_ONLY /* memory of our own */
#include <zstd.h>
#include <zstd_errors.h>

#include "attn/map.h"
#include "base/fail.h"

enum { LEVEL = 6 };

struct pc__map_compressor {
    pc_allocator mem;
    size_t bytes, value_bytes; /* of a layer; of a value */
    uint8_t *planes;           /* [bytes] */
    ZSTD_CCtx *encoder;
    ZSTD_DCtx *decoder;
};

static void *map_zstd_alloc(void *mem, size_t size)
{
    return pc__alloc(mem, size);
}

static void map_zstd_free(void *mem, void *ptr)
{
    pc__free(mem, ptr);
}

pc_status pc__map_compressor_new(pc__map_compressor **out, const pc_allocator *mem, uint32_t format,
                                 size_t bytes, int decompress)
{
    pc__map_compressor *p = pc__calloc(mem, 1, sizeof *p);
    ZSTD_customMem memory;
    *out = NULL;
    if (!p)
        return PC_ERR_NOMEM;
    p->mem = *mem;
    p->bytes = bytes;
    p->value_bytes = format == PC_MAP_F32 ? 4 : format == PC_MAP_F16 ? 2 : 1;
    p->planes = pc__alloc(mem, bytes);
    memory = (ZSTD_customMem){map_zstd_alloc, map_zstd_free, &p->mem};
    p->decoder = decompress ? ZSTD_createDCtx_advanced(memory) : NULL;
    p->encoder = decompress ? NULL : ZSTD_createCCtx_advanced(memory);
    if (!p->planes || (!p->decoder && !p->encoder)) {
        pc__map_compressor_free(p);
        return pc__fail(PC_ERR_NOMEM, "out of memory: layers of %zu bytes", bytes);
    }
    *out = p;
    return PC_OK;
}

void pc__map_compressor_free(pc__map_compressor *compressor)
{
    pc_allocator mem;
    if (!compressor)
        return;
    mem = compressor->mem;
    ZSTD_freeCCtx(compressor->encoder);
    ZSTD_freeDCtx(compressor->decoder);
    pc__free(&mem, compressor->planes);
    pc__free(&mem, compressor);
}

static void split_planes(const pc__map_compressor *p, const uint8_t *layer)
{
    size_t values = p->bytes / p->value_bytes, tail = p->bytes % p->value_bytes;
    for (size_t plane = 0; plane < p->value_bytes; plane++)
        for (size_t i = 0; i < values; i++)
            p->planes[plane * values + i] = layer[i * p->value_bytes + p->value_bytes - 1 - plane];
    memcpy(p->planes + p->bytes - tail, layer + p->bytes - tail, tail);
}

static void join_planes(const pc__map_compressor *p, uint8_t *layer)
{
    size_t values = p->bytes / p->value_bytes, tail = p->bytes % p->value_bytes;
    for (size_t plane = 0; plane < p->value_bytes; plane++)
        for (size_t i = 0; i < values; i++)
            layer[i * p->value_bytes + p->value_bytes - 1 - plane] = p->planes[plane * values + i];
    memcpy(layer + p->bytes - tail, p->planes + p->bytes - tail, tail);
}

pc_status pc__map_compress(pc__map_compressor *compressor, const void *layer, pc__bytes *out)
{
    size_t size;
    PC__TRY_RETURN(pc__grow(out->mem, (void **)&out->data, &out->capacity,
                            out->size + compressor->bytes + 1, 1));
    split_planes(compressor, layer);
    size = ZSTD_compressCCtx(compressor->encoder, out->data + out->size, compressor->bytes - 1,
                             compressor->planes, compressor->bytes, LEVEL);
    if (ZSTD_isError(size) && ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation)
        return pc__fail(PC_ERR_NOMEM, "out of memory: compressing a layer of %zu bytes",
                        compressor->bytes);
    if (ZSTD_isError(size)) { /* the frame is not smaller */
        memcpy(out->data + out->size, layer, compressor->bytes);
        size = compressor->bytes;
    }
    out->size += size;
    return PC_OK;
}

pc_status pc__map_decompress(pc__map_compressor *compressor, const void *compressed, size_t size,
                             void *layer)
{
    size_t got;
    if (size == compressor->bytes) {
        memcpy(layer, compressed, size);
        return PC_OK;
    }
    got = ZSTD_decompressDCtx(compressor->decoder, compressor->planes, compressor->bytes,
                              compressed, size);
    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
        return pc__fail(PC_ERR_NOMEM, "out of memory: decompressing a layer of %zu bytes",
                        compressor->bytes);
    if (got != compressor->bytes)
        return PC_MISS;
    join_planes(compressor, layer);
    return PC_OK;
}
