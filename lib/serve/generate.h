/* Options of a request, checked and copied: the caller's may be freed. */
#ifndef PC_SERVE_GENERATE_H
#define PC_SERVE_GENERATE_H

#include <promptcache/bench.h>

#include "model/model.h"

typedef struct pc__generation {
    /* owns its arrays and its reference to the memo; has the stops of the chat template and the
     * model's EOS too */
    pc_generate_options options; /* options.sampling is NULL: */
    pc_sampling sampling;        /* as read; what draws has its copy (sampler.h) */
    pc_bench_options bench;      /* zeros: nothing is measured; options.bench is NULL */
    char **strings;
    pc_salt *salts;
} pc__generation;

/* PC_ERR_INVALID and PC_ERR_UNSUPPORTED name the field. */
pc_status pc__generation_init(pc__generation *generation, const pc_model *model,
                              const pc_generate_options *options, const char *call);
/* A copy, without the memo. */
pc_status pc__generation_copy(pc__generation *to, const pc_model *model,
                              const pc__generation *from);
/* When the prompt is computed. */
void pc__generation_drop_memo(pc__generation *generation);
/* Zeroed: does nothing. */
void pc__generation_end(pc__generation *generation, const pc_allocator *mem);
int pc__generation_stops(const pc__generation *generation, int32_t token);

#endif
