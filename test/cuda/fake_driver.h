/* A device that is not there, behind the table of cuda/driver.h. What is queued runs on a
 * thread of its own, late, and in any order that streams and events allow. Its memory cannot be
 * read or written by the program but while one of its kernels runs. Everything that a real driver
 * refuses is refused, any call can be made to fail, and what was not given back is found at the
 * end. */
#ifndef PC_TEST_FAKE_DRIVER_H
#define PC_TEST_FAKE_DRIVER_H

#include "cuda/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pc_fake_options {
    uint64_t seed;       /* of delays, and of the order of streams */
    uint32_t late_us;    /* the longest wait before an operation */
    uint32_t capability; /* 90: 9.0 */
    size_t memory;       /* bytes of the device */
} pc_fake_options;
#define PC_FAKE_OPTIONS              \
    {                                \
        1, 200, 90, (size_t)64 << 20 \
    }

/* The table, whose functions need a device, but for those that name errors. */
const pc__cuda_driver *pc_fake_table(void);
/* One device at a time in a process. */
const pc__cuda_driver *pc_fake_start(const pc_fake_options *options);
/* Prints what was not given back, and returns how many things that are; the device is gone. */
int pc_fake_end(void);

/* A kernel: `run` computes one launch, on the device's memory. */
typedef struct pc_fake_launch {
    const void *task;
    uint32_t x, y, z;      /* blocks */
    uint32_t threads;      /* of a block */
    uint32_t shared_bytes; /* of a block */
    uint64_t seed;
} pc_fake_launch;
typedef struct pc_fake_kernel {
    const char *name;
    size_t task_bytes;
    uint32_t most_threads;                    /* of a block, as __launch_bounds__ says */
    uint32_t registers;                       /* of a thread */
    int (*run)(const pc_fake_launch *launch); /* not 0: what loses the context */
} pc_fake_kernel;
/* Before or after pc_fake_start; `kernel` stays where it is. */
void pc_fake_kernel_add(const pc_fake_kernel *kernel);

/* Who keeps account of the device's memory: what is an allocation, and which of its bytes copies
 * have written. Called while no kernel runs, from any thread but one at a time. */
typedef struct pc_fake_watcher {
    void (*taken)(void *address, size_t bytes);
    void (*given)(void *address);
    void (*written)(void *address, size_t bytes);
    uint64_t (*faults)(void); /* of kernels, which it has printed */
} pc_fake_watcher;
void pc_fake_watch(const pc_fake_watcher *watcher); /* before pc_fake_start */

/* Calls of the table so far, but for those that name errors. */
uint64_t pc_fake_calls(void);
/* The n-th call from now (from 1) fails; 0: none. A call that gives something back does it all the
 * same, as a driver does that reports an error of earlier work. */
void pc_fake_fail_call(uint64_t n, pc__cuda_result result);
const char *pc_fake_failed(void); /* the call that was made to fail; NULL: none */
int pc_fake_failed_giving(void);  /* it was one that gives something back */
/* The n-th operation that runs from now fails. The context is lost, as on a real device. */
void pc_fake_fail_work(uint64_t n, pc__cuda_result result);

/* The device's memory as its kernels see it: for checks while nothing runs. */
void *pc_fake_reach(const void *address);
/* Operations stop running until they are allowed again; what waits for them waits. */
void pc_fake_hold(int held);
uint64_t pc_fake_operations(void); /* that have run */

#ifdef __cplusplus
}
#endif
#endif
