// The task of model_order.cu.
#ifndef PC_TEST_MODEL_ORDER_H
#define PC_TEST_MODEL_ORDER_H

#include <stdint.h>

struct order_task {
    uint32_t *counter; // [1]
    uint32_t *begun;   // [blocks * threads] who began as the n-th
    uint32_t *ended;   // [blocks * threads]
};

#endif
