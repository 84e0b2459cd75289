/* The least time of a prefill with remembered maps, from parts measured in the same run. */
#ifndef MEMO_BOUND_H
#define MEMO_BOUND_H

#include "bench_model.h"

#include <promptcache/attend.h>

typedef struct memo_shape {
    size_t length, batch;
    int causal;
    double map_bytes; /* of one element of a map */
} memo_shape;

typedef struct memo_parts {
    double attend_us; /* scores, softmax and values of all layers, measured by pc_attend */
    double qk_us;     /* queries and keys, by their share of the arithmetic of linear layers */
    double values_us; /* map times values: the arithmetic at the peak, or reading maps and values
                         once, whichever is longer */
    double bound_us;  /* full - attend - qk + values */
} memo_parts;

int is_encoder(const pc_model_info *info); /* attention in both directions */

/* The attention of one layer, as the library computes it. Exit codes; close it in any case. */
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
/* full_us: the full prefill; layer_us: the attention of one layer. */
void memo_parts_of(const bench_model *b, const memo_shape *shape, double full_us, double layer_us,
                   memo_parts *out);

#endif
