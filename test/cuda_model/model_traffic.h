// The task of model_traffic.cu.
#ifndef PC_TEST_MODEL_TRAFFIC_H
#define PC_TEST_MODEL_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

enum { WORDS = 4096 };

struct traffic_task {
    const uint32_t *in; // [WORDS]
    uint32_t *out;      // [threads]
    uint32_t stride;    // of lanes, in words
    uint32_t first;     // word of lane 0
    uint32_t lanes;     // the others take no part
    uint32_t width;     // bytes of an access: 4, 8 or 16
};

#endif
