/* The CPU's code behind plain functions, because C++ cannot read headers of lib with C11 atomics.
 */
#ifndef PC_TEST_DENSE_REFERENCE_H
#define PC_TEST_DENSE_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/kernels/kv_write.h"

#ifdef __cplusplus
extern "C" {
#endif

void reference_gelu(float *x, size_t count);
void reference_silu_gate(float *x, const float *up, size_t count);
/* one row */
void reference_rotate(uint32_t dims, uint32_t interleaved, const float *cosine, const float *sine,
                      float scale, const float *from, float *to, size_t heads, size_t dim);

typedef struct reference_routes {
    uint32_t count, used, renormalise;
    float scale;
    float *logits;     /* [row][count] */
    int32_t *chosen;   /* [row][used] */
    float *weight;     /* [row][used] */
    uint32_t *first;   /* [count + 1] */
    uint32_t *row;     /* [entry] */
    float *share;      /* [entry] */
    uint32_t *of_row;  /* [row][used] */
    const float *bias; /* [count] of the choice; NULL: none */
    float *scratch;    /* [row][2 * count] */
    uint32_t sigmoid, groups, groups_used, group_best;
} reference_routes;
void reference_route(reference_routes *routes, size_t rows);

/* A run of one layer. */
enum { REFERENCE_F32, REFERENCE_BF16, REFERENCE_F16, REFERENCE_I8 }; /* format */
typedef struct pc__kv reference_kv;
reference_kv *reference_kv_new(uint32_t format, uint32_t kv_heads, uint32_t k_dim, uint32_t v_dim,
                               size_t tokens);
void reference_kv_free(reference_kv *kv);
uint8_t *reference_kv_pages(reference_kv *kv);
size_t reference_kv_bytes(const reference_kv *kv); /* of the pages in use */
pc__cuda_page_shape reference_kv_shape(const reference_kv *kv);
void reference_kv_write(reference_kv *kv, size_t token, const float *k, const float *v);
/* the page of `tokens` rows; int8 */
void reference_kv_write_i8(reference_kv *kv, size_t page, size_t tokens, const float *k,
                           const float *v);

/* Panels of random weights: bytes of one, and its product with rows of x. */
typedef struct reference_quantised {
    uint32_t bits, group, minimum, half;
    int32_t zero;
    size_t groups, out;
    uint32_t bytes; /* 2: all groups of inputs are wide; 1: those that stand out */
} reference_quantised;
size_t reference_panel_bytes(const reference_quantised *q);
/* scale and minimum of a group and output */
void reference_panel_scale(const reference_quantised *q, uint8_t *panel, size_t group,
                           size_t output, float scale, float minimum);
void reference_quantised_run(const reference_quantised *q, const uint8_t *panels, const float *x,
                             size_t rows, float *y);

/* A map of one lane, whose run is `kv`. format: PC__CUDA_MAP_F32 … */
typedef struct reference_map {
    uint32_t format, heads, causal;
    size_t tokens;
} reference_map;
size_t reference_map_bytes(const reference_map *map);
/* dense [head][row][tokens] */
void reference_map_pack(const reference_map *map, const float *dense, void *out);
void reference_map_apply(const reference_map *map, const void *packed, const reference_kv *kv,
                         float *out);
/* q [row][head][k_dim], lse [row][head]; distance [tokens] */
void reference_map_record(const reference_map *map, const reference_kv *kv, const float *q,
                          const float *lse, const int64_t *distance, float scale, float soft_cap,
                          const float *slopes, int64_t window, int64_t chunk, void *out);

#ifdef __cplusplus
}
#endif

#endif
