/* PC_CODEC_I4: takes no block yet. */
#include "base/fail.h"
#include "store/codec.h"

static size_t bound(void *user, const pc_codec_block *block)
{
    (void)user;
    (void)block;
    return 0;
}

static pc_status encode(void *user, const pc_codec_block *block, const void *data, void *out, size_t capacity, size_t *size)
{
    (void)user, (void)data, (void)out, (void)capacity;
    *size = 0;
    return pc__fail(PC_ERR_UNSUPPORTED, "i4 block %u: not taken", block->index);
}

static pc_status decode(void *user, const pc_codec_block *block, const void *in, size_t size, void *out)
{
    (void)user, (void)in, (void)size, (void)out;
    return pc__fail(PC_ERR_UNSUPPORTED, "i4 block %u: not taken", block->index);
}

pc_codec_ops pc__codec_i4(const pc_allocator *mem)
{
    union { const pc_allocator *in; void *out; } user = {mem};
    return (pc_codec_ops){sizeof(pc_codec_ops), PC_CODEC_I4, 1, "i4", bound, encode, decode, user.out};
}
