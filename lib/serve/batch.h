/* A set of sequences that are stepped together. */
#ifndef PC_SERVE_BATCH_H
#define PC_SERVE_BATCH_H

#include <promptcache/batch.h>
#include "serve/sequence.h"

struct pc_batch {
    size_t references; /* the caller's, and one of each call that runs */
    pc_model *model;
    uint32_t max_sequences;
    uint32_t step_tokens; /* as pc_batch_options */
    uint64_t steps;       /* so far */
    uint64_t encoded;     /* encode calls of its prompts, so far */
    /* Measured: seconds of a pass of running sequences alone, and of a token of a prompt beside
     * them; 0: not yet. */
    double decode_seconds, token_seconds;
    pc__batch_members members;
};

void pc__batch_ref(pc_batch *batch);
void pc__batch_unref(pc_batch *batch); /* NULL does nothing */
PC__HOLDABLE(pc_batch, pc__batch_ref, pc__batch_unref)

#endif
