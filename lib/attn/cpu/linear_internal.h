/* What the ways of computing a linear layer share: its body, the table of a way, the inputs in the
 * layer's dtype. */
#ifndef PC_ATTN_CPU_LINEAR_INTERNAL_H
#define PC_ATTN_CPU_LINEAR_INTERNAL_H

#include "attn/cpu/linear.h"

/* As in pc__linear_job. */
typedef struct pc__linear_input {
    const float *x;
    const uint32_t *row;
    size_t rows, first, count;
    void *prepared; /* all rows in the way's form */
} pc__linear_input;

typedef struct pc__linear_way {
    const char *name;
    /* Packs the weights into linear->packed. PC_ERR_UNSUPPORTED: this way cannot compute such a
     * layer here. What it has made by a failure is left to `drop`. */
    pc_status (*make)(pc__linear *linear, const pc__weight_source *source);
    void (*drop)(pc__linear *linear); /* also of what was never made */
    size_t (*bytes)(const pc__linear *linear);
    /* A product is made panel by panel, in any order, on any thread: the inputs are brought into
     * the way's own form once, for all layers that take them in the same one; count > 0. */
    size_t (*input_bytes)(const pc__linear *linear, const pc__linear_input *input);
    int (*same_input)(const pc__linear *a, const pc__linear *b); /* of one way and one `in` */
    void (*prepare_input)(const pc__linear *linear,
                          const pc__linear_input *input); /* writes *taken */
    void (*run_panel)(const pc__linear *linear, const pc__linear_input *input, float *y,
                      size_t index); /* adds the bias */
    /* Or all at once, where panels are not the way's unit of work. */
    pc_status (*run)(const pc__linear *linear, const pc__linear_input *input, float *y);
} pc__linear_way;

extern const pc__linear_way pc__linear_quantised, pc__linear_panels;
#if defined(PC_HAVE_ONEDNN)
extern const pc__linear_way pc__linear_onednn;
int pc__linear_onednn_amx(void); /* 1: the CPU has AMX with bf16, and oneDNN uses it */
void pc__linear_onednn_class(char *name,
                             size_t size); /* version and instruction set, "+dnn3.1.1-7f" */
#endif

struct pc__linear {
    pc_context *context;
    size_t out, in;
    uint32_t compute;
    float *bias; /* NULL: none */
    const pc__linear_way *way;
    void *packed; /* the way's own */
};

static inline size_t pc__linear_element(const pc__linear *linear)
{
    return linear->compute == PC_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Rows [first, first + rows) of the inputs in the layer's dtype, [padded_rows][padded]; the padding
 * is zero. Runs on the context's threads. */
void pc__linear_round(const pc__linear *linear, const pc__linear_input *input, size_t first,
                      size_t rows, size_t padded_rows, size_t padded, void *to);

#endif
