/* Pages from one format into another, with the bits of pc__kv_convert. One entry a target:
 * pc__cuda_kv_convert_f32, _bf16, _f16, _i8; a thread block of PC__CUDA_KV_THREADS threads for each
 * page (x), K/V head (y) and layer (z). */
#ifndef PC_CUDA_KERNELS_KV_CONVERT_H
#define PC_CUDA_KERNELS_KV_CONVERT_H

#include "cuda/kernels/kv_write.h"

enum { PC__CUDA_KV_F32, PC__CUDA_KV_BF16, PC__CUDA_KV_F16, PC__CUDA_KV_I8 };

typedef struct pc__cuda_page_pair {
    uint64_t from, to;               /* device addresses in layer 0, of head 0 */
    uint64_t from_stride, to_stride; /* bytes between layers */
    uint32_t tokens;                 /* the others become zero */
    uint32_t unused;
} pc__cuda_page_pair;

typedef struct pc__cuda_kv_convert {
    const pc__cuda_page_pair *pairs; /* [count]; pages do not overlap */
    pc__cuda_page_shape from, to;
    uint32_t format; /* of `from` */
    uint32_t count;
} pc__cuda_kv_convert;

#endif
