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
    size_t bytes, wide; /* of a layer, of a value */
    uint8_t *planes;    /* [bytes] */
    ZSTD_CCtx *encoder;
    ZSTD_DCtx *decoder;
};

static void *zstd_alloc(void *mem, size_t size)
{
    return pc__alloc(mem, size);
}

static void zstd_free(void *mem, void *ptr)
{
    pc__free(mem, ptr);
}

pc_status pc__map_compressor_new(pc__map_compressor **out, const pc_allocator *mem, uint32_t format,
                                 size_t bytes, int unpack)
{
    pc__map_compressor *p = pc__calloc(mem, 1, sizeof *p);
    ZSTD_customMem memory;
    *out = NULL;
    if (!p)
        return PC_ERR_NOMEM;
    p->mem = *mem;
    p->bytes = bytes;
    p->wide = format == PC_MAP_F32 ? 4 : format == PC_MAP_F16 ? 2 : 1;
    p->planes = pc__alloc(mem, bytes);
    memory = (ZSTD_customMem){zstd_alloc, zstd_free, &p->mem};
    p->decoder = unpack ? ZSTD_createDCtx_advanced(memory) : NULL;
    p->encoder = unpack ? NULL : ZSTD_createCCtx_advanced(memory);
    if (!p->planes || (!p->decoder && !p->encoder)) {
        pc__map_compressor_free(p);
        return pc__fail(PC_ERR_NOMEM, "out of memory: layers of %zu bytes", bytes);
    }
    *out = p;
    return PC_OK;
}

void pc__map_compressor_free(pc__map_compressor *packer)
{
    pc_allocator mem;
    if (!packer)
        return;
    mem = packer->mem;
    ZSTD_freeCCtx(packer->encoder);
    ZSTD_freeDCtx(packer->decoder);
    pc__free(&mem, packer->planes);
    pc__free(&mem, packer);
}

static void split(const pc__map_compressor *p, const uint8_t *layer)
{
    size_t values = p->bytes / p->wide, tail = p->bytes % p->wide;
    for (size_t plane = 0; plane < p->wide; plane++)
        for (size_t i = 0; i < values; i++)
            p->planes[plane * values + i] = layer[i * p->wide + p->wide - 1 - plane];
    memcpy(p->planes + p->bytes - tail, layer + p->bytes - tail, tail);
}

static void join(const pc__map_compressor *p, uint8_t *layer)
{
    size_t values = p->bytes / p->wide, tail = p->bytes % p->wide;
    for (size_t plane = 0; plane < p->wide; plane++)
        for (size_t i = 0; i < values; i++)
            layer[i * p->wide + p->wide - 1 - plane] = p->planes[plane * values + i];
    memcpy(layer + p->bytes - tail, p->planes + p->bytes - tail, tail);
}

/* So that a frame can be written behind what is there. */
static pc_status make_room(pc__bytes *out, size_t more)
{
    return pc__grow(out->mem, (void **)&out->data, &out->capacity, out->size + more + 1, 1);
}

pc_status pc__map_compress(pc__map_compressor *packer, const void *layer, pc__bytes *out)
{
    size_t packed;
    pc_status status = make_room(out, packer->bytes);
    if (status < 0)
        return status;
    split(packer, layer);
    packed = ZSTD_compressCCtx(packer->encoder, out->data + out->size, packer->bytes - 1,
                               packer->planes, packer->bytes, LEVEL);
    if (ZSTD_isError(packed) && ZSTD_getErrorCode(packed) == ZSTD_error_memory_allocation)
        return pc__fail(PC_ERR_NOMEM, "out of memory: packing a layer of %zu bytes", packer->bytes);
    if (ZSTD_isError(packed)) { /* that it does not fit */
        memcpy(out->data + out->size, layer, packer->bytes);
        packed = packer->bytes;
    }
    out->size += packed;
    return PC_OK;
}

pc_status pc__map_decompress(pc__map_compressor *packer, const void *packed, size_t size,
                             void *layer)
{
    size_t got;
    if (size == packer->bytes) {
        memcpy(layer, packed, size);
        return PC_OK;
    }
    got = ZSTD_decompressDCtx(packer->decoder, packer->planes, packer->bytes, packed, size);
    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
        return pc__fail(PC_ERR_NOMEM, "out of memory: unpacking a layer of %zu bytes",
                        packer->bytes);
    if (got != packer->bytes)
        return PC_MISS;
    join(packer, layer);
    return PC_OK;
}
