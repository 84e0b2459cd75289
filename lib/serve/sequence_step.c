/* One step of sequences, for all that can go together in one call of the model. The next
 * tokens of some may be drawn within that call (attn/draw.h), those of others behind it. */
#include <string.h>

#include "base/clock.h"
#include "serve/model_calls.h"
#include "serve/request_pieces.h"
#include "serve/sequence.h"

int pc__any_sequence_runs(pc_sequence *const *sequences, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!sequences[i]->finish)
            return 1;
    return 0;
}

/* A member of a step: a running sequence with its pending tokens, or the next tokens of a prompt
 * that is computed in pieces. */
typedef struct step_item {
    pc_sequence *sequence;
    size_t piece; /* tokens of its prompt; 0: it is running */
    size_t row;   /* of the logits that it gets; NO_ROW: none */
} step_item;

#define NO_ROW ((size_t)-1)

/* Work memory of a step. */
typedef struct step_memory {
    pc_step_row *rows;
    pc__encode_piece *pieces; /* [sequences * PC__CALLS_AT_ONCE] */
    float *logits;            /* [sequences][vocab] */
    pc__draw *list;           /* [sequences]; NULL: the model does not draw */
    pc__draws draws;
} step_memory;

typedef struct step_members {
    step_item *list; /* [count] */
    size_t count;
    step_memory *work;
} step_members;

/* Asked by the model within a step, which stops if the caller of any sequence cancels. */
static int32_t any_cancelled(void *user)
{
    step_members *g = user;
    int32_t any = 0;
    for (size_t i = 0; i < g->count; i++) {
        pc_sequence *s = g->list[i].sequence;
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

static const pc__request_regime *regime_of(const pc_sequence *s)
{
    return s->pieces ? &s->pieces->request.regime : &s->regime;
}

/* The rows of an item, with the row of the logits that it gets. */
static size_t add_rows(step_item *item, pc_step_row *rows, size_t *wanted)
{
    const pc__pieces *p = item->sequence->pieces;
    size_t count;
    int wants = 1;
    if (item->piece) {
        count = item->piece;
        wants = (int)pc__assembly_rows(&p->assembly, p->out.sequence, count, rows);
    } else {
        count = pc__sequence_rows(item->sequence, rows);
    }
    item->row = wants ? (*wanted)++ : NO_ROW;
    return count;
}

/* Logits that must wait for other rows are not drawn from, nor those that nobody samples. */
static int may_draw(const step_item *item)
{
    const pc_sequence *s = item->sequence;
    return item->row != NO_ROW && !(item->piece && (s->pieces->logits || s->pending));
}

static pc_status describe_draws(const step_members *g)
{
    step_memory *w = g->work;
    w->draws.count = 0;
    for (size_t i = 0; w->list && i < g->count; i++) {
        if (!may_draw(&g->list[i]))
            continue;
        pc_status status = pc__sequence_describe(g->list[i].sequence, &w->list[w->draws.count]);
        if (status == PC_OK)
            w->list[w->draws.count++].row = g->list[i].row;
        else if (status < 0)
            return status;
    }
    return PC_OK;
}

/* Fills rows and pieces; returns how many tokens they have. */
static size_t collect(step_members *g, pc_step_args *args, size_t *piece_count)
{
    step_memory *w = g->work;
    size_t tokens = 0, wanted = 0;
    *piece_count = 0;
    for (size_t i = 0; i < g->count; i++) {
        step_item *item = &g->list[i];
        size_t given = item->piece ? pc__pieces_give(item->sequence->pieces, item->piece,
                                                     w->pieces + *piece_count)
                                   : 0;
        *piece_count += given;
        item->row = NO_ROW;
        if (given)
            tokens += item->piece;
        else
            args->count += add_rows(item, w->rows + args->count, &wanted);
    }
    return tokens + args->count;
}

static pc_status compute_step(step_members *g, size_t *tokens)
{
    const pc_sequence *s = g->list[0].sequence;
    step_memory *w = g->work;
    pc_step_args args = {.struct_size = sizeof args,
                         .rows = w->rows,
                         .row_stride = sizeof *w->rows,
                         .logits = w->logits,
                         .visibility = s->generation.options.visibility,
                         .flags = flags_of(s),
                         .rope_regime_length = regime_of(s)->length,
                         .cancelled = any_cancelled,
                         .cancel_user = g};
    size_t pieces;
    *tokens = collect(g, &args, &pieces);
    PC__TRY_RETURN(describe_draws(g));
    const pc__draws *draws = w->draws.count ? &w->draws : NULL;
    return pieces ? pc__call_step_pieces(s->model, &args, draws, w->pieces, pieces)
                  : pc__call_step(s->model, s->cache, &args, draws);
}

/* A piece is computed: its request goes on, and after the last piece its sequence samples. */
static void end_piece(const step_item *item, double seconds, float *logits, const pc__drawn *drawn)
{
    pc_sequence *s = item->sequence;
    pc__pieces *p = s->pieces;
    size_t bytes = (size_t)s->model->info.vocab * sizeof *logits;
    pc_status status = pc__pieces_computed(p, item->piece, seconds);
    if (status < 0) {
        pc__sequence_fail(s, status);
        return;
    }
    if (p->logits && item->row != NO_ROW)
        memcpy(p->logits, logits, bytes);
    if (p->stage != PC__PIECES_ROWS || pc__assembly_left(&p->assembly))
        return;
    if (p->logits)
        memcpy(logits, p->logits, bytes);
    pc__sequence_place(s);
    if (!s->pending)
        pc__sequence_sample(s, logits, drawn);
}

static void end_item(const step_members *g, size_t i, double seconds, const pc__drawn *drawn)
{
    const step_item *item = &g->list[i];
    /* one that has computed its last row later than that of its logits has a row to itself */
    size_t row = item->row != NO_ROW ? item->row : 0;
    float *logits = g->work->logits + row * (size_t)item->sequence->model->info.vocab;
    if (item->sequence->freed) /* by a callback of another one */
        return;
    if (item->piece)
        end_piece(item, seconds * (double)item->piece, logits, drawn);
    else
        pc__sequence_sample(item->sequence, logits, drawn);
}

/* `seconds`: of a token. Those without logits come last: they may use a row of others. */
static void end_items(const step_members *g, double seconds)
{
    const step_memory *w = g->work;
    for (size_t i = 0, draw = 0; i < g->count; i++) {
        const pc__drawn *drawn = NULL;
        if (g->list[i].row == NO_ROW)
            continue;
        if (draw < w->draws.count && w->list[draw].row == g->list[i].row)
            drawn = pc__drawn_at(&w->draws, draw++);
        end_item(g, i, seconds, drawn);
    }
    for (size_t i = 0; i < g->count; i++)
        if (g->list[i].row == NO_ROW)
            end_item(g, i, seconds, NULL);
}

/* Ends cancelled sequences and removes them, and those that were freed. */
static void drop_cancelled(step_members *g)
{
    size_t left = 0;
    for (size_t i = 0; i < g->count; i++) {
        pc_sequence *s = g->list[i].sequence;
        if (s->asked_cancel)
            pc__sequence_end_cancelled(s);
        else if (!s->freed)
            g->list[left++] = g->list[i];
    }
    g->count = left;
}

/* A failed step has changed nothing (contract of pc_model_ops.step). So the sequences that are not
 * to blame are found by computing each alone. */
static void step_group(step_members *g)
{
    pc_status status = PC_OK;
    double started = pc__now();
    size_t tokens = 0;
    any_cancelled(g);
    drop_cancelled(g);
    while (g->count && (status = compute_step(g, &tokens)) < 0) {
        size_t before = g->count;
        drop_cancelled(g);
        if (g->count == before)
            break;
    }
    if (!g->count)
        return;
    if (status >= 0) {
        end_items(g, (pc__now() - started) / (double)tokens);
        drop_cancelled(g); /* the model may have ended the step nevertheless */
    } else if (g->count == 1) {
        pc__sequence_fail(g->list[0].sequence, status);
    } else {
        for (size_t i = 0, n = g->count; i < n; i++) {
            step_members alone = {.list = g->list + i, .count = 1, .work = g->work};
            step_group(&alone);
        }
    }
}

static int go_together(const pc_sequence *a, const pc_sequence *b)
{
    return regime_of(a)->length == regime_of(b)->length
           && a->generation.options.visibility == b->generation.options.visibility
           && flags_of(a) == flags_of(b);
}

static pc_status reserve_draws(step_memory *w, const step_item *list, size_t count)
{
    const pc_allocator *mem = list->sequence->mem;
    if (!pc__model_draws(list->sequence->model))
        return PC_OK;
    for (size_t i = 0; i < count; i++)
        if (list[i].sequence->generation.options.top_logprobs > w->draws.likely)
            w->draws.likely = list[i].sequence->generation.options.top_logprobs;
    w->draws.list = w->list = pc__calloc(mem, count, sizeof *w->list);
    w->draws.drawn = pc__calloc(mem, count, pc__drawn_bytes(w->draws.likely));
    return w->list && w->draws.drawn ? PC_OK : PC_ERR_NOMEM;
}

static pc_status reserve_step(step_memory *w, const step_item *list, size_t count)
{
    const pc_allocator *mem = list->sequence->mem;
    size_t rows = 0;
    for (size_t i = 0; i < count; i++)
        rows += list[i].piece ? list[i].piece : pc__sequence_row_count(list[i].sequence);
    w->rows = pc__calloc(mem, rows, sizeof *w->rows);
    w->pieces = pc__calloc(mem, count * PC__CALLS_AT_ONCE, sizeof *w->pieces);
    return w->rows && w->pieces ? reserve_draws(w, list, count) : PC_ERR_NOMEM;
}

static void release_step(step_memory *w, const pc_allocator *mem)
{
    pc__free(mem, w->rows);
    pc__free(mem, w->pieces);
    pc__free(mem, w->list);
    pc__free(mem, w->draws.drawn);
}

static int takes_part(const pc_sequence *s, size_t piece)
{
    return !s->finish && !s->freed && (piece ? s->pieces != NULL : s->placed.sequence != NULL);
}

pc_status pc__sequences_step(pc_sequence *const *sequences, const size_t *pieces, size_t count,
                             float *logits)
{
    step_memory work = {.logits = logits};
    step_item *list;
    const pc_allocator *mem;
    size_t left = 0;
    pc_status status = PC_ERR_NOMEM;
    if (!count)
        return PC_OK;
    mem = sequences[0]->mem;
    list = pc__calloc(mem, count, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        if (takes_part(sequences[i], pieces ? pieces[i] : 0))
            list[left++] = (step_item){sequences[i], pieces ? pieces[i] : 0, NO_ROW};
    if (!list || (left && reserve_step(&work, list, left) < 0))
        goto done;
    for (size_t from = 0, end; from < left; from = end) {
        step_members g = {.list = list + from, .work = &work};
        end = from;
        for (size_t i = from; i < left; i++)
            if (go_together(list[from].sequence, list[i].sequence)) {
                step_item moved = list[i];
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
