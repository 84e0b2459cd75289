/* PC_CODEC_RAW: the block as it is. */
#include <string.h>

#include "base/fail.h"
#include "store/codec/codec.h"

static size_t bound(void *user, const pc_codec_block *block)
{
    (void)user;
    return block->bytes <= SIZE_MAX ? (size_t)block->bytes : 0;
}

static pc_status encode(void *user, const pc_codec_block *block, const void *data, void *out,
                        size_t capacity, size_t *size)
{
    (void)user;
    *size = 0;
    if (capacity < block->bytes)
        return pc__fail(PC_ERR_LIMIT, "raw block %u: %zu bytes of room for %llu", block->index,
                        capacity, (unsigned long long)block->bytes);
    memcpy(out, data, (size_t)block->bytes);
    *size = (size_t)block->bytes;
    return PC_OK;
}

static pc_status decode(void *user, const pc_codec_block *block, const void *in, size_t size,
                        void *out)
{
    (void)user;
    if (size != block->bytes)
        return pc__fail(PC_ERR_FORMAT, "raw block %u: %zu bytes stored, %llu expected",
                        block->index, size, (unsigned long long)block->bytes);
    memcpy(out, in, size);
    return PC_OK;
}

pc_codec_ops pc__codec_raw(const pc_allocator *mem)
{
    return (pc_codec_ops){sizeof(pc_codec_ops),  PC_CODEC_RAW, 0, "raw", bound, encode, decode,
                          (void *)(uintptr_t)mem};
}
