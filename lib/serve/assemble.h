/* Puts the sequence of a request together: attaches segments, computes the rest. */
#ifndef PC_SERVE_ASSEMBLE_H
#define PC_SERVE_ASSEMBLE_H

#include "serve/placed_prompt.h"
#include "serve/request.h"

/* Sets all of *out; next_position is changed by PC_BASELINE_CONTIGUOUS only. What *out holds on
 * failure, the caller frees. */
pc_status pc__assemble(pc__request *request, pc__placed_prompt *out, float *logits);

#endif
