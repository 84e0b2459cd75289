/* Which rows of a pass attend to expanded keys, by cost, and the lists of rows of each form. */
#include <string.h>

#include "model/forward/forward_expand_internal.h"
#include "model/forward/latent_cost.h"

pc_status pc__expand_note(const pc_allocator *mem, pc__expanded_runs *all, const pc__kv_span *span)
{
    for (size_t i = 0; i < all->count; i++) {
        /* rows see the same runs in the same order */
        pc__expanded_run *run = &all->run[(all->last + 1 + i) % all->count];
        if (run->from != span->kv)
            continue;
        run->lo = span->lo < run->lo ? span->lo : run->lo;
        run->hi = span->hi > run->hi ? span->hi : run->hi;
        all->last = (size_t)(run - all->run);
        return PC_OK;
    }
    PC__TRY_RETURN(
        pc__grow(mem, (void **)&all->run, &all->capacity, all->count + 1, sizeof *all->run));
    all->last = all->count;
    all->run[all->count++] = (pc__expanded_run){span->kv, NULL, span->lo, span->hi};
    return PC_OK;
}

size_t pc__expand_pages(const pc__expanded_run *run)
{
    return (run->hi + PC__PAGE - 1) / PC__PAGE - run->lo / PC__PAGE;
}

/* What rows [first, end) of the pass see. */
static pc_status measure(const pc__forward_work *work, size_t first, size_t end,
                         pc__latent_rows *out)
{
    const pc__rows *rows = &work->pass->attend;
    const pc_allocator *mem = &work->native->context->mem;
    pc__expanded_runs seen = {0};
    pc_status status = PC_OK;
    *out = (pc__latent_rows){end - first, 0, 0, (end - first + PC__BLOCK - 1) / PC__BLOCK};
    for (size_t i = rows->first[first]; i < rows->first[end] && status >= 0; i++) {
        const pc__kv_span *span = &rows->spans[i];
        out->pairs += span->hi - span->lo;
        if (span->hi > span->lo)
            status = pc__expand_note(mem, &seen, span);
    }
    for (size_t i = 0; i < seen.count; i++)
        out->keys += pc__expand_pages(&seen.run[i]) * PC__PAGE;
    pc__free(mem, seen.run);
    return status;
}

static pc_status choose_rows(pc__forward_work *work, size_t first, size_t end)
{
    const pc__arch *arch = &work->native->arch;
    pc__latent_rows what;
    int expanded = work->native->expansion == PC__EXPAND_ALWAYS;
    if (work->native->expansion == PC__EXPAND_BY_COST) {
        PC__TRY_RETURN(measure(work, first, end, &what));
        expanded = pc__latent_expanded_cost(arch, &what) < pc__latent_absorbed_cost(arch, &what);
    }
    memset(work->latent.expand.chosen + first, expanded, end - first);
    return PC_OK;
}

pc_status pc__expand_choose(pc__forward_work *work)
{
    const pc__pass *pass = work->pass;
    size_t count = pass->attend.count;
    if (!work->native->shape.latent)
        return PC_OK;
    work->latent.expand.chosen = pc__calloc(&work->native->context->mem, count, 1);
    if (!work->latent.expand.chosen)
        return PC_ERR_NOMEM;
    /* a pass without attention is timed as the steps are that it is compared with */
    if (pass->skips_attention || !work->native->backend->ops->open_latents)
        return PC_OK;
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && pass->rows[end].run == pass->rows[first].run;)
            end++;
        PC__TRY_RETURN(choose_rows(work, first, end));
    }
    return PC_OK;
}

void pc__expand_free(pc__forward_work *work)
{
    pc__free(&work->native->context->mem, work->latent.expand.chosen);
}

static int has_form(const pc__forward_work *work, int expanded, size_t row)
{
    int chosen = work->latent.expand.chosen[work->first + row];
    return expanded ? chosen : !chosen || work->pass->trace;
}

pc__row_range pc__expand_next(const pc__forward_work *work, int expanded, size_t *row)
{
    size_t first = *row;
    while (first < work->rows && !has_form(work, expanded, first))
        first++;
    for (*row = first; *row < work->rows && has_form(work, expanded, *row);)
        ++*row;
    return (pc__row_range){first, *row - first};
}

/* The rows of one form, one behind the other. */
static pc_status list_rows(const pc__forward_work *work, int expanded, pc__pass_build *rows)
{
    const pc__pass *pass = work->pass;
    PC__TRY_RETURN(pc__build_start(rows, &work->native->context->mem, work->rows));
    for (size_t at = 0;;) {
        pc__row_range range = pc__expand_next(work, expanded, &at);
        if (!range.count)
            return PC_OK;
        for (size_t r = work->first + range.first; r < work->first + range.first + range.count;
             r++) {
            pc__build_row(rows, &pass->rows[r]);
            for (size_t i = pass->attend.first[r]; i < pass->attend.first[r + 1]; i++) {
                const pc__kv_span *s = &pass->attend.spans[i];
                if (!expanded || s->hi > s->lo)
                    PC__TRY_RETURN(pc__build_span(rows, s->kv, s->start, s->lo, s->hi));
            }
        }
    }
}

static pc_status plan_form(pc__forward_work *work, int expanded)
{
    const pc__native *native = work->native;
    pc__expand_work *e = &work->latent.expand;
    pc__pass_build rows = {0};
    pc__pass of = {.attend = {.per_row = work->pass->attend.per_row}};
    pc_status status = list_rows(work, expanded, &rows);
    if (status >= 0 && expanded && rows.count)
        status = pc__expand_runs(work, &rows);
    if (status >= 0 && rows.count) {
        pc__build_end(&rows, &of);
        status = pc__row_plan_new(expanded ? &e->plan : &work->plan, native->context,
                                  &native->backend->limits, &of.attend,
                                  expanded ? &e->shape : &work->runs[0]->shape,
                                  expanded ? e->shape.kv_heads : native->arch.heads);
    }
    pc__build_free(&rows);
    return status;
}

pc_status pc__expand_plan(pc__forward_work *work)
{
    PC__TRY_RETURN(plan_form(work, 0));
    return plan_form(work, 1);
}
