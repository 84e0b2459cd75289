/* Catches: fp16 that is not the nearest (ties, subnormal numbers, the largest ones); int8 values
 * that differ from the original by more than half a step; scales that are not of their channel or
 * token; padding that is not zero; conversions that lose positions, origin or regime, or that
 * depend on the number of threads; NaN and infinity; leaks when an allocation fails. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "attn/half.h"
#include "attn/kv.h"
#include "testing.h"

enum { HEADS = 3, K_DIM = 21, V_DIM = 13, K_ROW = HEADS * K_DIM, V_ROW = HEADS * V_DIM };

/* Every half is itself; the middle of two goes to the even one, what is beside it to the nearer
 * one. */
static void halves(void)
{
    int wrong = 0;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float x = pc__half_to((uint16_t)h), next = pc__half_to((uint16_t)(h + 1)),
              middle = x + (next - x) / 2;
        wrong += pc__half_from(x) != h || pc__half_from(-x) != (h | 0x8000u);
        wrong += pc__half_from(middle) != h + h % 2;
        wrong += pc__half_from(nextafterf(middle, 0.0f)) != h
                 || pc__half_from(nextafterf(middle, 1e9f)) != h + 1;
    }
    CHECK_INT(wrong, 0);
    CHECK_INT(pc__half_from(65504.0f), 0x7bff);
    CHECK_INT(pc__half_from(65519.0f), 0x7bff);
    CHECK_INT(pc__half_from(1e30f), 0x7bff);
    CHECK_INT(pc__half_from(-INFINITY), 0xfbff);
    CHECK(isnan(pc__half_to(pc__half_from(NAN))));
    CHECK_INT(pc__half_from(1e-30f), 0);
}

static float value(size_t t, size_t i)
{
    float x = (float)((t * 2654435761u + i * 40503u) % 20011u) / 10005.5f - 1.0f;
    return i % 5 == 2 ? 50.0f * x : i % 5 == 4 ? 1e-3f * x : x;
}

static void fill_token(size_t t, float *k, float *v)
{
    for (size_t i = 0; i < K_ROW; i++)
        k[i] = value(t, i);
    for (size_t i = 0; i < V_ROW; i++)
        v[i] = (t % 3 ? 1.0f : 100.0f) * value(t + 1000, i);
}

static pc_status make_run(pc__kv **out, const pc_allocator *mem, uint32_t dtype, size_t tokens)
{
    pc__kv_shape shape = {2, HEADS, K_DIM, V_DIM, dtype, 0};
    float k[K_ROW], v[V_ROW];
    pc_status status = pc__kv_new(out, mem, &shape, tokens);
    for (size_t t = 0; status >= 0 && t < tokens; t++) {
        int64_t relative = (int64_t)(3 * t);
        status = pc__kv_append(*out, &relative, 1);
        fill_token(t, k, v);
        for (int32_t l = 0; status >= 0 && l < 2; l++)
            pc__kv_write(*out, l, t, k, v);
    }
    if (status < 0) {
        pc__kv_unref(*out);
        *out = NULL;
        return status;
    }
    (*out)->origin = 12;
    (*out)->rope_regime = 4;
    return PC_OK;
}

/* Half a step of the largest of the channel in the page, or of the token; scales are rounded up by
 * less than 2^-7. */
static void near_original(const pc__kv *kv, int32_t layer, const pc__kv *from)
{
    float k[PC__PAGE][K_ROW], v[V_ROW], kept[PC__PAGE][K_ROW], kept_v[V_ROW];
    int wrong = 0;
    for (size_t first = 0; first < kv->tokens; first += PC__PAGE) {
        size_t n = kv->tokens - first < PC__PAGE ? kv->tokens - first : PC__PAGE;
        for (size_t t = 0; t < n; t++) {
            pc__kv_read(from, layer, first + t, k[t], v);
            pc__kv_read(kv, layer, first + t, kept[t], kept_v);
            for (size_t h = 0; h < HEADS; h++) {
                float most = 0.0f;
                for (size_t d = 0; d < V_DIM; d++)
                    most = fmaxf(most, fabsf(v[h * V_DIM + d]));
                for (size_t d = 0; d < V_DIM; d++)
                    wrong += fabsf(v[h * V_DIM + d] - kept_v[h * V_DIM + d])
                             > most / 254.0f * (1.0f + 0x1p-7f);
            }
        }
        for (size_t i = 0; i < K_ROW; i++) {
            float most = 0.0f;
            for (size_t t = 0; t < n; t++)
                most = fmaxf(most, fabsf(k[t][i]));
            for (size_t t = 0; t < n; t++)
                wrong += fabsf(k[t][i] - kept[t][i]) > most / 254.0f * (1.0f + 0x1p-7f);
        }
    }
    CHECK_INT(wrong, 0);
}

static void padding_is_zero(const pc__kv *kv)
{
    const pc__kv_shape *s = &kv->shape;
    size_t bytes = pc__kv_page_bytes(s), from = kv->tokens % PC__PAGE, wrong = 0;
    const uint8_t *page = kv->layer[0] + kv->tokens / PC__PAGE * HEADS * bytes,
                  *v = page + pc__kv_k_bytes(s);
    for (size_t t = from; from && t < PC__PAGE; t++) {
        for (size_t d = 0; d < 24; d++)
            wrong += page[(d / 4 * PC__PAGE + t) * 4 + d % 4] != 0;
        for (size_t d = 0; d < V_DIM; d++)
            wrong += v[(t / 4 * V_DIM + d) * 4 + t % 4] != 0;
        wrong += ((const uint16_t *)(const void *)(v + pc__i8_v_scales(V_DIM)))[t] != 0;
    }
    for (size_t t = 0; t < PC__PAGE; t++) /* channels up to a multiple of 4 */
        for (size_t d = K_DIM; d < 24; d++)
            wrong += kv->layer[0][(d / 4 * PC__PAGE + t) * 4 + d % 4] != 0;
    CHECK_INT(wrong, 0);
}

static void to_int8(pc_context *context, uint32_t dtype, size_t tokens)
{
    pc__kv *from, *to, *again, *other;
    CHECK_OK(make_run(&from, &context->mem, dtype, tokens));
    CHECK_OK(pc__kv_convert(&to, context, from, PC_DTYPE_I8));
    CHECK_INT(to->tokens, tokens);
    CHECK_INT(to->origin, 12);
    CHECK_INT(to->rope_regime, 4);
    for (size_t t = 0; t < tokens; t++)
        CHECK_INT(pc__kv_relative(to, t), 3 * t);
    for (int32_t l = 0; l < 2; l++)
        near_original(to, l, from);
    padding_is_zero(to);
    CHECK(pc__kv_bytes(to) < pc__kv_bytes(from));
    CHECK_OK(pc__kv_convert(&other, context, to, PC_DTYPE_F32)); /* what int8 holds, fp32 does */
    CHECK_OK(pc__kv_convert(&again, context, other, PC_DTYPE_I8));
    for (size_t t = 0; t < tokens; t++) {
        float a[K_ROW], b[K_ROW], av[V_ROW], bv[V_ROW];
        pc__kv_read(to, 1, t, a, av);
        pc__kv_read(other, 1, t, b, bv);
        CHECK(!memcmp(a, b, sizeof a) && !memcmp(av, bv, sizeof av));
    }
    near_original(again, 0, to);
    pc__kv_unref(from);
    pc__kv_unref(to);
    pc__kv_unref(again);
    pc__kv_unref(other);
}

/* Threads share pages out; what comes of it is the same. */
static void same_for_any_threads(void)
{
    pc__kv *from[2], *to[2];
    pc_context *context[2];
    for (int i = 0; i < 2; i++) {
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        options.threads = i ? 4 : 1;
        CHECK_OK(pc_context_new(&context[i], &options));
        CHECK_OK(make_run(&from[i], &context[i]->mem, PC_DTYPE_BF16, 300));
        CHECK_OK(pc__kv_convert(&to[i], context[i], from[i], PC_DTYPE_I8));
    }
    for (int32_t l = 0; l < 2; l++)
        CHECK(!memcmp(to[0]->layer[l], to[1]->layer[l],
                      5 * HEADS * pc__kv_page_bytes(&to[0]->shape)));
    for (int i = 0; i < 2; i++) {
        pc__kv_unref(from[i]);
        pc__kv_unref(to[i]);
        pc_context_free(context[i]);
    }
}

static void strange_numbers(pc_context *context)
{
    pc__kv_shape shape = {1, 1, 4, 4, PC_DTYPE_I8, 0};
    float k[2 * 4] = {NAN, INFINITY, 1e-38f, -FLT_MAX, 1.0f, 1.0f, -1e-38f, 5.0f},
                v[2 * 4] = {NAN, 2.0f, -INFINITY, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    float got_k[4], got_v[4];
    pc__kv *kv;
    CHECK_OK(pc__kv_new(&kv, &context->mem, &shape, 2));
    pc__kv_write_i8(&shape, kv->layer[0], 0, 2, k, v);
    pc__kv_read(kv, 0, 0, got_k, got_v);
    CHECK(got_k[0] == 0.0f && got_k[1] > 3.3e38f && got_k[2] == 0.0f && got_k[3] < -3.3e38f);
    CHECK(got_v[0] == 0.0f && got_v[2] < -3.3e38f && got_v[3] == 0.0f);
    pc__kv_read(kv, 0, 1, got_k, got_v);
    CHECK(fabsf(got_k[0] - 1.0f) < 0.01f && got_k[1] == 0.0f && got_v[0] == 0.0f);
    pc__kv_unref(kv);
}

static void fail_everywhere(void)
{
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context;
        pc__kv *from = NULL, *to = NULL;
        options.allocator = &mem;
        options.threads = 1;
        if (pc_context_new(&context, &options) == PC_OK
            && make_run(&from, &context->mem, PC_DTYPE_F16, 70) == PC_OK
            && pc__kv_convert(&to, context, from, PC_DTYPE_I8) < 0)
            CHECK(!to);
        pc__kv_unref(from);
        pc__kv_unref(to);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        if (memory.calls < at)
            break;
    }
}

int main(void)
{
    pc_context *context;
    halves();
    CHECK_OK(pc_context_new(&context, NULL));
    for (uint32_t dtype = PC_DTYPE_F32; dtype <= PC_DTYPE_F16; dtype++) {
        to_int8(context, dtype, 1);
        to_int8(context, dtype, 64);
        to_int8(context, dtype, 150);
    }
    strange_numbers(context);
    pc_context_free(context);
    same_for_any_threads();
    fail_everywhere();
    return pc_test_end();
}
