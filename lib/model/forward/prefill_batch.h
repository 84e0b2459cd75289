/* Prefill batches: whole prompts in as few passes as fit, for work that needs only their last
 * hidden states. Attention maps may be given (the prompt then computes values only) or recorded. */
#ifndef PC_MODEL_PREFILL_BATCH_H
#define PC_MODEL_PREFILL_BATCH_H

#include "attn/map.h"
#include "model/model.h"

typedef struct pc__prefill_input {
    const pc_input *input;
    const void *const *maps; /* [layer] given maps, packed; NULL: computed */
    void *const *record;     /* [layer] memory for recorded maps, packed; NULL: not recorded */
    pc__map_shape shape;     /* of given or recorded maps */
    float *embedding;        /* [hidden] pooled, or NULL */
    float *logits;           /* [vocab], or [classes] of an encoder's head; or NULL */
    /* receives the prompt's states with all keys, for the caller to free; NULL: dropped */
    pc__kv **run;
    int is_done; /* 1: skipped */
} pc__prefill_input;

typedef struct pc__prefill_batch_options {
    uint32_t pool; /* PC_POOL_… */
    int normalize;
    const int32_t *map_layers; /* as in pc_prefill_options; not with given maps */
    /* Asked before each layer of a prompt without given maps. x [tokens][hidden]: the input of the
     * layer. Returns a map in the shape of the prompt, or NULL. Not with map_layers. */
    const void *(*choose)(void *user, size_t prompt, int32_t layer, const float *x);
    void *choose_user;
    int32_t (*cancelled)(void *user);
    void *cancel_user;
} pc__prefill_batch_options;

/* PC_ERR_INVALID names the input that has no tokens. `call`: for the error text. */
pc_status pc__inputs_check(const char *call, const pc_input *inputs, size_t count);
/* Passes have a bounded number of tokens. The results of a prompt do not depend on the others.
 * PC_ERR_INVALID and PC_ERR_LIMIT name the input. */
pc_status pc__prefill_batch_run(const pc_model *model, const pc__prefill_input *prompts,
                                size_t count, const pc__prefill_batch_options *options);
/* Width of `logits`; 0: the model has no logits. */
size_t pc__prefill_batch_logits(const pc_model *model);
/* PC_ERR_INTERNAL: no number of its embedding or of its logits is finite. `number`: of the input.
 */
pc_status pc__prefill_input_check(const pc_model *model, const pc__prefill_input *prompt,
                                  size_t number);

#endif
