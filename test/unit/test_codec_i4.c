/* Catches: errors above the limit of the format (all formats, odd dimensions, partial last pages,
 * largest and smallest numbers); results that depend on anything but the states; padding that is
 * not zero; less compression than promised; blocks accepted that are not pages; damaged input that
 * leads out of bounds; leaks when an allocation fails. */
#include <promptcache/cache.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/kv_page.h"
#include "base/mem.h"
#include "codec_cases.h"
#include "store/codec/codec.h"

static pc_codec_ops codec;

static float whole(float x)
{
    return isnan(x) ? 0.0f : fminf(fmaxf(x, -0x1.fep127f), 0x1.fep127f);
}

/* Half a scale of the group, and half a last place of the format of the block. */
static int is_near(const float *was, const float *is, size_t count, size_t stride, uint32_t dtype)
{
    double least = INFINITY, most = -INFINITY, step,
           place = dtype == PC_DTYPE_F32   ? 0x1p-23
                   : dtype == PC_DTYPE_F16 ? 0x1p-11
                                           : 0x1p-8;
    for (size_t i = 0; i < count; i++) {
        least = fmin(least, whole(was[i * stride]));
        most = fmax(most, whole(was[i * stride]));
    }
    step = (most - least + 0x1p-7 * fabs(least)) / 15 * (1 + 0x1p-7) + 0x1p-96;
    for (size_t i = 0; i < count; i++) {
        double x = whole(was[i * stride]), y = is[i * stride];
        if (dtype == PC_DTYPE_F16 && fabs(y) == 65504.0)
            continue;
        if (!(fabs(x - y) <= step / 2 * (1 + 0x1p-17) + place * fabs(x) * 1.02
                                 + (dtype == PC_DTYPE_F16 ? 0x1p-24 : 0)))
            return 0;
    }
    return 1;
}

static void near_original(const pc_codec_block *block, const uint8_t *was, const uint8_t *is)
{
    pc__kv_shape shape = {1,
                          block->kv_heads,
                          block->k_dim,
                          block->v_dim,
                          block->dtype,
                          block->layout == PC_LAYOUT_LATENT};
    size_t bytes = pc__kv_page_bytes(&shape), k_dim = (size_t)block->k_dim,
           v_dim = (size_t)block->v_dim, heads = (size_t)block->kv_heads;
    float *k = malloc(2 * pc__page_floats(&shape) * sizeof *k), *v = k + PC__PAGE * k_dim,
          *k2 = k + pc__page_floats(&shape), *v2 = k2 + PC__PAGE * k_dim;
    uint8_t *again = malloc(bytes);
    int wrong = 0;
    for (size_t at = 0; at < block->bytes / bytes; at++) {
        size_t first = at / heads * PC__PAGE,
               tokens = block->tokens - first < PC__PAGE ? (size_t)block->tokens - first : PC__PAGE;
        pc__page_read(&shape, was + at * bytes, k, v);
        pc__page_read(&shape, is + at * bytes, k2, v2);
        for (size_t d = 0; d < k_dim; d++)
            wrong += !is_near(k + d * PC__PAGE, k2 + d * PC__PAGE, tokens, 1, block->dtype);
        for (size_t t = 0; t < tokens && !shape.latent; t++)
            for (size_t d = 0; d < v_dim; d += 32)
                wrong += !is_near(v + t * v_dim + d, v2 + t * v_dim + d,
                                  v_dim - d < 32 ? v_dim - d : 32, 1, block->dtype);
        pc__page_write(&shape, again, tokens, k2, v2); /* beyond the tokens nothing */
        wrong += memcmp(again, is + at * bytes, bytes) != 0;
    }
    CHECK_INT(wrong, 0);
    free(again);
    free(k);
}

static size_t there_and_back(const pc_codec_block *block, const void *data)
{
    size_t size, size2;
    void *stored = pc_case_encode(&codec, block, data, &size),
         *stored2 = pc_case_encode(&codec, block, data, &size2);
    void *again = aligned_alloc(64, (size_t)block->bytes);
    CHECK(stored && stored2 && size == size2 && !memcmp(stored, stored2, size));
    memset(again, 0xff, (size_t)block->bytes);
    if (stored && stored2) {
        CHECK_OK(codec.decode(codec.user, block, stored, size, again));
        near_original(block, data, again);
    }
    free(stored);
    free(stored2);
    free(again);
    return size;
}

/* All that fp32 can hold: random exponents, and by hand what is at the ends. */
static void strange_numbers(void)
{
    static const float ends[] = {NAN,     INFINITY, -INFINITY, FLT_MAX,    -FLT_MAX,
                                 FLT_MIN, 1e-45f,   -0.0f,     0x1.fep127f};
    pc_codec_block block = pc_case_block(PC_DTYPE_F32, 1, 40, 40, 64);
    float *page = pc_case_noise(&block, 3);
    there_and_back(&block, page);
    for (size_t d = 0; d < 40; d++)
        for (size_t t = 0; t < 64; t++)
            page[d * 64 + t] = d < 9    ? ends[(t + d) % (d + 1)]
                               : d < 20 ? (float)(d - 9) * 1e37f * (t % 2 ? -1.0f : 1.0f)
                                        : 8.0f + 1e-6f * (float)t;
    there_and_back(&block, page);
    free(page);
}

static void sizes(void)
{
    pc_codec_block block = pc_case_block(PC_DTYPE_BF16, 4, 64, 64, 512);
    void *states = pc_case_states(&block, 1);
    CHECK((double)there_and_back(&block, states) < (double)block.bytes / 3.5);
    free(states);
}

int main(void)
{
    pc_codec_block block = pc_case_block(PC_DTYPE_BF16, 2, 12, 9, 100);
    void *data = pc_case_states(&block, 6), *stored;
    size_t size;
    codec = pc__codec_i4(&pc__libc_allocator);
    pc_case_every_shape(there_and_back);
    strange_numbers();
    sizes();
    pc_case_refused(&codec);
    stored = pc_case_encode(&codec, &block, data, &size);
    pc_case_abuse(&codec, &block, stored, size);
    pc_case_starve(pc__codec_i4, &block, data);
    free(stored);
    free(data);
    return pc_test_end();
}
