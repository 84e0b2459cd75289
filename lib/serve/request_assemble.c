/* The rows of a prompt that are computed, in position order, and the spans of segments around them.
 */
#include "serve/request_internal.h"

#include <stdlib.h>

#include "base/clock.h"
#include "serve/model_calls.h"

typedef struct assembly {
    pc__request *request;
    pc__placed_prompt *out;
    pc__prompt_row *rows;
    size_t count;
    /* The row of the highest position, of equal ones the last: the answer starts there. */
    size_t last;
    pc_step_row *step_rows;
    float *logits;
} assembly;

static pc_status collect_rows(const pc__request *r, pc__prompt_row **rows, size_t *count)
{
    *count = 0;
    *rows = pc__calloc(&r->model->context->mem, r->tokens, sizeof(**rows));
    if (!*rows)
        return PC_ERR_NOMEM;
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        const pc__prompt_part *part = &r->prompt->parts[p];
        for (size_t t = 0; t < part->count; t++)
            if (!r->parts[p].segment || r->again[r->parts[p].first + t])
                (*rows)[(*count)++] = (pc__prompt_row){pc__prompt_position(r->prompt, p, t),
                                                       part->tokens[t], (uint32_t)p};
    }
    return PC_OK;
}

static int by_position(const void *a, const void *b)
{
    const pc__prompt_row *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return x->part < y->part ? -1 : x->part > y->part;
}

static int by_part(const void *a, const void *b)
{
    const pc__prompt_row *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

pc_status pc__request_rows(const pc__request *r, pc__prompt_row **rows, size_t *count, size_t *last,
                           int *distinct)
{
    *last = 0;
    *distinct = 1;
    PC__TRY_RETURN(collect_rows(r, rows, count));
    qsort(*rows, *count, sizeof(**rows), by_position);
    for (size_t i = 1; i < *count; i++)
        *distinct &= (*rows)[i].position > (*rows)[i - 1].position;
    if (r->bench->baseline == PC_BASELINE_CONTIGUOUS) {
        for (size_t i = 0; i < *count; i++)
            (*rows)[i].position = (int64_t)i;
        *distinct = 1;
    }
    if (!*distinct) /* text between modules may run into the next module's range */
        qsort(*rows, *count, sizeof(**rows), by_part);
    for (size_t i = 0; i < *count; i++)
        if ((*rows)[i].position >= (*rows)[*last].position)
            *last = i;
    return PC_OK;
}

/* Under PC_VISIBLE_ALL a new token also sees what stands behind it. No prefill does that. */
static void judge_order(assembly *f)
{
    pc__request *r = f->request;
    if (r->options->visibility != PC_VISIBLE_ALL || !f->count)
        return;
    for (size_t p = 0; p < r->prompt->part_count; p++)
        if (r->parts[p].segment && r->prompt->parts[p].start > f->rows[0].position)
            r->stats.exactness = PC_APPROXIMATE;
}

/* The tokens of a segment that are not computed again, in runs. */
static pc_status attach_part(const pc__request *r, void *sequence, size_t p)
{
    const pc_span *given = p < r->prompt->given_count ? &r->prompt->given[p] : NULL;
    int64_t start = given ? given->start : r->prompt->parts[p].start;
    size_t count = r->prompt->parts[p].count, before = given ? given->lo : 0;
    const uint8_t *again = r->again + r->parts[p].first;
    for (size_t lo = 0, hi; lo < count; lo = hi + 1) {
        for (hi = lo; hi < count && !again[hi];)
            hi++;
        if (hi > lo)
            PC__TRY_RETURN(pc__call_attach(r->model, r->cache, sequence, r->parts[p].segment, start,
                                           (uint32_t)(before + lo), (uint32_t)(before + hi)));
    }
    return PC_OK;
}

pc_status pc__request_attach(const pc__request *r, void *sequence)
{
    for (size_t p = 0; p < r->prompt->part_count; p++)
        if (r->parts[p].segment)
            PC__TRY_RETURN(attach_part(r, sequence, p));
    return PC_OK;
}

static pc_status compute_rows(assembly *f, void *sequence, size_t first, size_t end)
{
    pc__request *r = f->request;
    const pc_step_args args = {.struct_size = sizeof args,
                               .rows = f->step_rows + first,
                               .row_stride = sizeof *f->step_rows,
                               .count = end - first,
                               .logits = f->logits,
                               .visibility = r->options->visibility,
                               .rope_regime_length = r->regime.length,
                               .cancelled = pc__request_must_stop,
                               .cancel_user = r};
    PC__TRY_RETURN(pc__request_poll(r));
    for (size_t i = first; i < end; i++)
        f->step_rows[i] = (pc_step_row){sequence, f->rows[i].position, f->rows[i].token,
                                        i == f->last};
    return pc__call_step(r->model, r->cache, &args, r->draws);
}

static pc_status compute_all(assembly *f, void *sequence, int distinct)
{
    if (distinct)
        return compute_rows(f, sequence, 0, f->count);
    for (size_t first = 0, end; first < f->count; first = end) {
        for (end = first + 1; end < f->count && f->rows[end].part == f->rows[first].part;)
            end++;
        PC__TRY_RETURN(compute_rows(f, sequence, first, end));
    }
    return PC_OK;
}

static pc_status note_own(const assembly *f)
{
    pc__own_tokens *own = &f->out->own;
    own->tokens = pc__calloc(&f->request->model->context->mem, f->count, sizeof *own->tokens);
    if (!own->tokens)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < f->count; i++)
        own->tokens[i] = f->rows[i].token;
    own->count = f->count;
    own->last = f->count && f->last + 1 == f->count ? f->rows[f->last].position : -1;
    return PC_OK;
}

pc_status pc__request_assemble(pc__request *r, pc__placed_prompt *out, float *logits)
{
    assembly f = {.request = r, .out = out, .logits = logits};
    double started = pc__now();
    pc_status status;
    int distinct;
    PC__TRY(pc__request_rows(r, &f.rows, &f.count, &f.last, &distinct), done);
    if (r->bench->baseline == PC_BASELINE_CONTIGUOUS)
        out->next_position = (int64_t)f.count;
    f.step_rows = pc__calloc(&r->model->context->mem, f.count, sizeof *f.step_rows);
    if (!f.step_rows) {
        status = PC_ERR_NOMEM;
        goto done;
    }
    judge_order(&f);
    PC__TRY(note_own(&f), done);
    PC__TRY(pc__request_sequence_new(r, &out->sequence), done);
    PC__TRY(pc__request_attach(r, out->sequence), done);
    r->stats.seconds_assemble += pc__now() - started;
    started = pc__now();
    status = compute_all(&f, out->sequence, distinct);
    r->stats.seconds_prefill += pc__now() - started;
done:
    pc__free(&r->model->context->mem, f.rows);
    pc__free(&r->model->context->mem, f.step_rows);
    return status;
}
