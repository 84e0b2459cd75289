/* Norms, activations, rotation and stores of the CPU backend; contract: attn/backend.h. Work is
 * spread over threads only where that pays. */
#ifndef PC_ATTN_CPU_ELEMENTWISE_H
#define PC_ATTN_CPU_ELEMENTWISE_H

#include "attn/backend.h"

void pc__rms_norm(pc_context *context, const float *x, size_t rows, size_t dim, const float *gain,
                  float eps, float *y);
void pc__layer_norm(pc_context *context, const float *x, size_t rows, size_t dim, const float *gain,
                    const float *bias, float eps, float *y);
void pc__activate(pc_context *context, pc__activation activation, float *x, size_t count);
void pc__gate(pc_context *context, pc__activation activation, float *x, const float *up,
              size_t count);
void pc__add(pc_context *context, float *x, const float *y, size_t count);
void pc__rotate(pc_context *context, const pc__rope *rope, const int64_t *positions, size_t rows,
                size_t heads, size_t dim, size_t stride, float *x);
void pc__store_kv(pc_context *context, pc__kv *const *runs, const size_t *slots, int32_t layer,
                  size_t rows, const float *k, size_t k_stride, const float *v, size_t v_stride);

#endif
