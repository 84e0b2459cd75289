/* The table of kernels, but for those that compute attention (backend_cuda_attend.c): what each is
 * given, and how its blocks are made. */
#ifndef PC_CUDA_KERNEL_TABLE_H
#define PC_CUDA_KERNEL_TABLE_H

#include "cuda/device_stream.h"
#include "cuda/kernels/attend.h"
#include "cuda/kernels/experts.h"
#include "cuda/kernels/flat.h"
#include "cuda/kernels/kv_write.h"
#include "cuda/kernels/maps.h"
#include "cuda/kernels/norms.h"
#include "cuda/kernels/quantised.h"
#include "cuda/kernels/rows.h"
#include "cuda/kernels/sampling.h"

/* X(name after pc__cuda_, its struct, threads, bytes of shared memory); those of several formats in
 * the order of pc__cuda_for_dtype */
#define PC__CUDA_FLAT_KERNEL(X, name) X(name, pc__cuda_flat, PC__CUDA_FLAT_THREADS, 0)
#define PC__CUDA_KERNELS(X)                                                                        \
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
    X(merge_states, pc__cuda_merge, PC__CUDA_BLOCK, 0)                                             \
    X(attention_map, pc__cuda_map_row, PC__CUDA_BLOCK, PC__CUDA_ATTENTION_MAP_SHARED)              \
    X(map_apply_f32, pc__cuda_map_task, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED)                 \
    X(map_apply_bf16, pc__cuda_map_task, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED)                \
    X(map_apply_f16, pc__cuda_map_task, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED)                 \
    X(map_record_f32, pc__cuda_map_task, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED)                \
    X(map_record_bf16, pc__cuda_map_task, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED)               \
    X(map_record_f16, pc__cuda_map_task, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED)                \
    X(map_record_i8, pc__cuda_map_task, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED_I8)              \
    X(sample, pc__cuda_sample_task, PC__CUDA_SAMPLE_THREADS, PC__CUDA_SAMPLE_SHARED)               \
    PC__CUDA_FLAT_KERNEL(X, scale)                                                                 \
    PC__CUDA_FLAT_KERNEL(X, clip)                                                                  \
    PC__CUDA_FLAT_KERNEL(X, cap)                                                                   \
    PC__CUDA_FLAT_KERNEL(X, add)                                                                   \
    PC__CUDA_FLAT_KERNEL(X, relu)                                                                  \
    PC__CUDA_FLAT_KERNEL(X, gelu)                                                                  \
    PC__CUDA_FLAT_KERNEL(X, gelu_tanh)                                                             \
    PC__CUDA_FLAT_KERNEL(X, silu)                                                                  \
    PC__CUDA_FLAT_KERNEL(X, tanh)                                                                  \
    PC__CUDA_FLAT_KERNEL(X, gate_none)                                                             \
    PC__CUDA_FLAT_KERNEL(X, gate_relu)                                                             \
    PC__CUDA_FLAT_KERNEL(X, gate_gelu)                                                             \
    PC__CUDA_FLAT_KERNEL(X, gate_gelu_tanh)                                                        \
    PC__CUDA_FLAT_KERNEL(X, gate_silu)                                                             \
    PC__CUDA_FLAT_KERNEL(X, gate_tanh)                                                             \
    PC__CUDA_FLAT_KERNEL(X, relu_squared)                                                          \
    PC__CUDA_FLAT_KERNEL(X, gate_relu_squared)                                                     \
    PC__CUDA_FLAT_KERNEL(X, gate_clamped)

#define PC__CUDA_KERNEL_MEMBER(name, task, threads, shared) pc__cuda_kernel name;
typedef struct pc__cuda_kernel_table {
    PC__CUDA_KERNELS(PC__CUDA_KERNEL_MEMBER)
} pc__cuda_kernel_table;
#undef PC__CUDA_KERNEL_MEMBER
extern const pc__cuda_kernel_table pc__cuda_kernels;

/* PC__CUDA_F32 … of a dtype of K and V. */
static inline uint32_t pc__cuda_format_of(uint32_t dtype)
{
    return dtype == PC_DTYPE_F32    ? PC__CUDA_F32
           : dtype == PC_DTYPE_BF16 ? PC__CUDA_BF16
           : dtype == PC_DTYPE_F16  ? PC__CUDA_F16
                                    : PC__CUDA_I8;
}

/* A kernel of those that stand behind each other in the table, a format after the other. */
static inline const pc__cuda_kernel *pc__cuda_for_dtype(const pc__cuda_kernel *f32, uint32_t dtype)
{
    return f32 + pc__cuda_format_of(dtype);
}

#endif
