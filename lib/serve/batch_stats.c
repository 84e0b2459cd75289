/* How much memory the sequences of a batch share. */
#include <promptcache/batch.h>
#include <stdlib.h>

#include "base/options.h"
#include "model/model_states.h"
#include "serve/batch.h"

/* Tokens [lo, hi) of a run, a segment, or the own tokens of an application's sequence. */
typedef struct memory_range {
    const void *memory;
    size_t lo, hi;
} memory_range;

typedef struct range_list {
    const pc_allocator *mem;
    memory_range *items;
    size_t count, capacity;
} range_list;

static pc_status note_range(range_list *v, const void *memory, size_t lo, size_t hi)
{
    if (hi <= lo)
        return PC_OK;
    PC__TRY_RETURN(
        pc__grow(v->mem, (void **)&v->items, &v->capacity, v->count + 1, sizeof *v->items));
    v->items[v->count++] = (memory_range){memory, lo, hi};
    return PC_OK;
}

static pc_status note_native(range_list *v, const pc_sequence *s)
{
    PC__HOLD(pc_sequence, s);
    size_t n = pc__model_sequence_spans(s->placed.sequence, NULL);
    pc__sequence_span *seen = pc__calloc(v->mem, n, sizeof *seen);
    pc_status status = seen ? PC_OK : PC_ERR_NOMEM;
    if (seen)
        pc__model_sequence_spans(s->placed.sequence, seen);
    for (size_t i = 0; i < n && status >= 0; i++)
        status = note_range(v, seen[i].kv, seen[i].lo, seen[i].hi);
    pc__free(v->mem, seen);
    return status;
}

static pc_status note_application(range_list *v, const pc_sequence *s)
{
    PC__HOLD(pc_sequence, s);
    const pc__placed_prompt *p = &s->placed;
    PC__TRY_RETURN(note_range(v, s, 0, p->own.count - (s->again != 0) + s->count - s->pending));
    for (size_t i = 0; i < p->segment_count; i++)
        PC__TRY_RETURN(note_range(v, p->segments[i]->payload, 0, p->segments[i]->tokens));
    return PC_OK;
}

static int by_memory(const void *a, const void *b)
{
    const memory_range *x = a, *y = b;
    if (x->memory != y->memory)
        return (uintptr_t)x->memory < (uintptr_t)y->memory ? -1 : 1;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static void sum_ranges(range_list *v, pc_batch_stats *out)
{
    size_t end = 0;
    if (v->count)
        qsort(v->items, v->count, sizeof *v->items, by_memory);
    for (size_t i = 0; i < v->count; i++) {
        const memory_range *s = &v->items[i];
        if (!i || s->memory != s[-1].memory)
            end = 0;
        out->tokens_seen += s->hi - s->lo;
        if (s->hi > end)
            out->tokens_stored += s->hi - (s->lo > end ? s->lo : end);
        end = s->hi > end ? s->hi : end;
    }
}

pc_status pc_batch_get_stats(const pc_batch *batch, pc_batch_stats *stats)
{
    PC__HOLD(pc_batch, batch);
    pc_batch_stats sum = PC_BATCH_STATS_INIT;
    range_list v = {0};
    pc_status status = PC_OK;
    if (!batch || !stats)
        return pc__fail(PC_ERR_INVALID, "pc_batch_get_stats: batch or stats is NULL");
    PC__TRY_RETURN(pc__task_check(&batch->task, "pc_batch_get_stats", "the batch"));
    v.mem = &batch->model->context->mem;
    sum.sequences = batch->members.count;
    for (size_t i = 0; i < batch->members.count; i++) {
        const pc_sequence *s = batch->members.items[i];
        sum.running += !s->finish;
        sum.waiting += !s->finish && s->waited;
        if (!s->finish && (s->placed.sequence || s->pieces))
            sum.own_tokens += pc__batch_own_tokens(s);
        if (!s->finish && s->placed.sequence)
            PC__TRY(pc__model_is_native(s->model) ? note_native(&v, s) : note_application(&v, s),
                    done);
    }
    sum_ranges(&v, &sum);
    status = pc__result_write(stats, PC__V1_SIZE(pc_batch_stats, tokens_stored), &sum, sizeof sum,
                              "pc_batch_stats");
done:
    pc__free(v.mem, v.items);
    return status;
}
