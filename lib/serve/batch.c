/* Sequences join a batch, leave it, and are stepped together. */
#include "serve/batch.h"

#include <promptcache/batch.h>
#include <string.h>

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
    if (o.step_tokens)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_batch_options: step_tokens is %u: this version computes prompts as a "
                        "whole, so it must be 0",
                        o.step_tokens);
    PC__TRY_RETURN(pc__model_can_go_on(model));
    batch = pc__calloc(&model->context->mem, 1, sizeof *batch);
    if (!batch)
        return PC_ERR_NOMEM;
    batch->references = 1;
    batch->model = pc__model_ref(model);
    batch->max_sequences = o.max_sequences;
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

/* Puts a sequence before those of lower priority. */
static void insert_by_priority(pc_sequence **list, size_t count, pc_sequence *sequence)
{
    int32_t priority = sequence->generation.options.priority;
    for (; count && list[count - 1]->generation.options.priority < priority; count--)
        list[count] = list[count - 1];
    list[count] = sequence;
}

/* Prompts are computed one after the other. Each gives its first token; a sequence with pushed
 * tokens joins the running ones instead. */
static void start_new(pc_batch *batch, pc_sequence *const *list, size_t count, float *logits,
                      pc_sequence **running, size_t *run)
{
    pc__first_token first;
    for (size_t i = 0; i < count; i++) {
        if (list[i]->members != &batch->members || list[i]->finish)
            continue; /* a callback may have removed it */
        if (pc__sequence_prefill(list[i], logits, list[i]->pending ? NULL : &first.drawn) < 0)
            continue;
        if (list[i]->pending)
            running[(*run)++] = list[i];
        else
            pc__sequence_sample(list[i], logits, &first.drawn);
    }
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

/* Steps `count` sequences; `running` and `fresh` [count] are work memory. */
static pc_status step_members(pc_batch *batch, pc_sequence *const *all, size_t count,
                              pc_sequence **running, pc_sequence **fresh, float *logits)
{
    size_t run = 0, fresh_count = 0;
    pc_status status;
    for (size_t i = 0; i < count; i++) {
        pc__sequence_ref(all[i]);
        all[i]->stepping = 1;
        all[i]->changed = 0;
        if (!all[i]->finish && all[i]->placed.sequence)
            running[run++] = all[i];
        else if (!all[i]->finish)
            insert_by_priority(fresh, fresh_count++, all[i]);
    }
    start_new(batch, fresh, fresh_count, logits, running, &run);
    status = pc__sequences_step(running, run, logits);
    for (size_t i = 0; i < count; i++) {
        all[i]->stepping = 0;
        pc__sequence_unref(all[i]);
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
    const pc_allocator *mem;
    pc_sequence **all;
    float *logits;
    size_t count;
    pc_status status = PC_ERR_NOMEM;
    if (!batch)
        return pc__fail(PC_ERR_INVALID, "pc_batch_step: batch is NULL");
    PC__TRY_RETURN(pc__batch_check(batch, "pc_batch_step"));
    batch->members.changed_count = 0;
    if (!pc__any_sequence_runs(batch->members.items, batch->members.count))
        return PC_END;
    mem = &batch->model->context->mem;
    count = batch->members.count;
    all = pc__calloc(mem, 3 * count, sizeof(*all));
    /* not zeroed: rows that a backend draws from are never touched */
    logits = pc__alloc(mem, count * (size_t)batch->model->info.vocab * sizeof *logits);
    if (all && logits) {
        size_t most = count;
        /* the allocator, as any callback, may have removed some */
        count = batch->members.count < count ? batch->members.count : count;
        memcpy(all, batch->members.items, count * sizeof(*all));
        status = step_members(batch, all, count, all + most, all + 2 * most, logits);
        list_changed(&batch->members);
    }
    pc__free(mem, all);
    pc__free(mem, logits);
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
