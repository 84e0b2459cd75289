/* The least time that a prefill with remembered maps could take, from parts measured in the same
 * run. */
#ifndef MEMO_BOUND_H
#define MEMO_BOUND_H

#include "bench_model.h"

typedef struct memo_shape {
    size_t length, batch;
    int causal;
    double map_bytes; /* of one weight of a map */
} memo_shape;

typedef struct memo_parts {
    double attend_us; /* scores, softmax and values of all layers, measured by pc_attend */
    double qk_us;     /* queries and keys: their share of the arithmetic of the linear layers that a
                         token goes through, of what is not attention */
    double values_us; /* what is left of attention: map times values at the machine's peak, or maps
                         and values read once, whichever is longer */
    double bound_us;  /* full - attend - qk + values */
} memo_parts;

int is_encoder(const pc_model_info *info); /* its attention sees both ways */

/* One layer's attention of the shape's tokens among themselves, as fast as the library does it. An
 * exit code; closed in any case. */
typedef struct bound_attention {
    pc_attend_shape shape;
    pc_plan *plan;
    void *memory;
    const void **pages; /* [batch] */
    float *q, *out;
} bound_attention;
int bound_attention_open(bound_attention *t, const bench_model *b, const memo_shape *shape);
int bound_attention_time(bound_attention *t, double *us);
void bound_attention_close(bound_attention *t);
/* `full_us`: the prefill where everything is computed; `layer_us`: a layer's attention. */
void memo_parts_of(const bench_model *b, const memo_shape *shape, double full_us, double layer_us,
                   memo_parts *out);

#endif
