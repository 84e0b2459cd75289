/* A driver's library with hardly any function, for test_cuda_driver.c. */
#include "cuda/driver.h"

pc__cuda_result cuInit(uint32_t flags);

pc__cuda_result cuInit(uint32_t flags)
{
    return (pc__cuda_result)flags;
}
