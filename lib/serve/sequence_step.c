/* One step of running sequences, for all that can go together in one call of the model. */
#include "serve/model_calls.h"
#include "serve/sequence.h"

int pc__any_sequence_runs(pc_sequence *const *sequences, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!sequences[i]->finish)
            return 1;
    return 0;
}

typedef struct step_members {
    pc_sequence **list; /* [count] */
    size_t count;
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

static pc_status compute_step(step_members *g, pc_step_row *rows, float *logits)
{
    const pc_sequence *s = g->list[0];
    pc_step_args args = {.struct_size = sizeof args,
                         .rows = rows,
                         .row_stride = sizeof *rows,
                         .logits = logits,
                         .visibility = s->generation.options.visibility,
                         .flags = flags_of(s),
                         .rope_regime_length = s->regime.length,
                         .cancelled = any_cancelled,
                         .cancel_user = g};
    for (size_t i = 0; i < g->count; i++)
        args.count += pc__sequence_rows(g->list[i], rows + args.count);
    return pc__call_step(s->model, s->cache, &args);
}

static void sample_all(step_members *g, float *logits)
{
    for (size_t i = 0; i < g->count; i++)
        if (!g->list[i]->freed) /* by a callback of another one */
            pc__sequence_sample(g->list[i], logits + i * (size_t)g->list[i]->model->info.vocab);
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
static void step_group(step_members *g, pc_step_row *rows, float *logits)
{
    pc_status status = PC_OK;
    any_cancelled(g);
    drop_cancelled(g);
    while (g->count && (status = compute_step(g, rows, logits)) < 0) {
        size_t before = g->count;
        drop_cancelled(g);
        if (g->count == before)
            break;
    }
    if (!g->count)
        return;
    if (status >= 0) {
        sample_all(g, logits);
        drop_cancelled(g); /* the model may have ended the step nevertheless */
    } else if (g->count == 1) {
        pc__sequence_fail(g->list[0], status);
    } else {
        for (size_t i = 0, n = g->count; i < n; i++) {
            step_members alone = {.list = g->list + i, .count = 1};
            step_group(&alone, rows, logits);
        }
    }
}

static int go_together(const pc_sequence *a, const pc_sequence *b)
{
    return a->regime.length == b->regime.length
           && a->generation.options.visibility == b->generation.options.visibility
           && flags_of(a) == flags_of(b);
}

pc_status pc__sequences_step(pc_sequence *const *sequences, size_t count, float *logits)
{
    pc_sequence **list;
    pc_step_row *rows;
    const pc_allocator *mem;
    size_t left = 0, row_count = 0;
    pc_status status = PC_ERR_NOMEM;
    if (!count)
        return PC_OK;
    mem = sequences[0]->mem;
    list = pc__calloc(mem, count, sizeof(*list));
    for (size_t i = 0; list && i < count; i++)
        if (!sequences[i]->finish && sequences[i]->placed.sequence && !sequences[i]->freed)
            row_count += pc__sequence_row_count(list[left++] = sequences[i]);
    rows = list ? pc__calloc(mem, row_count, sizeof *rows) : NULL;
    if (!rows)
        goto done;
    for (size_t from = 0, end; from < left; from = end) {
        step_members g = {.list = list + from};
        end = from;
        for (size_t i = from; i < left; i++)
            if (go_together(list[from], list[i])) {
                pc_sequence *moved = list[i];
                list[i] = list[end];
                list[end++] = moved;
            }
        g.count = end - from;
        step_group(&g, rows, logits);
    }
    status = PC_OK;
done:
    pc__free(mem, rows);
    pc__free(mem, list);
    return status;
}
