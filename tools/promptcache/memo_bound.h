/* The least time that a prefill with remembered maps could take, from parts measured in the same run. */
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
    double qk_us;     /* queries and keys: their share of the arithmetic of the linear layers that a token goes through, of what is not attention */
    double values_us; /* what is left of attention: map times values at the machine's peak, or maps and values read once, whichever is longer */
    double bound_us;  /* full - attend - qk + values */
} memo_parts;

int is_encoder(const pc_model_info *info); /* its attention sees both ways */
/* `full_us`: the prefill where everything is computed. An exit code. */
int memo_parts_of(const bench_model *b, const memo_shape *shape, double full_us, size_t repeats, memo_parts *out);

#endif
