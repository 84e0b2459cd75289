/* One head's page to fp32 and back, in every format (attn/kv.h). kv_page.c also reads and writes
 * single tokens (pc__kv_read, pc__kv_write), and only it knows how I8 pages are scaled. */
#ifndef PC_ATTN_KV_PAGE_H
#define PC_ATTN_KV_PAGE_H

#include "attn/kv.h"

/* k [k_dim][PC__PAGE], v [PC__PAGE][v_dim], with the padding. */
void pc__page_read(const pc__kv_shape *shape, const uint8_t *page, float *k, float *v);
/* Writes the first `tokens` (1 … PC__PAGE) tokens and zeros the rest of the page. Rounds like
 * pc__kv_write and pc__kv_write_i8. */
void pc__page_write(const pc__kv_shape *shape, uint8_t *page, size_t tokens, const float *k,
                    const float *v);
/* One token of a page, k [k_dim] and v [v_dim], as pc__kv_write and pc__kv_read. */
void pc__page_write_token(const pc__kv_shape *shape, uint8_t *page, size_t token, const float *k,
                          const float *v);
void pc__page_read_token(const pc__kv_shape *shape, const uint8_t *page, size_t token, float *k,
                         float *v);

/* Numbers from which an I8 page is made: value d of token t is k[d * k_dims + t * k_tokens] and
 * v[t * v_tokens + d]. */
typedef struct pc__i8_source {
    uint32_t dtype; /* PC_DTYPE_F32, BF16 or F16 */
    const void *k;
    size_t k_dims, k_tokens;
    const void *v;
    size_t v_tokens;
} pc__i8_source;
/* Writes an I8 page of one head as pc__kv_write_i8. */
void pc__page_write_i8(const pc__kv_shape *shape, uint8_t *page, size_t tokens,
                       const pc__i8_source *from);
/* Zeros tokens [from, to) of a page of all heads (kv.c). */
void pc__page_zero(const pc__kv_shape *shape, uint8_t *page, size_t from, size_t to);
/* 1: a layer has only zeros behind the last token (pc__kv_clear_tail; kv.c). */
int pc__kv_tail_is_clear(const pc__kv *kv, size_t layer);
/* Floats of k and v together. */
size_t pc__page_floats(const pc__kv_shape *shape);

#endif
