/* Sequences join a batch, leave it, and are stepped together. */
#include "serve/batch.h"

#include <promptcache/batch.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "serve/request_pieces.h"

pc_status pc_batch_new(pc_batch **out, const pc_model *model, const pc_batch_options *options)
{
    PC__HOLD(pc_model, model);
    pc_batch_options o;
    pc_batch *batch;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_batch_new: out is NULL");
    *out = NULL;
    if (!model)
        return pc__fail(PC_ERR_INVALID, "pc_batch_new: model is NULL");
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_batch_options, step_tokens),
                                    options, "pc_batch_options"));
    PC__TRY_RETURN(pc__model_can_go_on(model));
    batch = pc__calloc(&model->context->mem, 1, sizeof *batch);
    if (!batch)
        return PC_ERR_NOMEM;
    batch->references = 1;
    batch->model = pc__model_ref(model);
    batch->max_sequences = o.max_sequences;
    batch->step_tokens = o.step_tokens;
    batch->max_own_tokens = o.max_own_tokens;
    *out = batch;
    return PC_OK;
}

void pc__batch_ref(pc_batch *batch)
{
    batch->references++;
}

static void part(pc_batch *batch)
{
    while (batch->members.count)
        pc__sequence_leave(batch->members.items[batch->members.count - 1]);
}

void pc__batch_unref(pc_batch *batch)
{
    pc_model *model;
    if (!batch || --batch->references)
        return;
    model = batch->model;
    part(batch); /* from those that a call has added after the batch was freed */
    pc__free(&model->context->mem, batch->members.items);
    pc__free(&model->context->mem, batch->members.changed);
    pc__task_unlink(&batch->task);
    pc__free(&model->context->mem, batch);
    pc__model_unref(model);
}

/* Its sequences leave at once, also within a step. */
void pc_batch_free(pc_batch *batch)
{
    if (!batch || !pc__task_await(&batch->task))
        return;
    part(batch);
    pc__batch_unref(batch);
}

pc_status pc_batch_add(pc_batch *batch, pc_sequence *sequence)
{
    PC__HOLD(pc_batch, batch);
    PC__HOLD(pc_sequence, sequence);
    pc__batch_members *m;
    if (!batch || !sequence)
        return pc__fail(PC_ERR_INVALID, "pc_batch_add: batch or sequence is NULL");
    PC__TRY_RETURN(pc__task_check(&batch->task, "pc_batch_add", "the batch"));
    PC__TRY_RETURN(pc__task_check(&sequence->task, "pc_batch_add", "the sequence"));
    if (sequence->model != batch->model)
        return pc__fail(PC_ERR_MISMATCH, "pc_batch_add: the sequence is of another model");
    if (sequence->members)
        return pc__fail(PC_ERR_STATE, "pc_batch_add: the sequence is in %s batch already",
                        sequence->members == &batch->members ? "this" : "another");
    if (batch->max_sequences && batch->members.count >= batch->max_sequences)
        return pc__fail(PC_ERR_LIMIT, "pc_batch_add: the batch is full (%u sequences)",
                        batch->max_sequences);
    m = &batch->members;
    PC__TRY_RETURN(pc__grow(sequence->mem, (void **)&m->changed, &m->changed_capacity, m->count + 1,
                            sizeof(*m->changed)));
    PC__TRY_RETURN(
        pc__grow(sequence->mem, (void **)&m->items, &m->capacity, m->count + 1, sizeof(*m->items)));
    m->items[m->count++] = sequence;
    sequence->members = m;
    sequence->changed = 0;
    if (pc__task_here(&batch->task))
        pc__task_link_to(&sequence->task, batch->task.task);
    return PC_OK;
}

pc_status pc_batch_remove(pc_batch *batch, pc_sequence *sequence)
{
    if (!batch || !sequence)
        return pc__fail(PC_ERR_INVALID, "pc_batch_remove: batch or sequence is NULL");
    PC__TRY_RETURN(pc__task_check(&batch->task, "pc_batch_remove", "the batch"));
    PC__TRY_RETURN(pc__task_check(&sequence->task, "pc_batch_remove", "the sequence"));
    if (sequence->members != &batch->members)
        return pc__fail(PC_ERR_NOT_FOUND, "pc_batch_remove: the sequence is not in this batch");
    pc__sequence_leave(sequence);
    return PC_OK;
}

/* When it has to be done; INFINITY: at no time. */
static double deadline_of(const pc_sequence *s)
{
    double seconds = s->generation.options.deadline_seconds;
    return seconds > 0 ? s->generation.started + seconds : INFINITY;
}

/* Tokens of its prompt that are not computed, with those that the cache may have. */
static size_t rest_of(const pc_sequence *s)
{
    size_t tokens = 0;
    for (size_t p = 0; p < s->prompt->part_count; p++)
        tokens += s->pieces && s->pieces->request.parts[p].segment ? 0 : s->prompt->parts[p].count;
    size_t done = s->pieces ? pc__pieces_done(s->pieces) : 0;
    return done < tokens ? tokens - done : 0;
}

/* By priority, then by deadline, then the one with the shorter rest: so a long prompt keeps no
 * short one waiting. */
static int comes_before(const pc_sequence *a, const pc_sequence *b)
{
    int32_t x = a->generation.options.priority, y = b->generation.options.priority;
    double p = deadline_of(a), q = deadline_of(b);
    return x != y ? x > y : p != q ? p < q : a->rest < b->rest;
}

/* Equal ones in the order of joining. */
static void insert_in_order(pc_sequence **list, size_t count, pc_sequence *sequence)
{
    for (; count && comes_before(sequence, list[count - 1]); count--)
        list[count] = list[count - 1];
    list[count] = sequence;
}

/* Whether its prompt is still to be computed, in this batch: a callback may have removed it. */
static int is_fresh(const pc_batch *batch, const pc_sequence *s)
{
    return s->members == &batch->members && !s->finish && !s->placed.sequence;
}

/* Prompts that cannot be cut are computed one after the other. Each gives its first token; a
 * sequence with pushed tokens joins the running ones instead. */
static void start_whole(pc_batch *batch, pc_sequence *const *list, size_t count, float *logits,
                        pc_sequence **running, size_t *run)
{
    pc__first_token first;
    for (size_t i = 0; i < count; i++) {
        if (!is_fresh(batch, list[i]))
            continue;
        if (pc__sequence_prefill(list[i], logits, list[i]->pending ? NULL : &first.drawn) < 0)
            continue;
        if (list[i]->pending)
            running[(*run)++] = list[i];
        else
            pc__sequence_sample(list[i], logits, &first.drawn);
    }
}

/* ------------------------------------------------------------------ admission */

/* Tokens that the model's context has room for behind those of the sequence. */
static uint64_t context_left(const pc_sequence *s)
{
    int64_t end = s->placed.sequence ? s->placed.next_position : s->prompt->end;
    int64_t left = pc__sequence_limit(s) - end - (int64_t)s->pending;
    return left > 0 ? (uint64_t)left : 0;
}

uint64_t pc__batch_own_tokens(const pc_sequence *s)
{
    uint64_t tokens = s->count, most, answered, left;
    if (!s->prompt->part_count) /* it was loaded */
        tokens += s->placed.own.count;
    for (size_t p = 0; p < s->prompt->part_count; p++)
        if (!s->cache || !pc__part_is_cached(&s->prompt->parts[p]))
            tokens += s->prompt->parts[p].count;
    most = s->generation.options.max_tokens;
    answered = s->count - s->turn;
    left = context_left(s);
    if (most <= answered)
        return tokens;
    return tokens + (most - answered < left ? most - answered : left);
}

/* Those that have waited long first, then by priority, by deadline, and in the order of joining. */
static int is_admitted_before(const pc_sequence *a, const pc_sequence *b)
{
    enum { PATIENCE = 64 };
    int x = a->waited >= PATIENCE, y = b->waited >= PATIENCE;
    if (x != y || (x && a->waited != b->waited))
        return x != y ? x > y : a->waited > b->waited;
    int32_t p = a->generation.options.priority, q = b->generation.options.priority;
    return p != q ? p > q : deadline_of(a) < deadline_of(b);
}

static void insert_waiting(pc_sequence **list, size_t count, pc_sequence *sequence)
{
    for (; count && is_admitted_before(sequence, list[count - 1]); count--)
        list[count] = list[count - 1];
    list[count] = sequence;
}

static void refuse(pc_sequence *s, uint64_t tokens, uint64_t most)
{
    pc__sequence_fail(s, pc__fail(PC_ERR_LIMIT,
                                  "the batch has room for %llu tokens of K and V "
                                  "(max_own_tokens); with %u tokens of answer (max_tokens) the "
                                  "sequence may come to hold %llu",
                                  (unsigned long long)most, s->generation.options.max_tokens,
                                  (unsigned long long)tokens));
}

/* Ends those that are cancelled or late: they need no room for that, and keep none free. Returns
 * how many are left. */
static size_t drop_cancelled(const pc_batch *batch, pc_sequence **waiting, size_t count)
{
    size_t left = 0, still = 0;
    for (size_t i = 0; i < count; i++) {
        pc_status status = pc__generation_poll(&waiting[i]->generation);
        if (status < 0 && is_fresh(batch, waiting[i]))
            pc__sequence_fail(waiting[i], status);
        else
            waiting[left++] = waiting[i];
    }
    for (size_t i = 0; i < left; i++) /* a poll may have removed any of them */
        if (is_fresh(batch, waiting[i]))
            waiting[still++] = waiting[i];
    return still;
}

/* Of `waiting`, those that have room beside `held` tokens: they move to the front of the list, and
 * the others wait on. The first that has no room keeps it free of those behind it. */
static size_t admit(const pc_batch *batch, uint64_t held, pc_sequence **waiting, size_t count)
{
    uint64_t most = batch->max_own_tokens, tokens;
    size_t admitted = 0, i = 0;
    for (; i < count; i++) {
        tokens = most ? pc__batch_own_tokens(waiting[i]) : 0;
        if (tokens > most) {
            refuse(waiting[i], tokens, most);
            continue;
        }
        if (most && held > most - tokens)
            break;
        held += tokens;
        waiting[i]->waited = 0;
        waiting[admitted++] = waiting[i];
    }
    for (; i < count; i++)
        waiting[i]->waited += waiting[i]->waited < UINT32_MAX;
    return admitted;
}

/* ------------------------------------------------------------------ pieces */

/* Members of a step. */
typedef struct step {
    pc_batch *batch;
    pc_sequence **running; /* [members], then the prompts of a pass */
    size_t run;
    pc_sequence **fresh; /* [fresh_count] whose prompts are computed in pieces, in order */
    size_t fresh_count;
    size_t *pieces; /* [2 * members] of `running` */
    float *logits;
    size_t left;        /* tokens of prompts that the step may still compute, with the pass's */
    size_t count;       /* members of the pass that is being put together */
    size_t tokens;      /* of prompts in it */
    int any;            /* there is something to compute */
    pc_sequence *loads; /* the first whose loads should come soon; or NULL */
} step;

/* Tokens of prompts beside running sequences take SHARE of the time of those alone. */
static size_t choose_tokens(const pc_batch *batch, size_t run)
{
    enum { ALONE = 2048, LEAST = 8, UNKNOWN = 32 };
    static const double SHARE = 1.25;
    double tokens;
    if (batch->step_tokens)
        return batch->step_tokens > run + 1 ? batch->step_tokens - run : 1;
    if (!run)
        return ALONE;
    if (batch->decode_seconds <= 0 || batch->token_seconds <= 0)
        return UNKNOWN;
    tokens = SHARE * batch->decode_seconds / batch->token_seconds;
    return tokens < LEAST ? LEAST : tokens > ALONE ? ALONE : (size_t)tokens;
}

static void note_seconds(double *mean, double seconds)
{
    static const double WEIGHT = 0.2; /* of the newest */
    *mean = *mean > 0 ? *mean + WEIGHT * (seconds - *mean) : seconds;
}

/* Of a pass. */
static void note_pass(pc_batch *batch, size_t run, size_t tokens, double seconds)
{
    double beside = run ? batch->decode_seconds : 0;
    if (!tokens)
        note_seconds(&batch->decode_seconds, seconds);
    else if ((beside > 0 || !run) && seconds > beside)
        note_seconds(&batch->token_seconds, (seconds - beside) / (double)tokens);
}

static int computes(const pc_sequence *s, const pc__id *key)
{
    for (size_t i = 0; s->pieces && i < PC__CALLS_AT_ONCE; i++)
        if (s->pieces->calls[i].encoding && pc__id_equal(&s->pieces->calls[i].call.key, key))
            return 1;
    return 0;
}

/* The other prompt of this batch that computes the segments of this key. */
static pc_sequence *find_encoder(const step *st, const pc_sequence *s, const pc__id *key)
{
    for (size_t i = 0; s->cache && i < st->fresh_count; i++)
        if (st->fresh[i] != s && st->fresh[i]->cache == s->cache && computes(st->fresh[i], key))
            return st->fresh[i];
    return NULL;
}

/* Opens the calls that no other prompt computes. */
static pc_status open_calls(const step *st, pc_sequence *s, pc_sequence **encoder)
{
    for (size_t i = 0; i < PC__CALLS_AT_ONCE; i++) {
        pc__open_call *c = &s->pieces->calls[i];
        pc_sequence *other = c->prepared && !c->encoding ? find_encoder(st, s, &c->call.key) : NULL;
        if (other)
            *encoder = other;
        else if (c->prepared && !c->encoding)
            PC__TRY_RETURN(pc__pieces_open(s->pieces, c));
    }
    return PC_OK;
}

/* What an application's model has encoded at once is taken off the step. */
static void note_at_once(step *st, size_t tokens, double seconds)
{
    size_t most = st->left - st->tokens;
    st->left -= tokens < most ? tokens : most;
    st->any = 1;
    note_seconds(&st->batch->token_seconds, seconds / (double)tokens);
}

/* How many tokens of its prompt can be computed now; or it waits for those of `encoder`. An error
 * ends it. */
static size_t ready_tokens(step *st, pc_sequence *s, pc_sequence **encoder)
{
    double started = pc__now();
    pc_status status;
    *encoder = NULL;
    if (!is_fresh(st->batch, s) || pc__sequence_start(s) < 0)
        return 0;
    s->pieces->looks_again |= s->pieces->seen != st->batch->encoded;
    s->pieces->seen = st->batch->encoded;
    status = pc__pieces_advance(s->pieces, st->left - st->tokens);
    if (status == PC_AGAIN) {
        st->loads = st->loads ? st->loads : s;
        return 0;
    }
    if (status == PC_OK)
        status = open_calls(st, s, encoder);
    if (status < 0) {
        pc__sequence_fail(s, status);
        return 0;
    }
    if (!s->pieces->at_once)
        return pc__pieces_left(s->pieces);
    note_at_once(st, s->pieces->at_once, pc__now() - started);
    return 0;
}

/* Counts the encode calls that the pass has ended. A prompt knows its own. */
static void count_calls(const step *st)
{
    for (size_t i = 0; i < st->fresh_count; i++) {
        pc__pieces *p = st->fresh[i]->pieces;
        if (!p || !p->ended_call)
            continue;
        p->ended_call = 0;
        p->seen += p->seen == st->batch->encoded;
        st->batch->encoded++;
    }
}

/* Adds the next tokens of a prompt to the pass. One that waits for what another prompt encodes
 * lends that one its turn. */
static void add_piece(step *st, pc_sequence *s)
{
    pc_sequence *encoder = NULL;
    size_t ready = s->in_pass ? 0 : ready_tokens(st, s, &encoder), most = st->left - st->tokens;
    if (!ready && encoder && !encoder->in_pass) {
        s = encoder;
        ready = ready_tokens(st, s, &encoder);
    }
    if (!ready)
        return;
    s->in_pass = 1;
    st->running[st->count] = s;
    st->pieces[st->count] = ready < most ? ready : most;
    st->tokens += st->pieces[st->count++];
    st->any = 1;
}

/* One pass: the running sequences, if they have not had one in this step, and pieces of prompts.
 * st->any 0: there was nothing to compute. */
static pc_status run_pass(step *st, int first)
{
    size_t run = first ? st->run : 0;
    double started;
    pc_status status;
    for (size_t i = 0; i < run; i++)
        st->pieces[i] = 0;
    for (size_t i = 0; i < st->fresh_count; i++)
        st->fresh[i]->in_pass = 0;
    st->loads = NULL;
    st->count = run;
    st->tokens = 0;
    st->any = run > 0;
    for (size_t i = 0; i < st->fresh_count && st->tokens < st->left; i++)
        add_piece(st, st->fresh[i]);
    if (!st->any && st->loads) { /* nobody else has anything to do */
        pc__pieces_await_loads(st->loads->pieces);
        st->any = 1;
    }
    started = pc__now();
    status = pc__sequences_step(st->running, st->pieces, st->count, st->logits);
    if (status >= 0 && st->count)
        note_pass(st->batch, run, st->tokens, pc__now() - started);
    count_calls(st);
    st->left -= st->tokens;
    return status;
}

/* One pass if sequences are running: they wait for no second one. */
static pc_status run_passes(step *st)
{
    st->left = choose_tokens(st->batch, st->run);
    pc_status status = run_pass(st, 1);
    while (status >= 0 && st->any && !st->run && st->left)
        status = run_pass(st, 0);
    return status;
}

/* Every so often the one that has waited longest comes first, so that none waits for ever. */
static void let_oldest_first(step *st)
{
    enum { EVERY = 4 };
    size_t oldest = 0;
    if (++st->batch->steps % EVERY || !st->fresh_count)
        return;
    for (size_t i = 1; i < st->fresh_count; i++)
        if (st->fresh[i]->generation.started < st->fresh[oldest]->generation.started)
            oldest = i;
    pc_sequence *s = st->fresh[oldest];
    memmove(st->fresh + 1, st->fresh, oldest * sizeof(*st->fresh));
    st->fresh[0] = s;
}

/* A callback may have moved a sequence here from a batch whose step is under way. */
pc_status pc__batch_check(const pc_batch *batch, const char *call)
{
    PC__TRY_RETURN(pc__task_check(&batch->task, call, "the batch"));
    for (size_t i = 0; i < batch->members.count; i++) {
        const pc_sequence *s = batch->members.items[i];
        PC__TRY_RETURN(pc__task_check(&s->task, call, "a sequence of the batch"));
        if (s->stepping)
            return pc__fail(PC_ERR_STATE, "%s: a step of a sequence is under way", call);
    }
    return PC_OK;
}

/* Work memory of a step of `count` sequences. */
typedef struct batch_memory {
    pc_sequence **all;     /* [count] */
    pc_sequence **fresh;   /* [count] in pieces */
    pc_sequence **whole;   /* [count] */
    pc_sequence **waiting; /* [count] for admission */
    step step;
} batch_memory;

static pc_status reserve_step(batch_memory *m, pc_batch *batch, size_t count)
{
    const pc_allocator *mem = &batch->model->context->mem;
    m->all = pc__calloc(mem, 6 * count, sizeof(*m->all));
    m->fresh = m->all + count;
    m->whole = m->all + 2 * count;
    m->waiting = m->all + 3 * count;
    m->step.batch = batch;
    m->step.running = m->all + 4 * count;
    m->step.pieces = pc__calloc(mem, 2 * count, sizeof *m->step.pieces);
    /* not zeroed: rows that a backend draws from are never touched */
    m->step.logits = pc__alloc(mem,
                               count * (size_t)batch->model->info.vocab * sizeof *m->step.logits);
    return m->all && m->step.pieces && m->step.logits ? PC_OK : PC_ERR_NOMEM;
}

static void release_step(batch_memory *m, const pc_allocator *mem)
{
    pc__free(mem, m->all);
    pc__free(mem, m->step.pieces);
    pc__free(mem, m->step.logits);
}

/* Lists the running sequences and the prompts that are begun, and admits new ones. Returns how many
 * of these are computed whole. */
static size_t sort_members(batch_memory *m, size_t count)
{
    step *st = &m->step;
    size_t whole = 0, waiting = 0;
    uint64_t held = 0;
    for (size_t i = 0; i < count; i++) {
        pc_sequence *s = m->all[i];
        if (s->finish)
            continue;
        if (st->batch->max_own_tokens && (s->placed.sequence || s->pieces))
            held += pc__batch_own_tokens(s);
        if (s->placed.sequence)
            st->running[st->run++] = s;
        else if (s->pieces)
            insert_in_order(st->fresh, st->fresh_count++, s);
        else
            insert_waiting(m->waiting, waiting++, s);
    }
    if (st->batch->max_own_tokens)
        waiting = drop_cancelled(st->batch, m->waiting, waiting);
    waiting = admit(st->batch, held, m->waiting, waiting);
    for (size_t i = 0; i < waiting; i++) {
        pc_sequence *s = m->waiting[i];
        int cut = st->batch->step_tokens != UINT32_MAX && pc__pieces_can(s->prompt, &s->generation);
        size_t *listed = cut ? &st->fresh_count : &whole;
        insert_in_order(cut ? st->fresh : m->whole, (*listed)++, s);
    }
    return whole;
}

static pc_status step_members(batch_memory *m, size_t count)
{
    step *st = &m->step;
    size_t whole;
    pc_status status;
    st->fresh = m->fresh;
    for (size_t i = 0; i < count; i++) {
        pc_sequence *s = m->all[i];
        pc__sequence_ref(s);
        s->stepping = 1;
        s->changed = 0;
        s->rest = s->finish || s->placed.sequence ? 0 : rest_of(s);
    }
    whole = sort_members(m, count);
    let_oldest_first(st);
    start_whole(st->batch, m->whole, whole, st->logits, st->running, &st->run);
    status = run_passes(st);
    for (size_t i = 0; i < count; i++) {
        m->all[i]->stepping = 0;
        pc__sequence_unref(m->all[i]);
    }
    return status;
}

static void list_changed(pc__batch_members *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->items[i]->changed)
            m->changed[m->changed_count++] = m->items[i];
}

pc_status pc_batch_step(pc_batch *batch)
{
    PC__HOLD(pc_batch, batch);
    batch_memory memory = {.all = NULL};
    size_t count;
    pc_status status;
    if (!batch)
        return pc__fail(PC_ERR_INVALID, "pc_batch_step: batch is NULL");
    PC__TRY_RETURN(pc__batch_check(batch, "pc_batch_step"));
    batch->members.changed_count = 0;
    if (!pc__any_sequence_runs(batch->members.items, batch->members.count))
        return PC_END;
    count = batch->members.count;
    status = reserve_step(&memory, batch, count);
    if (status >= 0) {
        /* the allocator, as any callback, may have removed some */
        count = batch->members.count < count ? batch->members.count : count;
        memcpy(memory.all, batch->members.items, count * sizeof(*memory.all));
        status = step_members(&memory, count);
        list_changed(&batch->members);
    }
    release_step(&memory, &batch->model->context->mem);
    if (status < 0)
        return status;
    return pc__any_sequence_runs(batch->members.items, batch->members.count) ? PC_OK : PC_END;
}

pc_sequence *const *pc_batch_changed(const pc_batch *batch, size_t *count)
{
    int there = batch && !pc__task_has(&batch->task);
    if (count)
        *count = there ? batch->members.changed_count : 0;
    return there ? batch->members.changed : NULL;
}
