/* Which experts the rows of a block use, and with what weight. */
#ifndef PC_ATTN_CPU_ROUTE_H
#define PC_ATTN_CPU_ROUTE_H

#include "attn/backend.h"

/* An entry is a (row, expert) pair. Expert e has entries [first[e], first[e + 1]), in ascending
 * rows. */
typedef struct pc__routes {
    float *logits;    /* [row][experts] */
    int32_t *chosen;  /* [row][used] by descending probability, equal ones by number */
    float *weight;    /* [row][used] */
    uint32_t *first;  /* [experts + 1] */
    uint32_t *row;    /* [entry] */
    float *share;     /* [entry] weight */
    uint32_t *of_row; /* [row][used] entries of the row, ascending */
} pc__routes;

/* Routes one row: softmax over all experts, the `used` largest, their weights. In fp32, in an order
 * that depends on the row alone. NaN logits give NaN weights. */
void pc__route_row(const pc__expert_config *config, const float *logits, int32_t *chosen,
                   float *weight);
/* Routes `rows` rows on the context's threads, then sorts the entries. */
void pc__route(pc_context *context, const pc__expert_config *config, size_t rows,
               pc__routes *routes);

#endif
