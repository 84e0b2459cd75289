/* What pc__cuda_convert_bf16 and pc__cuda_convert_f16 do: round fp32 numbers to nearest even, to 16
 * bits each. In fp16 numbers beyond the largest one become that one. */
#ifndef PC_CUDA_KERNELS_CONVERT_H
#define PC_CUDA_KERNELS_CONVERT_H

#include <stdint.h>

enum { PC__CUDA_CONVERT_THREADS = 256, PC__CUDA_CONVERT_EACH = 8 /* numbers of a thread */ };

typedef struct pc__cuda_convert_task {
    const float *from; /* [count], aligned to 16 bytes */
    uint16_t *to;      /* [count], aligned to 16 bytes */
    uint64_t count;
} pc__cuda_convert_task;

#endif
