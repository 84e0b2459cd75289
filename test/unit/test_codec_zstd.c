/* Catches: states that do not come back bit for bit (all formats, odd dimensions, partial last
 * pages, noise, bytes of unknown kind); padding that costs bytes, or is lost although it is not
 * zero; more bytes than the bound; less compression than the format promises; damaged input that
 * leads out of bounds; leaks when an allocation fails. */
#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "codec_cases.h"
#include "store/codec/codec.h"

static pc_codec_ops codec;

static size_t there_and_back(const pc_codec_block *block, const void *data)
{
    size_t size;
    void *stored = pc_case_encode(&codec, block, data, &size),
         *again = malloc((size_t)block->bytes);
    CHECK(stored != NULL);
    if (stored) {
        CHECK_OK(codec.decode(codec.user, block, stored, size, again));
        CHECK(!memcmp(data, again, (size_t)block->bytes));
    }
    free(stored);
    free(again);
    return size;
}

static void every_shape(void)
{
    static const int32_t dims[][3] = {{1, 1, 1}, {3, 21, 13}, {2, 64, 64}, {1, 128, 96}, {5, 8, 8}};
    static const size_t tokens[] = {1, 2, 63, 64, 65, 127, 300};
    for (uint32_t dtype = PC_DTYPE_F32; dtype <= PC_DTYPE_I8; dtype++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
                pc_codec_block block = (t % 2 ? pc_case_latent : pc_case_block)(
                    dtype, dims[d][0], dims[d][1], dims[d][2], tokens[t]);
                void *states = pc_case_states(&block, 7 + t), *noise = pc_case_noise(&block, 8 + t);
                there_and_back(&block, states);
                there_and_back(&block, noise);
                ((uint8_t *)noise)[block.bytes - 1] = 1; /* padding that is not zero */
                there_and_back(&block, noise);
                free(states);
                free(noise);
            }
}

/* Of real states in bf16 10.7 of 16 bits are left; of random bits all, and next to nothing more. */
static void sizes(void)
{
    pc_codec_block block = pc_case_block(PC_DTYPE_BF16, 4, 64, 64, 512),
                   one = pc_case_block(PC_DTYPE_BF16, 4, 64, 64, 1);
    void *states = pc_case_states(&block, 1), *noise = pc_case_noise(&block, 2),
         *few = pc_case_states(&one, 3);
    CHECK((double)there_and_back(&block, states) < (double)block.bytes / 1.35);
    CHECK((double)there_and_back(&block, noise) < 1.001 * (double)block.bytes);
    CHECK(there_and_back(&one, few) < 2 * 4 * (64 + 2 * 64) + 200); /* V goes by pairs of tokens */
    free(states);
    free(noise);
    free(few);
}

static void opaque(void)
{
    static const uint32_t layouts[] = {PC_LAYOUT_MODEL, PC_LAYOUT_APPLICATION + 3};
    for (size_t l = 0; l < 2; l++)
        for (uint32_t dtype = PC_DTYPE_DEFAULT; dtype <= PC_DTYPE_I8; dtype++)
            for (size_t bytes = 0; bytes < 300000; bytes = 3 * bytes + 1) {
                pc_codec_block block = {sizeof block, layouts[l], dtype, 0, 0, 0, 0, 9, bytes};
                uint8_t *data = malloc(bytes + !bytes);
                for (size_t i = 0; i < bytes; i++)
                    data[i] = (uint8_t)(i / 5 % 251);
                there_and_back(&block, data);
                if (bytes > 200000 && dtype == PC_DTYPE_DEFAULT)
                    CHECK(there_and_back(&block, data)
                          < bytes / 20); /* repeated strings are found */
                free(data);
            }
}

/* A block that does not match its description as pages is stored as bytes. */
static void not_quite_pages(void)
{
    pc_codec_block block = pc_case_block(PC_DTYPE_F16, 2, 8, 8, 70);
    uint8_t *data = pc_case_states(&block, 4);
    block.tokens = 7;
    there_and_back(&block, data);
    block.kv_heads = -1;
    there_and_back(&block, data);
    block.tokens = UINT64_MAX;
    block.kv_heads = 2;
    there_and_back(&block, data);
    block.k_dim = 1 << 30;
    there_and_back(&block, data);
    free(data);
}

static void abused(uint32_t layout, uint32_t dtype)
{
    pc_codec_block block = pc_case_block(dtype, 2, 16, 12, 100);
    void *data = pc_case_states(&block, 5);
    size_t size;
    void *stored;
    block.layout = layout;
    stored = pc_case_encode(&codec, &block, data, &size);
    CHECK(stored != NULL);
    if (stored) {
        CHECK_STATUS(codec.encode(codec.user, &block, data, stored, size / 2, &size), PC_ERR_LIMIT);
        free(stored);
        stored = pc_case_encode(&codec, &block, data, &size);
        pc_case_abuse(&codec, &block, stored, size);
    }
    free(stored);
    free(data);
}

int main(void)
{
    pc_codec_block block = pc_case_block(PC_DTYPE_BF16, 1, 8, 8, 70);
    void *data = pc_case_states(&block, 6);
    codec = pc__codec_zstd(&pc__libc_allocator);
    every_shape();
    sizes();
    opaque();
    not_quite_pages();
    for (uint32_t dtype = PC_DTYPE_F32; dtype <= PC_DTYPE_I8; dtype++) {
        abused(PC_LAYOUT_PAGES, dtype);
        abused(PC_LAYOUT_APPLICATION, dtype);
    }
    pc_case_starve(pc__codec_zstd, &block, data);
    free(data);
    return pc_test_end();
}
