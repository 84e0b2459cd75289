/* A driver's library with every function, for test_cuda_driver.c. They all refuse; driver_answers.c
 * replaces those that matter. */
#include "cuda/driver.h"

enum { NOT_SUPPORTED = 801 };

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define REFUSE(name, version, arguments)                           \
    __attribute__((weak)) pc__cuda_result name##version arguments; \
    __attribute__((weak)) pc__cuda_result name##version arguments  \
    {                                                              \
        return NOT_SUPPORTED;                                      \
    }
PC__CUDA_DRIVER_CALLS(REFUSE)
