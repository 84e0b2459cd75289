// The task of device_launch_kernel.cu.
#ifndef PC_TEST_DEVICE_LAUNCH_KERNEL_H
#define PC_TEST_DEVICE_LAUNCH_KERNEL_H

#include <stdint.h>

enum table_fault { NO_FAULT, WRITES_OUTSIDE, WRITES_INPUT, CHANGES_TABLE };
struct table_task {
    uint64_t *from; // [thread] addresses of words
    uint32_t *to;   // [thread]
    uint32_t fault;
};

#endif
