/* Catches: stored blocks that lead a codec out of bounds, leak or come back in part; blocks of any
 * shape and content that do not come back bit for bit from a lossless codec, that exceed its bound,
 * or that a lossy codec writes and then refuses. Input: codec and mode, layout, dtype, heads,
 * dimensions of K and V, tokens, surplus bytes; then stored bytes, or states, repeated. */
#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "attn/kv.h"
#include "fuzz.h"
#include "store/codec/codec.h"

enum { HEAD = 8 };

static pc_codec_block block_of(const uint8_t *head)
{
    pc_codec_block b = {.struct_size = sizeof b,
                        .layout = head[1] % 4 == 0   ? PC_LAYOUT_APPLICATION
                                  : head[1] % 4 == 1 ? PC_LAYOUT_LATENT
                                                     : PC_LAYOUT_PAGES,
                        .dtype = head[2] % 5u};
    pc__kv_shape shape;
    b.kv_heads = 1 + head[3] % 3;
    b.k_dim = 1 + head[4] % 40;
    b.v_dim = 1 + head[5] % 40;
    b.tokens = 1 + head[6] % 150u;
    shape = (pc__kv_shape){1,
                           b.kv_heads,
                           b.k_dim,
                           b.v_dim,
                           b.dtype ? b.dtype : PC_DTYPE_F16,
                           b.layout == PC_LAYOUT_LATENT};
    b.bytes = (b.tokens + PC__PAGE - 1) / PC__PAGE * (uint64_t)b.kv_heads
                  * pc__kv_page_bytes(&shape)
              + (head[7] < 16 ? head[7] : 0);
    return b;
}

static void decode(const pc_codec_ops *codec, const pc_codec_block *block, const uint8_t *stored,
                   size_t size)
{
    uint8_t *out = aligned_alloc(64, (size_t)(block->bytes + 63) / 64 * 64),
            *copy = malloc(size + !size);
    FUZZ_CHECK(out && copy);
    memcpy(copy, stored, size); /* exactly as long, for AddressSanitizer */
    fuzz_ok(codec->decode(codec->user, block, copy, size, out));
    free(copy);
    free(out);
}

static void there_and_back(const pc_codec_ops *codec, const pc_codec_block *block,
                           const uint8_t *states, size_t size)
{
    size_t bytes = (size_t)block->bytes, bound = codec->bound(codec->user, block), stored = 0;
    uint8_t *data = aligned_alloc(64, (bytes + 63) / 64 * 64), *out = malloc(bound + !bound),
            *again = aligned_alloc(64, (bytes + 63) / 64 * 64);
    FUZZ_CHECK(data && out && again);
    for (size_t i = 0; i < bytes; i++)
        data[i] = size ? states[i % size] : 0;
    if (bound) {
        FUZZ_CHECK(codec->encode(codec->user, block, data, out, bound, &stored) == PC_OK
                   && stored <= bound);
        FUZZ_CHECK(codec->decode(codec->user, block, out, stored, again) == PC_OK);
        FUZZ_CHECK(codec->lossy || !memcmp(data, again, bytes));
    }
    free(data);
    free(out);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    pc_codec_ops codecs[3] = {pc__codec_zstd(&fuzz_memory), pc__codec_i8(&fuzz_memory),
                              pc__codec_i4(&fuzz_memory)};
    pc_codec_block block;
    if (size < HEAD)
        return 0;
    block = block_of(data);
    (data[0] & 128 ? there_and_back : decode)(&codecs[data[0] % 3], &block, data + HEAD,
                                              size - HEAD);
    fuzz_no_leak(blocks);
    return 0;
}
