/* One forward pass over a batch of rows of any number of sequences, for every architecture. */
#ifndef PC_MODEL_FORWARD_H
#define PC_MODEL_FORWARD_H

#include "attn/map.h"
#include "attn/plan.h"

/* One new token: what it is, where it stands, where its K and V go. */
typedef struct pc__token_row {
    int32_t token;
    uint32_t want_logits;
    int64_t position;
    pc__kv *run;       /* grown by the caller (pc__kv_append) */
    size_t slot;       /* token index in the run */
    int64_t run_start; /* K is stored turned by position - run_start */
    int32_t type;      /* token type, where the model has learned them; else 0 */
} pc__token_row;

/* What is to become of the attention maps of one lane. Layers whose map is given compute no
 * queries, keys, scores or softmax for it: map x V, with the values of the lane's own hidden
 * states. All other layers are computed as ever. */
typedef struct pc__lane_maps {
    pc__map_shape
        shape; /* of the maps given and recorded: the model's heads and order, the lane's tokens */
    const void *const *given; /* [layers]; NULL, as an array or as an entry: computed */
    void *const *record; /* [layers] pc__map_bytes(&shape) each: maps that are computed go there;
                            NULL, as an array or as an entry: nowhere */
    float *inputs; /* [layers][tokens][hidden]: what attention reads in layers whose map is given,
                      for pc__complete_keys; NULL: not kept */
} pc__lane_maps;

typedef struct pc__pass {
    const pc__token_row *rows;
    pc__rows attend; /* attend.count = number of rows; attend.spans include the runs that this pass
                        writes */
    uint64_t rope_regime_length; /* see pc_encode_args */
    float *logits;               /* [rows that want them][vocab], may be NULL if none does */
    const size_t *lane_first; /* for tracing and for models without causal order: [lane_count + 1]
                                 rows of each lane; NULL: one lane */
    size_t lane_count;
    void (*trace)(void *user, const pc_trace *trace); /* NULL: none */
    void *trace_user;
    float *final; /* [rows][hidden] of the last layer behind the final norm, or NULL */
    /* Maps of lanes, [lane_count], or NULL. Lanes are then not cut into blocks. One whose maps are
     * all given names no spans; a lane with maps sees the run that it writes, from slot 0 on, and
     * nothing else: PC_ERR_MISMATCH. */
    const pc__lane_maps *maps;
    /* Asked for every lane and layer, before the layer is computed, for which no map is given: x
     * [tokens][hidden] is the layer's input. A map in the lane's shape, or NULL: it is computed. It
     * has to live until the next call for that lane, or the end of the pass. */
    const void *(*choose_map)(void *user, size_t lane, int32_t layer, const float *x);
    void *choose_user;
    int32_t (*cancelled)(void *user);
    void *cancel_user;
    int skips_attention; /* 1: nothing is gathered, `seen` is zero; for measuring the rest. Not with
                            maps or trace */
    int32_t kv_layers;   /* 0: the whole pass; n: only the K and V of the first n layers (no logits,
                            no maps of the n-th) */
} pc__pass;

/* Under `trace` every row of a lane must name the same runs in the same order (lo = hi where it
 * sees none of one): they are the key axis of "probs". Runs and spans must be of one regime
 * (lib/model/load/positions.h) and of the model's shape: PC_ERR_MISMATCH.
 *
 * Rows are worked off in blocks of PC__BLOCK in their order, each block through all layers, so that
 * activations stay small: a row may only see new rows of its own block or of earlier ones. Results
 * do not depend on where the blocks are cut. Lanes of a model without causal order are not cut:
 * each is in one block, its rows are those of one run, from slot 0 on, and each row sees all of it.
 */
enum { PC__BLOCK = 512 };
pc_status pc__forward(const pc_model *model, const pc__pass *pass);

/* Runs of lanes with given maps have values only (pc__kv.values_only) and refuse to be attended to,
 * until their keys are computed from what the pass kept (pc__lane_maps.inputs) of the layers that
 * `missing` marks (not 0; NULL: all): the same bits as a pass over the same hidden states gives.
 * PC_ERR_NOMEM leaves the run as it was. */
pc_status pc__complete_keys(const pc_model *model, pc__kv *run, const float *inputs,
                            const uint8_t *missing);

#endif
