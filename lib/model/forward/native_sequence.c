/* A sequence of a native model: attached segments and runs of its own tokens. Only the newest own
 * run grows. A fork freezes it: both copies read it and continue in runs of their own. */
#include <string.h>

#include "base/options.h"
#include "model/forward/native_ops.h"
#include "model/forward/pass_build.h"
#include "model/model_states.h"

typedef struct sequence_run {
    pc__kv *kv; /* a counted reference */
    int64_t start;
    uint32_t lo, hi; /* own: 0, and the most tokens that count */
    int own;         /* 1: a run of its own tokens */
} sequence_run;

typedef struct sequence {
    sequence_run *entries;
    size_t count, capacity;
    size_t tail; /* index of the growing run, or NONE */
    /* during a step: the state before it */
    struct sequence *next_touched;
    int touched;
    size_t old_count, old_tail, old_tokens;
} sequence;

#define NONE ((size_t)-1)

static size_t tokens_in(const sequence_run *e)
{
    return e->hi < e->kv->tokens ? e->hi : e->kv->tokens;
}

static pc_status make_sequence(const pc_model *model, void **out)
{
    sequence *s;
    *out = NULL;
    PC__TRY_RETURN(pc__model_can_go_on(model));
    *out = s = pc__calloc(&model->context->mem, 1, sizeof *s);
    if (!s)
        return PC_ERR_NOMEM;
    s->tail = NONE;
    return PC_OK;
}

/* Requests with adapters have been refused. */
pc_status pc__native_sequence_new(void *user, const pc_sequence_args *args, void **out)
{
    (void)args;
    return make_sequence(user, out);
}

void pc__native_drop(void *user, void *dropped)
{
    const pc_model *model = user;
    sequence *s = dropped;
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        pc__kv_unref(s->entries[i].kv);
    pc__free(&model->context->mem, s->entries);
    pc__free(&model->context->mem, s);
}

/* Takes the reference over. */
static pc_status add_run(const pc_model *model, sequence *s, sequence_run what)
{
    pc_status status = pc__grow(&model->context->mem, (void **)&s->entries, &s->capacity,
                                s->count + 1, sizeof *s->entries);
    if (status >= 0)
        s->entries[s->count++] = what;
    else
        pc__kv_unref(what.kv);
    return status;
}

pc_status pc__native_attach(void *user, void *to, const pc_span *placement)
{
    const pc_model *model = user;
    PC__TRY_RETURN(pc__native_check_placement(model->native, placement));
    return add_run(model, to,
                   (sequence_run){pc__kv_ref(placement->segment), placement->start, placement->lo,
                                  placement->hi, 0});
}

pc_status pc__native_fork(void *user, void *original, void **out)
{
    const pc_model *model = user;
    sequence *from = original, *to;
    pc_status status = PC_OK;
    PC__TRY_RETURN(make_sequence(model, out));
    to = *out;
    for (size_t i = 0; i < from->count && status >= 0; i++) {
        sequence_run copy = from->entries[i];
        pc__kv_ref(copy.kv);
        status = add_run(model, to, copy);
    }
    if (status < 0) {
        pc__native_drop(user, to);
        *out = NULL;
        return status;
    }
    from->tail = NONE;
    return PC_OK;
}

size_t pc__model_sequence_spans(const void *of, pc__sequence_span *spans)
{
    const sequence *s = of;
    for (size_t i = 0; spans && i < s->count; i++) {
        const sequence_run *e = &s->entries[i];
        spans[i] = (pc__sequence_span){e->kv,  e->start,    e->lo, (uint32_t)tokens_in(e),
                                       e->own, i == s->tail};
    }
    return s->count;
}

pc_status pc__model_sequence_add(const pc_model *model, void *to, pc__kv *run, int64_t start,
                                 int grows)
{
    sequence *s = to;
    PC__TRY_RETURN(add_run(model, s, (sequence_run){run, start, 0, UINT32_MAX, 1}));
    s->tail = grows ? s->count - 1 : NONE;
    return PC_OK;
}

pc_status pc__model_sequence_wrap(const pc_model *model, void *by, pc__kv *run)
{
    return pc__model_sequence_add(model, by, run, 0, 1);
}

void pc__model_sequence_freeze(void *frozen)
{
    ((sequence *)frozen)->tail = NONE;
}

/* Shortens the growing run; of a frozen run fewer tokens count. */
pc_status pc__native_truncate(void *user, void *of, size_t count)
{
    sequence *s = of;
    (void)user;
    for (size_t i = s->count; i-- && count;) {
        sequence_run *e = &s->entries[i];
        size_t have = tokens_in(e), less = have < count ? have : count;
        if (!e->own)
            continue;
        if (i == s->tail)
            pc__kv_truncate(e->kv, have - less);
        else
            e->hi = (uint32_t)(have - less);
        count -= less;
    }
    return PC_OK;
}

typedef struct step_work {
    const pc_model *model;
    const pc_step_args *args;
    float *final; /* [rows][hidden] instead of logits; NULL: logits */
    uint64_t length;
    sequence *touched;
    pc__pass_build build;
} step_work;

static void note_touched(step_work *st, sequence *s)
{
    if (s->touched)
        return;
    s->touched = 1;
    s->old_count = s->count;
    s->old_tail = s->tail;
    s->old_tokens = s->tail == NONE ? 0 : s->entries[s->tail].kv->tokens;
    s->next_touched = st->touched;
    st->touched = s;
}

static void settle_sequences(step_work *st, pc_status status)
{
    for (sequence *s = st->touched; s; s = s->next_touched) {
        s->touched = 0;
        if (status >= 0)
            continue;
        while (s->count > s->old_count)
            pc__kv_unref(s->entries[--s->count].kv);
        s->tail = s->old_tail;
        if (s->tail != NONE)
            pc__kv_truncate(s->entries[s->tail].kv, s->old_tokens);
    }
}

static int64_t last_position(const sequence_run *e)
{
    return e->kv->tokens ? e->start + pc__kv_relative(e->kv, e->kv->tokens - 1) : INT64_MIN;
}

/* Finds or makes the run for the next `count` own tokens, the first at `position`. */
static pc_status need_tail(step_work *st, sequence *s, int64_t position, size_t count)
{
    sequence_run fresh = {NULL, position, 0, UINT32_MAX, 1};
    uint64_t regime = pc__model_rope_regime(st->model, st->length);
    sequence_run *tail = s->tail == NONE ? NULL : &s->entries[s->tail];
    if (tail && last_position(tail) < position && tail->kv->rope_regime == regime) {
        if (!tail->kv->tokens) /* truncated to nothing, perhaps beyond its start */
            tail->start = tail->kv->origin = position;
        return PC_OK;
    }
    PC__TRY_RETURN(pc__model_run_new(st->model, count, st->length, &fresh.kv));
    fresh.kv->origin = position;
    PC__TRY_RETURN(add_run(st->model, s, fresh));
    s->tail = s->count - 1;
    return PC_OK;
}

/* The spans that a row at `position` sees; of the newest run the first `limit` tokens. */
static pc_status add_visible_spans(step_work *st, const sequence *s, int64_t position, size_t limit)
{
    for (size_t i = 0; i < s->count; i++) {
        const sequence_run *e = &s->entries[i];
        size_t lo = e->lo, hi = tokens_in(e);
        if (i == s->tail && hi > limit)
            hi = limit;
        if (st->args->visibility == PC_VISIBLE_BY_POSITION) {
            size_t upto = pc__kv_upto(e->kv, position - e->start);
            hi = hi < upto ? hi : upto;
        }
        if (hi > lo)
            PC__TRY_RETURN(pc__build_span(&st->build, e->kv, e->start, lo, hi));
    }
    return PC_OK;
}

/* Rows [first, first + count): one sequence, ascending positions, one run. */
static pc_status add_row_group(step_work *st, size_t first, size_t count)
{
    const pc_step_row *rows = st->args->rows + first;
    sequence *s = rows[0].sequence;
    pc__kv *run;
    size_t before;
    note_touched(st, s);
    PC__TRY_RETURN(need_tail(st, s, rows[0].position, count));
    run = s->entries[s->tail].kv;
    before = run->tokens;
    for (size_t i = 0; i < count; i++) {
        int64_t relative = rows[i].position - s->entries[s->tail].start;
        PC__TRY_RETURN(pc__kv_append(run, &relative, 1));
    }
    for (size_t i = 0; i < count; i++) {
        pc__token_row row = {rows[i].token,
                             rows[i].want_logits && !st->final,
                             rows[i].position,
                             run,
                             before + i,
                             s->entries[s->tail].start,
                             0};
        pc__build_row(&st->build, &row);
        PC__TRY_RETURN(add_visible_spans(st, s, rows[i].position, before + i + 1));
    }
    return PC_OK;
}

static size_t group_size(const pc_step_args *args, size_t first)
{
    size_t i = first + 1;
    while (i < args->count && args->rows[i].sequence == args->rows[first].sequence
           && args->rows[i].position > args->rows[i - 1].position)
        i++;
    return i - first;
}

static pc_status add_step_rows(step_work *st)
{
    for (size_t first = 0, n; first < st->args->count; first += n) {
        n = group_size(st->args, first);
        if (first + n < st->args->count
            && st->args->rows[first + n].sequence == st->args->rows[first].sequence
            && st->args->visibility == PC_VISIBLE_BY_POSITION)
            return pc__fail(PC_ERR_INVALID,
                            "step: row %zu is at position %lld, not after its predecessor's %lld",
                            first + n, (long long)st->args->rows[first + n].position,
                            (long long)st->args->rows[first + n - 1].position);
        PC__TRY_RETURN(add_row_group(st, first, n));
    }
    return PC_OK;
}

static pc_status check_step(const step_work *st)
{
    const pc_step_args *args = st->args;
    for (size_t i = 0; i < args->count; i++)
        if (args->rows[i].want_logits && !args->logits && !st->final)
            return pc__fail(PC_ERR_INVALID, "step: row %zu wants logits, but args.logits is NULL",
                            i);
    if (args->visibility > PC_VISIBLE_ALL
        || args->flags & ~(uint32_t)(PC_STEP_PER_ROW | PC_STEP_NO_ATTENTION))
        return pc__fail(PC_ERR_INVALID, "step: unknown visibility %u or flags %#x",
                        args->visibility, args->flags);
    return PC_OK;
}

static uint64_t step_length(const pc_step_args *args)
{
    int64_t last = 0;
    for (size_t i = 0; i < args->count; i++)
        last = args->rows[i].position > last ? args->rows[i].position : last;
    return args->rope_regime_length ? args->rope_regime_length : (uint64_t)last + 1;
}

typedef struct step_call {
    const pc_model *model;
    const pc_step_args *args;
    const pc__draws *draws;
    float *final;
    const pc__encode_piece *pieces;
    size_t piece_count;
} step_call;

static size_t count_rows(const step_call *c)
{
    size_t rows = c->args->count;
    for (size_t i = 0; i < c->piece_count; i++)
        rows += c->pieces[i].count;
    return rows;
}

static pc_status compute_step(void *call)
{
    const step_call *c = call;
    const pc_step_args *args = c->args;
    step_work st = {.model = c->model, .args = args, .final = c->final};
    pc__pass pass = {0};
    pc_status status;
    st.length = step_length(args);
    PC__TRY(check_step(&st), done);
    PC__TRY(pc__build_start(&st.build, &c->model->context->mem, count_rows(c)), done);
    PC__TRY(add_step_rows(&st), done);
    for (size_t i = 0; i < c->piece_count; i++)
        PC__TRY(pc__encoding_add(c->pieces[i].encoding, &st.build, c->pieces[i].count), done);
    pc__build_end(&st.build, &pass);
    if (!args->count) /* nobody reads the last layer: end at its K and V */
        pass.kv_layers = c->model->native->arch.layers;
    pass.attend.per_row = (args->flags & PC_STEP_PER_ROW) != 0;
    pass.skips_attention = (args->flags & PC_STEP_NO_ATTENTION) != 0;
    pass.rope_regime_length = st.length;
    pass.logits = args->logits;
    pass.draws = c->draws;
    pass.final = c->final;
    pass.cancelled = args->cancelled;
    pass.cancel_user = args->cancel_user;
    status = pc__forward(st.model, &pass);
done:
    settle_sequences(&st, status);
    for (size_t i = 0; i < c->piece_count; i++)
        pc__encoding_settle(c->pieces[i].encoding, c->pieces[i].count, status);
    pc__build_free(&st.build);
    return status;
}

static pc_status run_step(step_call call)
{
    return count_rows(&call) ? pc__model_work(call.model, compute_step, &call, 0) : PC_OK;
}

pc_status pc__model_step_draw(const pc_model *model, const pc_step_args *args,
                              const pc__draws *draws)
{
    return run_step((step_call){.model = model, .args = args, .draws = draws});
}

pc_status pc__model_step_pieces(const pc_model *model, const pc_step_args *args,
                                const pc__draws *draws, const pc__encode_piece *pieces,
                                size_t count)
{
    return run_step((step_call){
        .model = model, .args = args, .draws = draws, .pieces = pieces, .piece_count = count});
}

pc_status pc__native_step(void *user, const pc_step_args *args)
{
    return run_step((step_call){.model = user, .args = args});
}

/* Of all rows; then those that want theirs are kept. */
pc_status pc__native_step_hidden(void *user, const pc_step_args *args, float *hidden)
{
    const pc_model *model = user;
    size_t width = (size_t)model->native->arch.hidden, bytes = width * sizeof(float);
    float *final = pc__calloc(&model->context->mem, args->count, bytes);
    const step_call call = {.model = model, .args = args, .final = final};
    pc_status status = final ? run_step(call) : PC_ERR_NOMEM;
    for (size_t i = 0; i < args->count && status >= 0; i++)
        if (args->rows[i].want_logits) {
            memcpy(hidden, final + i * width, bytes);
            hidden += width;
        }
    pc__free(&model->context->mem, final);
    return status;
}
