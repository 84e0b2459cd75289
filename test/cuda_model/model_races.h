// Tasks of model_races.cu.
#ifndef PC_TEST_MODEL_RACES_H
#define PC_TEST_MODEL_RACES_H

#include <stdint.h>

// Which fault a kernel has; NO_FAULT: none.
enum race_fault { NO_FAULT, NO_WAIT, NO_BARRIER_AFTER, NO_BARRIER_BEFORE };

struct race_task {
    const uint32_t *in; // [blocks][tiles][threads][4]
    uint32_t *out;      // [blocks][threads]
    uint32_t tiles;
    uint32_t fault;
};

#endif
