/* What a request loads for its parts, whichever way it gathers them (gather_units.c,
 * gather_exact.c): what has come is taken, and what has begun to come, where nothing else has to be
 * computed first. */
#ifndef PC_SERVE_GATHER_H
#define PC_SERVE_GATHER_H

#include "serve/request.h"

typedef struct pc__request_loads {
    pc__request *request;
    pc__fetch fetch; /* by part */
    size_t parts;    /* [0, parts) of the request's may be loaded */
    int (*is_missing)(const void *gathering, size_t part); /* it gets a segment and has none yet */
    void (*taken)(void *gathering,
                  size_t part); /* the request has its segment from a load; or NULL */
    void *gathering;
} pc__request_loads;

/* Part `part`, if its load has brought it; all that have come. */
void pc__loads_take(pc__request_loads *loads, size_t part);
void pc__loads_take_all(pc__request_loads *loads);
/* Waits, if the request may, and takes what has come; if layers may be waited for one by one, what
 * has begun to come, too. Returns the seconds waited. */
double pc__loads_wait_and_take(pc__request_loads *loads);

#endif
