/* Layers token by token, to pages and back: page by page and head by head, through fp32. */
#include "attn/kv_tokens.h"

#include "attn/half.h"
#include "attn/kv_page.h"

static float number_at(const void *from, uint32_t dtype, size_t i)
{
    if (dtype == PC_DTYPE_F32)
        return ((const float *)from)[i];
    uint16_t bits = ((const uint16_t *)from)[i];
    return dtype == PC_DTYPE_BF16 ? pc__bf16_to(bits) : pc__half_to(bits);
}

static void set_number(void *to, uint32_t dtype, size_t i, float x)
{
    if (dtype == PC_DTYPE_F32)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] = dtype == PC_DTYPE_BF16 ? pc__bf16_from(x) : pc__half_from(x);
}

/* One head of tokens [first, first + count). */
typedef struct page_of {
    const pc__kv_shape *shape;
    size_t head, first, count, k_dim, v_dim;
    float *k, *v; /* as pc__page_read gives them */
} page_of;

static size_t k_at(const page_of *p, size_t t, size_t d)
{
    return ((p->first + t) * (size_t)p->shape->kv_heads + p->head) * p->k_dim + d;
}

static size_t v_at(const page_of *p, size_t t, size_t d)
{
    return ((p->first + t) * (size_t)p->shape->kv_heads + p->head) * p->v_dim + d;
}

static page_of page_at(const pc__kv_shape *shape, size_t tokens, size_t page, size_t head,
                       float *scratch)
{
    page_of p = {.shape = shape,
                 .head = head,
                 .first = page * PC__PAGE,
                 .k_dim = (size_t)shape->k_dim,
                 .v_dim = (size_t)shape->v_dim,
                 .k = scratch,
                 .v = scratch + (size_t)shape->k_dim * PC__PAGE};
    p.count = tokens - p.first < PC__PAGE ? tokens - p.first : PC__PAGE;
    return p;
}

static size_t page_count(size_t tokens)
{
    return (tokens + PC__PAGE - 1) / PC__PAGE;
}

void pc__tokens_to_pages(const pc__kv_shape *shape, size_t tokens, const void *k, const void *v,
                         uint8_t *pages, float *scratch)
{
    size_t bytes = pc__kv_page_bytes(shape), heads = (size_t)shape->kv_heads;
    for (size_t i = 0; i < page_count(tokens) * heads; i++, pages += bytes) {
        page_of p = page_at(shape, tokens, i / heads, i % heads, scratch);
        for (size_t t = 0; t < p.count; t++)
            for (size_t d = 0; d < p.k_dim; d++)
                p.k[d * PC__PAGE + t] = number_at(k, shape->dtype, k_at(&p, t, d));
        for (size_t t = 0; t < p.count; t++)
            for (size_t d = 0; d < p.v_dim; d++)
                p.v[t * p.v_dim + d] = number_at(v, shape->dtype, v_at(&p, t, d));
        pc__page_write(shape, pages, p.count, p.k, p.v);
    }
}

void pc__pages_to_tokens(const pc__kv_shape *shape, size_t tokens, const uint8_t *pages, void *k,
                         void *v, float *scratch)
{
    size_t bytes = pc__kv_page_bytes(shape), heads = (size_t)shape->kv_heads;
    for (size_t i = 0; i < page_count(tokens) * heads; i++, pages += bytes) {
        page_of p = page_at(shape, tokens, i / heads, i % heads, scratch);
        pc__page_read(shape, pages, p.k, p.v);
        for (size_t t = 0; t < p.count; t++)
            for (size_t d = 0; d < p.k_dim; d++)
                set_number(k, shape->dtype, k_at(&p, t, d), p.k[d * PC__PAGE + t]);
        for (size_t t = 0; t < p.count; t++)
            for (size_t d = 0; d < p.v_dim; d++)
                set_number(v, shape->dtype, v_at(&p, t, d), p.v[t * p.v_dim + d]);
    }
}
