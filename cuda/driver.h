/* The functions of NVIDIA's driver and of cuBLASLt that the CUDA backend calls, in one table that
 * is filled when they are found. Their types and constants are declared here, with the values of
 * their binary interface, so that no header of CUDA is needed. Tests fill the same table with a
 * device of their own. */
#ifndef PC_ATTN_CUDA_DRIVER_H
#define PC_ATTN_CUDA_DRIVER_H

#include "base/fail.h"

typedef int32_t pc__cuda_result;   /* CUresult; 0: done */
typedef int32_t pc__cuda_ordinal;  /* CUdevice */
typedef uint64_t pc__cuda_address; /* CUdeviceptr */
typedef struct pc__cuda_ctx_ *pc__cuda_ctx;
typedef struct pc__cuda_mod_ *pc__cuda_mod;
typedef struct pc__cuda_func_ *pc__cuda_func;
typedef struct pc__cuda_queue_ *pc__cuda_queue; /* CUstream */
typedef struct pc__cuda_event_ *pc__cuda_event;

enum { /* CUresult, the ones that are told apart */
       PC__CUDA_INVALID_VALUE = 1,
       PC__CUDA_OUT_OF_MEMORY = 2,
       PC__CUDA_STUB_LIBRARY = 34,
       PC__CUDA_NEWER_DRIVER = 36,
       PC__CUDA_DEVICE_UNAVAILABLE = 46,
       PC__CUDA_NO_DEVICE = 100,
       PC__CUDA_INVALID_DEVICE = 101,
       PC__CUDA_INVALID_IMAGE = 200,
       PC__CUDA_INVALID_CONTEXT = 201,
       PC__CUDA_NO_BINARY = 209,
       PC__CUDA_ECC_UNCORRECTABLE = 214,
       PC__CUDA_UNSUPPORTED_PTX = 222,
       PC__CUDA_INVALID_HANDLE = 400,
       PC__CUDA_NOT_FOUND = 500,
       PC__CUDA_NOT_READY = 600,
       PC__CUDA_ILLEGAL_ADDRESS = 700,
       PC__CUDA_OUT_OF_RESOURCES = 701,
       PC__CUDA_TENSOR_MEMORY_LEAK = 721, /* from 700 to here, but for 701, the context is lost */
       PC__CUDA_DRIVER_MISMATCH = 803,
       PC__CUDA_COMPAT_NOT_SUPPORTED = 804,
       PC__CUDA_UNKNOWN = 999
};
enum { /* CUdevice_attribute */
       PC__CUDA_MAX_THREADS_PER_BLOCK = 1,
       PC__CUDA_MAX_GRID_X = 5,
       PC__CUDA_MAX_GRID_Y = 6,
       PC__CUDA_MULTIPROCESSORS = 16,
       PC__CUDA_L2_BYTES = 38,
       PC__CUDA_THREADS_PER_MULTIPROCESSOR = 39,
       PC__CUDA_UNIFIED_ADDRESSING = 41,
       PC__CUDA_CAPABILITY_MAJOR = 75,
       PC__CUDA_CAPABILITY_MINOR = 76,
       PC__CUDA_SHARED_PER_MULTIPROCESSOR = 81,
       PC__CUDA_REGISTERS_PER_MULTIPROCESSOR = 82,
       PC__CUDA_SHARED_PER_BLOCK = 97 /* the most that a kernel may ask for */
};
enum { /* CUfunction_attribute */
       PC__CUDA_FUNC_MAX_THREADS = 0,
       PC__CUDA_FUNC_STATIC_SHARED = 1,
       PC__CUDA_FUNC_LOCAL_BYTES = 3,
       PC__CUDA_FUNC_REGISTERS = 4,
       PC__CUDA_FUNC_DYNAMIC_SHARED = 8
};
enum { PC__CUDA_QUEUE_NON_BLOCKING = 1, PC__CUDA_EVENT_NO_TIMES = 2, PC__CUDA_PORTABLE = 1 };
enum { PC__CUDA_LAUNCH_END, PC__CUDA_LAUNCH_TASK, PC__CUDA_LAUNCH_TASK_BYTES };

/* X(name, version of the symbol, arguments) */
#define PC__CUDA_DRIVER_CALLS(X)                                                                   \
    X(cuInit, , (uint32_t flags))                                                                  \
    X(cuDriverGetVersion, , (int32_t * version))                                                   \
    X(cuGetErrorName, , (pc__cuda_result result, const char **name))                               \
    X(cuGetErrorString, , (pc__cuda_result result, const char **text))                             \
    X(cuDeviceGetCount, , (int32_t * count))                                                       \
    X(cuDeviceGet, , (pc__cuda_ordinal * device, int32_t ordinal))                                 \
    X(cuDeviceGetName, , (char *name, int32_t size, pc__cuda_ordinal device))                      \
    X(cuDeviceGetAttribute, , (int32_t * value, int32_t attribute, pc__cuda_ordinal device))       \
    X(cuDevicePrimaryCtxRetain, , (pc__cuda_ctx * context, pc__cuda_ordinal device))               \
    X(cuDevicePrimaryCtxRelease, _v2, (pc__cuda_ordinal device))                                   \
    X(cuCtxPushCurrent, _v2, (pc__cuda_ctx context))                                               \
    X(cuCtxPopCurrent, _v2, (pc__cuda_ctx * context))                                              \
    X(cuModuleLoadData, , (pc__cuda_mod * module, const void *image))                              \
    X(cuModuleUnload, , (pc__cuda_mod module))                                                     \
    X(cuModuleGetFunction, , (pc__cuda_func * function, pc__cuda_mod module, const char *name))    \
    X(cuFuncGetAttribute, , (int32_t * value, int32_t attribute, pc__cuda_func function))          \
    X(cuFuncSetAttribute, , (pc__cuda_func function, int32_t attribute, int32_t value))            \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, ,                                               \
      (int32_t * blocks, pc__cuda_func function, int32_t threads, size_t dynamic_shared))          \
    X(cuLaunchKernel, ,                                                                            \
      (pc__cuda_func function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,                  \
       uint32_t block_x, uint32_t block_y, uint32_t block_z, uint32_t dynamic_shared,              \
       pc__cuda_queue queue, void **parameters, void **extra))                                     \
    X(cuMemGetInfo, _v2, (size_t * unused, size_t * total))                                        \
    X(cuMemAlloc, _v2, (pc__cuda_address * address, size_t bytes))                                 \
    X(cuMemFree, _v2, (pc__cuda_address address))                                                  \
    X(cuMemHostAlloc, , (void **memory, size_t bytes, uint32_t flags))                             \
    X(cuMemFreeHost, , (void *memory))                                                             \
    X(cuMemcpyAsync, ,                                                                             \
      (pc__cuda_address to, pc__cuda_address from, size_t bytes, pc__cuda_queue queue))            \
    X(cuMemsetD8Async, , (pc__cuda_address to, uint8_t value, size_t bytes, pc__cuda_queue queue)) \
    X(cuStreamCreate, , (pc__cuda_queue * queue, uint32_t flags))                                  \
    X(cuStreamDestroy, _v2, (pc__cuda_queue queue))                                                \
    X(cuStreamSynchronize, , (pc__cuda_queue queue))                                               \
    X(cuStreamWaitEvent, , (pc__cuda_queue queue, pc__cuda_event event, uint32_t flags))           \
    X(cuEventCreate, , (pc__cuda_event * event, uint32_t flags))                                   \
    X(cuEventDestroy, _v2, (pc__cuda_event event))                                                 \
    X(cuEventRecord, , (pc__cuda_event event, pc__cuda_queue queue))                               \
    X(cuEventSynchronize, , (pc__cuda_event event))                                                \
    X(cuEventQuery, , (pc__cuda_event event))                                                      \
    X(cuEventElapsedTime, , (float *milliseconds, pc__cuda_event from, pc__cuda_event to))

typedef int32_t pc__cublas_status; /* cublasStatus_t; 0: done */
typedef struct pc__cublas_handle_ *pc__cublas_handle;
typedef struct pc__cublas_matmul_ *pc__cublas_matmul;
typedef struct pc__cublas_layout_ *pc__cublas_layout;
typedef struct pc__cublas_wish_ *pc__cublas_wish; /* cublasLtMatmulPreference_t */
typedef struct pc__cublas_algorithm {
    uint64_t data[8];
} pc__cublas_algorithm;
typedef struct pc__cublas_choice { /* cublasLtMatmulHeuristicResult_t */
    pc__cublas_algorithm algorithm;
    size_t workspace;
    pc__cublas_status status;
    float waves;
    int32_t reserved[4];
} pc__cublas_choice;
enum {
    PC__CUBLAS_ALLOC_FAILED = 3,
    PC__CUBLAS_INVALID_VALUE = 7,
    PC__CUBLAS_EXECUTION_FAILED = 13,
    PC__CUBLAS_NOT_SUPPORTED = 15
};
enum { PC__CUBLAS_F32 = 0, PC__CUBLAS_F16 = 2, PC__CUBLAS_BF16 = 14 }; /* cudaDataType */
enum { PC__CUBLAS_COMPUTE_F32 = 68, PC__CUBLAS_TRANSPOSED = 1 };
enum { /* cublasLtMatmulDescAttributes_t */
       PC__CUBLAS_TRANSPOSE_A = 3,
       PC__CUBLAS_EPILOGUE = 7,
       PC__CUBLAS_BIAS = 8
};
enum { PC__CUBLAS_EPILOGUE_NONE = 1, PC__CUBLAS_EPILOGUE_BIAS = 4 };
enum { /* cublasLtMatmulPreferenceAttributes_t */
       PC__CUBLAS_WISH_WORKSPACE = 1,
       PC__CUBLAS_WISH_REDUCTIONS = 3,
       PC__CUBLAS_WISH_ALIGNMENT_A = 5, /* then B, C, D */
       PC__CUBLAS_WISH_ALIGNMENT_B = 6,
       PC__CUBLAS_WISH_ALIGNMENT_C = 7,
       PC__CUBLAS_WISH_ALIGNMENT_D = 8
};
enum { /* cublasLtMatmulAlgoConfigAttributes_t */
       PC__CUBLAS_ALGORITHM_ID = 0,
       PC__CUBLAS_ALGORITHM_TILE = 1,
       PC__CUBLAS_ALGORITHM_SPLITS = 2,
       PC__CUBLAS_ALGORITHM_REDUCTION = 3,
       PC__CUBLAS_ALGORITHM_STAGES = 6
};

#define PC__CUBLAS_CALLS(X)                                                                        \
    X(cublasLtCreate, , (pc__cublas_handle * handle))                                              \
    X(cublasLtDestroy, , (pc__cublas_handle handle))                                               \
    X(cublasLtMatmulDescCreate, ,                                                                  \
      (pc__cublas_matmul * matmul, int32_t compute, int32_t scale_type))                           \
    X(cublasLtMatmulDescDestroy, , (pc__cublas_matmul matmul))                                     \
    X(cublasLtMatmulDescSetAttribute, ,                                                            \
      (pc__cublas_matmul matmul, int32_t attribute, const void *value, size_t bytes))              \
    X(cublasLtMatrixLayoutCreate, ,                                                                \
      (pc__cublas_layout * layout, int32_t type, uint64_t rows, uint64_t columns, int64_t stride)) \
    X(cublasLtMatrixLayoutDestroy, , (pc__cublas_layout layout))                                   \
    X(cublasLtMatmulPreferenceCreate, , (pc__cublas_wish * wish))                                  \
    X(cublasLtMatmulPreferenceDestroy, , (pc__cublas_wish wish))                                   \
    X(cublasLtMatmulPreferenceSetAttribute, ,                                                      \
      (pc__cublas_wish wish, int32_t attribute, const void *value, size_t bytes))                  \
    X(cublasLtMatmulAlgoGetHeuristic, ,                                                            \
      (pc__cublas_handle handle, pc__cublas_matmul matmul, pc__cublas_layout a,                    \
       pc__cublas_layout b, pc__cublas_layout c, pc__cublas_layout d, pc__cublas_wish wish,        \
       int32_t most, pc__cublas_choice * choices, int32_t * count))                                \
    X(cublasLtMatmulAlgoCheck, ,                                                                   \
      (pc__cublas_handle handle, pc__cublas_matmul matmul, pc__cublas_layout a,                    \
       pc__cublas_layout b, pc__cublas_layout c, pc__cublas_layout d,                              \
       const pc__cublas_algorithm *algorithm, pc__cublas_choice *choice))                          \
    X(cublasLtMatmulAlgoConfigGetAttribute, ,                                                      \
      (const pc__cublas_algorithm *algorithm, int32_t attribute, void *value, size_t bytes,        \
       size_t *written))                                                                           \
    X(cublasLtMatmul, ,                                                                            \
      (pc__cublas_handle handle, pc__cublas_matmul matmul, const void *alpha, const void *a,       \
       pc__cublas_layout a_layout, const void *b, pc__cublas_layout b_layout, const void *beta,    \
       const void *c, pc__cublas_layout c_layout, void *d, pc__cublas_layout d_layout,             \
       const pc__cublas_algorithm *algorithm, void *workspace, size_t workspace_bytes,             \
       pc__cuda_queue queue))

#define PC__CUDA_MEMBER(name, version, arguments) pc__cuda_result(*name) arguments;
typedef struct pc__cuda_driver {
    PC__CUDA_DRIVER_CALLS(PC__CUDA_MEMBER)
    PC__CUBLAS_CALLS(PC__CUDA_MEMBER)
    const char *(*cublasLtGetStatusName)(pc__cublas_status status);
    char no_cublas[256]; /* why there is no cuBLASLt; "": there is */
} pc__cuda_driver;
#undef PC__CUDA_MEMBER

/* The driver of this machine, started, with at least one device. It is looked for once; later calls
 * give the same answer. Any thread. PC_ERR_UNSUPPORTED, with the reason in the error text: no
 * driver, one that is too old, no device. The driver stays loaded until the process ends. */
pc_status pc__cuda_driver_get(const pc__cuda_driver **out);

/* Fills a table with what `folder` (NULL: none) or the system has. The functions are not called. */
pc_status pc__cuda_driver_find(pc__cuda_driver *driver, const char *folder);
/* Starts the driver of a filled table: its version, the number of its devices. */
pc_status pc__cuda_driver_start(const pc__cuda_driver *driver);

/* The status that a result stands for, with an error text that holds the call and the result's
 * name. PC_ERR_NOMEM: out of memory. PC_ERR_DEAD: the context is lost; all later calls fail. */
pc_status pc__cuda_check(const pc__cuda_driver *driver, pc__cuda_result result, const char *call);
pc_status pc__cublas_check(const pc__cuda_driver *driver, pc__cublas_status result,
                           const char *call);

/* Calls a function of the table: PC__CUDA(driver, cuMemAlloc, (&address, bytes)). */
#define PC__CUDA(driver, call, arguments) pc__cuda_check((driver), (driver)->call arguments, #call)
#define PC__CUBLAS(driver, call, arguments) \
    pc__cublas_check((driver), (driver)->call arguments, #call)

#endif
