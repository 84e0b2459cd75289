/* Options of a request, checked and copied: the caller's may be freed. */
#ifndef PC_SERVE_GENERATE_H
#define PC_SERVE_GENERATE_H

#include <promptcache/bench.h>
#include <promptcache/sampling.h>
#include <stdatomic.h>

#include "model/model.h"

typedef struct pc__generation {
    /* owns its arrays and its references to memo and grammar; has the stops of the chat template
     * and the model's EOS too */
    pc_generate_options options; /* options.sampling is NULL: */
    pc_sampling sampling;        /* as read; what draws has its copy (sampler.h) */
    pc_bench_options bench;      /* zeros: nothing is measured; options.bench is NULL */
    char **strings;
    uint8_t *owners; /* adapter and salts of the options, with their bytes */
    double *memo_threshold;
    uintptr_t memo; /* that it was made with: to compare only, it may be freed */
    /* Of a sequence. Not copied. */
    const atomic_int *cancel; /* 1: pc_sequence_cancel; NULL: there is no such flag */
    double started;           /* the deadline counts from here */
} pc__generation;

/* PC_ERR_INVALID and PC_ERR_UNSUPPORTED name the field. */
pc_status pc__generation_init(pc__generation *generation, const pc_model *model,
                              const pc_generate_options *options, const char *call);
/* A copy, without the memo. */
pc_status pc__generation_copy(pc__generation *to, const pc_model *model,
                              const pc__generation *from);
/* New options `to` for a sequence whose prompt is computed: what may not change any more must be as
 * in `from`, or the default, and is taken over. PC_ERR_STATE names the field; then nothing has
 * changed. */
pc_status pc__generation_take_over(pc__generation *to, pc__generation *from, const char *call);
/* Asked between and inside steps. 1: the caller wants no more. Where that is not the answer of its
 * `cancelled`, the reason is set as a callback would (pc_error_set). */
int32_t pc__generation_must_stop(const pc__generation *generation);
/* The same question: PC_ERR_CANCELLED, or PC_OK. */
pc_status pc__generation_poll(const pc__generation *generation);
/* When the prompt is computed. */
void pc__generation_drop_memo(pc__generation *generation);
/* Zeroed: does nothing. */
void pc__generation_end(pc__generation *generation, const pc_allocator *mem);
int pc__generation_stops(const pc__generation *generation, int32_t token);
/* How many stop strings end a turn of so many tokens: all or, up to min_tokens, none. */
size_t pc__generation_stop_strings(const pc__generation *generation, size_t tokens);

#endif
