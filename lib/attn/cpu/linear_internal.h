/* Shared by the files of linear layers: a layer's body, its operations, and inputs in its dtype. */
#ifndef PC_ATTN_CPU_LINEAR_INTERNAL_H
#define PC_ATTN_CPU_LINEAR_INTERNAL_H

#include "attn/cpu/linear.h"
#include "base/module.h"

typedef struct pc__linear_ops {
    /* Packs the weights into linear->packed. PC_ERR_UNSUPPORTED: such a layer cannot be computed
     * here. After a failure `drop` frees what was made. */
    pc_status (*make)(pc__linear *linear, const pc__weight_source *source);
    void (*drop)(pc__linear *linear); /* also after a failed `make` */
    size_t (*bytes)(const pc__linear *linear);
    /* A product is computed panel by panel, in any order, on any thread. The inputs are prepared
     * once for all layers that need the same form; count > 0. */
    size_t (*input_bytes)(const pc__linear_job *job);
    /* both have the same operations and `in` */
    int (*same_input)(const pc__linear *a, const pc__linear *b);
    void (*prepare_input)(const pc__linear_job *job, void *prepared); /* all rows */
    /* without the bias */
    void (*run_panel)(const pc__linear_job *job, void *prepared, size_t index);
    /* Row `row` of the weights, [in], to `to`, or added; NULL: they cannot be read back. */
    void (*read_row)(const pc__linear *linear, size_t row, int add, float *to);
    /* Or, without panels, all at once and with the bias. */
    pc_status (*run)(const pc__linear_job *job);
} pc__linear_ops;

extern const pc__linear_ops pc__linear_quantised, pc__linear_panels;
/* The table of the plug-in module onednn (linear_onednn.c). */
typedef struct pc__onednn {
    const pc__linear_ops *ops;
    int (*uses_amx)(void); /* 1: for bf16, on a CPU that has it */
    /* version and instruction set, "+dnn3.1.1-7f" */
    void (*name_class)(char *name, size_t size);
} pc__onednn;
extern const pc__module *const pc__linked_onednn; /* only with PC_HAVE_ONEDNN */

struct pc__linear {
    pc_context *context;
    size_t out, in;
    uint32_t compute;
    float *bias; /* NULL: none */
    const pc__linear_ops *ops;
    void *packed; /* of the operations */
};

static inline size_t pc__linear_element(const pc__linear *linear)
{
    return linear->compute == PC_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Converts rows [first, first + rows) of the inputs to the layer's dtype, [padded_rows][padded],
 * with zeros as padding. Runs on the context's threads. */
void pc__linear_round(const pc__linear_job *job, size_t first, size_t rows, size_t padded_rows,
                      size_t padded, void *to);

#endif
