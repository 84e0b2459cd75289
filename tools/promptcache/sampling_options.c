/* How tokens are drawn, from the command line. */
#include "sampling_options.h"
#include <promptcache/sampling.h>

pc_sampling sampling_of(const sampling_options *o)
{
    pc_sampling s = PC_SAMPLING_INIT;
    s.temperature = (float)o->temperature;
    s.top_p = (float)o->top_p;
    s.repetition_penalty = (float)o->repetition;
    s.top_k = (uint32_t)o->top_k;
    s.seed = (uint64_t)o->seed;
    s.min_p = (float)o->min_p;
    s.typical_p = (float)o->typical_p;
    s.presence_penalty = (float)o->presence;
    s.frequency_penalty = (float)o->frequency;
    s.dry_multiplier = (float)o->dry;
    s.penalty_last_tokens = (uint32_t)o->penalty_last;
    return s;
}
