// The task of model_meetings.cu.
#ifndef PC_TEST_MODEL_MEETINGS_H
#define PC_TEST_MODEL_MEETINGS_H

#include <stdint.h>

enum meeting_fault {
    ALL_MEET,
    PARTS_MEET,  // half warps on their own: right
    SOME_ENDED,  // threads end before a barrier: right
    IN_BRANCHES, // two shuffles that wait for each other
    OTHER_MASK,  // lanes of one shuffle give different masks
    NOT_IN_MASK,
    FROM_OUTSIDE, // a shuffle reads a lane that takes no part
    FEW_MULTIPLY, // a product without some lanes
    TWO_BARRIERS,
    HALF_BARRIER, // half of a warp waits at a barrier, half in a shuffle
    SPINS,
    ENDLESS,
    TRAPS,
    // these end the program
    DIVIDES,
    RECURSES
};

struct meeting_task {
    uint32_t *out;     // [blocks][threads]
    uint32_t *counter; // [1]
    uint32_t zero;
    uint32_t fault;
};

#endif
