/* Results of the CUDA runtime and of cuBLASLt as statuses, with an error text that holds the call
 * and the result's name. */
#ifndef PC_CUDA_CHECK_H
#define PC_CUDA_CHECK_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "base/fail.h"

/* PC_ERR_NOMEM: out of memory. PC_ERR_UNSUPPORTED: the driver or the device is not for us.
 * PC_ERR_DEAD: the context is lost; all later calls fail. The runtime's own last error of this
 * thread, which belongs to the application, is not left behind. */
pc_status pc__cuda_check(cudaError_t result, const char *call);
/* A failure on the device that cuBLASLt reports has the runtime's status and text, too. */
pc_status pc__cublas_check(cublasStatus_t result, const char *call);

/* A failure that nobody is told of is not left behind either; another last error, which is the
 * application's, stays. The runtime does not keep cudaErrorNotReady. */
void pc__cuda_ignore(cudaError_t result);

/* PC__CUDA(cudaMalloc, (&address, bytes)): a call and its check. */
#define PC__CUDA(call, arguments) pc__cuda_check(call arguments, #call)
#define PC__CUBLAS(call, arguments) pc__cublas_check(call arguments, #call)

#endif
