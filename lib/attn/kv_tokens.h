/* K and V of one layer token by token, as other runtimes hold them, and pages of it (attn/kv.h). */
#ifndef PC_ATTN_KV_TOKENS_H
#define PC_ATTN_KV_TOKENS_H

#include "attn/kv.h"

/* Of `tokens` tokens: k [token][kv_heads][k_dim], v [token][kv_heads][v_dim], in the format of the
 * shape (F32, BF16 or F16; not latent). pages: pc__kv_layer_bytes of them; what is behind the last
 * token becomes zero. A finite number comes back as it was. scratch: pc__page_floats(shape). */
void pc__tokens_to_pages(const pc__kv_shape *shape, size_t tokens, const void *k, const void *v,
                         uint8_t *pages, float *scratch);
void pc__pages_to_tokens(const pc__kv_shape *shape, size_t tokens, const uint8_t *pages, void *k,
                         void *v, float *scratch);

#endif
