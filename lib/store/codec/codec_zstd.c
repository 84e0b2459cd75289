/* PC_CODEC_ZSTD: byte planes (codec_internal.h) of a block, without the padding of its
 * last page.
 *
 * Byte 0: bytes of a value (1, 2, 4). Byte 1: 1 if the last page is packed (pc__pack_last_page),
 * else 0. Bytes 2, 3: zero. Then the runs. Packed: the pages before the last one, then the packed
 * last page. Else: the block. */
#include <string.h>

#include "base/fail.h"
#include "store/codec/codec_internal.h"

enum { HEAD = 4 };

static size_t value_of(uint32_t dtype)
{
    return dtype == PC_DTYPE_F32 ? 4 : dtype == PC_DTYPE_BF16 || dtype == PC_DTYPE_F16 ? 2 : 1;
}

static size_t bound(void *user, const pc_codec_block *block)
{
    (void)user;
    if (block->bytes > SIZE_MAX / 2)
        return 0;
    return HEAD + pc__planes_bound(value_of(block->dtype), (size_t)block->bytes)
           + 16; /* two runs: one chunk more */
}

static pc_status encode_runs(pc__planes *planes, const pc_allocator *mem,
                             const pc_codec_block *block, const uint8_t *data, uint8_t **at,
                             const uint8_t *end)
{
    pc__block_pages pages;
    uint8_t *head = *at, *packed = NULL;
    size_t before, last;
    pc_status status;
    *at += HEAD;
    if (!pc__block_pages_of(block, &pages) || pages.last == PC__PAGE)
        return pc__planes_encode(planes, data, (size_t)block->bytes, at, end);
    last = pc__packed_last_page_bytes(&pages);
    before = (size_t)block->bytes - (size_t)pages.shape.kv_heads * pages.page_bytes;
    if (!(packed = pc__alloc(mem, last)))
        return PC_ERR_NOMEM;
    if (pc__pack_last_page(&pages, data, packed)) {
        head[1] = 1;
        if ((status = pc__planes_encode(planes, data, before, at, end)) >= 0)
            status = pc__planes_encode(planes, packed, last, at, end);
    } else {
        status = pc__planes_encode(planes, data, (size_t)block->bytes, at, end);
    }
    pc__free(mem, packed);
    return status;
}

static pc_status encode(void *user, const pc_codec_block *block, const void *data, void *out,
                        size_t capacity, size_t *size)
{
    const pc_allocator *mem = user;
    size_t value = value_of(block->dtype);
    pc__planes *planes;
    uint8_t *at = out;
    pc_status status;
    *size = 0;
    if (capacity < HEAD)
        return pc__fail(PC_ERR_LIMIT, "zstd block %u: %zu bytes of room", block->index, capacity);
    PC__TRY_RETURN(
        pc__planes_new(&planes, mem, value, value == 1 && !pc__layout_has_pages(block->layout), 0));
    memcpy(at, (uint8_t[HEAD]){(uint8_t)value}, HEAD);
    status = encode_runs(planes, mem, block, data, &at, at + capacity);
    pc__planes_free(planes);
    if (status < 0)
        return pc__fail_in(status, "zstd block %u", block->index);
    *size = (size_t)(at - (uint8_t *)out);
    return PC_OK;
}

static pc_status decode_runs(pc__planes *planes, const pc_allocator *mem,
                             const pc_codec_block *block, int is_packed, const uint8_t **in,
                             const uint8_t *end, uint8_t *out)
{
    pc__block_pages pages;
    uint8_t *packed;
    size_t before, last;
    pc_status status;
    if (!is_packed)
        return pc__planes_decode(planes, in, end, out, (size_t)block->bytes);
    if (!pc__block_pages_of(block, &pages))
        return pc__fail(PC_ERR_FORMAT, "the last page is packed, but the block is not in pages");
    last = pc__packed_last_page_bytes(&pages);
    before = (size_t)block->bytes - (size_t)pages.shape.kv_heads * pages.page_bytes;
    if (!(packed = pc__alloc(mem, last)))
        return PC_ERR_NOMEM;
    if ((status = pc__planes_decode(planes, in, end, out, before)) >= 0
        && (status = pc__planes_decode(planes, in, end, packed, last)) >= 0)
        pc__unpack_last_page(&pages, packed, out);
    pc__free(mem, packed);
    return status;
}

static pc_status decode(void *user, const pc_codec_block *block, const void *in, size_t size,
                        void *out)
{
    const pc_allocator *mem = user;
    const uint8_t *at = in, *end = at + size;
    pc__planes *planes;
    pc_status status;
    if (size < HEAD || at[0] != value_of(block->dtype) || at[1] > 1 || at[2] || at[3])
        return pc__fail(PC_ERR_FORMAT, "zstd block %u: not the head of one of this dtype",
                        block->index);
    PC__TRY_RETURN(pc__planes_new(&planes, mem, at[0], 0, 1));
    at += HEAD;
    status = decode_runs(planes, mem, block, ((const uint8_t *)in)[1], &at, end, out);
    pc__planes_free(planes);
    if (status >= 0 && at != end)
        status = pc__fail(PC_ERR_FORMAT, "%zu bytes too many", (size_t)(end - at));
    return status < 0 ? pc__fail_in(status, "zstd block %u", block->index) : PC_OK;
}

pc_codec_ops pc__codec_zstd(const pc_allocator *mem)
{
    return (pc_codec_ops){sizeof(pc_codec_ops),  PC_CODEC_ZSTD, 0, "zstd", bound, encode, decode,
                          (void *)(uintptr_t)mem};
}
