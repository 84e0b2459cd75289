/* The steps of a request, one after the other. */
#ifndef PC_SERVE_REQUEST_RUN_H
#define PC_SERVE_REQUEST_RUN_H

#include "serve/placed_prompt.h"
#include "serve/request.h"

/* Gathers segments, repairs, attaches and computes. *out holds all of the result, and the request
 * may be ended; logits [vocab] are those behind the last token. On failure *out is zeroed. */
pc_status pc__request_run(pc__request *request, pc__placed_prompt *out, float *logits);

#endif
