/* One head's page as numbers and back, in every format (attn/kv.h): the one place that knows how
 * int8 pages are scaled. */
#ifndef PC_ATTN_KV_PAGE_H
#define PC_ATTN_KV_PAGE_H

#include "attn/kv.h"

/* k [k_dim][PC__PAGE], v [PC__PAGE][v_dim]; padding too. */
void pc__page_read(const pc__kv_shape *shape, const uint8_t *page, float *k, float *v);
/* The first `tokens` (1 … PC__PAGE) of them; the rest of the page becomes zeros. Rounds to the
 * format as pc__kv_write and pc__kv_write_i8 do. */
void pc__page_write(const pc__kv_shape *shape, uint8_t *page, size_t tokens, const float *k,
                    const float *v);
/* Floats that k and v take together. */
size_t pc__page_floats(const pc__kv_shape *shape);

#endif
