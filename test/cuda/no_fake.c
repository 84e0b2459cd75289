/* In the place of the fake device, for test programs on a real one: it has the kernels already, and
 * nobody asks for the rest (pc_cuda_real). */
#include <stdio.h>
#include <stdlib.h>

#include "fake_cuda.h"
#include "fake_kernels.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

void pc_fake_kernels_add(void)
{
}

void pc_fake_kernel_add(const pc_fake_kernel *kernel)
{
}

static void refuse(const char *function)
{
    fprintf(stderr, "%s: this is a real device\n", function);
    abort();
}
#define REFUSE(name, arguments) \
    void name arguments         \
    {                           \
        refuse(#name);          \
    }
#define REFUSE_VALUE(type, name, arguments) \
    type name arguments                     \
    {                                       \
        refuse(#name);                      \
        return 0;                           \
    }

REFUSE(pc_fake_start, (const pc_fake_options *options))
REFUSE(pc_fake_fail_call, (uint64_t n, cudaError_t error))
REFUSE(pc_fake_fail_named, (const char *function, uint64_t n, cudaError_t error))
REFUSE(pc_fake_fail_work, (uint64_t n, cudaError_t error))
REFUSE(pc_fake_others, (int device, size_t bytes))
REFUSE(pc_fake_blas, (uint32_t lacks))
REFUSE(pc_fake_hold, (int held))
REFUSE_VALUE(int, pc_fake_end, (void))
REFUSE_VALUE(const char *, pc_fake_failed, (void))
REFUSE_VALUE(int, pc_fake_failed_giving, (void))
REFUSE_VALUE(void *, pc_fake_reach, (const void *address))
REFUSE_VALUE(uint64_t, pc_fake_operations, (void))
REFUSE_VALUE(uint64_t, pc_fake_calls, (void))
REFUSE_VALUE(uint64_t, pc_fake_count, (const char *name))
REFUSE_VALUE(uint64_t, pc_fake_copies, (enum cudaMemcpyKind kind, uint64_t *bytes))
