/* Catches: pages whose size is not as documented, tokens that were taken off and leave something
 * behind, runs that lose positions or values when they grow or are copied, appends that are out of
 * order or to an int8 run and are let through, a failed allocation that leaks or leaves a run
 * changed. */
#include <string.h>

#include "attn/kv.h"
#include "testing.h"

static void sizes(void)
{
    pc__kv_shape s = {1, 1, 128, 96, PC_DTYPE_F32, 0};
    CHECK_INT(pc__kv_k_bytes(&s), 128 * 64 * 4);
    CHECK_INT(pc__kv_page_bytes(&s), (128 + 96) * 64 * 4);
    for (s.dtype = PC_DTYPE_BF16; s.dtype <= PC_DTYPE_F16; s.dtype++) {
        CHECK_INT(pc__kv_k_bytes(&s), 128 * 64 * 2);
        CHECK_INT(pc__kv_page_bytes(&s), (128 + 96) * 64 * 2);
    }
    s.dtype = PC_DTYPE_I8;
    CHECK_INT(pc__kv_k_bytes(&s), 128 * 64 + 128 * 2);
    CHECK_INT(pc__kv_page_bytes(&s), (128 + 96) * 64 + 128 * 2 + 64 * 2);
    s.k_dim = 5; /* 8 channels of values, 5 scales in a line of 64 bytes */
    CHECK_INT(pc__kv_k_bytes(&s), 8 * 64 + 64);
    s.dtype = PC_DTYPE_BF16;
    CHECK_INT(pc__kv_k_bytes(&s), 6 * 64 * 2);
}

static void refusals(const pc_allocator *mem)
{
    pc__kv_shape s = {1, 1, 8, 8, 9, 0};
    int64_t relative = 0;
    pc__kv *kv;
    CHECK_STATUS(pc__kv_new(&kv, mem, &s, 3), PC_ERR_UNSUPPORTED);
    CHECK(!kv);
    s.dtype = PC_DTYPE_F16;
    s.k_dim = PC__MAX_HEAD + 1;
    CHECK_STATUS(pc__kv_new(&kv, mem, &s, 3), PC_ERR_INVALID);
    s.k_dim = 8;
    CHECK_OK(pc__kv_new(&kv, mem, &s, 3));
    CHECK_OK(pc__kv_append(kv, &relative, 1));
    CHECK_STATUS(pc__kv_append(kv, &relative, 1), PC_ERR_INVALID);
    CHECK_INT(kv->tokens, 1);
    pc__kv_unref(kv);
    s.dtype = PC_DTYPE_I8;
    CHECK_OK(pc__kv_new(&kv, mem, &s, 3));
    CHECK_STATUS(pc__kv_append(kv, &relative, 1), PC_ERR_STATE);
    CHECK_ERROR_HAS("int8");
    CHECK_INT(kv->tokens, 0);
    pc__kv_unref(kv);
}

static void write_token(pc__kv *kv, size_t token)
{
    float k[2 * 6], v[2 * 10];
    for (int32_t l = 0; l < kv->shape.layers; l++) {
        for (size_t i = 0; i < 12; i++)
            k[i] = (float)(token * 4 + i) * 0.25f + (float)l;
        for (size_t i = 0; i < 20; i++)
            v[i] = -(float)(token * 4 + i) * 0.5f - (float)l;
        pc__kv_write(kv, l, token, k, v);
    }
}

/* The values are such that every format but int8 holds them. */
static void holds(const pc__kv *kv, size_t tokens, int holes)
{
    float k[2 * 6], v[2 * 10];
    int wrong = 0;
    CHECK_INT(kv->tokens, tokens);
    for (size_t t = 0; t < tokens; t++) {
        wrong += pc__kv_relative(kv, t) != (int64_t)(holes && t >= 40 ? t + 7 : t);
        for (int32_t l = 0; l < kv->shape.layers; l++) {
            pc__kv_read(kv, l, t, k, v);
            for (size_t i = 0; i < 12; i++)
                wrong += k[i] != (float)(t * 4 + i) * 0.25f + (float)l;
            for (size_t i = 0; i < 20; i++)
                wrong += v[i] != -(float)(t * 4 + i) * 0.5f - (float)l;
        }
    }
    CHECK_INT(wrong, 0);
}

static void growth(const pc_allocator *mem, uint32_t dtype, int holes)
{
    const size_t most = dtype == PC_DTYPE_BF16
                            ? 50
                            : 300; /* whole numbers of quarters up to 64 fit the 8 bits of bf16 */
    pc__kv_shape s = {2, 2, 6, 10, dtype, 0};
    pc__kv *kv, *copy;
    CHECK_OK(pc__kv_new(&kv, mem, &s, 3));
    for (size_t t = 0; t < most; t++) {
        int64_t relative = (int64_t)(holes && t >= 40 ? t + 7 : t);
        CHECK_OK(pc__kv_append(kv, &relative, 1));
        write_token(kv, t);
    }
    holds(kv, most, holes);
    CHECK_INT(pc__kv_upto(kv, 39), 40);
    CHECK_INT(pc__kv_upto(kv, 45), holes ? 40 : 46);
    kv->rope_regime = 5;
    kv->origin = 77;
    CHECK_OK(pc__kv_copy(&copy, kv));
    pc__kv_unref(kv);
    CHECK_INT(copy->rope_regime, 5);
    CHECK_INT(copy->origin, 77);
    holds(copy, most, holes);
    pc__kv_truncate(copy, 33);
    holds(copy, 33, holes);
    pc__kv_unref(copy);
}

static void fail_everywhere(void)
{
    pc__kv_shape s = {2, 2, 6, 10, PC_DTYPE_F16, 0};
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__kv *kv = NULL, *copy = NULL;
        size_t done = 0;
        if (pc__kv_new(&kv, &mem, &s, 3) >= 0) {
            for (size_t t = 0; t < 130; t++) {
                int64_t relative = (int64_t)(t >= 40 ? t + 7 : t);
                while (pc__kv_append(kv, &relative, 1)
                       < 0) /* the same again: nothing has changed */
                    CHECK_INT(kv->tokens, t);
                write_token(kv, t);
                done++;
            }
            holds(kv, done, 1);
            if (pc__kv_copy(&copy, kv) >= 0)
                holds(copy, done, 1);
            else
                CHECK(!copy);
        }
        pc__kv_unref(kv);
        pc__kv_unref(copy);
        CHECK_INT(memory.live_blocks, 0);
        if (memory.calls < at)
            break;
    }
}

/* What was taken off again leaves zeros, in every page and in every format that grows; equal runs
 * are equal bytes. */
static void taken_off(const pc_allocator *mem)
{
    for (uint32_t dtype = PC_DTYPE_F32; dtype <= PC_DTYPE_F16; dtype++) {
        pc__kv_shape shape = {2, 2, 6, 10, dtype, 0};
        pc__kv *once = NULL, *cut = NULL;
        int64_t relative[200];
        for (int64_t i = 0; i < 200; i++)
            relative[i] = i;
        CHECK_OK(pc__kv_new(&once, mem, &shape, 200));
        CHECK_OK(pc__kv_new(&cut, mem, &shape, 200));
        CHECK_OK(pc__kv_append(once, relative, 37));
        CHECK_OK(pc__kv_append(cut, relative, 200));
        for (size_t t = 0; t < 200; t++) {
            write_token(cut, t);
            if (t < 37)
                write_token(once, t);
        }
        pc__kv_truncate(cut, 150);
        pc__kv_truncate(cut, 37);
        pc__kv_truncate(cut, 100); /* it has no more than 37 */
        CHECK_INT(cut->tokens, 37);
        for (int32_t l = 0; l < 2; l++)
            CHECK(!memcmp(cut->layer[l], once->layer[l], pc__kv_layer_bytes(&shape, 200)));
        pc__kv_unref(cut);
        pc__kv_unref(once);
    }
}

/* A run that layers pass through has room for one layer, which the next one overwrites; beyond its
 * tokens it is zero, and it never grows. */
static void passing(const pc_allocator *mem)
{
    pc__kv_shape shape = {3, 2, 6, 10, PC_DTYPE_BF16, 0};
    pc__kv *run = NULL, *whole = NULL;
    int64_t next = 70, first = 0;
    float k[12], v[20];
    CHECK_OK(pc__kv_new_passing(&run, mem, &shape, 70));
    CHECK_INT(run->tokens, 70);
    CHECK_STATUS(pc__kv_append(run, &next, 1), PC_ERR_STATE);
    write_token(run, 69);
    pc__kv_read(run, 0, 69, k, v);
    CHECK(v[0] == -(69 * 4) * 0.5f - 2); /* what layer 2 has written last */
    CHECK_OK(pc__kv_new(&whole, mem, &shape, 70));
    for (; first < 70; first++)
        CHECK_OK(pc__kv_append(whole, &first, 1));
    write_token(whole, 69);
    CHECK(!memcmp(run->layer[1], whole->layer[2], pc__kv_layer_bytes(&shape, 70)));
    pc__kv_unref(whole);
    pc__kv_unref(run);
}

/* Int8 pages begin with anything: behind the last token all is cleared, scales too, and nothing
 * before. */
static void tail_of_scales(const pc_allocator *mem)
{
    enum { TOKENS = 5, DIM = 8 };
    const pc__kv_shape s = {1, 1, DIM, DIM, PC_DTYPE_I8, 0};
    const uint8_t *scales;
    pc__kv *kv;
    CHECK_OK(pc__kv_new(&kv, mem, &s, TOKENS));
    memset(kv->layer[0], 0xAA, pc__kv_page_bytes(&s));
    kv->tokens = TOKENS;
    pc__kv_clear_tail(kv, 0);
    kv->tokens = 0;
    scales = kv->layer[0] + pc__kv_k_bytes(&s) + pc__i8_v_scales(DIM);
    for (size_t i = 0; i < 2 * PC__PAGE; i++)
        CHECK_INT(scales[i], i < 2 * TOKENS ? 0xAA : 0);
    pc__kv_unref(kv);
}

int main(void)
{
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    sizes();
    refusals(&mem);
    for (uint32_t dtype = PC_DTYPE_F32; dtype <= PC_DTYPE_F16; dtype++)
        for (int holes = 0; holes < 2; holes++)
            growth(&mem, dtype, holes);
    taken_off(&mem);
    passing(&mem);
    tail_of_scales(&mem);
    CHECK_INT(memory.live_blocks, 0);
    fail_everywhere();
    return pc_test_end();
}
