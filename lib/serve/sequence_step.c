/* One step of running sequences, for all that can go together in one call of the model. The next
 * tokens of some may be drawn within that call (attn/draw.h), those of others behind it. */
#include "model/model_states.h"
#include "serve/model_calls.h"
#include "serve/sequence.h"

int pc__any_sequence_runs(pc_sequence *const *sequences, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!sequences[i]->finish)
            return 1;
    return 0;
}

/* Work memory of a step. */
typedef struct step_memory {
    pc_step_row *rows;
    float *logits;  /* [sequences][vocab] */
    pc__draw *list; /* [sequences]; NULL: the model does not draw */
    pc__draws draws;
} step_memory;

typedef struct step_members {
    pc_sequence **list; /* [count] */
    size_t count;
    step_memory *work;
} step_members;

/* Asked by the model within a step, which stops if the caller of any sequence cancels. */
static int32_t any_cancelled(void *user)
{
    step_members *g = user;
    int32_t any = 0;
    for (size_t i = 0; i < g->count; i++) {
        pc_sequence *s = g->list[i];
        if (!s->asked_cancel && pc__generation_poll(&s->generation) < 0) {
            s->asked_cancel = 1;
            pc__sequence_keep_error(s, PC_ERR_CANCELLED);
        }
        any |= s->asked_cancel && !s->freed;
    }
    return any;
}

static uint32_t flags_of(const pc_sequence *s)
{
    switch (s->generation.bench.baseline) {
    case PC_BASELINE_PER_ROW:
        return PC_STEP_PER_ROW;
    case PC_BASELINE_NO_ATTENTION:
        return PC_STEP_NO_ATTENTION;
    default:
        return 0;
    }
}

/* Sequence i wants row i of the logits. */
static pc_status describe_draws(const step_members *g)
{
    step_memory *w = g->work;
    w->draws.count = 0;
    for (size_t i = 0; w->list && i < g->count; i++) {
        pc_status status = pc__sequence_describe(g->list[i], &w->list[w->draws.count]);
        if (status == PC_OK)
            w->list[w->draws.count++].row = i;
        else if (status < 0)
            return status;
    }
    return PC_OK;
}

static pc_status compute_step(step_members *g)
{
    const pc_sequence *s = g->list[0];
    pc_step_row *rows = g->work->rows;
    const pc__draws *draws = &g->work->draws;
    pc_step_args args = {.struct_size = sizeof args,
                         .rows = rows,
                         .row_stride = sizeof *rows,
                         .logits = g->work->logits,
                         .visibility = s->generation.options.visibility,
                         .flags = flags_of(s),
                         .rope_regime_length = s->regime.length,
                         .cancelled = any_cancelled,
                         .cancel_user = g};
    for (size_t i = 0; i < g->count; i++)
        args.count += pc__sequence_rows(g->list[i], rows + args.count);
    PC__TRY_RETURN(describe_draws(g));
    return pc__call_step(s->model, s->cache, &args, draws->count ? draws : NULL);
}

static void sample_all(const step_members *g)
{
    const step_memory *w = g->work;
    for (size_t i = 0, draw = 0; i < g->count; i++) {
        const pc__drawn *drawn = NULL;
        if (draw < w->draws.count && w->list[draw].row == i)
            drawn = pc__drawn_at(&w->draws, draw++);
        if (!g->list[i]->freed) /* by a callback of another one */
            pc__sequence_sample(g->list[i], w->logits + i * (size_t)g->list[i]->model->info.vocab,
                                drawn);
    }
}

/* Ends cancelled sequences and removes them, and those that were freed. */
static void drop_cancelled(step_members *g)
{
    size_t left = 0;
    for (size_t i = 0; i < g->count; i++) {
        if (g->list[i]->asked_cancel)
            pc__sequence_end_cancelled(g->list[i]);
        else if (!g->list[i]->freed)
            g->list[left++] = g->list[i];
    }
    g->count = left;
}

/* A failed step has changed nothing (contract of pc_model_ops.step). So the sequences that are not
 * to blame are found by computing each alone. */
static void step_group(step_members *g)
{
    pc_status status = PC_OK;
    any_cancelled(g);
    drop_cancelled(g);
    while (g->count && (status = compute_step(g)) < 0) {
        size_t before = g->count;
        drop_cancelled(g);
        if (g->count == before)
            break;
    }
    if (!g->count)
        return;
    if (status >= 0) {
        sample_all(g);
        drop_cancelled(g); /* the model may have ended the step nevertheless */
    } else if (g->count == 1) {
        pc__sequence_fail(g->list[0], status);
    } else {
        for (size_t i = 0, n = g->count; i < n; i++) {
            step_members alone = {.list = g->list + i, .count = 1, .work = g->work};
            step_group(&alone);
        }
    }
}

static int go_together(const pc_sequence *a, const pc_sequence *b)
{
    return a->regime.length == b->regime.length
           && a->generation.options.visibility == b->generation.options.visibility
           && flags_of(a) == flags_of(b);
}

static pc_status reserve_draws(step_memory *w, pc_sequence *const *list, size_t count)
{
    const pc_allocator *mem = list[0]->mem;
    if (!pc__model_draws(list[0]->model))
        return PC_OK;
    for (size_t i = 0; i < count; i++)
        if (list[i]->generation.options.top_logprobs > w->draws.likely)
            w->draws.likely = list[i]->generation.options.top_logprobs;
    w->draws.list = w->list = pc__calloc(mem, count, sizeof *w->list);
    w->draws.drawn = pc__calloc(mem, count, pc__drawn_bytes(w->draws.likely));
    return w->list && w->draws.drawn ? PC_OK : PC_ERR_NOMEM;
}

static pc_status reserve_step(step_memory *w, pc_sequence *const *list, size_t count)
{
    size_t rows = 0;
    for (size_t i = 0; i < count; i++)
        rows += pc__sequence_row_count(list[i]);
    w->rows = pc__calloc(list[0]->mem, rows, sizeof *w->rows);
    return w->rows ? reserve_draws(w, list, count) : PC_ERR_NOMEM;
}

static void release_step(step_memory *w, const pc_allocator *mem)
{
    pc__free(mem, w->rows);
    pc__free(mem, w->list);
    pc__free(mem, w->draws.drawn);
}

pc_status pc__sequences_step(pc_sequence *const *sequences, size_t count, float *logits)
{
    step_memory work = {.logits = logits};
    pc_sequence **list;
    const pc_allocator *mem;
    size_t left = 0;
    pc_status status = PC_ERR_NOMEM;
    if (!count)
        return PC_OK;
    mem = sequences[0]->mem;
    list = pc__calloc(mem, count, sizeof(*list));
    for (size_t i = 0; list && i < count; i++)
        if (!sequences[i]->finish && sequences[i]->placed.sequence && !sequences[i]->freed)
            list[left++] = sequences[i];
    if (!list || (left && reserve_step(&work, list, left) < 0))
        goto done;
    for (size_t from = 0, end; from < left; from = end) {
        step_members g = {.list = list + from, .work = &work};
        end = from;
        for (size_t i = from; i < left; i++)
            if (go_together(list[from], list[i])) {
                pc_sequence *moved = list[i];
                list[i] = list[end];
                list[end++] = moved;
            }
        g.count = end - from;
        step_group(&g);
    }
    status = PC_OK;
done:
    release_step(&work, mem);
    pc__free(mem, list);
    return status;
}
