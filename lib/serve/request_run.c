/* The order of a request's steps: gather, ask the memo, repair, assemble; once more without streams
 * where a layer did not come in time. Then the same in pieces. */
#include <string.h>

#include "base/clock.h"
#include "model/model_states.h"
#include "serve/model_calls.h"
#include "serve/request_pieces.h"

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

/* ------------------------------------------------------------------ in pieces */

int pc__pieces_can(const pc_prompt *prompt, const pc__generation *generation)
{
    return pc__model_cuts(prompt->model) && !generation->options.memo
           && generation->bench.baseline == PC_BASELINE_NONE;
}

pc_status pc__pieces_new(pc__pieces **out, const pc_prompt *prompt, pc_cache *cache,
                         const pc__generation *generation, size_t pushed)
{
    const pc_allocator *mem = &prompt->model->context->mem;
    pc__pieces *p = *out = pc__calloc(mem, 1, sizeof *p);
    pc_status status;
    if (!p)
        return PC_ERR_NOMEM;
    PC__TRY(pc__request_init(&p->request, prompt, cache, generation, pushed), failed);
    p->request.together = p->request.lets_others = 1;
    p->out.segments = pc__calloc(mem, prompt->part_count, sizeof(*p->out.segments));
    if (p->out.segments)
        return PC_OK;
    status = PC_ERR_NOMEM;
failed:
    pc__pieces_free(p);
    *out = NULL;
    return status;
}

static void end_call(pc__pieces *p, pc__open_call *c)
{
    pc__encoding_close(c->encoding, NULL);
    pc__encode_call_end(&c->call, &p->request.model->context->mem);
    *c = (pc__open_call){.prepared = 0};
}

static void drop_call(pc__pieces *p, pc__open_call *c)
{
    pc__gather_drop(p->gather, &c->call);
    end_call(p, c);
}

void pc__pieces_free(pc__pieces *p)
{
    if (!p)
        return;
    const pc_model *model = p->request.prompt->model;
    const pc_allocator mem = model->context->mem;
    for (size_t i = 0; i < PC__CALLS_AT_ONCE; i++)
        if (p->calls[i].prepared)
            end_call(p, &p->calls[i]);
    pc__gather_free(p->gather);
    pc__assembly_end(&p->assembly, &mem);
    pc__placed_prompt_end(&p->out, model);
    pc__free(&mem, p->logits);
    pc__request_end(&p->request);
    pc__free(&mem, p);
}

/* Before rows are computed. */
static pc_status begin_rows(pc__pieces *p)
{
    pc__request *r = &p->request;
    pc__request_judge(r);
    need_last_token(r, &p->out.next_position);
    PC__TRY_RETURN(repair_parts(r));
    pc__request_count(r);
    PC__TRY_RETURN(pc__assembly_begin(&p->assembly, r, &p->out));
    p->stage = PC__PIECES_ROWS;
    if (p->assembly.last + 1 < p->assembly.count
        && !(p->logits = pc__alloc(&r->model->context->mem,
                                   (size_t)r->model->info.vocab * sizeof *p->logits)))
        return PC_ERR_NOMEM;
    return PC_OK;
}

static pc_status begin_gather(pc__pieces *p)
{
    if (p->request.prompt->given || pc__request_reuses_nothing(&p->request)) {
        PC__TRY_RETURN(p->request.prompt->given ? use_given(&p->request) : PC_OK);
        return begin_rows(p);
    }
    PC__TRY_RETURN(pc__gather_new(&p->gather, &p->request));
    p->stage = PC__PIECES_MODULES;
    p->loads = 1;
    return pc__gather_find(p->gather);
}

/* The gather of this stage is done. */
static pc_status next_stage(pc__pieces *p)
{
    if (p->stage == PC__PIECES_MODULES)
        pc__gather_judge(p->gather);
    pc__gather_free(p->gather);
    p->gather = NULL;
    if (p->stage == PC__PIECES_MODULES) {
        p->stage = PC__PIECES_TEXT;
        PC__TRY_RETURN(pc__gather_new_text(&p->gather, &p->request));
        p->loads = p->gather != NULL;
        if (p->gather)
            return pc__gather_find(p->gather);
    }
    return begin_rows(p);
}

/* Where the seconds of this stage count: in new text no module is encoded. */
static double *seconds_of(pc__pieces *p)
{
    pc_stats *stats = &p->request.stats;
    return p->stage == PC__PIECES_MODULES ? &stats->seconds_encode : &stats->seconds_prefill;
}

/* An encode call of an application's model is no piece: it comes at once. */
static pc_status encode_at_once(pc__pieces *p)
{
    double started = pc__now();
    PC__TRY_RETURN(pc__gather_look_again(p->gather));
    pc_status status = pc__gather_compute_next(p->gather, p->most, &p->at_once);
    *seconds_of(p) += pc__now() - started;
    return status;
}

/* Prepares as many calls as have room. PC_OK: some are prepared or open. */
static pc_status prepare_calls(pc__pieces *p)
{
    pc_status status = PC_OK;
    int any = 0;
    if (!pc__model_is_native(p->request.model))
        return encode_at_once(p);
    if (p->looks_again)
        status = pc__gather_look_again(p->gather);
    if (status < 0)
        return status;
    p->looks_again = status == PC_AGAIN;
    status = PC_OK;
    for (size_t i = 0; i < PC__CALLS_AT_ONCE; i++) {
        pc__open_call *c = &p->calls[i];
        if (!c->prepared && status == PC_OK) {
            status = pc__gather_next(p->gather, SIZE_MAX, &c->call);
            c->prepared = status == PC_OK;
            if (!c->prepared)
                end_call(p, c);
        }
        any |= c->prepared;
    }
    return status < 0 || !any ? status : PC_OK;
}

/* Loads have overtaken the call, which is under way. */
static pc_status give_up_call(pc__pieces *p, pc__open_call *c)
{
    pc_status status = pc__gather_take(p->gather, &c->call, PC_ERR_CANCELLED, 0);
    end_call(p, c);
    return status;
}

/* Ends those that loads have overtaken, and those that were prepared without what is there now. */
static pc_status end_stale_calls(pc__pieces *p)
{
    for (size_t i = 0; i < PC__CALLS_AT_ONCE; i++) {
        pc__open_call *c = &p->calls[i];
        if (c->encoding && pc__gather_must_stop(&c->call))
            PC__TRY_RETURN(give_up_call(p, c));
        else if (c->prepared && !c->encoding && p->looks_again)
            drop_call(p, c);
    }
    return PC_OK;
}

pc_status pc__pieces_advance(pc__pieces *p, size_t most)
{
    pc_status status;
    p->most = most;
    p->at_once = 0;
    PC__TRY_RETURN(pc__request_poll(&p->request));
    PC__TRY_RETURN(end_stale_calls(p));
    while (p->stage != PC__PIECES_ROWS) {
        if (p->stage == PC__PIECES_FIND) {
            PC__TRY_RETURN(begin_gather(p));
            continue;
        }
        if (p->loads && pc__gather_waits(p->gather))
            return PC_AGAIN;
        p->loads = 0;
        status = prepare_calls(p);
        if (status <= PC_OK)
            return status;
        PC__TRY_RETURN(next_stage(p));
    }
    return pc__assembly_left(&p->assembly) ? PC_OK : PC_END;
}

void pc__pieces_await_loads(pc__pieces *p)
{
    pc__gather_wait(p->gather);
    p->loads = 0;
}

pc_status pc__pieces_open(pc__pieces *p, pc__open_call *c)
{
    return pc__call_encode_open(p->request.model, &c->call.args, &c->encoding);
}

static size_t left_of(const pc__open_call *c)
{
    return c->encoding ? pc__encoding_left(c->encoding) : 0;
}

size_t pc__pieces_done(const pc__pieces *p)
{
    size_t done = 0;
    for (size_t i = 0; i < PC__CALLS_AT_ONCE; i++)
        done += p->calls[i].encoding ? p->calls[i].call.args.count - left_of(&p->calls[i]) : 0;
    return p->stage == PC__PIECES_ROWS ? p->assembly.computed : done;
}

size_t pc__pieces_left(const pc__pieces *p)
{
    size_t left = 0;
    for (size_t i = 0; i < PC__CALLS_AT_ONCE; i++)
        left += left_of(&p->calls[i]);
    return p->stage == PC__PIECES_ROWS ? pc__assembly_left(&p->assembly) : left;
}

size_t pc__pieces_give(pc__pieces *p, size_t count, pc__encode_piece *to)
{
    size_t pieces = 0;
    for (size_t i = 0; i < PC__CALLS_AT_ONCE; i++) {
        pc__open_call *c = &p->calls[i];
        size_t left = left_of(c);
        c->given = left < count ? left : count;
        count -= c->given;
        if (c->given)
            to[pieces++] = (pc__encode_piece){c->encoding, c->given};
    }
    return pieces;
}

static pc_status take_encoded(pc__pieces *p, pc__open_call *c)
{
    pc__encoding *encoding = c->encoding;
    pc_status status;
    c->encoding = NULL;
    p->ended_call = 1;
    status = pc__call_encode_end(p->request.model, p->request.cache, encoding, &c->call.args,
                                 c->call.stored, c->call.segments, c->seconds);
    status = pc__gather_take(p->gather, &c->call, status, c->seconds / (double)c->call.args.count);
    end_call(p, c);
    return status;
}

static pc_status calls_computed(pc__pieces *p, double token_seconds)
{
    for (size_t i = 0; i < PC__CALLS_AT_ONCE; i++) {
        pc__open_call *c = &p->calls[i];
        c->seconds += token_seconds * (double)c->given;
        if (c->given && !left_of(c))
            PC__TRY_RETURN(take_encoded(p, c));
        c->given = 0;
    }
    return PC_OK;
}

pc_status pc__pieces_computed(pc__pieces *p, size_t count, double seconds)
{
    *seconds_of(p) += seconds;
    if (p->stage == PC__PIECES_ROWS) {
        p->assembly.computed += count;
        return PC_OK;
    }
    return calls_computed(p, seconds / (double)count);
}

void pc__pieces_finish(pc__pieces *p, pc__placed_prompt *out)
{
    hand_over(&p->request, &p->out);
    *out = p->out;
    p->out = (pc__placed_prompt){.sequence = NULL};
}
