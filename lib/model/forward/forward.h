/* One forward pass over a batch of rows of any number of sequences, for every architecture. */
#ifndef PC_MODEL_FORWARD_H
#define PC_MODEL_FORWARD_H

#include "attn/draw.h"
#include "attn/map.h"
#include "attn/plan.h"

#include <promptcache/bench.h>

/* One new token: its id, its position, and where its K and V go. */
typedef struct pc__token_row {
    int32_t token;
    uint32_t want_logits;
    int64_t position;
    pc__kv *run;       /* the caller has grown it (pc__kv_append) */
    size_t slot;       /* token index in the run */
    int64_t run_start; /* K is rotated by position - run_start */
    int32_t type;      /* token type of encoders; else 0 */
} pc__token_row;

/* Attention maps of one lane. A layer whose map is given computes no queries, keys, scores or
 * softmax for the lane: it multiplies the map with the values of the current hidden states. All
 * other layers compute attention. */
typedef struct pc__lane_maps {
    /* of given and recorded maps: the model's heads and order, the lane's tokens */
    pc__map_shape shape;
    const void *const *given; /* [layers]; the array or an entry NULL: computed */
    /* [layers] memory for computed maps, pc__map_bytes(&shape) each; the array or an entry NULL:
     * not recorded */
    void *const *record;
    /* [layers][tokens][hidden]: inputs of attention in layers whose map is given, for
     * pc__complete_keys; NULL: not kept */
    float *inputs;
} pc__lane_maps;

typedef struct pc__pass {
    const pc__token_row *rows;
    pc__rows attend; /* attend.count: rows; attend.spans include the runs that the pass writes */
    uint64_t rope_regime_length; /* as in pc_encode_args */
    float *logits;               /* [rows that want them][vocab]; NULL if none does */
    /* what the backend draws from rows that want logits, which do not come to the host; NULL:
     * nothing */
    const pc__draws *draws;
    /* [lane_count + 1] first row of each lane, for traces and for models without causal order;
     * NULL: one lane */
    const size_t *lane_first;
    size_t lane_count;
    void (*trace)(void *user, const pc_trace *trace); /* NULL: none */
    void *trace_user;
    float *final; /* [rows][hidden] after the last layer and the final norm, or NULL */
    /* [lane_count] or NULL. With maps, lanes are not cut into blocks. A lane whose maps are all
     * given has no spans. A lane with maps sees the run that it writes, from slot 0 on, and nothing
     * else: PC_ERR_MISMATCH. */
    const pc__lane_maps *maps;
    /* Asked before a layer is computed, for every lane without a given map: x [tokens][hidden] is
     * the input of the layer. Returns a map in the shape of the lane, or NULL: computed. The map
     * must live until the next call for that lane, or until the pass ends. */
    const void *(*choose_map)(void *user, size_t lane, int32_t layer, const float *x);
    void *choose_user;
    int32_t (*cancelled)(void *user);
    void *cancel_user;
    /* 1: leaves attention out (its result is zero), to measure the rest; not with maps or trace */
    int skips_attention;
    /* 0: the whole pass; n: only K and V of the first n layers, without logits and without the map
     * of layer n */
    int32_t kv_layers;
} pc__pass;

/* With `trace`, every row of a lane must name the same runs in the same order (lo = hi where it
 * sees none of a run): they are the key axis of "probs". Runs and spans must have one RoPE regime
 * (model/load/positions.h) and the shape of the model: PC_ERR_MISMATCH.
 *
 * Rows run in blocks of PC__BLOCK, in their order, each block through all layers, so that
 * activations stay small. A row may see new rows of its own block and of earlier blocks only.
 * Results do not depend on the cuts. Lanes of a model without causal order are not cut: each lies
 * in one block and in one run, from slot 0 on, and each row sees all of it. */
enum { PC__BLOCK = 512 };
pc_status pc__forward(const pc_model *model, const pc__pass *pass);

/* The run of a lane with given maps has values only (pc__kv.values_only), and nothing may attend to
 * it. This computes its keys from the inputs that the pass kept (pc__lane_maps.inputs), in the
 * layers that `missing` marks (NULL: all): bit-equal to a pass over the same hidden states.
 * PC_ERR_NOMEM leaves the run as it was. */
pc_status pc__complete_keys(const pc_model *model, pc__kv *run, const float *inputs,
                            const uint8_t *missing);

/* The input of a model's first layer: embeddings of tokens at positions 0 to count - 1, after the
 * first norm where the model norms its inputs, x [count][hidden]. Cheap beside a pass; a memo
 * compares prompts by it. PC_ERR_INVALID, PC_ERR_LIMIT: a token or a length that the model cannot
 * have. PC_ERR_UNSUPPORTED: an application's model. Any thread. */
pc_status pc__first_input(const pc_model *model, const pc_input *input, float *x);

#endif
