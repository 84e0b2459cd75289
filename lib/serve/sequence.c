/* A sequence: made, prefilled, sampled, copied, ended. */
#include "serve/sequence.h"

#include <promptcache/sampling.h>
#include <promptcache/batch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "model/model_states.h"
#include "serve/request_pieces.h"

static void sample_counter_unref(const pc_allocator *mem, pc__sample_counter *counter)
{
    if (counter && atomic_fetch_sub_explicit(&counter->references, 1, memory_order_acq_rel) == 1)
        pc__free(mem, counter);
}

static pc_status make_logits(float **out, const pc_sequence *s, const pc_generate_options *o)
{
    *out = NULL;
    if (!(o->flags & PC_GENERATE_LOGITS) && !o->on_token)
        return PC_OK;
    *out = pc__calloc(s->mem, (size_t)s->model->info.vocab, sizeof(**out));
    return *out ? PC_OK : PC_ERR_NOMEM;
}

/* Before the prompt decides: the one that was asked for, if any. */
static void start_regime(pc_sequence *s)
{
    uint64_t length = s->generation.options.rope_regime_length;
    s->regime = (pc__request_regime){.end = INT64_MAX};
    if (length)
        s->regime = pc__regime_for_length(s->model, length, 0);
}

/* Owns the options on success. */
pc_status pc__sequence_make(pc_sequence **out, const pc_prompt *prompt, pc_cache *cache,
                            pc__generation *generation)
{
    const pc_allocator *mem = &prompt->model->context->mem;
    pc_sequence *s = pc__calloc(mem, 1, sizeof *s);
    pc_status status = PC_ERR_NOMEM;
    *out = NULL;
    if (!s)
        return status;
    s->references = 1;
    s->mem = mem;
    s->prompt = pc__prompt_ref(prompt);
    s->model = prompt->model;
    s->cache = cache ? pc__cache_ref(cache) : NULL;
    s->stats = (pc_stats)PC__STATS_START;
    pc__stream_init(&s->text, s->model);
    s->counter = pc__calloc(mem, 1, sizeof *s->counter);
    if (s->counter) {
        atomic_init(&s->counter->references, 1);
        atomic_init(&s->counter->next, 1);
    }
    if (s->counter && make_logits(&s->logits, s, &generation->options) >= 0)
        status = pc__sampler_init(&s->sampler, s->mem, &generation->sampling, 0,
                                  pc__model_drawn_vocabulary(s->model));
    if (status >= 0)
        status = pc__guide_start(&s->guide, s->mem, generation->options.grammar, 0);
    if (status < 0) {
        pc_sequence_free(s);
        return status;
    }
    s->generation = *generation;
    s->generation.cancel = &s->cancel;
    s->generation.started = pc__now();
    start_regime(s);
    s->generation.sampling = (pc_sampling){0}; /* its arrays were the caller's */
    memset(generation, 0, sizeof *generation);
    *out = s;
    return PC_OK;
}

void pc__sequence_leave(pc_sequence *s)
{
    pc__batch_members *m = s->members;
    size_t i = 0;
    if (!m)
        return;
    while (m->items[i] != s)
        i++;
    for (m->count--; i < m->count; i++)
        m->items[i] = m->items[i + 1];
    for (i = 0; i < m->changed_count && m->changed[i] != s;)
        i++;
    for (m->changed_count -= i < m->changed_count; i < m->changed_count; i++)
        m->changed[i] = m->changed[i + 1];
    s->members = NULL;
    s->waited = 0;
}

/* Of a sequence in a batch: its place there; else the number of the sample. */
static size_t number_of(const pc_sequence *s)
{
    const pc__batch_members *m = s->members;
    for (size_t i = 0; m && i < m->count; i++)
        if (m->items[i] == s)
            return i;
    return s->sample;
}

void pc__sequence_ref(pc_sequence *s)
{
    s->references++;
}

void pc__sequence_unref(pc_sequence *s)
{
    pc_prompt *prompt;
    pc_cache *cache;
    if (!s || --s->references)
        return;
    prompt = s->prompt;
    cache = s->cache;
    pc__pieces_free(s->pieces);
    pc__placed_prompt_end(&s->placed, s->model);
    pc__sampler_end(&s->sampler);
    pc__guide_end(&s->guide);
    pc__stream_end(&s->text);
    pc__generation_end(&s->generation, s->mem);
    sample_counter_unref(s->mem, s->counter);
    pc__free(s->mem, s->tokens);
    pc__free(s->mem, s->logits);
    pc__task_unlink(&s->task);
    pc__free(s->mem, s);
    pc__cache_unref(cache);
    pc_prompt_free(prompt); /* last: it holds the model */
}

/* Within a step the rest of its work is given up. */
void pc_sequence_free(pc_sequence *s)
{
    if (!s)
        return;
    if (pc__task_has(&s->task))
        atomic_store_explicit(&s->cancel, 1, memory_order_relaxed);
    if (!pc__task_await(&s->task))
        return;
    pc__sequence_leave(s);
    s->freed = 1;
    s->generation.options.on_text = NULL;
    s->generation.options.on_logits = NULL;
    s->generation.options.on_token = NULL;
    s->generation.options.cancelled = NULL;
    atomic_store_explicit(&s->cancel, 1, memory_order_relaxed);
    pc__sequence_unref(s);
}

/* Options of a sequence, which is one sample. To be ended, on failure too. */
static pc_status read_options(pc__generation *g, const pc_model *model,
                              const pc_generate_options *options, const char *call)
{
    PC__TRY_RETURN(pc__generation_init(g, model, options, call));
    if (g->options.samples > 1)
        return pc__fail(PC_ERR_INVALID, "%s: a sequence is one sample; use pc_sequence_fork", call);
    return PC_OK;
}

pc_status pc_sequence_new(pc_sequence **out, const pc_prompt *prompt, pc_cache *cache,
                          const pc_generate_options *options)
{
    PC__HOLD(pc_prompt, prompt);
    PC__HOLD(pc_cache, cache);
    pc__generation generation;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_new: out is NULL");
    *out = NULL;
    if (!prompt)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_new: prompt is NULL");
    PC__TRY_RETURN(pc__model_can_go_on(prompt->model));
    status = read_options(&generation, prompt->model, options, "pc_sequence_new");
    if (status >= 0)
        status = pc__sequence_make(out, prompt, cache, &generation);
    pc__generation_end(&generation, &prompt->model->context->mem);
    return status;
}

/* The sampler's history begins: the prompt's new tokens, then what was pushed meanwhile. */
static pc_status note_prompt(pc_sequence *s)
{
    pc__sampler_drop(&s->sampler, s->sampler.history_count);
    for (size_t p = 0; p < s->prompt->part_count; p++) {
        const pc__prompt_part *part = &s->prompt->parts[p];
        if (pc__part_is_given(part))
            continue;
        PC__TRY_RETURN(pc__sampler_reserve(&s->sampler, part->count));
        for (size_t t = 0; t < part->count; t++)
            pc__sampler_note(&s->sampler, part->tokens[t]);
    }
    PC__TRY_RETURN(pc__sampler_reserve(&s->sampler, s->count));
    for (size_t i = 0; i < s->count; i++)
        pc__sampler_note(&s->sampler, s->tokens[i]);
    return PC_OK;
}

static void forbid_end(pc_sequence *s)
{
    const pc_generate_options *o = &s->generation.options;
    int too_early = s->count - s->turn < o->min_tokens;
    pc__sampler_forbid(&s->sampler, o->stop_tokens, too_early ? o->stop_token_count : 0);
}

pc_status pc__sequence_describe(pc_sequence *s, pc__draw *draw)
{
    const pc_generate_options *o = &s->generation.options;
    pc_status status;
    if (o->on_logits || o->grammar || o->flags & PC_GENERATE_LOGITS)
        return PC_MISS;
    forbid_end(s);
    status = pc__sampler_describe(&s->sampler, draw);
    if (status != PC_OK)
        return status;
    draw->logprob = o->on_token != NULL;
    draw->likely = o->top_logprobs;
    return PC_OK;
}

/* The draw of the first token, if it can be drawn. */
static pc_status describe_first(pc_sequence *s, pc__request *request, pc__draw *draw,
                                pc__draws *draws)
{
    pc_status status = pc__sequence_describe(s, draw);
    if (status != PC_OK)
        return status;
    draws->likely = draw->likely;
    request->draws = draws;
    return PC_OK;
}

/* What the request has given the sequence. */
static void note_request(pc_sequence *s, const pc__request *request)
{
    pc__generation_drop_memo(&s->generation);
    s->regime = request->regime;
    s->stats = request->stats;
    s->stats.tokens_prompt += s->count; /* pushed already */
    s->stats.tokens_new += s->count;
}

pc_status pc__sequence_prefill(pc_sequence *s, float *logits, pc__drawn *drawn)
{
    pc__draw draw;
    pc__draws draws = {.list = &draw, .count = 1, .drawn = drawn};
    pc__request request;
    pc_status status;
    if (drawn)
        drawn->outcome = PC__NOT_DRAWN;
    s->started = pc__now();
    PC__TRY(pc__request_init(&request, s->prompt, s->cache, &s->generation, s->count), done);
    PC__TRY(pc__request_poll(&request), done);
    PC__TRY(note_prompt(s), done);
    if (drawn && pc__model_draws(s->model))
        PC__TRY(describe_first(s, &request, &draw, &draws), done);
    status = pc__request_run(&request, &s->placed, logits);
done:
    if (status >= 0) {
        note_request(s, &request);
    } else {
        s->stats = request.stats;
        pc__sequence_fail(s, status);
    }
    pc__request_end(&request);
    return status;
}

void pc__sequence_drop_pieces(pc_sequence *s)
{
    pc__pieces_free(s->pieces);
    s->pieces = NULL;
}

pc_status pc__sequence_start(pc_sequence *s)
{
    pc_status status;
    if (s->pieces)
        return PC_OK;
    s->started = pc__now();
    status = pc__pieces_new(&s->pieces, s->prompt, s->cache, &s->generation, s->count);
    if (status >= 0)
        status = note_prompt(s);
    if (status < 0)
        pc__sequence_fail(s, status);
    return status;
}

void pc__sequence_place(pc_sequence *s)
{
    pc__pieces_finish(s->pieces, &s->placed);
    note_request(s, &s->pieces->request);
    pc__sequence_drop_pieces(s);
}

static void end_states(pc_sequence *s)
{
    pc__placed_prompt_end(&s->placed, s->model);
    s->excess = 0;
}

/* Drops the model's sequence now, not only when `s` is freed. */
static void end_sequence(pc_sequence *s, uint32_t finish)
{
    if (s->pieces)
        s->stats = s->pieces->request.stats;
    pc__sequence_drop_pieces(s);
    s->finish = s->stats.finish = finish;
    s->changed = 1;
    if (s->error.status <= PC_ERR_DEAD || !(s->generation.options.flags & PC_GENERATE_KEEP))
        end_states(s);
}

void pc__sequence_keep_error(pc_sequence *s, pc_status status)
{
    s->error.status = status;
    snprintf(s->error.text, sizeof s->error.text, "%s", pc_error_text());
}

static void end_by_error(pc_sequence *s)
{
    end_sequence(s, s->error.status == PC_ERR_CANCELLED ? PC_FINISH_CANCELLED : PC_FINISH_ERROR);
}

void pc__sequence_fail(pc_sequence *s, pc_status status)
{
    pc__sequence_keep_error(s, status);
    end_by_error(s);
}

void pc__sequence_end_cancelled(pc_sequence *s)
{
    if (!s->finish) /* by something else meanwhile */
        end_by_error(s);
}

/* Gives final text to on_text; PC_END if the caller wants no more. */
static pc_status emit_text(pc_sequence *s, size_t from)
{
    const pc_generate_options *o = &s->generation.options;
    if (!o->on_text || s->text.final == from)
        return PC_OK;
    pc__callback_begin();
    return pc__sequence_said(
        o->on_text(o->on_text_user, s->sample, s->text.text.data + from, s->text.final - from),
        "on_text");
}

pc_status pc__sequence_end_turn(pc_sequence *s)
{
    size_t from = s->text.final;
    pc__stream_flush(&s->text);
    PC__TRY_RETURN(emit_text(s, from));
    pc__stream_end(&s->text);
    pc__stream_init(&s->text, s->model);
    return PC_OK;
}

int64_t pc__sequence_limit(const pc_sequence *s)
{
    int64_t context = s->model->info.context_length ? s->model->info.context_length : INT64_MAX;
    return context < s->regime.end ? context : s->regime.end;
}

int pc__sequence_is_full(const pc_sequence *s)
{
    return s->pending && s->placed.next_position + (int64_t)s->pending > pc__sequence_limit(s);
}

static uint32_t reason_to_end(pc_sequence *s, int32_t token, int stopped)
{
    if (stopped)
        return PC_FINISH_STOP_STRING;
    if (pc__generation_stops(&s->generation, token))
        return PC_FINISH_STOP_TOKEN;
    /* one that cannot be looked at is looked at again before the next draw, which fails then */
    if (pc__guide_look(&s->guide, &s->generation) >= 0 && s->guide.closed)
        return PC_FINISH_GRAMMAR;
    if (s->count - s->turn >= s->generation.options.max_tokens || pc__sequence_is_full(s))
        return PC_FINISH_LENGTH;
    return PC_FINISH_NONE;
}

static void note_times(pc_sequence *s)
{
    double now = pc__now();
    if (++s->sampled == 1) {
        s->first_token = now;
        s->stats.seconds_ttft = now - s->started;
    }
    s->stats.seconds_decode = now - s->first_token;
    s->stats.tokens_generated = s->sampled;
}

/* Of `count` logits; 0: it is known that none is finite. */
static pc_status check_logits(const pc_sequence *s, const float *logits, size_t count)
{
    int64_t position = s->placed.next_position + (int64_t)s->pending - 1;
    return pc__model_check_row(s->model, logits, count, "logits", "sequence", number_of(s),
                               position);
}

/* PC_END: on_logits wants no token, or the grammar lets none come. */
static pc_status choose_token(pc_sequence *s, float *logits, const pc__drawn *drawn, int32_t *token)
{
    pc_status status;
    if (drawn && drawn->outcome == PC__DRAWN_NO_NUMBER)
        return check_logits(s, NULL, 0);
    if (drawn)
        return pc__sampler_take(&s->sampler, drawn, token);
    PC__TRY_RETURN(check_logits(s, logits, s->sampler.vocab));
    PC__TRY_RETURN(pc__guide_look(&s->guide, &s->generation));
    status = s->guide.closed ? PC_END : pc__sequence_ask_logits(s, logits);
    if (status != PC_OK)
        return status;
    PC__TRY_RETURN(pc__guide_mask(&s->guide, &s->generation, logits));
    forbid_end(s);
    return pc__sampler_draw(&s->sampler, logits, token);
}

/* The next token, behind the others, and its text. PC_END: none is wanted. */
static pc_status draw_token(pc_sequence *s, float *logits, const pc__drawn *drawn, int *stopped)
{
    const pc_generate_options *o = &s->generation.options;
    int32_t token;
    pc_status status;
    *stopped = 0;
    PC__TRY_RETURN(
        pc__grow(s->mem, (void **)&s->tokens, &s->capacity, s->count + 1, sizeof *s->tokens));
    status = choose_token(s, logits, drawn, &token);
    if (status != PC_OK)
        return status;
    s->tokens[s->count] = token;
    if (pc__generation_stops(&s->generation, token))
        return PC_OK;
    PC__TRY_RETURN(pc__stream_add(
        &s->text, s->tokens + s->turn, s->count + 1 - s->turn, o->stop_strings,
        pc__generation_stop_strings(&s->generation, s->count + 1 - s->turn), stopped));
    return pc__guide_accept(&s->guide, token); /* last: it is not taken back */
}

/* The step has failed, or was stopped, behind the model's: as if its rows had not been computed.
 * Behind a prefill there are none: it has to be made anew. */
static void take_back(pc_sequence *s, const pc__sampler *sampler, const pc__stream_mark *text)
{
    s->excess = pc__sequence_row_count(s);
    if (!s->excess) {
        end_states(s);
        start_regime(s);
    }
    s->has_logits = 0;
    memcpy(s->sampler.state, sampler->state, sizeof sampler->state);
    pc__sampler_drop(&s->sampler, s->sampler.history_count - sampler->history_count);
    pc__stream_back(&s->text, text);
}

static void rows_done(pc_sequence *s)
{
    s->placed.next_position += (int64_t)s->pending;
    s->pending = 0;
    s->again = 0;
}

/* The rest of a sequence that has ended. */
static void give_text(pc_sequence *s, size_t from)
{
    pc_status status = emit_text(s, from);
    if (status < 0)
        pc__sequence_fail(s, status);
}

/* The last token and its text, to the caller. */
static void give_token(pc_sequence *s, int64_t position, size_t text, const pc__drawn *drawn)
{
    pc_status said = pc__sequence_give_token(s, position, drawn), status = said;
    if (said == PC_END && !s->finish)
        pc__stream_flush(&s->text);
    if (status >= 0)
        status = emit_text(s, text);
    if (status < 0)
        pc__sequence_fail(s, status);
    else if ((status == PC_END || said == PC_END) && !s->finish)
        end_sequence(s, PC_FINISH_CALLBACK);
}

void pc__sequence_sample(pc_sequence *s, float *logits, const pc__drawn *drawn)
{
    const pc__sampler sampler = s->sampler;
    const pc__stream_mark text = pc__stream_at(&s->text);
    uint32_t finish;
    int64_t position;
    int stopped;
    pc_status status;
    if (drawn && drawn->outcome == PC__NOT_DRAWN)
        drawn = NULL;
    if (s->logits && !drawn)
        memcpy(s->logits, logits, (size_t)s->model->info.vocab * sizeof *logits);
    s->has_logits = (s->generation.options.flags & PC_GENERATE_LOGITS) != 0;
    status = draw_token(s, logits, drawn, &stopped);
    if (status < 0) {
        pc__sequence_keep_error(s, status);
        take_back(s, &sampler, &text);
        end_by_error(s);
        return;
    }
    if (status == PC_END) {
        take_back(s, &sampler, &text);
        pc__stream_flush(&s->text);
        end_sequence(s, s->guide.closed ? PC_FINISH_GRAMMAR : PC_FINISH_CALLBACK);
        give_text(s, text.final);
        return;
    }
    rows_done(s);
    position = s->placed.next_position;
    s->count++;
    s->pending = 1;
    s->changed = 1;
    note_times(s);
    finish = reason_to_end(s, s->tokens[s->count - 1], stopped);
    if (finish && !stopped)
        pc__stream_flush(&s->text);
    if (finish)
        end_sequence(s, finish);
    give_token(s, position, text.final, drawn); /* last: all else is done */
}

static pc_status copy_logits(pc_sequence *to, const pc_sequence *from)
{
    PC__TRY_RETURN(make_logits(&to->logits, to, &from->generation.options));
    if (from->has_logits)
        memcpy(to->logits, from->logits, (size_t)to->model->info.vocab * sizeof *to->logits);
    return PC_OK;
}

pc_status pc__sequence_copy(pc_sequence **out, pc_sequence *from, const pc_sampling *sampling)
{
    pc_sequence *to = pc__calloc(from->mem, 1, sizeof *to);
    pc_status status;
    *out = NULL;
    if (!to)
        return PC_ERR_NOMEM;
    memcpy(to, from, offsetof(pc_sequence, cancel));
    pc__prompt_ref(to->prompt);
    if (to->cache)
        pc__cache_ref(to->cache);
    atomic_fetch_add_explicit(&to->counter->references, 1, memory_order_relaxed);
    /* `from` alone owns these, and only it is in a batch */
    to->generation = (pc__generation){.strings = NULL};
    to->placed = (pc__placed_prompt){.sequence = NULL};
    to->pieces = NULL;
    to->sampler = (pc__sampler){.mem = NULL};
    to->guide = (pc__guide){.mem = NULL};
    to->text = (pc__text_stream){.model = NULL};
    to->tokens = NULL;
    to->logits = NULL;
    to->capacity = 0;
    to->members = NULL;
    to->references = 1;
    to->stepping = to->asked_cancel = to->changed = 0;
    PC__TRY(pc__generation_copy(&to->generation, to->model, &from->generation), fail);
    to->generation.cancel = &to->cancel;
    to->generation.started = pc__now();
    PC__TRY(pc__grow(to->mem, (void **)&to->tokens, &to->capacity, from->count, sizeof *to->tokens),
            fail);
    if (from->count)
        memcpy(to->tokens, from->tokens, from->count * sizeof *to->tokens);
    PC__TRY(copy_logits(to, from), fail);
    PC__TRY(pc__stream_copy(&to->text, &from->text), fail);
    PC__TRY(pc__placed_prompt_fork(&to->placed, &from->placed, from->model, from->cache), fail);
    to->sample = atomic_fetch_add_explicit(&to->counter->next, 1, memory_order_relaxed);
    PC__TRY(pc__sampler_init(&to->sampler, to->mem, sampling ? sampling : &from->sampler.options,
                             sampling ? 0 : to->sample, pc__model_drawn_vocabulary(to->model)),
            fail);
    PC__TRY(pc__guide_copy(&to->guide, &from->guide), fail);
    PC__TRY(pc__sampler_replay(&to->sampler, &from->sampler), fail);
    *out = to;
    return PC_OK;
fail:
    pc_sequence_free(to);
    return status;
}

pc_status pc_sequence_fork(pc_sequence **out, const pc_sequence *sequence,
                           const pc_fork_options *options)
{
    PC__HOLD(pc_sequence, sequence);
    static const char call[] = "pc_sequence_fork";
    pc_sequence *from = (pc_sequence *)(uintptr_t)sequence;
    pc_fork_options o;
    pc_sampling sampling;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "%s: out is NULL", call);
    *out = NULL;
    if (!sequence)
        return pc__fail(PC_ERR_INVALID, "%s: sequence is NULL", call);
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_fork_options, sampling), options,
                                    "pc_fork_options"));
    if (o.sampling)
        PC__TRY_RETURN(pc__sampling_read(&sampling, o.sampling, call));
    PC__TRY_RETURN(pc__sequence_check(from, 1, call));
    return pc__sequence_copy(out, from, o.sampling ? &sampling : NULL);
}

/* Swaps them with its own. */
static void use_options(pc_sequence *s, pc__generation *generation, pc__sampler *sampler)
{
    const pc__generation old = s->generation;
    const pc__sampler old_sampler = s->sampler;
    s->generation = *generation;
    s->generation.cancel = old.cancel;
    s->generation.started = pc__now();
    s->sampler = *sampler;
    *generation = old;
    *sampler = old_sampler;
    s->generation.sampling = (pc_sampling){0}; /* its arrays were the caller's */
    if (!s->placed.sequence)
        start_regime(s);
}

/* The guide for other options: its own goes on with the same grammar. */
static pc_status make_guide(pc__guide *out, const pc_sequence *s, const pc_grammar *grammar)
{
    memset(out, 0, sizeof *out);
    return s->guide.grammar == grammar ? PC_OK : pc__guide_start(out, s->mem, grammar, s->count);
}

static void use_guide(pc_sequence *s, pc__guide *guide)
{
    const pc__guide old = s->guide;
    pc__guide_forget_mask(&s->guide);
    if (s->guide.grammar == s->generation.options.grammar)
        return;
    s->guide = *guide;
    *guide = old;
}

pc_status pc_sequence_set_options(pc_sequence *s, const pc_generate_options *options)
{
    PC__HOLD(pc_sequence, s);
    static const char call[] = "pc_sequence_set_options";
    pc__generation changed = {.strings = NULL};
    pc__sampler sampler = {.mem = NULL};
    pc__guide guide = {.mem = NULL};
    float *logits = NULL;
    pc_status status;
    if (!s)
        return pc__fail(PC_ERR_INVALID, "%s: sequence is NULL", call);
    PC__TRY_RETURN(pc__sequence_check(s, 0, call));
    PC__TRY(read_options(&changed, s->model, options, call), done);
    PC__TRY(pc__sampler_init(&sampler, s->mem, &changed.sampling, 0,
                             pc__model_drawn_vocabulary(s->model)),
            done);
    PC__TRY(pc__sampler_replay(&sampler, &s->sampler), done);
    PC__TRY(make_guide(&guide, s, changed.options.grammar), done);
    PC__TRY(make_logits(&logits, s, &changed.options), done);
    pc__sequence_drop_pieces(s); /* other options make other pieces */
    if (s->placed.sequence)
        PC__TRY(pc__generation_take_over(&changed, &s->generation, call), done);
    if (!s->placed.sequence || !s->logits) {
        pc__free(s->mem, s->logits);
        s->logits = logits;
        s->has_logits = 0;
        logits = NULL;
    }
    use_options(s, &changed, &sampler);
    use_guide(s, &guide);
done:
    pc__free(s->mem, logits);
    pc__guide_end(&guide);
    pc__sampler_end(&sampler);
    pc__generation_end(&changed, s->mem);
    return status;
}

const int32_t *pc_sequence_tokens(const pc_sequence *sequence, size_t *count)
{
    int there = sequence && !pc__task_has(&sequence->task);
    if (count)
        *count = there ? sequence->count : 0;
    return there ? sequence->tokens : NULL;
}

const char *pc_sequence_text(const pc_sequence *sequence, size_t *size)
{
    int there = sequence && !pc__task_has(&sequence->task);
    if (size)
        *size = there ? sequence->text.final : 0;
    return there && sequence->text.text.data ? sequence->text.text.data : "";
}

uint32_t pc_sequence_finish(const pc_sequence *sequence)
{
    return sequence && !pc__task_has(&sequence->task) ? sequence->finish : PC_FINISH_NONE;
}

pc_status pc_sequence_error(const pc_sequence *sequence, const char **text)
{
    if (text)
        *text = "";
    if (sequence)
        PC__TRY_RETURN(pc__task_check(&sequence->task, "pc_sequence_error", "the sequence"));
    int failed = sequence
                 && (sequence->finish == PC_FINISH_ERROR
                     || sequence->finish == PC_FINISH_CANCELLED);
    if (text && failed)
        *text = sequence->error.text;
    return failed ? pc__fail(sequence->error.status, "%s", sequence->error.text) : PC_OK;
}

pc_status pc_sequence_cancel(pc_sequence *sequence)
{
    if (!sequence)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_cancel: sequence is NULL");
    atomic_store_explicit(&sequence->cancel, 1, memory_order_relaxed);
    return PC_OK;
}

pc_status pc_sequence_get_stats(const pc_sequence *sequence, pc_stats *stats)
{
    if (!sequence || !stats)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_get_stats: sequence or stats is NULL");
    PC__TRY_RETURN(pc__task_check(&sequence->task, "pc_sequence_get_stats", "the sequence"));
    return pc__result_write(stats, PC__V1_SIZE(pc_stats, tokens_uncached), &sequence->stats,
                            sizeof sequence->stats, "pc_stats");
}
