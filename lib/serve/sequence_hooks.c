/* Functions of the application around the draw of a token: on_logits and on_token. */
#include "serve/logprobs.h"
#include "serve/sequence.h"
#include <promptcache/sampling.h>

pc_status pc__sequence_said(int32_t said, const char *function)
{
    if (said < 0)
        return pc__callback_failed(said, "%s", function);
    return said ? PC_END : PC_OK;
}

pc_status pc__sequence_ask_logits(pc_sequence *s, float *logits)
{
    const pc_generate_options *o = &s->generation.options;
    if (!o->on_logits)
        return PC_OK;
    pc__callback_begin();
    return pc__sequence_said(o->on_logits(o->on_logits_user, s->sample, logits, s->sampler.vocab),
                             "on_logits");
}

/* The likeliest tokens that a backend has listed. */
static void read_likely(pc__logprobs *of, const pc__drawn *drawn, uint32_t top)
{
    const pc__likely *likely = pc__likely_of(drawn);
    for (of->count = 0; of->count < top && likely[of->count].token >= 0; of->count++) {
        of->tokens[of->count] = likely[of->count].token;
        of->logprobs[of->count] = likely[of->count].logprob;
    }
}

pc_status pc__sequence_give_token(pc_sequence *s, int64_t position, const pc__drawn *drawn)
{
    const pc_generate_options *o = &s->generation.options;
    pc__logprobs of;
    pc_token given = {.struct_size = sizeof given};
    int32_t token = s->tokens[s->count - 1];
    if (!o->on_token)
        return PC_OK;
    if (drawn)
        read_likely(&of, drawn, o->top_logprobs);
    else
        pc__logprobs_of(&of, s->logits, s->sampler.vocab, o->top_logprobs);
    given.sample = s->sample;
    given.token = token;
    given.position = position;
    given.logprob = drawn ? drawn->logprob : pc__logprob(&of, s->logits[token]);
    given.top_tokens = of.tokens;
    given.top_logprobs = of.logprobs;
    given.top_count = of.count;
    pc__callback_begin();
    return pc__sequence_said(o->on_token(o->on_token_user, &given), "on_token");
}
