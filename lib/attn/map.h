/* Attention maps as data: the weights after softmax of one sequence in one layer, kept in a compact
 * form, and out = map x V over the pages of its run. Used where maps are not the result of q.k
 * alone: remembered ones (lib/memo; AttnCache section 3.2) and those with terms of their own
 * (DeBERTa).
 *
 * Layout: [head][row], a row holds the weights of keys 0 … count - 1: of all tokens, or, in a
 * causal map, of those up to the row's own (triangular: count is row + 1). Rows follow each other
 * without gaps; U8 maps have a fp32 scale a row, all of them behind the weights, at the next
 * multiple of 4 bytes, [head][row]. Little-endian. A map starts at a multiple of 4 bytes. */
#ifndef PC_ATTN_MAP_H
#define PC_ATTN_MAP_H

#include "attn/plan.h"

typedef struct pc__map_shape {
    uint32_t format; /* PC_MAP_…; U8: weight = scale * byte, scale = largest of the row / 255 */
    int32_t heads;
    size_t tokens; /* rows, and keys of the last one */
    int causal;
} pc__map_shape;

/* The weights of a row begin that many weights behind the start of its head. */
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

size_t pc__map_bytes(const pc__map_shape *shape); /* of one layer; 0: too many, or not a shape */
size_t pc__map_scales_at(const pc__map_shape *shape); /* of a U8 map whose shape has pc__map_bytes:
                                                         where its scales begin, in bytes */
/* From fp32 [head][row][tokens]; what a causal map cannot hold is not looked at. U8: what is below
 * zero, or no number, becomes zero. */
void pc__map_pack(const pc__map_shape *shape, const float *dense, void *out);
/* One row: weights [pc__map_row_keys]. */
void pc__map_pack_row(const pc__map_shape *shape, size_t head, size_t row, const float *weights,
                      void *out);
void pc__map_unpack(const pc__map_shape *shape, const void *map,
                    float *dense); /* zeros where a causal map has nothing */

/* One sequence of a pass. */
typedef struct pc__map_lane {
    pc__map_shape shape;
    const void *map; /* of the layer */
    const pc__kv
        *kv; /* its V pages hold the values of tokens 0 … shape.tokens - 1; K is not read */
    size_t first_row; /* of `out` */
} pc__map_lane;

/* out [first_row + row][head][v_dim]: every lane's rows; heads / kv_heads of them share a K/V head.
 * On the context's threads; a row's result depends on nothing but its own weights and the values.
 * Over V in bf16, weights of F32 and F16 maps may be rounded to bf16. PC_ERR_NOMEM;
 * PC_ERR_MISMATCH: a map that does not fit its run, or lanes of different heads;
 * PC_ERR_UNSUPPORTED: V in int8. */
pc_status pc__map_apply(pc_context *context, const pc__map_lane *lanes, size_t count, int32_t layer,
                        float *out);

/* The same for rows [first, first + rows) of one head of a map in fp32 that is no lane's: weights
 * [tokens][tokens], values [tokens][v_dim] that lie in no page but are fp32, 64-byte aligned,
 * followed by room up to a whole number of pages (PC__PAGE tokens); out: row `first`, `out_stride`
 * floats between rows. On the calling thread, from within pc__parallel too. */
void pc__map_apply_plain(const float *weights, size_t tokens, size_t first, size_t rows,
                         const float *values, size_t v_dim, float *out, size_t out_stride);

/* A map to be recorded, of one sequence whose rows have seen the tokens of their run up to their
 * own, or all of it, and nothing else. */
typedef struct pc__map_out {
    pc__map_shape shape;
    void *map;
    const pc__kv *kv;        /* K of tokens 0 … shape.tokens - 1 */
    size_t first_row;        /* of q and lse */
    const int64_t *distance; /* [tokens] position of a row minus the start of the run */
} pc__map_out;

/* From what attention was given, q [row][head][k_dim] before it is turned, and its result lse
 * [row][head]: weights exp(score - lse). PC_ERR_NOMEM. */
pc_status pc__record_maps(pc_context *context, const pc__attn_layer *layer,
                          const pc__map_out *lanes, size_t count, const float *q, const float *lse);

#endif
