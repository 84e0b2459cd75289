/* Disentangled attention (He et al. 2021, DeBERTa, equation 4; the buckets of DeBERTaV3): the score
 * of a query at i and a key at j is scale * (q.k + q.K(i - j) + k.Q(i - j)). K and Q are the keys
 * and queries of an embedding of the distance; their rows are computed once, at load. The map is
 * computed whole, in fp32. For backends whose memory the host sees. */
#ifndef PC_ATTN_DISENTANGLED_ATTENTION_H
#define PC_ATTN_DISENTANGLED_ATTENTION_H

#include "attn/backend.h"

typedef struct pc__relative_config {
    int32_t layers, heads, head_dim;
    int32_t relative; /* rows of the embedding / 2 */
    int32_t farthest; /* largest distance; farther tokens count as this far */
    /* of distances, logarithmic beyond a quarter of them; 0: every distance has its own row */
    int32_t buckets;
} pc__relative_config;

/* An empty one, then the rows of each layer. */
pc_status pc__disentangled_new(pc__disentangled **out, pc__backend *backend,
                               const pc__relative_config *config);
/* keys, queries: [2 * relative][heads * head_dim]; NULL: no such term. */
pc_status pc__disentangled_set(pc__disentangled *relative, int32_t layer, const float *keys,
                               const float *queries);
/* NULL does nothing, and has 0 bytes. */
void pc__disentangled_free(pc__disentangled *relative);
uint64_t pc__disentangled_bytes(const pc__disentangled *relative);

/* The row of a distance in the embedding: 0 to 2 * relative - 1. */
int32_t pc__disentangled_row(const pc__relative_config *config, int64_t distance);

/* Rows of a layer, lane by lane: every row of a lane sees the whole lane. */
struct pc__disentangled_rows {
    int32_t layer;
    float scale;
    size_t count;
    const int64_t *positions;   /* [count] */
    const pc__row_range *lanes; /* [lane_count] */
    const uint8_t *left_out;    /* [lane_count] 1: neither computed nor written; NULL: none */
    size_t lane_count;
    const pc__floats *q, *k, *v; /* [row][head][head_dim] */
    pc__floats *out;             /* map x V */
    float *maps;                 /* [lane][head][row of the lane][key] or NULL */
};
pc_status pc__disentangled_attend(pc__stream *stream, const pc__disentangled *relative,
                                  const pc__disentangled_rows *rows);

#endif
