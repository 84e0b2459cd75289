/* Packs the last page of a block (codec_internal.h). */
#include "store/codec/codec_internal.h"

#include <promptcache/cache.h>
#include <string.h>

int pc__block_pages_of(const pc_codec_block *block, pc__block_pages *out)
{
    int latent = block->layout == PC_LAYOUT_LATENT;
    pc__block_pages p = {
        {1, block->kv_heads, block->k_dim, block->v_dim, block->dtype, latent}, 0, 0, 0, 0};
    uint64_t bytes;
    if (!pc__layout_has_pages(block->layout) || !pc__kv_dtype_known(block->dtype)
        || block->kv_heads < 1 || block->k_dim < 1 || block->v_dim < 1
        || block->k_dim > PC__MAX_HEAD || block->v_dim > PC__MAX_HEAD
        || (latent && block->v_dim > block->k_dim) || block->tokens < 1
        || block->tokens > block->bytes)
        return 0;
    p.page_bytes = pc__kv_page_bytes(&p.shape);
    p.tokens = (size_t)block->tokens;
    p.pages = (p.tokens - 1) / PC__PAGE + 1;
    p.last = (p.tokens - 1) % PC__PAGE + 1;
    if (__builtin_mul_overflow((uint64_t)p.pages * (uint64_t)block->kv_heads,
                               (uint64_t)p.page_bytes, &bytes)
        || bytes != block->bytes)
        return 0;
    *out = p;
    return 1;
}

/* One head's page: rows of K, partly used, and their scales; then V, of which the first part is
 * used, and its scales. */
typedef struct page_form {
    size_t rows, row, used; /* of K; bytes of a row; used ones of these */
    size_t k_rest;          /* after the rows */
    size_t v, v_used, v_rest;
} page_form;

static page_form form_of(const pc__block_pages *p)
{
    /* Dimensions of K, or tokens of V, that are interleaved. */
    size_t by = p->shape.dtype == PC_DTYPE_F32 ? 1 : p->shape.dtype == PC_DTYPE_I8 ? 4 : 2;
    size_t value = 4 / by, k_bytes = pc__kv_k_bytes(&p->shape),
           v_dim = p->shape.latent ? 0 : (size_t)p->shape.v_dim;
    page_form f = {.rows = ((size_t)p->shape.k_dim + by - 1) / by,
                   .row = by * PC__PAGE * value,
                   .used = by * p->last * value};
    f.k_rest = k_bytes - f.rows * f.row;
    f.v = PC__PAGE * v_dim * value;
    f.v_used = (p->last + by - 1) / by * by * v_dim * value;
    f.v_rest = p->page_bytes - k_bytes - f.v;
    return f;
}

size_t pc__packed_last_page_bytes(const pc__block_pages *pages)
{
    page_form f = form_of(pages);
    return (size_t)pages->shape.kv_heads * (f.rows * f.used + f.k_rest + f.v_used + f.v_rest);
}

static int is_zero(const uint8_t *at, size_t bytes)
{
    uint8_t any = 0;
    for (size_t i = 0; i < bytes; i++)
        any |= at[i];
    return !any;
}

int pc__pack_last_page(const pc__block_pages *pages, const uint8_t *block, uint8_t *to)
{
    page_form f = form_of(pages);
    const uint8_t *at = block
                        + (pages->pages - 1) * (size_t)pages->shape.kv_heads * pages->page_bytes;
    int zero = 1;
    for (size_t h = 0; h < (size_t)pages->shape.kv_heads && zero; h++) {
        for (size_t r = 0; r < f.rows; r++, at += f.row, to += f.used) {
            memcpy(to, at, f.used);
            zero &= is_zero(at + f.used, f.row - f.used);
        }
        memcpy(to, at, f.k_rest + f.v_used);
        at += f.k_rest + f.v_used;
        to += f.k_rest + f.v_used;
        zero &= is_zero(at, f.v - f.v_used);
        at += f.v - f.v_used;
        memcpy(to, at, f.v_rest);
        at += f.v_rest;
        to += f.v_rest;
    }
    return zero;
}

void pc__unpack_last_page(const pc__block_pages *pages, const uint8_t *from, uint8_t *block)
{
    page_form f = form_of(pages);
    uint8_t *at = block + (pages->pages - 1) * (size_t)pages->shape.kv_heads * pages->page_bytes;
    for (size_t h = 0; h < (size_t)pages->shape.kv_heads; h++) {
        for (size_t r = 0; r < f.rows; r++, at += f.row, from += f.used) {
            memcpy(at, from, f.used);
            memset(at + f.used, 0, f.row - f.used);
        }
        memcpy(at, from, f.k_rest + f.v_used);
        at += f.k_rest + f.v_used;
        from += f.k_rest + f.v_used;
        memset(at, 0, f.v - f.v_used);
        at += f.v - f.v_used;
        memcpy(at, from, f.v_rest);
        at += f.v_rest;
        from += f.v_rest;
    }
}
