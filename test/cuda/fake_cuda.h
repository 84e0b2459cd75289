/* Devices that are not there, behind the functions of NVIDIA's runtime and of cuBLASLt: a program
 * links this library instead of theirs. What is queued runs on a thread of its own, late, and in
 * any order that streams and events allow. Memory of a device cannot be read or written by the
 * program but while one of its kernels runs. What real ones refuse is refused, any call can be made
 * to fail, a device can be lost, and what was not given back is found at the end.
 *
 * Before pc_fake_start, and after pc_fake_end, the machine has no driver. */
#ifndef PC_TEST_FAKE_CUDA_H
#define PC_TEST_FAKE_CUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "fake_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {                              /* what cuBLASLt proposes no algorithm for; a sum of these */
       PC_FAKE_BLAS_WHOLE_SUMS = 1, /* sums that are not split among blocks */
       PC_FAKE_BLAS_UNALIGNED = 2,  /* rows of W or x that do not begin at multiples of 16 bytes */
       PC_FAKE_BLAS_ALL = 4,        /* anything */
       PC_FAKE_BLAS_NO_RESULTS = 8  /* it says so by success and 0 results, not NOT_SUPPORTED */
};

typedef struct pc_fake_options {
    uint64_t seed;       /* of delays, and of the order of streams */
    uint32_t late_us;    /* the longest wait before an operation */
    uint32_t capability; /* 90: 9.0 */
    size_t memory;       /* bytes of each device */
    int devices;
    int driver;         /* what it knows, as CUDART_VERSION; 0: there is none */
    cudaError_t images; /* what a driver says to the kernels of the program; 0: it takes them */
    uint32_t blas;      /* PC_FAKE_BLAS_… */
} pc_fake_options;
#define PC_FAKE_OPTIONS                                                 \
    {                                                                   \
        1, 200, 90, (size_t)64 << 20, 1, CUDART_VERSION, cudaSuccess, 0 \
    }

/* One machine at a time in a process. */
void pc_fake_start(const pc_fake_options *options);
/* Prints what was not given back, and returns how many things that are; the machine is gone. With
 * PC_TEST_CUDA_COUNTS=1 in the environment it prints what was called, how often. */
int pc_fake_end(void);
/* Called before the first call of a program that does not start a machine itself. */
void pc_fake_at_first_call(void (*start)(void));

/* Before or after pc_fake_start; `kernel` stays where it is. */
void pc_fake_kernel_add(const pc_fake_kernel *kernel);

/* Who keeps account of the devices' memory: what is an allocation, and which of its bytes copies
 * have written. Called while no kernel runs, from any thread but one at a time. */
typedef struct pc_fake_watcher {
    void (*taken)(void *address, size_t bytes);
    void (*given)(void *address);
    void (*written)(void *address, size_t bytes);
    uint64_t (*faults)(void); /* of kernels, which it has printed */
} pc_fake_watcher;
void pc_fake_watch(const pc_fake_watcher *watcher); /* before pc_fake_start */

/* ---- failures ---------------------------------------------------------------------------------
 * An error that is sticky on a real device (cudaErrorIllegalAddress, cudaErrorUnknown, …) loses the
 * current device: later calls fail, queued work is not run. A call that gives something back does
 * it all the same. If a device cannot even be made the current one, all that it had is gone. */

/* The n-th call from now (from 1) fails; 0: none. */
void pc_fake_fail_call(uint64_t n, cudaError_t error);
/* The n-th call of this function. In cuBLASLt it shows as a status of its own. */
void pc_fake_fail_named(const char *function, uint64_t n, cudaError_t error);
const char *pc_fake_failed(void); /* the call that was made to fail; NULL: none */
int pc_fake_failed_giving(void);  /* it was one that gives something back */
/* The n-th operation that runs from now fails, and its device is lost. */
void pc_fake_fail_work(uint64_t n, cudaError_t error);

/* ---- what happens meanwhile ---------------------------------------------------------------- */

/* Bytes of a device's memory that other processes hold from now on. */
void pc_fake_others(int device, size_t bytes);
void pc_fake_blas(uint32_t lacks); /* PC_FAKE_BLAS_…, as in the options */
/* Operations stop running until they are allowed again; what waits for them waits. */
void pc_fake_hold(int held);

/* ---- what has happened -------------------------------------------------------------------------
 */

/* The device's memory as its kernels see it: for checks while nothing runs. */
void *pc_fake_reach(const void *address);
uint64_t pc_fake_operations(void); /* that have run */
/* Calls so far, but for those that name errors and tell the last one. */
uint64_t pc_fake_calls(void);
/* Calls of a function, or launches of a kernel. */
uint64_t pc_fake_count(const char *name);
/* Copies that were queued; `bytes` (NULL: not needed): of all of them. */
uint64_t pc_fake_copies(enum cudaMemcpyKind kind, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
