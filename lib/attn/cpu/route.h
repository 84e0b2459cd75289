/* Which experts the rows of a block use, and with what weight. */
#ifndef PC_ATTN_CPU_ROUTE_H
#define PC_ATTN_CPU_ROUTE_H

#include "attn/backend.h"

/* An entry is a (row, expert) pair. Expert e has entries [first[e], first[e + 1]), in ascending
 * rows. */
typedef struct pc__routes {
    float *logits;     /* [row][experts] */
    float *scratch;    /* [row][pc__route_scratch] */
    const float *bias; /* [experts] of the selection; NULL: none */
    int32_t *chosen;   /* [row][used] by descending probability, equal ones by number */
    float *weight;     /* [row][used] */
    uint32_t *first;   /* [experts + 1] */
    uint32_t *row;     /* [entry] */
    float *share;      /* [entry] weight */
    uint32_t *of_row;  /* [row][used] entries of the row, ascending */
} pc__routes;

/* Floats of scratch for a row. */
static inline size_t pc__route_scratch(const pc__expert_config *config)
{
    return config->selection_bias || config->groups ? 2 * (size_t)config->count : 0;
}

/* Routes one row: scores of all experts, the `used` best of the open groups, their weights. In
 * fp32, in an order that depends on the row alone. NaN logits give NaN weights. bias [count] or
 * NULL. */
void pc__route_row(const pc__expert_config *config, const float *bias, const float *logits,
                   float *scratch, int32_t *chosen, float *weight);
/* Routes `rows` rows on the context's threads, then sorts the entries. */
void pc__route(pc_context *context, const pc__expert_config *config, size_t rows,
               pc__routes *routes);

#endif
