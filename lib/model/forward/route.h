/* Which experts the rows of a block go through, and how much each counts. */
#ifndef PC_MODEL_ROUTE_H
#define PC_MODEL_ROUTE_H

#include "model/load/arch.h"

/* Expert e has the entries [first[e], first[e + 1]), in ascending rows. */
typedef struct pc__routes {
    float *logits;    /* [row][experts] of the router */
    int32_t *chosen;  /* [row][used] in descending probability; of equal ones the lower number comes
                         first */
    float *weight;    /* [row][used] */
    uint32_t *first;  /* [experts + 1] */
    uint32_t *row;    /* [entry] */
    float *share;     /* [entry] the weight of its row for its expert */
    uint32_t *of_row; /* [row][used] the row's entries, ascending */
} pc__routes;

/* One row: softmax over all experts, the `used` largest, their factors. In fp32, in an order that
 * depends on nothing but the row. Logits that are no numbers give weights that are none. */
void pc__route_row(const pc__expert_config *config, const float *logits, int32_t *chosen,
                   float *weight);
/* chosen and weight of `rows` rows from their logits (on the context's threads), then the entries.
 */
void pc__route(pc_context *context, const pc__expert_config *config, size_t rows,
               pc__routes *routes);

#endif
