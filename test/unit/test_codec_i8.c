/* Catches: int8 states that differ in any bit from those of int8 runs (pc_pages_write, PC_DTYPE_I8)
 * or decode otherwise; padding that is not zero; less compression than promised; blocks accepted
 * that are not pages; damaged input that leads out of bounds; leaks when an allocation fails. */
#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "attn/kv_page.h"
#include "base/mem.h"
#include "codec_cases.h"
#include "store/codec/codec.h"

static pc_codec_ops codec;

/* What should come back, page by page: into int8 and out of it. */
static void *by_hand(const pc_codec_block *block, const uint8_t *data)
{
    pc__kv_shape shape = {1,
                          block->kv_heads,
                          block->k_dim,
                          block->v_dim,
                          block->dtype,
                          block->layout == PC_LAYOUT_LATENT},
                 i8 = shape;
    size_t bytes = pc__kv_page_bytes(&shape), heads = (size_t)block->kv_heads;
    float *k = malloc(pc__page_floats(&shape) * sizeof *k),
          *v = k + PC__PAGE * (size_t)block->k_dim;
    uint8_t *out = malloc((size_t)block->bytes), *steps;
    i8.dtype = PC_DTYPE_I8;
    steps = malloc(pc__kv_page_bytes(&i8));
    for (size_t at = 0; at < block->bytes / bytes; at++) {
        size_t first = at / heads * PC__PAGE,
               tokens = block->tokens - first < PC__PAGE ? (size_t)block->tokens - first : PC__PAGE;
        pc__page_read(&shape, data + at * bytes, k, v);
        pc__page_write(&i8, steps, tokens, k, v);
        pc__page_read(&i8, steps, k, v);
        pc__page_write(&shape, out + at * bytes, tokens, k, v);
    }
    free(steps);
    free(k);
    return out;
}

static size_t there_and_back(const pc_codec_block *block, const void *data)
{
    size_t size;
    void *stored = pc_case_encode(&codec, block, data, &size), *want = by_hand(block, data),
         *again = aligned_alloc(64, (size_t)block->bytes);
    CHECK(stored != NULL);
    memset(again, 0xff, (size_t)block->bytes);
    if (stored) {
        CHECK_OK(codec.decode(codec.user, block, stored, size, again));
        CHECK(!memcmp(again, want, (size_t)block->bytes));
        CHECK(memcmp(again, data, (size_t)block->bytes) || block->tokens == 1
              || (block->tokens == 2 && block->k_dim == 1)); /* each value is a whole step */
    }
    free(stored);
    free(want);
    free(again);
    return size;
}

static void sizes(void)
{
    pc_codec_block block = pc_case_block(PC_DTYPE_BF16, 4, 64, 64, 512),
                   one = pc_case_block(PC_DTYPE_BF16, 4, 64, 64, 1);
    void *states = pc_case_states(&block, 1), *few = pc_case_states(&one, 1);
    CHECK((double)there_and_back(&block, states) < (double)block.bytes / 1.9);
    CHECK(there_and_back(&one, few) < 4 * (64 * 4 + 2 * 64 + 4 * 64 + 2 * 64) + 100);
    free(states);
    free(few);
}

int main(void)
{
    pc_codec_block block = pc_case_block(PC_DTYPE_BF16, 2, 12, 9, 100);
    void *data = pc_case_states(&block, 6), *stored;
    size_t size;
    codec = pc__codec_i8(&pc__libc_allocator);
    pc_case_every_shape(there_and_back);
    sizes();
    pc_case_refused(&codec);
    stored = pc_case_encode(&codec, &block, data, &size);
    pc_case_abuse(&codec, &block, stored, size);
    pc_case_starve(pc__codec_i8, &block, data);
    free(stored);
    free(data);
    return pc_test_end();
}
