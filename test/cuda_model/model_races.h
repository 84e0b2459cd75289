// Tasks of model_races.cu.
#ifndef PC_TEST_MODEL_RACES_H
#define PC_TEST_MODEL_RACES_H

#include <stdint.h>

// Which fault a kernel has; NO_FAULT: none.
enum race_fault {
    NO_FAULT,
    // model_stages
    NO_WAIT,
    NO_BARRIER_AFTER,
    NO_BARRIER_BEFORE,
    // model_warp
    NO_WARP_BARRIER,
    HALF_MASKS,
    SECOND_TURN, // no __syncwarp between a use and the next write
    // model_sums
    PLAIN_ADD,
    PLAIN_LOOK,
    // model_last_block
    NO_RELEASE,
    NO_ACQUIRE,
    NO_BARRIER_RELEASE,
    NO_BARRIER_ACQUIRE,
    WITH_FENCES, // right in another way
    NO_FENCE,
    // model_chain
    RELAXED_STORE,
    RELAXED_LOAD,
    // model_claims
    SLOT_REUSED,
    // model_readers: who has read when another thread writes
    READ_BY_WARP,
    READ_BY_BLOCK,
    READ_BY_BLOCKS,
    // model_source
    SOURCE_CHANGED
};

struct race_task {
    uint32_t *in;      // [blocks][tiles][threads][4]
    uint32_t *out;     // [blocks][threads]
    uint32_t *partial; // [blocks][threads]
    uint32_t *counter; // [2]
    uint32_t tiles;
    uint32_t fault;
};

#endif
