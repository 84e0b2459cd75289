/* A request asks its memo, and goes on from a hit. */
#include "serve/request_internal.h"

#include <string.h>

#include "model/model_states.h"
#include "serve/model_calls.h"
#include "serve/prefill.h"

int pc__request_asks_memo(pc__request *r)
{
    const pc_generate_options *o = r->options;
    uint32_t reason = PC_REASON_NONE;
    if (!o->memo)
        return 0;
    if (r->prompt->schema || r->prompt->given)
        reason = PC_REASON_PARTS;
    else if (r->bench->baseline != PC_BASELINE_NONE)
        reason = PC_REASON_NOT_WANTED;
    else if (o->repair == PC_REPAIR_FULL)
        reason = PC_REASON_REPAIR;
    else if (pc__model_rope_regime(r->model, r->tokens) != r->regime.key)
        reason = PC_REASON_LENGTH; /* its records have the frequencies of their own length */
    r->stats.memo_reason = reason;
    return reason == PC_REASON_NONE;
}

static void note_memo(pc__request *r, const pc_memo_result *result, const pc_prefill_stats *times)
{
    r->stats.memo_reason = result->reason;
    r->stats.memo_layers = result->layers;
    r->stats.memo_record = result->record;
    r->stats.memo_similarity = result->similarity;
    r->stats.memo_loss = result->loss;
    r->stats.memo_verified = result->verified;
    r->stats.memo_reuse = result->reuse;
    r->stats.seconds_memo += times->seconds_features + times->seconds_search + times->seconds_maps;
    r->stats.seconds_prefill += times->seconds_forward + times->seconds_verify;
}

/* Exact states are better than any map. */
static int has_a_hit(const pc__request *r)
{
    for (size_t p = 0; p < r->prompt->part_count; p++)
        if (r->parts[p].hit)
            return 1;
    return 0;
}

pc_status pc__request_ask_memo(pc__request *r, float *logits, pc__memo_answer *out)
{
    const pc_input input = {r->prompt->tokens, r->tokens, NULL};
    pc_memo_result result = {.record = -1};
    pc_prefill_stats times;
    pc_prefill_options options = PC_PREFILL_OPTIONS_INIT;
    pc_status status;
    if (has_a_hit(r)) {
        r->stats.memo_reason = PC_REASON_AT_HAND;
        return PC_OK;
    }
    PC__TRY_RETURN(pc__request_poll(r));
    options.memo = r->options->memo;
    options.threshold = r->options->memo_threshold;
    options.logits = logits;
    options.results = &result;
    options.result_stride = sizeof result;
    options.cancelled = pc__request_must_stop;
    options.cancel_user = r;
    pc__cache_request_running(r->cache, 1);
    status = pc__prefill_hit(r->model, &input, &options, &out->states, &times);
    pc__cache_request_running(r->cache, -1);
    if (status >= 0)
        note_memo(r, &result, &times);
    out->approximate = status == PC_OK && result.exactness == PC_APPROXIMATE;
    return status < 0 ? status : PC_OK;
}

pc_status pc__request_use_memo(pc__request *r, pc__memo_answer *answer, pc__placed_prompt *out)
{
    const pc_allocator *mem = &r->model->context->mem;
    pc__kv *states = answer->states;
    pc_status status = pc__request_sequence_new(r, &out->sequence);
    answer->states = NULL;
    out->own.tokens = pc__calloc(mem, r->tokens, sizeof *out->own.tokens);
    if (status < 0 || !out->own.tokens) {
        pc__kv_unref(states);
        status = status < 0 ? status : PC_ERR_NOMEM;
    } else {
        memcpy(out->own.tokens, r->prompt->tokens, r->tokens * sizeof *out->own.tokens);
        out->own.count = r->tokens;
        out->own.last = (int64_t)r->tokens - 1;
        status = pc__model_sequence_wrap(r->model, out->sequence, states);
    }
    if (status < 0)
        return status;
    if (answer->approximate) {
        r->stats.exactness = PC_APPROXIMATE;
        r->stats.tokens_memo = r->tokens;
    } else {
        pc__request_count(r);
    }
    return PC_OK;
}
