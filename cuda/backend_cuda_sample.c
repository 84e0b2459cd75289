/* Tokens that are drawn on the device: of a row of logits only the result comes back. */
#include "cuda/backend_cuda_dense.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/kept_lists.h"

_Static_assert(sizeof(pc__cuda_logit_change) == sizeof(pc__logit_change)
                   && offsetof(pc__cuda_logit_change, kind) == offsetof(pc__logit_change, kind)
                   && offsetof(pc__cuda_logit_change, a) == offsetof(pc__logit_change, a)
                   && (int)PC__CUDA_CHANGE_DIVIDE == PC__CHANGE_DIVIDE
                   && (int)PC__CUDA_CHANGE_SUBTRACT == PC__CHANGE_SUBTRACT,
               "changes differ");
_Static_assert(sizeof(pc__cuda_drawn) == sizeof(pc__drawn)
                   && offsetof(pc__cuda_drawn, token) == offsetof(pc__drawn, token)
                   && offsetof(pc__cuda_drawn, outcome) == offsetof(pc__drawn, outcome)
                   && (int)PC__CUDA_DRAWN == PC__DRAWN
                   && (int)PC__CUDA_DRAWN_NO_NUMBER == PC__DRAWN_NO_NUMBER
                   && (int)PC__CUDA_DRAWN_NOTHING == PC__DRAWN_NOTHING
                   && (int)PC__CUDA_DRAWN_INFINITE == PC__DRAWN_INFINITE,
               "results differ");
_Static_assert(sizeof(pc__cuda_likely) == sizeof(pc__likely)
                   && offsetof(pc__cuda_likely, token) == offsetof(pc__likely, token),
               "lists differ");

/* Sets what a row has of its own; *changes and *changed count what the rows before it have. */
static void set_row(pc__cuda_sampling *row, const pc__draw *draw, const pc__draws *draws,
                    size_t *changes, size_t *changed)
{
    *row = (pc__cuda_sampling){.random = draw->random,
                               .log_min_p = draw->min_p > 0 ? log((double)draw->min_p)
                                                            : -(double)INFINITY,
                               .row = draw->row - draws->first,
                               .changes = *changes,
                               .changed = *changed,
                               .change_count = (uint32_t)draw->change_count,
                               .vocab = (uint32_t)draw->vocab,
                               .temperature = draw->temperature,
                               .top_p = draw->top_p,
                               .top_k = draw->top_k,
                               .logprob = draw->logprob,
                               .likely = draw->likely};
    *changes += draw->change_count;
    *changed += draw->change_count > 0;
}

/* The rows and, behind them, the changes of all, in host memory to free. */
static pc__cuda_sampling *list_rows(pc__stream *stream, const pc__draws *draws, size_t *bytes,
                                    size_t *changed)
{
    size_t changes = 0;
    for (size_t i = 0; i < draws->count; i++)
        changes += draws->list[i].change_count;
    *bytes = draws->count * sizeof(pc__cuda_sampling) + changes * sizeof(pc__logit_change);
    pc__cuda_sampling *rows = pc__cuda_host_list(stream, *bytes, 1);
    changes = *changed = 0;
    if (!rows)
        return NULL;
    uint8_t *to = (uint8_t *)(rows + draws->count);
    for (size_t i = 0; i < draws->count; i++) {
        const pc__draw *draw = &draws->list[i];
        size_t size = draw->change_count * sizeof *draw->changes;
        if (size)
            memcpy(to + changes * sizeof *draw->changes, draw->changes, size);
        set_row(&rows[i], draw, draws, &changes, changed);
    }
    return rows;
}

void pc__cuda_op_sample(pc__stream *stream, pc__floats *logits, size_t stride,
                        const pc__draws *draws)
{
    size_t each = pc__drawn_bytes(draws->likely), bytes, changed;
    pc__cuda_sampling *rows = list_rows(stream, draws, &bytes, &changed);
    if (!rows)
        return;
    const pc__cuda_sampling *list = pc__cuda_kept_list(pc__cuda_stream_of(stream), rows, bytes);
    void *drawn = pc__cuda_scratch_of(stream, draws->count * each),
         *scratch = changed ? pc__cuda_scratch_of(stream, changed * stride * sizeof(float)) : NULL;
    const pc__cuda_sample_task task = {
        .logits = pc__cuda_floats(logits),
        .changed = scratch,
        .rows = list,
        .changes = list ? (const pc__cuda_logit_change *)(const void *)(list + draws->count) : NULL,
        .drawn = drawn,
        .stride = stride,
        .count = (uint32_t)draws->count,
        .drawn_bytes = (uint32_t)each};
    pc__cuda_launch_rows(stream, &pc__cuda_dense.sample, draws->count, &task);
    pc__cuda_copy(pc__cuda_stream_of(stream), draws->drawn, drawn, draws->count * each);
    pc__cuda_done_with(stream, scratch);
    pc__cuda_done_with(stream, drawn);
    pc__free(&stream->context->mem, rows);
}
