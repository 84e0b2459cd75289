#include "serve/request.h"

#include <string.h>

#include "attn/kv.h"
#include "model/model_states.h"

pc_status pc__request_poll(const pc__request *r)
{
    pc__callback_begin();
    if (r->options->cancelled && r->options->cancelled(r->options->cancel_user))
        return pc__callback_cancelled("the caller cancelled the request");
    return PC_OK;
}

void pc__request_missed(pc__request *r, size_t part, uint32_t reason)
{
    if (part < r->missed_part) {
        r->missed_part = part;
        r->stats.miss_reason = reason;
    }
}

/* Behind the highest token. */
static int64_t next_position(const pc_prompt *prompt)
{
    int64_t next = prompt->end;
    for (size_t p = 0; p < prompt->part_count; p++) {
        size_t count = prompt->parts[p].count;
        if (count && pc__prompt_position(prompt, p, count - 1) >= next)
            next = pc__prompt_position(prompt, p, count - 1) + 1;
    }
    return next;
}

/* Decided by the length that the request may reach; levels by hand have one already. */
static pc__request_regime choose_regime(const pc__request *r)
{
    const pc_generate_options *o = r->options;
    int64_t reach = o->baseline == PC_BASELINE_CONTIGUOUS ? (int64_t)r->tokens
                                                          : next_position(r->prompt);
    if (r->prompt->given_count && pc__model_is_native(r->model) && !o->rope_regime_length) {
        const pc_segment *first = r->prompt->given->segment;
        return pc__regime_of_key(r->model, ((const pc__kv *)first->payload)->regime);
    }
    return pc__regime_for_length(r->model, o->rope_regime_length,
                                 reach + (int64_t)r->pushed + (int64_t)o->max_tokens);
}

pc_status pc__request_init(pc__request *r, const pc_prompt *prompt, pc_cache *cache,
                           const pc_generate_options *options, size_t pushed)
{
    const pc_allocator *mem = &prompt->model->context->mem;
    memset(r, 0, sizeof *r);
    r->prompt = prompt;
    r->model = prompt->model;
    r->cache = cache;
    r->options = options;
    r->pushed = pushed;
    r->missed_part = SIZE_MAX;
    r->stats = (pc_stats)PC__STATS_START;
    r->first = pc__calloc(mem, prompt->part_count + 1, sizeof *r->first);
    if (!r->first)
        return PC_ERR_NOMEM;
    for (size_t p = 0; p < prompt->part_count; p++)
        r->first[p + 1] = r->first[p] + prompt->parts[p].count;
    r->tokens = r->first[prompt->part_count];
    r->stats.tokens_prompt = r->tokens;
    r->regime = choose_regime(r);
    r->stats.rope_regime_length = r->regime.decided;
    r->stats.regime = r->regime.key;
    r->hit = pc__calloc(mem, prompt->part_count, 1);
    r->tier = pc__calloc(mem, prompt->part_count, 1);
    r->segments = pc__calloc(mem, prompt->part_count, sizeof(*r->segments));
    r->again = pc__calloc(mem, r->tokens, 1);
    return r->hit && r->tier && r->segments && r->again ? PC_OK : PC_ERR_NOMEM;
}

void pc__request_end(pc__request *r)
{
    if (!r->model)
        return;
    for (size_t p = 0; r->segments && p < r->prompt->part_count; p++)
        pc__segment_unref(r->segments[p]);
    pc__fetch_end(&r->flows); /* after the segments that they write to */
    pc__free(&r->model->context->mem, r->segments);
    pc__free(&r->model->context->mem, r->hit);
    pc__free(&r->model->context->mem, r->tier);
    pc__free(&r->model->context->mem, r->first);
    pc__free(&r->model->context->mem, r->again);
    pc__free(&r->model->context->mem, r->own);
    pc__kv_unref(r->run);
    memset(r, 0, sizeof *r);
}

static int reuses_nothing(const pc__request *r)
{
    return r->options->baseline == PC_BASELINE_PREFILL
           || r->options->baseline == PC_BASELINE_CONTIGUOUS;
}

int pc__request_is_fresh(const pc__request *r)
{
    return r->options->baseline == PC_BASELINE_PLAN || r->options->repair == PC_REPAIR_FULL;
}

static int sees_all_before(const pc__request *r)
{
    return pc__request_is_fresh(r) || r->options->encoding == PC_ENCODE_EXACT || !r->prompt->schema;
}

/* The reason and the level that the caller's wish itself gives. */
static void judge_wish(pc__request *r)
{
    int baseline = reuses_nothing(r) || r->options->baseline == PC_BASELINE_PLAN;
    if (!baseline && r->options->repair != PC_REPAIR_FULL)
        return;
    r->stats.exactness = PC_EXACT;
    r->stats.repair = baseline ? PC_REPAIR_NONE : PC_REPAIR_FULL;
    if (r->missed_part != SIZE_MAX)
        r->stats.miss_reason = baseline ? PC_REASON_BASELINE : PC_REASON_REPAIR;
}

/* PC_BASELINE_COPIES: what the store has given becomes memory of this request's own. */
static pc_status take_copies(pc__request *r)
{
    pc_status status = PC_OK;
    for (size_t p = 0; p < r->prompt->part_count && status >= 0; p++) {
        pc_segment *copy;
        if (!r->segments[p] || !r->hit[p] || r->first[p + 1] <= r->options->shared_tokens)
            continue;
        status = pc_segment_copy(&copy, r->segments[p]);
        if (status >= 0) {
            pc__segment_unref(r->segments[p]);
            r->segments[p] = copy;
        }
    }
    return status;
}

/* Levels by hand are what they are: exact where each has seen what stands before it. */
static pc_status take_given(pc__request *r)
{
    if (reuses_nothing(r) || pc__request_is_fresh(r) || r->options->repair > PC_REPAIR_NONE)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "the prompt is made of segments: baseline %u or repair %u cannot compute "
                        "them anew",
                        r->options->baseline, r->options->repair);
    for (size_t p = 0; p < r->prompt->given_count; p++) {
        r->segments[p] = pc__segment_ref(r->prompt->given[p].segment);
        r->hit[p] = 1;
        r->tier[p] = PC_TIER_RAM;
    }
    r->stats.exactness = r->prompt->given_exact ? PC_EXACT : PC_APPROXIMATE;
    r->stats.repair = PC_REPAIR_NONE;
    return PC_OK;
}

static pc_status gather(pc__request *r)
{
    pc_status status = PC_OK;
    if (r->prompt->given) {
        status = take_given(r);
    } else if (sees_all_before(r)) {
        if (!reuses_nothing(r))
            status = pc__gather_exact(r, pc__request_is_fresh(r) ? NULL : r->cache);
    } else if (!reuses_nothing(r)) {
        status = pc__gather_units(r);
    }
    for (size_t p = 0; status >= 0 && p < r->prompt->part_count; p++) {
        const pc__part *part = &r->prompt->parts[p];
        if (pc__part_is_given(part) && part->count
            && (reuses_nothing(r) || !pc__part_is_kept(part)))
            pc__request_missed(r, p, PC_REASON_UNCACHED);
    }
    if (status >= 0)
        judge_wish(r);
    if (status >= 0 && r->options->baseline == PC_BASELINE_COPIES)
        status = take_copies(r);
    return status;
}

static pc_status repair(pc__request *r)
{
    double started = pc__now();
    pc_status status = PC_OK;
    if (sees_all_before(r) || reuses_nothing(r))
        return PC_OK;
    if (r->options->repair == PC_REPAIR_FIRST)
        status = pc__repair_first(r);
    else if (r->options->repair == PC_REPAIR_TOP)
        status = pc__repair_top(r);
    r->stats.seconds_prefill += pc__now() - started;
    return status;
}

/* The token behind which the answer starts is always computed, even if its states are at hand: its
 * logits are needed. */
static void need_last_token(pc__request *r)
{
    const pc_prompt *prompt = r->prompt;
    int64_t highest = -1;
    size_t at = SIZE_MAX;
    for (size_t p = 0; p < prompt->part_count; p++) {
        size_t count = prompt->parts[p].count;
        if (count && pc__prompt_position(prompt, p, count - 1) >= highest) {
            highest = pc__prompt_position(prompt, p, count - 1);
            at = p;
        }
    }
    r->next_position = next_position(prompt);
    if (at != SIZE_MAX && r->segments[at])
        r->again[r->first[at + 1] - 1] = 1;
}

static int is_kept_whole_or_part(const pc__request *r, size_t p)
{
    size_t t = r->first[p];
    while (t < r->first[p + 1] && r->again[t])
        t++;
    return r->segments[p] && t < r->first[p + 1];
}

/* States that were rounded for keeping are not those of a prefill, whatever they have seen. */
static void judge_format(pc__request *r)
{
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        if (!is_kept_whole_or_part(r, p))
            continue;
        if (pc__segment_is_lossy(r->segments[p]))
            r->stats.exactness = PC_APPROXIMATE;
        r->stats.lossy |= r->segments[p]->lossy;
        r->stats.other_kernels |= r->segments[p]->other_kernels;
    }
}

static void count_part(pc__request *r, size_t p)
{
    const pc__part *part = &r->prompt->parts[p];
    pc_stats *s = &r->stats;
    uint64_t again = 0;
    for (size_t t = r->first[p]; t < r->first[p + 1]; t++)
        again += r->again[t];
    if (part->kind == PC__PART_UNCACHED)
        s->tokens_uncached += part->count;
    if (!pc__part_is_given(part)) {
        s->tokens_new += part->count;
    } else if (!pc__part_is_kept(part) || !r->segments[p]) {
        s->tokens_encoded += part->count;
    } else if (s->repair == PC_REPAIR_FULL) {
        s->tokens_repaired += part->count;
    } else {
        s->tokens_repaired += again;
        *(r->hit[p] ? &s->tokens_cached : &s->tokens_encoded) += part->count - again;
        if (r->hit[p])
            s->tokens_tier[r->tier[p] % PC_TIER_COUNT] += part->count - again;
        if (r->hit[p])
            s->bytes_reused += part->count
                                   ? r->segments[p]->bytes / part->count * (part->count - again)
                                   : 0;
    }
}

static void count_parts(pc__request *r)
{
    for (size_t p = 0; p < r->prompt->part_count; p++)
        count_part(r, p);
}

int pc__request_may_wait(const pc__request *r)
{
    return !r->broke || (pc__cache_flags(r->cache) & PC_CACHE_ALWAYS_LOAD);
}

int pc__request_may_flow(const pc__request *r)
{
    return pc__model_is_native(r->model) && !r->broke && r->options->baseline == PC_BASELINE_NONE
           && r->options->repair <= PC_REPAIR_NONE;
}

static void drop_early(pc__request *r, pc__fetch *fetch, size_t count)
{
    for (size_t p = 0; p < count; p++) {
        if (!fetch->early[p])
            continue;
        pc__segment_unref(r->segments[p]);
        r->segments[p] = NULL;
        r->hit[p] = r->tier[p] = 0;
        fetch->early[p] = 0;
    }
}

int pc__request_take_early(pc__request *r, pc__fetch *fetch, size_t count)
{
    for (size_t p = 0; p < count; p++) {
        uint32_t tier;
        if (!pc__fetch_is_pending(fetch, p) || r->segments[p])
            continue;
        if (pc__fetch_get_stream(fetch, p, &r->segments[p], &tier) != PC_OK) {
            drop_early(r, fetch, count);
            return 0;
        }
        r->hit[p] = 1;
        r->tier[p] = (uint8_t)tier;
    }
    r->flows = *fetch;
    *fetch = (pc__fetch){.model = NULL};
    return 1;
}

/* As if nothing had been gathered. The time that it took stays. */
static void start_again(pc__request *r, const pc_stats *before, double started, uint32_t reason)
{
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        pc__segment_unref(r->segments[p]);
        r->segments[p] = NULL;
        r->hit[p] = r->tier[p] = 0;
    }
    pc__fetch_end(&r->flows);
    memset(r->again, 0, r->tokens);
    pc__free(&r->model->context->mem, r->own);
    r->own = NULL;
    r->own_count = 0;
    r->missed_part = SIZE_MAX;
    r->stats = *before;
    r->stats.seconds_load += pc__now() - started;
    r->broke = reason;
}

static pc_status go_on(pc__request *r, void **sequence)
{
    if (r->approximate) {
        r->stats.exactness = PC_APPROXIMATE;
        r->stats.tokens_memo = r->tokens;
    } else {
        count_parts(r);
    }
    return pc__request_go_on(r, sequence);
}

static pc_status run_once(pc__request *r, void **sequence, float *logits)
{
    pc_status status;
    pc__request_judge_memo(r);
    status = gather(r);
    if (status < 0)
        return status;
    if (r->run)
        return go_on(r, sequence);
    need_last_token(r);
    status = repair(r);
    if (status < 0)
        return status;
    judge_format(r);
    count_parts(r);
    if (r->cache)
        pc__cache_request_running(r->cache, 1);
    status = pc__assemble(r, sequence, logits);
    if (r->cache)
        pc__cache_request_running(r->cache, -1);
    if (r->options->baseline
        == PC_BASELINE_NO_ATTENTION) /* the prompt's states are right, all behind them is not */
        r->stats.exactness = PC_APPROXIMATE;
    if (status >= 0) {
        if (r->cache && !r->flows.count)
            pc__cache_report_compute(r->cache, r->model->info.fingerprint, r->own_count,
                                     r->stats.seconds_prefill);
        pc__fetch_finish_streams(&r->flows);
        r->stats.bytes_loaded += r->flows.bytes;
    }
    return status;
}

pc_status pc__request_run(pc__request *r, void **sequence, float *logits)
{
    int32_t limit = r->model->info.context_length;
    double started = pc__now();
    pc_stats before = r->stats;
    uint32_t reason;
    pc_status status;
    *sequence = NULL;
    r->logits = logits;
    if (!r->tokens)
        return pc__fail(PC_ERR_INVALID, "the prompt has no tokens");
    need_last_token(r);
    if (limit && r->next_position > limit)
        return pc__fail(PC_ERR_LIMIT, "the prompt reaches position %lld, the model's context is %d",
                        (long long)r->next_position, limit);
    if (r->next_position + (int64_t)r->pushed > r->regime.end)
        return pc__fail(PC_ERR_LIMIT,
                        "the prompt reaches position %lld, the frequencies of its positions, for a "
                        "length of %llu, end at %lld: "
                        "pc_generate_options.rope_regime_length decides",
                        (long long)r->next_position + (long long)r->pushed,
                        (unsigned long long)r->regime.decided, (long long)r->regime.end);
    status = run_once(r, sequence, logits);
    if (status < 0 && status != PC_ERR_CANCELLED
        && (reason = pc__fetch_stream_failure(&r->flows)) != PC_REASON_NONE) {
        start_again(r, &before, started, reason);
        status = run_once(r, sequence, logits);
        if (r->stats.miss_reason != PC_REASON_NONE)
            r->stats.miss_reason = reason;
    }
    if (status >= 0)
        pc__fetch_end(&r->flows);
    return status;
}
