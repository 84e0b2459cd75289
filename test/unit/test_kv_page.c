/* Catches: values of a latent page that are not the last channels of its keys; a page as numbers
 * that is not what its tokens are one by one (pc__kv_read), a page written otherwise than token by
 * token (pc__kv_write), or than pc__kv_write_i8 writes it, bit for bit; bytes beyond the tokens
 * that are not zero. */
#include <stdlib.h>
#include <string.h>

#include "attn/kv_page.h"
#include "base/mem.h"
#include "testing.h"

enum { HEADS = 2 };

static void one(uint32_t dtype, int32_t k_dim, int32_t v_dim, int32_t latent, size_t tokens)
{
    pc__kv_shape shape = {1, HEADS, k_dim, v_dim, dtype, latent};
    size_t kd = (size_t)k_dim, vd = (size_t)v_dim, bytes = pc__kv_page_bytes(&shape);
    float *k = calloc(2 * HEADS * PC__PAGE * (kd + vd), sizeof *k), *v = k + HEADS * PC__PAGE * kd,
          *k2 = v + HEADS * PC__PAGE * vd, *v2 = k2 + PC__PAGE * kd,
          *row = calloc(HEADS * (kd + vd), sizeof *row), *v_row = row + HEADS * kd;
    uint8_t *page = malloc(bytes);
    pc_test_rng rng = {7 * tokens + kd};
    pc__kv *kv;
    int wrong = 0;
    for (size_t i = 0; i < HEADS * tokens * kd; i++)
        k[i] = 3.0f * pc_test_normal(&rng);
    for (size_t i = 0; i < HEADS * tokens * vd; i++)
        v[i] = pc_test_normal(&rng);
    CHECK_OK(pc__kv_new(&kv, &pc__libc_allocator, &shape, tokens));
    kv->tokens = tokens;
    if (dtype == PC_DTYPE_I8)
        pc__kv_write_i8(&shape, kv->layer[0], 0, tokens, k, v);
    for (size_t t = 0; dtype != PC_DTYPE_I8 && t < tokens; t++)
        pc__kv_write(kv, 0, t, k + t * HEADS * kd, v + t * HEADS * vd);
    for (size_t h = 0; h < HEADS; h++) {
        pc__page_read(&shape, kv->layer[0] + h * bytes, k2, v2);
        for (size_t t = 0; t < tokens; t++) {
            pc__kv_read(kv, 0, t, row, v_row);
            for (size_t d = 0; d < kd; d++)
                wrong += k2[d * PC__PAGE + t] != row[h * kd + d];
            wrong += memcmp(v2 + t * vd, v_row + h * vd, vd * sizeof *v2) != 0;
            for (size_t d = 0; latent && d < vd; d++)
                wrong += v_row[h * vd + d] != row[h * kd + kd - vd + d];
        }
        for (size_t t = 0; t < tokens;
             t++) { /* as they were before rounding, so that rounding is compared too */
            for (size_t d = 0; d < kd; d++)
                k2[d * PC__PAGE + t] = k[(t * HEADS + h) * kd + d];
            memcpy(v2 + t * vd, v + (t * HEADS + h) * vd, vd * sizeof *v2);
        }
        for (size_t t = tokens; t < PC__PAGE; t++) /* not to be looked at */
            k2[t] = v2[t * vd] = 77.0f;
        memset(page, 0xff, bytes);
        pc__page_write(&shape, page, tokens, k2, v2);
        wrong += memcmp(page, kv->layer[0] + h * bytes, bytes) != 0;
    }
    CHECK_INT(wrong, 0);
    pc__kv_unref(kv);
    free(page);
    free(row);
    free(k);
}

int main(void)
{
    for (uint32_t dtype = PC_DTYPE_F32; dtype <= PC_DTYPE_I8; dtype++)
        for (size_t tokens = 1; tokens <= PC__PAGE; tokens += tokens < 4 ? 1 : 20) {
            one(dtype, 1, 1, 0, tokens);
            one(dtype, 21, 13, 0, tokens);
            one(dtype, 64, 128, 0, tokens);
            one(dtype, 21, 13, 1, tokens);
            one(dtype, 40, 40, 1, tokens);
            one(dtype, 72, 64, 1, tokens);
        }
    return pc_test_end();
}
