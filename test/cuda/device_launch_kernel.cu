// For the test of device_launch.cpp: reads through a table of addresses, and may write where it
// must not.
#include "device_launch_kernel.h"
#include "gpu.h"

extern "C" __global__ void through_table(PARAM struct table_task t)
{
    uint32_t i = threadIdx.x;
    t.to[i] = *(const uint32_t *)(uintptr_t)t.from[i] + 1;
    if (i == 0 && t.fault == WRITES_OUTSIDE)
        t.to[blockDim.x] = 7;
    if (i == 0 && t.fault == WRITES_INPUT)
        *(uint32_t *)(uintptr_t)t.from[0] = 7;
    if (i == 0 && t.fault == CHANGES_TABLE)
        t.from[0] = 12;
}
