/* Linear layers of the CPU backend; contract: attn/backend.h.
 *
 * A layer has one of three sets of operations, chosen when it is made: quantised weights are
 * computed as they are (linear_quantised.c), others by our own panels (linear_panels.c) or by
 * oneDNN (linear_onednn.c). oneDNN is used for bf16 on CPUs with AMX, and where our panel kernel of
 * the dtype is plain C: compared with that, three rows take the same time, sixteen rows a third,
 * and a single row up to 2.3 times as long where memory is not the limit. Our own panels are used
 * where oneDNN cannot keep the contract, where its plug-in module is missing, and in builds without
 * PC_HAVE_ONEDNN. The module is opened only when it is chosen.
 *
 * With AMX our own panels use tiles too (PC_LINEAR=own; panel_amx.c). oneDNN stays the default
 * there because our tiles have not been measured on such a machine yet. They need no copy of inputs
 * and outputs, and one tile configuration per panel.
 *
 * PC_LINEAR=own or PC_LINEAR=onednn in the environment overrides the choice (for tests; read
 * whenever a layer is made). PC_CPU_MASK (attn/kernels.h) limits our own kernels only; for oneDNN
 * there is DNNL_MAX_CPU_ISA. */
#ifndef PC_ATTN_CPU_LINEAR_H
#define PC_ATTN_CPU_LINEAR_H

#include "attn/backend.h"

/* One linear layer and its input rows: row i is x[i] (row NULL) or x[row[i]], i < rows. Only the
 * `count` rows from `first` on are computed. */
typedef struct pc__linear_job {
    const pc__linear *linear;
    const float *x;
    const uint32_t *row;
    size_t rows, first, count;
    float *y; /* [count][out]; must not overlap any input or output of jobs that run together */
} pc__linear_job;

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
/* Row `row` of the weights as the layer computes with them, [in], to `to`, or added; only where
 * pc__linear_reads. */
int pc__linear_reads(const pc__linear *linear);
size_t pc__linear_inputs(const pc__linear *linear);
void pc__linear_row(const pc__linear *linear, size_t row, int add, float *to);
/* Any number of layers of one context, as one piece of work. Neighbours in `jobs` with the same x,
 * row and rows share the converted inputs. */
pc_status pc__linear_run_jobs(const pc__linear_job *jobs, size_t count);

#endif
