/* Repair: which tokens of reused segments are computed again, so that they see what stands before
 * them in this prompt. */
#ifndef PC_SERVE_REPAIR_H
#define PC_SERVE_REPAIR_H

#include "serve/request.h"

/* PC_REPAIR_FIRST: the first repair_tokens of every module. */
pc_status pc__repair_first(pc__request *request);
/* PC_REPAIR_TOP: the repair_percent of tokens whose states deviate most, as the model tells. */
pc_status pc__repair_top(pc__request *request);

#endif
