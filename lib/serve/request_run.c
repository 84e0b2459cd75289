/* The order of a request's steps: gather, ask the memo, repair, assemble; once more without streams
 * where a layer did not come in time. */
#include <string.h>

#include "base/clock.h"
#include "serve/gather.h"
#include "serve/model_calls.h"
#include "serve/request_internal.h"

/* PC_BASELINE_COPIES: the request gets a copy of each segment that the cache has given. */
static pc_status copy_hits(pc__request *r)
{
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        pc__request_part *part = &r->parts[p];
        pc_segment *copy;
        if (!part->segment || !part->hit || part[1].first <= r->bench->shared_tokens)
            continue;
        PC__TRY_RETURN(pc_segment_copy(&copy, part->segment));
        pc__segment_unref(part->segment);
        part->segment = copy;
    }
    return PC_OK;
}

/* Given segments are exact where each has seen what stands before it. */
static pc_status use_given(pc__request *r)
{
    if (pc__request_reuses_nothing(r) || pc__request_is_fresh(r)
        || r->options->repair > PC_REPAIR_NONE)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "the prompt is made of segments: baseline %u or repair %u cannot compute "
                        "them anew",
                        r->bench->baseline, r->options->repair);
    for (size_t p = 0; p < r->prompt->given_count; p++) {
        r->parts[p].segment = pc__segment_ref(r->prompt->given[p].segment);
        r->parts[p].hit = 1;
        r->parts[p].tier = PC_TIER_RAM;
    }
    r->stats.exactness = r->prompt->given_exact ? PC_EXACT : PC_APPROXIMATE;
    r->stats.repair = PC_REPAIR_NONE;
    return PC_OK;
}

/* The memo is asked before anything is computed. */
static pc_status gather_parts(pc__request *r, int asks_memo, float *logits, pc__memo_answer *answer)
{
    pc__gather *g;
    pc_status status = pc__gather_new(&g, r);
    if (status >= 0)
        status = pc__gather_find(g);
    if (status >= 0 && asks_memo)
        status = pc__request_ask_memo(r, logits, answer);
    if (status >= 0 && !answer->states)
        status = pc__gather_compute(g);
    if (status >= 0)
        pc__gather_judge(g);
    pc__gather_free(g);
    return status;
}

static pc_status gather_new_text(pc__request *r)
{
    double before = r->stats.seconds_encode;
    pc__gather *g;
    pc_status status = pc__gather_new_text(&g, r);
    if (!g)
        return status;
    status = pc__gather_find(g);
    if (status >= 0)
        status = pc__gather_compute(g);
    pc__gather_free(g);
    r->stats.seconds_prefill += r->stats.seconds_encode - before; /* no module is encoded here */
    r->stats.seconds_encode = before;
    return status;
}

static pc_status find_segments(pc__request *r, float *logits, pc__memo_answer *answer)
{
    int asks_memo = pc__request_asks_memo(r);
    if (r->prompt->given) {
        PC__TRY_RETURN(use_given(r));
    } else if (!pc__request_reuses_nothing(r)) {
        PC__TRY_RETURN(gather_parts(r, asks_memo, logits, answer));
        PC__TRY_RETURN(gather_new_text(r));
    }
    pc__request_judge(r);
    return r->bench->baseline == PC_BASELINE_COPIES ? copy_hits(r) : PC_OK;
}

static pc_status repair_parts(pc__request *r)
{
    double started = pc__now();
    pc_status status = PC_OK;
    if (pc__request_sees_all(r) || pc__request_reuses_nothing(r))
        return PC_OK;
    if (r->options->repair == PC_REPAIR_FIRST)
        status = pc__request_repair_first(r);
    else if (r->options->repair == PC_REPAIR_TOP)
        status = pc__request_repair_top(r);
    r->stats.seconds_prefill += pc__now() - started;
    return status;
}

/* The last token is always computed, even if its states are at hand: its logits are needed. */
static void need_last_token(pc__request *r, int64_t *next_position)
{
    size_t last = pc__request_last_part(r, next_position);
    if (last != SIZE_MAX && r->parts[last].segment)
        r->again[r->parts[last + 1].first - 1] = 1;
}

static pc_status gather_together(pc__request *r)
{
    pc__gather *g;
    pc_status status = pc__gather_new(&g, r);
    if (status >= 0)
        status = pc__gather_find(g);
    if (status >= 0 && r->prompt->schema)
        status = pc__gather_compute(g);
    if (status >= 0)
        pc__gather_judge(g);
    pc__gather_free(g);
    return status;
}

pc_status pc__request_gather(pc__request *r)
{
    int64_t next;
    r->together = 1;
    PC__TRY_RETURN(pc__request_poll(r));
    PC__TRY_RETURN(r->prompt->given ? use_given(r) : gather_together(r));
    pc__request_judge(r);
    need_last_token(r, &next);
    pc__request_count(r);
    return PC_OK;
}

static pc_status assemble_prompt(pc__request *r, pc__placed_prompt *out, float *logits)
{
    double before = r->stats.seconds_prefill;
    pc_status status;
    pc__cache_request_running(r->cache, 1);
    status = pc__request_assemble(r, out, logits);
    pc__cache_request_running(r->cache, -1);
    if (r->bench->baseline == PC_BASELINE_NO_ATTENTION)
        r->stats.exactness = PC_APPROXIMATE; /* only the prompt's own states are right */
    if (status < 0)
        return status;
    if (r->cache && !r->streams.count)
        pc__estimate_report_compute(pc__cache_estimate(r->cache), r->model->info.fingerprint,
                                    out->own.count, r->stats.seconds_prefill - before);
    pc__fetch_finish_streams(&r->streams);
    r->stats.bytes_loaded += r->streams.bytes;
    return status;
}

static pc_status run_once(pc__request *r, pc__placed_prompt *out, float *logits)
{
    pc__memo_answer answer = {0};
    pc_status status = find_segments(r, logits, &answer);
    if (status >= 0) {
        need_last_token(r, &out->next_position);
        if (answer.states)
            return pc__request_use_memo(r, &answer, out);
        status = repair_parts(r);
    }
    pc__kv_unref(answer.states);
    if (status < 0)
        return status;
    pc__request_count(r);
    return assemble_prompt(r, out, logits);
}

/* The sequence reads the segments from now on. */
static void hand_over(pc__request *r, pc__placed_prompt *out)
{
    for (size_t p = 0; p < r->prompt->part_count; p++)
        if (r->parts[p].segment) {
            out->segments[out->segment_count++] = r->parts[p].segment;
            r->parts[p].segment = NULL;
        }
    pc__fetch_end(&r->streams);
}

static pc_status run_and_hand_over(pc__request *r, pc__placed_prompt *out, float *logits)
{
    pc_status status;
    memset(out, 0, sizeof *out);
    out->segments = pc__calloc(&r->model->context->mem, r->prompt->part_count,
                               sizeof(*out->segments));
    status = out->segments ? run_once(r, out, logits) : PC_ERR_NOMEM;
    if (status < 0)
        pc__placed_prompt_end(out, r->model);
    else
        hand_over(r, out);
    return status;
}

pc_status pc__request_run(pc__request *r, pc__placed_prompt *out, float *logits)
{
    double started = pc__now();
    pc_status status = run_and_hand_over(r, out, logits);
    uint32_t failure = pc__fetch_stream_failure(&r->streams);
    if (status >= 0 || status == PC_ERR_CANCELLED || failure == PC_REASON_NONE)
        return status;
    pc__request_reset(r, started, failure);
    status = run_and_hand_over(r, out, logits);
    if (r->stats.miss_reason != PC_REASON_NONE)
        r->stats.miss_reason = failure;
    return status;
}
