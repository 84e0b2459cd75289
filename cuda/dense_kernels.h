/* The kernels outside attention: what each is given, and how its blocks are made. */
#ifndef PC_CUDA_DENSE_KERNELS_H
#define PC_CUDA_DENSE_KERNELS_H

#include "cuda/kernels/activations.h"
#include "cuda/kernels/convert.h"
#include "cuda/kernels/experts.h"
#include "cuda/kernels/kv_write.h"
#include "cuda/kernels/norms.h"
#include "cuda/kernels/quantised.h"
#include "cuda/kernels/route.h"
#include "cuda/kernels/rows.h"
#include "cuda/kernels/rotate.h"
#include "cuda/kernels/sampling.h"
#include "cuda/launch.h"

/* X(name after pc__cuda_, its struct, threads, bytes of shared memory) */
#define PC__CUDA_DENSE_FLAT(X, name) X(name, pc__cuda_flat, PC__CUDA_FLAT_THREADS, 0)
#define PC__CUDA_DENSE_KERNELS(X)                                                                  \
    X(lookup_f32, pc__cuda_lookup, PC__CUDA_ROW_THREADS, 0)                                        \
    X(lookup_bf16, pc__cuda_lookup, PC__CUDA_ROW_THREADS, 0)                                       \
    X(lookup_f16, pc__cuda_lookup, PC__CUDA_ROW_THREADS, 0)                                        \
    X(lookup_quantised, pc__cuda_quantised_lookup, PC__CUDA_QUANTISED_LOOKUP_THREADS, 0)           \
    X(neighbours, pc__cuda_neighbours_task, PC__CUDA_ROW_THREADS, 0)                               \
    X(scale_rows, pc__cuda_scale_rows_task, PC__CUDA_ROW_THREADS, 0)                               \
    X(norm_warp, pc__cuda_norm, PC__CUDA_NORM_WARP_THREADS, 0)                                     \
    X(norm_block, pc__cuda_norm, PC__CUDA_NORM_BLOCK_THREADS, PC__CUDA_NORM_SHARED)                \
    X(rotate, pc__cuda_rotate_task, PC__CUDA_ROTATE_THREADS, 0)                                    \
    X(kv_write_f32, pc__cuda_kv_write, PC__CUDA_KV_THREADS, 0)                                     \
    X(kv_write_bf16, pc__cuda_kv_write, PC__CUDA_KV_THREADS, 0)                                    \
    X(kv_write_f16, pc__cuda_kv_write, PC__CUDA_KV_THREADS, 0)                                     \
    X(quantise, pc__cuda_quantise_task, PC__CUDA_QUANTISE_THREADS, PC__CUDA_QUANTISE_SHARED)       \
    X(quantised_few, pc__cuda_quantised_task, PC__CUDA_QUANTISED_THREADS,                          \
      PC__CUDA_QUANTISED_SHARED)                                                                   \
    X(quantised_many, pc__cuda_quantised_task, PC__CUDA_QUANTISED_MANY_THREADS, 0)                 \
    X(quantised_experts_few, pc__cuda_quantised_experts, PC__CUDA_QUANTISED_THREADS,               \
      PC__CUDA_QUANTISED_SHARED)                                                                   \
    X(quantised_experts_many, pc__cuda_quantised_experts, PC__CUDA_QUANTISED_MANY_THREADS, 0)      \
    X(route_choice, pc__cuda_route_choice_task, PC__CUDA_ROUTE_THREADS, 0)                         \
    X(route, pc__cuda_route_task, PC__CUDA_ROUTE_THREADS, 0)                                       \
    X(route_sort, pc__cuda_route_sort_task, PC__CUDA_SORT_THREADS, PC__CUDA_SORT_SHARED)           \
    X(expert_linear_f32, pc__cuda_expert_linear, PC__CUDA_EXPERT_THREADS, PC__CUDA_EXPERT_SHARED)  \
    X(expert_linear_bf16, pc__cuda_expert_linear, PC__CUDA_EXPERT_THREADS, PC__CUDA_EXPERT_SHARED) \
    X(expert_linear_f16, pc__cuda_expert_linear, PC__CUDA_EXPERT_THREADS, PC__CUDA_EXPERT_SHARED)  \
    X(expert_many_bf16, pc__cuda_expert_many, PC__CUDA_EXPERT_MANY_THREADS,                        \
      PC__CUDA_EXPERT_MANY_SHARED)                                                                 \
    X(expert_many_f16, pc__cuda_expert_many, PC__CUDA_EXPERT_MANY_THREADS,                         \
      PC__CUDA_EXPERT_MANY_SHARED)                                                                 \
    X(convert_bf16, pc__cuda_convert_task, PC__CUDA_CONVERT_THREADS, 0)                            \
    X(convert_f16, pc__cuda_convert_task, PC__CUDA_CONVERT_THREADS, 0)                             \
    X(expert_sum, pc__cuda_expert_sum_task, PC__CUDA_EXPERT_THREADS, 0)                            \
    X(sample, pc__cuda_sample_task, PC__CUDA_SAMPLE_THREADS, PC__CUDA_SAMPLE_SHARED)               \
    PC__CUDA_DENSE_FLAT(X, scale)                                                                  \
    PC__CUDA_DENSE_FLAT(X, clip)                                                                   \
    PC__CUDA_DENSE_FLAT(X, cap)                                                                    \
    PC__CUDA_DENSE_FLAT(X, add)                                                                    \
    PC__CUDA_DENSE_FLAT(X, relu)                                                                   \
    PC__CUDA_DENSE_FLAT(X, gelu)                                                                   \
    PC__CUDA_DENSE_FLAT(X, gelu_tanh)                                                              \
    PC__CUDA_DENSE_FLAT(X, silu)                                                                   \
    PC__CUDA_DENSE_FLAT(X, tanh)                                                                   \
    PC__CUDA_DENSE_FLAT(X, gate_none)                                                              \
    PC__CUDA_DENSE_FLAT(X, gate_relu)                                                              \
    PC__CUDA_DENSE_FLAT(X, gate_gelu)                                                              \
    PC__CUDA_DENSE_FLAT(X, gate_gelu_tanh)                                                         \
    PC__CUDA_DENSE_FLAT(X, gate_silu)                                                              \
    PC__CUDA_DENSE_FLAT(X, gate_tanh)                                                              \
    PC__CUDA_DENSE_FLAT(X, relu_squared)                                                           \
    PC__CUDA_DENSE_FLAT(X, gate_relu_squared)                                                      \
    PC__CUDA_DENSE_FLAT(X, gate_clamped)

#define PC__CUDA_DENSE_MEMBER(name, task, threads, shared) pc__cuda_kernel name;
typedef struct pc__cuda_dense_kernels {
    PC__CUDA_DENSE_KERNELS(PC__CUDA_DENSE_MEMBER)
} pc__cuda_dense_kernels;
#undef PC__CUDA_DENSE_MEMBER
extern const pc__cuda_dense_kernels pc__cuda_dense;

/* Prepares those that need it. PC_ERR_UNSUPPORTED: there is no code for this device. */
pc_status pc__cuda_dense_prepare(const pc__cuda_device *device);

#endif
