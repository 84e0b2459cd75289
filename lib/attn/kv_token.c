/* Single tokens into pages and out of them. */
#include <string.h>

#include "attn/bf16.h"
#include "attn/half.h"
#include "attn/kv.h"

static uint8_t *page_of(const pc__kv *kv, int32_t layer, size_t token, size_t head)
{
    size_t bytes = pc__kv_page_bytes(&kv->shape);
    return kv->layer[layer] + ((token / PC__PAGE) * (size_t)kv->shape.kv_heads + head) * bytes;
}

/* Index of dimension d of token t, if groups of `by` dimensions (K) or tokens (V) are interleaved.
 */
static size_t k_index(size_t d, size_t t, size_t by)
{
    return (d / by * PC__PAGE + t) * by + d % by;
}

static size_t v_index(size_t t, size_t d, size_t v_dim, size_t by)
{
    return (t / by * v_dim + d) * by + t % by;
}

/* A token within the page of one head. */
typedef struct token_place {
    uint8_t *k, *v;
    size_t t, k_dim, v_dim;
} token_place;

static token_place token_place_of(const pc__kv *kv, int32_t layer, size_t token, size_t head)
{
    uint8_t *page = page_of(kv, layer, token, head);
    return (token_place){page, page + pc__kv_k_bytes(&kv->shape), token % PC__PAGE,
                         (size_t)kv->shape.k_dim, (size_t)kv->shape.v_dim};
}

static void write_token_f32(const token_place *p, const float *k, const float *v)
{
    float *pk = (float *)(void *)p->k, *pv = (float *)(void *)p->v;
    for (size_t d = 0; k && d < p->k_dim; d++)
        pk[d * PC__PAGE + p->t] = k[d];
    if (v)
        memcpy(pv + p->t * p->v_dim, v, p->v_dim * sizeof *v);
}

/* Inlined, so that the conversion becomes part of the loop. */
static inline __attribute__((always_inline)) void write_token_16(const token_place *p,
                                                                 const float *k, const float *v,
                                                                 uint16_t (*from)(float))
{
    uint16_t *pk = (uint16_t *)(void *)p->k, *pv = (uint16_t *)(void *)p->v;
    for (size_t d = 0; k && d < p->k_dim; d++)
        pk[k_index(d, p->t, 2)] = from(k[d]);
    for (size_t d = 0; v && d < p->v_dim; d++)
        pv[v_index(p->t, d, p->v_dim, 2)] = from(v[d]);
}

void pc__kv_write(pc__kv *kv, int32_t layer, size_t token, const float *k, const float *v)
{
    for (size_t h = 0; h < (size_t)kv->shape.kv_heads; h++) {
        token_place p = token_place_of(kv, layer, token, h);
        if (kv->shape.dtype == PC_DTYPE_F32)
            write_token_f32(&p, k, v);
        else if (kv->shape.dtype == PC_DTYPE_BF16)
            write_token_16(&p, k, v, pc__bf16_from);
        else
            write_token_16(&p, k, v, pc__half_from);
        k += k ? p.k_dim : 0;
        v += v ? p.v_dim : 0;
    }
}

static void read_token_f32(const token_place *p, float *k, float *v)
{
    const float *pk = (const float *)(const void *)p->k;
    for (size_t d = 0; d < p->k_dim; d++)
        k[d] = pk[d * PC__PAGE + p->t];
    memcpy(v, (const float *)(const void *)p->v + p->t * p->v_dim, p->v_dim * sizeof *v);
}

static inline __attribute__((always_inline)) void read_token_16(const token_place *p, float *k,
                                                                float *v, float (*to)(uint16_t))
{
    const uint16_t *pk = (const uint16_t *)(const void *)p->k,
                   *pv = (const uint16_t *)(const void *)p->v;
    for (size_t d = 0; d < p->k_dim; d++)
        k[d] = to(pk[k_index(d, p->t, 2)]);
    for (size_t d = 0; d < p->v_dim; d++)
        v[d] = to(pv[v_index(p->t, d, p->v_dim, 2)]);
}

static void read_token_i8(const token_place *p, float *k, float *v)
{
    const int8_t *pk = (const int8_t *)p->k, *pv = (const int8_t *)p->v;
    const uint16_t *k_scale = (const uint16_t *)(const void *)(p->k + pc__i8_k_scales(p->k_dim));
    float scale = pc__bf16_to(
        ((const uint16_t *)(const void *)(p->v + pc__i8_v_scales(p->v_dim)))[p->t]);
    for (size_t d = 0; d < p->k_dim; d++)
        k[d] = pc__bf16_to(k_scale[d]) * (float)pk[k_index(d, p->t, 4)];
    for (size_t d = 0; d < p->v_dim; d++)
        v[d] = scale * (float)pv[v_index(p->t, d, p->v_dim, 4)];
}

void pc__kv_read(const pc__kv *kv, int32_t layer, size_t token, float *k, float *v)
{
    for (size_t h = 0; h < (size_t)kv->shape.kv_heads; h++) {
        token_place p = token_place_of(kv, layer, token, h);
        switch (kv->shape.dtype) {
        case PC_DTYPE_F32:
            read_token_f32(&p, k, v);
            break;
        case PC_DTYPE_BF16:
            read_token_16(&p, k, v, pc__bf16_to);
            break;
        case PC_DTYPE_F16:
            read_token_16(&p, k, v, pc__half_to);
            break;
        default:
            read_token_i8(&p, k, v);
            break;
        }
        k += p.k_dim;
        v += p.v_dim;
    }
}
