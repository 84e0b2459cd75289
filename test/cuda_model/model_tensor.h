// Tasks of model_tensor.cu: what every lane of one warp gives and gets.
#ifndef PC_TEST_MODEL_TENSOR_H
#define PC_TEST_MODEL_TENSOR_H

#include <stdint.h>

enum product { OF_F16, OF_BF16, OF_S8, OF_S8_HALF };

struct tensor_task {
    uint32_t product;
    const uint32_t *a; // [lane][4]
    const uint32_t *b; // [lane][2]
    uint32_t *d;       // [lane][4] fp32, of bytes int32
};

// What a lane gets from each shuffle and vote: see model_lanes.
enum { LANE_RESULTS = 9 };
struct lanes_task {
    uint32_t by, width, yes;
    uint32_t *result; // [lane][LANE_RESULTS]
};

#endif
