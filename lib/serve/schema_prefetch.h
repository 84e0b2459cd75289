/* Loading ahead what requests are likely to want next. */
#ifndef PC_SERVE_SCHEMA_PREFETCH_H
#define PC_SERVE_SCHEMA_PREFETCH_H

#include "serve/prompt.h"
#include "serve/unit_encode.h"

/* PC_CACHE_PREFETCH: the other members of unions of which the prompt has used one, and the modules
 * that follow the last one used in the schema. Into free room, without waiting; what cannot be
 * started is left. */
void pc__prefetch_around(const pc__unit_work *work, const pc_schema *schema,
                         const pc_prompt *prompt);

#endif
