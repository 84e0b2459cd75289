/* Attention maps as data: the weights after softmax of one sequence in one layer, packed, and out =
 * map x V over the pages of its K/V run. For maps that do not come from q.k alone: remembered maps
 * (lib/memo; AttnCache section 3.2) and disentangled attention (DeBERTa).
 *
 * Layout: [head][row]. A row holds the weights of keys 0 … count - 1: of all tokens, or, in a
 * causal map, of the tokens up to the row's own (count is row + 1). Rows follow each other without
 * gaps. U8 maps have one fp32 scale per row; all scales stand behind the weights, at the next
 * multiple of 4 bytes, [head][row]. Little-endian. A map starts at a multiple of 4 bytes. */
#ifndef PC_ATTN_MAP_H
#define PC_ATTN_MAP_H

#include "attn/plan.h"

#include <promptcache/memo.h>

typedef struct pc__map_shape {
    uint32_t format; /* PC_MAP_…; U8: weight = scale * byte, scale = largest of the row / 255 */
    int32_t heads;
    size_t tokens; /* rows, and keys of the last one */
    int causal;
} pc__map_shape;

/* Where the weights of a row begin, in weights from the start of its head. */
static inline size_t pc__map_row_at(const pc__map_shape *shape, size_t row)
{
    return shape->causal ? row * (row + 1) / 2 : row * shape->tokens;
}

static inline size_t pc__map_row_keys(const pc__map_shape *shape, size_t row)
{
    return shape->causal ? row + 1 : shape->tokens;
}

static inline size_t pc__map_weight_bytes(uint32_t format)
{
    return format == PC_MAP_F32 ? 4 : format == PC_MAP_F16 ? 2 : 1;
}

/* Bytes of one layer; 0: too many, or the shape is invalid. */
size_t pc__map_bytes(const pc__map_shape *shape);
/* Packs fp32 [head][row][tokens]; weights beyond a causal row are not read. U8: negative weights
 * and NaN become zero. */
void pc__map_pack(const pc__map_shape *shape, const float *dense, void *out);
/* One row: weights [pc__map_row_keys]. */
void pc__map_pack_row(const pc__map_shape *shape, size_t head, size_t row, const float *weights,
                      void *out);

/* A lane of a forward pass with a given map. */
typedef struct pc__map_lane {
    pc__map_shape shape;
    const void *map; /* of the layer */
    /* its V pages hold tokens 0 … shape.tokens - 1; K is not read */
    const pc__kv *kv;
    size_t first_row; /* of `out` */
} pc__map_lane;

/* out [first_row + row][head][v_dim]: the rows of all lanes; heads / kv_heads heads share a K/V
 * head. Runs on the context's threads. A row's result depends on its own weights and the values
 * alone. If V is bf16, weights of F32 and F16 maps may be rounded to bf16. PC_ERR_NOMEM;
 * PC_ERR_MISMATCH: a map that does not fit its run, or lanes with different heads;
 * PC_ERR_UNSUPPORTED: V is int8. */
pc_status pc__map_apply(pc_context *context, const pc__map_lane *lanes, size_t count, int32_t layer,
                        float *out);
/* Why pc__map_apply would refuse, but for memory. */
pc_status pc__check_map_lanes(const pc__map_lane *lanes, size_t count, int32_t layer);

/* The same for rows [first, first + rows) of one head, without a lane: fp32 weights
 * [tokens][tokens], fp32 values [tokens][v_dim], 64-byte aligned, readable up to a whole number of
 * pages (PC__PAGE tokens); out: row `first`, `out_stride` floats between rows. Runs on the calling
 * thread, also within pc__parallel. */
void pc__map_apply_plain(const float *weights, size_t tokens, size_t first, size_t rows,
                         const float *values, size_t v_dim, float *out, size_t out_stride);

/* A map to record, of a lane whose rows saw exactly the tokens of their run, up to their own or
 * all. */
typedef struct pc__map_out {
    pc__map_shape shape;
    void *map;
    const pc__kv *kv;        /* K of tokens 0 … shape.tokens - 1 */
    size_t first_row;        /* of q and lse */
    int64_t start;           /* of the run */
    const int64_t *distance; /* [tokens] position of a row minus the start of the run */
} pc__map_out;

/* Records maps from the inputs of attention, q [row][head][k_dim] before rotation, and its result,
 * lse [row][head]: weights exp(score - lse). PC_ERR_NOMEM. */
pc_status pc__record_maps(pc_context *context, const pc__attn_layer *layer,
                          const pc__map_out *lanes, size_t count, const float *q, const float *lse);

#endif
