/* A set of sequences that are stepped together. */
#ifndef PC_SERVE_BATCH_H
#define PC_SERVE_BATCH_H

#include "serve/sequence.h"

struct pc_batch {
    pc_model *model;
    uint32_t max_sequences;
    pc__batch_members members;
};

#endif
