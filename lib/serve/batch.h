/* A set of sequences that are stepped together. */
#ifndef PC_SERVE_BATCH_H
#define PC_SERVE_BATCH_H

#include <promptcache/batch.h>
#include "base/task.h"
#include "serve/sequence.h"

struct pc_batch {
    atomic_size_t references; /* the caller's, and one of each call or task that runs */
    pc_model *model;
    uint32_t max_sequences;
    uint32_t step_tokens; /* as pc_batch_options */
    uint64_t max_own_tokens;
    uint64_t steps;   /* so far */
    uint64_t encoded; /* encode calls of its prompts, so far */
    /* Measured: seconds of a pass of running sequences alone, and of a token of a prompt beside
     * them; 0: not yet. */
    double decode_seconds, token_seconds;
    pc__batch_members members;
    pc__task_link task; /* its last one */
};

/* PC_ERR_STATE: a task has the batch or one of its sequences, or a step of one is under way. */
pc_status pc__batch_check(const pc_batch *batch, const char *call);
/* Tokens that an unfinished sequence may come to hold, as max_own_tokens counts them. */
uint64_t pc__batch_own_tokens(const pc_sequence *sequence);
void pc__batch_ref(pc_batch *batch);
void pc__batch_unref(pc_batch *batch); /* NULL does nothing */
PC__HOLDABLE(pc_batch, pc__batch_ref, pc__batch_unref)

#endif
