/* Linear layers of the CPU backend; the contract is that of lib/attn/backend.h.
 *
 * A layer is computed in one of three ways, chosen when it is made: quantised weights on their grid
 * (linear_quantised.c), others by our own panels (linear_panels.c) or oneDNN (linear_onednn.c).
 * oneDNN is taken for bf16 on CPUs with AMX, and where our panel kernel of the layer's dtype is the
 * plain C one: there three rows take the same time, sixteen a third of it, and a single one up
 * to 2.3 times as long where memory is not the limit. It is left where it cannot keep the contract:
 * then, and without PC_HAVE_ONEDNN, all is ours.
 *
 * With AMX our own panels are tiles too (PC_LINEAR=own; panel_amx.c). oneDNN stays the
 * default there because its times are known from such a machine and those of our tiles are not:
 * nobody has measured them yet. They need no copy of inputs and outputs, and one configuration a
 * panel.
 *
 * PC_LINEAR=own or PC_LINEAR=onednn in the environment overrides the choice (for tests; read
 * whenever a layer is made). PC_CPU_MASK (attn/kernels.h) limits our own kernels only, oneDNN has
 * DNNL_MAX_CPU_ISA. */
#ifndef PC_ATTN_CPU_LINEAR_H
#define PC_ATTN_CPU_LINEAR_H

#include "attn/backend.h"

pc_status pc__linear_new(pc__linear **out, pc_context *context, size_t out_features,
                         size_t in_features, uint32_t compute, const pc__weight_source *source,
                         const float *bias);
int pc__linear_keeps_quantised(void);
void pc__linear_free(pc__linear *linear); /* NULL does nothing */
size_t pc__linear_bytes(const pc__linear *linear);
pc_status pc__linear_run(const pc__linear *linear, const float *x, size_t rows, float *y);
pc_status pc__linear_run_all(const pc__linear *const *linears, size_t count, const float *x,
                             size_t rows, float *const *y);
pc_status pc__linear_join(pc_context *context, pc__linear *const *linears, size_t count,
                          void **block); /* panel_set.c */
pc_status pc__linear_run_jobs(const pc__linear_job *jobs, size_t count);
const char *pc__linear_way_name(const pc__linear *linear); /* "grid", "own" or "onednn" */

#endif
