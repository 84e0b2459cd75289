/* The functions that are called while a driver starts: it has the version VERSION, cuInit gives
 * INIT, and there is no device. For test_cuda_driver.c. */
#include "cuda/driver.h"

pc__cuda_result cuDriverGetVersion(int32_t *version);
pc__cuda_result cuInit(uint32_t flags);
pc__cuda_result cuDeviceGetCount(int32_t *count);

pc__cuda_result cuDriverGetVersion(int32_t *version)
{
    *version = VERSION;
    return 0;
}

pc__cuda_result cuInit(uint32_t flags)
{
    return flags ? PC__CUDA_INVALID_VALUE : INIT;
}

pc__cuda_result cuDeviceGetCount(int32_t *count)
{
    *count = 0;
    return 0;
}
