/* The RoPE regime of a request, defined here once.
 *
 * Frequencies that depend on the context's length (dynamic NTK, LongRoPE) are fixed per request by
 * the length that it may reach. States of one RoPE regime are never used in another, and no request
 * grows out of its own. An application's model gets its full context length, so that all of its
 * segments go together. */
#ifndef PC_SERVE_REQUEST_REGIME_H
#define PC_SERVE_REQUEST_REGIME_H

#include "model/model.h"

typedef struct pc__request_regime {
    /* `rope_regime_length` of the model's operations: the same for the whole regime. */
    uint64_t length;
    uint64_t key;     /* for store keys */
    uint64_t decided; /* the length that has decided; 0: frequencies do not depend on one */
    int64_t end;      /* the longest context of this regime; INT64_MAX: no end */
} pc__request_regime;

/* Of a request that may reach `reach` positions. `chosen` decides instead if it is not 0. */
pc__request_regime pc__regime_for_length(const pc_model *model, uint64_t chosen, int64_t reach);
/* Of existing states with this key. */
pc__request_regime pc__regime_of_key(const pc_model *model, uint64_t key);

#endif
