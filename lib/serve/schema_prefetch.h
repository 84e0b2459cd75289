/* Prefetch of segments that the next requests may need. */
#ifndef PC_SERVE_SCHEMA_PREFETCH_H
#define PC_SERVE_SCHEMA_PREFETCH_H

#include "serve/prompt.h"
#include "serve/unit_encode.h"

/* PC_CACHE_PREFETCH: the other members of unions that the prompt has used, and the modules behind
 * the last one used. Loads go into free room without waiting; failures do not matter. */
void pc__prefetch_around(const pc__unit_work *work, const pc_schema *schema,
                         const pc_prompt *prompt);

#endif
