/* Shared by the ways to compute a linear layer: its body, the table of a way, and inputs in the
 * layer's dtype. */
#ifndef PC_ATTN_CPU_LINEAR_INTERNAL_H
#define PC_ATTN_CPU_LINEAR_INTERNAL_H

#include "attn/cpu/linear.h"

/* As in pc__linear_job. */
typedef struct pc__linear_input {
    const float *x;
    const uint32_t *row;
    size_t rows, first, count;
    void *prepared; /* all rows, prepared by the way */
} pc__linear_input;

typedef struct pc__linear_way {
    const char *name;
    /* Packs the weights into linear->packed. PC_ERR_UNSUPPORTED: this way cannot compute such a
     * layer here. After a failure `drop` frees what was made. */
    pc_status (*make)(pc__linear *linear, const pc__weight_source *source);
    void (*drop)(pc__linear *linear); /* also after a failed `make` */
    size_t (*bytes)(const pc__linear *linear);
    /* A product is computed panel by panel, in any order, on any thread. The inputs are prepared
     * once for all layers that need the same form; count > 0. */
    size_t (*input_bytes)(const pc__linear *linear, const pc__linear_input *input);
    int (*same_input)(const pc__linear *a,
                      const pc__linear *b); /* both have one way and one `in` */
    void (*prepare_input)(const pc__linear *linear,
                          const pc__linear_input *input); /* writes *prepared */
    void (*run_panel)(const pc__linear *linear, const pc__linear_input *input, float *y,
                      size_t index); /* adds the bias */
    /* Or all at once, for a way without panels. */
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
    void *packed; /* of the way */
};

static inline size_t pc__linear_element(const pc__linear *linear)
{
    return linear->compute == PC_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Converts rows [first, first + rows) of the inputs to the layer's dtype, [padded_rows][padded],
 * with zeros as padding. Runs on the context's threads. */
void pc__linear_round(const pc__linear *linear, const pc__linear_input *input, size_t first,
                      size_t rows, size_t padded_rows, size_t padded, void *to);

#endif
