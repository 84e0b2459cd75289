/* A request and its memo. A plain prompt of which the cache has nothing takes over the attention
 * maps of one that resembles it, the way pc_prefill does, and goes on from what came of it. Those
 * states are the sequence's own tokens from the start: no segment is made of them, so nothing that
 * is kept or shared can be. */
#include <string.h>

#include "model/model_states.h"
#include "serve/prefill.h"
#include "serve/request.h"

void pc__request_judge_memo(pc__request *r)
{
    const pc_generate_options *o = r->options;
    uint32_t reason = PC_REASON_NONE;
    if (r->prompt->schema || r->prompt->given)
        reason = PC_REASON_PARTS;
    else if (o->baseline != PC_BASELINE_NONE)
        reason = PC_REASON_BASELINE;
    else if (o->repair == PC_REPAIR_FULL)
        reason = PC_REASON_REPAIR;
    else if (o->memo && pc__model_rope_regime(r->model, r->tokens) != r->regime.key)
        reason = PC_REASON_LENGTH; /* what it remembers has the frequencies of its own length */
    r->asks_memo = o->memo && reason == PC_REASON_NONE;
    r->stats.memo.reason = o->memo ? reason : PC_REASON_NONE;
}

static void note_memo(pc__request *r, const pc_memo_result *result, const pc_prefill_stats *times)
{
    r->stats.memo = *result;
    r->stats.seconds_memo += times->seconds_features + times->seconds_search + times->seconds_maps;
    r->stats.seconds_prefill += times->seconds_forward + times->seconds_verify;
}

pc_status pc__request_ask_memo(pc__request *r)
{
    const pc_input input = {r->prompt->tokens, r->tokens, NULL};
    pc_memo_result result = {.record = -1};
    pc_prefill_stats times;
    pc_prefill_options options = PC_PREFILL_OPTIONS_INIT;
    pc_status status = pc__request_poll(r);
    options.memo = r->options->memo;
    options.threshold = r->options->memo_threshold;
    options.logits = r->logits;
    options.results = &result;
    options.cancelled = r->options->cancelled;
    options.cancel_user = r->options->cancel_user;
    if (status < 0)
        return status;
    if (r->cache)
        pc__cache_request_running(r->cache, 1);
    status = pc__prefill_hit(r->model, &input, &options, &r->run, &times);
    if (r->cache)
        pc__cache_request_running(r->cache, -1);
    if (status >= 0)
        note_memo(r, &result, &times);
    r->approximate = status == PC_OK && result.exactness == PC_APPROXIMATE;
    return status < 0 ? status : PC_OK;
}

pc_status pc__request_go_on(pc__request *r, void **sequence)
{
    pc__kv *run = r->run;
    pc_status status = pc__call_sequence_new(r->model, r->cache, sequence);
    if (status < 0)
        return status;
    r->own = pc__calloc(&r->model->context->mem, r->tokens, sizeof *r->own);
    if (r->own) {
        memcpy(r->own, r->prompt->tokens, r->tokens * sizeof *r->own);
        r->own_count = r->tokens;
        r->own_last = (int64_t)r->tokens - 1;
        r->run = NULL;
        status = pc__model_sequence_adopt(r->model, *sequence, run);
    }
    if (!r->own || status < 0) {
        pc__call_drop(r->model, *sequence);
        *sequence = NULL;
    }
    return r->own ? status : PC_ERR_NOMEM;
}
