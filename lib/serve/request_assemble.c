/* The rows of a prompt that are computed, in position order, and the spans of segments around them.
 */
#include "serve/request_internal.h"

#include <stdlib.h>

#include "base/clock.h"
#include "serve/model_calls.h"

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
static void judge_order(pc__request *r, const pc__assembly *f)
{
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

static pc_status note_own(const pc__assembly *f, const pc_allocator *mem, pc__own_tokens *own)
{
    own->tokens = pc__calloc(mem, f->count, sizeof *own->tokens);
    if (!own->tokens)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < f->count; i++)
        own->tokens[i] = f->rows[i].token;
    own->count = f->count;
    own->last = f->count && f->last + 1 == f->count ? f->rows[f->last].position : -1;
    return PC_OK;
}

pc_status pc__assembly_begin(pc__assembly *f, pc__request *r, pc__placed_prompt *out)
{
    double started = pc__now();
    *f = (pc__assembly){.rows = NULL};
    PC__TRY_RETURN(pc__request_rows(r, &f->rows, &f->count, &f->last, &f->distinct));
    if (r->bench->baseline == PC_BASELINE_CONTIGUOUS)
        out->next_position = (int64_t)f->count;
    judge_order(r, f);
    PC__TRY_RETURN(note_own(f, &r->model->context->mem, &out->own));
    PC__TRY_RETURN(pc__request_sequence_new(r, &out->sequence));
    PC__TRY_RETURN(pc__request_attach(r, out->sequence));
    r->stats.seconds_assemble += pc__now() - started;
    return PC_OK;
}

void pc__assembly_end(pc__assembly *f, const pc_allocator *mem)
{
    pc__free(mem, f->rows);
    *f = (pc__assembly){.rows = NULL};
}

size_t pc__assembly_left(const pc__assembly *f)
{
    size_t end = f->computed;
    if (f->distinct)
        return f->count - f->computed;
    while (end < f->count && f->rows[end].part == f->rows[f->computed].part)
        end++;
    return end - f->computed;
}

size_t pc__assembly_rows(const pc__assembly *f, void *sequence, size_t count, pc_step_row *to)
{
    const pc__prompt_row *rows = f->rows + f->computed;
    for (size_t i = 0; i < count; i++)
        to[i] = (pc_step_row){sequence, rows[i].position, rows[i].token,
                              f->computed + i == f->last};
    return f->last >= f->computed && f->last < f->computed + count;
}

static pc_status compute_rows(pc__assembly *f, pc__request *r, void *sequence, pc_step_row *rows,
                              float *logits)
{
    const pc_step_args args = {.struct_size = sizeof args,
                               .rows = rows,
                               .row_stride = sizeof *rows,
                               .count = pc__assembly_left(f),
                               .logits = logits,
                               .visibility = r->options->visibility,
                               .rope_regime_length = r->regime.length,
                               .cancelled = pc__request_must_stop,
                               .cancel_user = r};
    PC__TRY_RETURN(pc__request_poll(r));
    pc__assembly_rows(f, sequence, args.count, rows);
    PC__TRY_RETURN(pc__call_step(r->model, r->cache, &args, r->draws));
    f->computed += args.count;
    return PC_OK;
}

static pc_status compute_all(pc__assembly *f, pc__request *r, void *sequence, float *logits)
{
    const pc_allocator *mem = &r->model->context->mem;
    pc_step_row *rows = pc__calloc(mem, f->count, sizeof *rows);
    pc_status status = rows ? PC_OK : PC_ERR_NOMEM;
    while (status >= 0 && pc__assembly_left(f))
        status = compute_rows(f, r, sequence, rows, logits);
    pc__free(mem, rows);
    return status;
}

pc_status pc__request_assemble(pc__request *r, pc__placed_prompt *out, float *logits)
{
    pc__assembly f;
    pc_status status = pc__assembly_begin(&f, r, out);
    double started = pc__now();
    if (status >= 0)
        status = compute_all(&f, r, out->sequence, logits);
    r->stats.seconds_prefill += pc__now() - started;
    pc__assembly_end(&f, &r->model->context->mem);
    return status;
}
