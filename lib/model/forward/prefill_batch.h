/* Whole prompts in one pass, for work that needs no more of them than their last hidden states.
 * Attention maps may be given (a prompt then computes values only) or taken along. */
#ifndef PC_MODEL_PREFILL_BATCH_H
#define PC_MODEL_PREFILL_BATCH_H

#include "attn/map.h"
#include "model/model.h"

typedef struct pc__prefill_input {
    const pc_input *input;
    const void *const *maps; /* [layer] packed maps to be used; NULL: they are computed */
    void *const *record;     /* [layer] where packed maps go; NULL: nowhere */
    pc__map_shape shape;     /* of either, where there is one */
    float *embedding;        /* [hidden] pooled, or NULL */
    float *logits;           /* [vocab], or [classes] of an encoder's head; or NULL */
    pc__kv **run; /* the prompt's states, keys completed, become the caller's; NULL: dropped */
    int is_done;  /* 1: nothing of it is to be computed */
} pc__prefill_input;

typedef struct pc__prefill_batch_options {
    uint32_t pool; /* PC_POOL_… */
    int normalize;
    const int32_t *map_layers; /* pc_prefill_options; NULL: none. Not where maps are given */
    /* Asked for every layer of prompts without maps of their own, before it is computed: a map in
     * the prompt's `shape`, or NULL. x [tokens][hidden]: what the layer is given. Not together with
     * map_layers. */
    const void *(*choose)(void *user, size_t prompt, int32_t layer, const float *x);
    void *choose_user;
    int32_t (*cancelled)(void *user);
    void *cancel_user;
} pc__prefill_batch_options;

/* In passes of a bounded number of tokens. The results of a prompt do not depend on the others.
 * PC_ERR_INVALID, PC_ERR_LIMIT: the input is named. */
pc_status pc__prefill_batch_run(const pc_model *model, const pc__prefill_input *prompts,
                                size_t count, const pc__prefill_batch_options *options);
/* Width of `logits`; 0: the model gives none. */
size_t pc__prefill_batch_logits(const pc_model *model);

#endif
