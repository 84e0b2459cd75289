/* Rows to calls of llama_decode, and back to logits. Rows of one sequence go in runs: a run ends
 * where positions are left out, or where a segment must join first. A call takes the next run of
 * each sequence. */
#include <stdlib.h>
#include <string.h>

#include "host.h"

typedef struct group {
    sequence *of;
    size_t first, next, end; /* rows */
    size_t run;              /* the first row of the run in the batch */
    size_t slot;             /* of the next row that wants logits */
} group;

static const pc_step_row *row_at(const rows *r, size_t i)
{
    return (const pc_step_row *)((const char *)r->row + i * r->stride);
}

static pc_status group_rows(const rows *r, group **out, size_t *count)
{
    size_t slot = 0;
    group *groups = calloc(r->count ? r->count : 1, sizeof *groups);
    *out = groups;
    *count = 0;
    if (!groups)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < r->count; i++) {
        const pc_step_row *row = row_at(r, i);
        if (row->position < 0 || row->position >= INT32_MAX) {
            free(groups);
            return host_fail(PC_ERR_UNSUPPORTED,
                             "position %lld: llama.cpp has those from 0 to 2147483646",
                             (long long)row->position);
        }
        if (!*count || groups[*count - 1].of != row->sequence)
            groups[(*count)++] = (group){row->sequence, i, i, i, i, slot};
        groups[*count - 1].end = i + 1;
        slot += row->want_logits != 0;
    }
    for (size_t g = 0; g < *count; g++)
        sequence_begin(groups[g].of, (llama_pos)row_at(r, groups[g].first)->position);
    return PC_OK;
}

static int32_t most_tokens(const host *h, const rows *r)
{
    int32_t most = h->batch_most, part = (int32_t)llama_n_ubatch(h->memory);
    int32_t outputs = (int32_t)h->params.n_outputs_max;
    if (h->window && part < most)
        most = part; /* a run's own cells must not leave the window before two ids hold them */
    if (r->hidden && outputs > 0 && outputs < most)
        most = outputs;
    return most;
}

/* Puts the next run of a sequence into the batch, as far as there is room. */
static pc_status add_run(host *h, const rows *r, group *g, int32_t most, int32_t *outputs,
                         size_t *slots)
{
    struct llama_batch *b = &h->batch;
    int32_t most_outputs = h->params.n_outputs_max ? (int32_t)h->params.n_outputs_max : most;
    llama_pos position = (llama_pos)row_at(r, g->next)->position, limit;
    pc_status status = sequence_reach(h, g->of, position);
    if (status < 0)
        return status;
    limit = sequence_next(g->of);
    for (g->run = g->next; g->next < g->end && b->n_tokens < most; g->next++, position++) {
        const pc_step_row *row = row_at(r, g->next);
        int32_t i = b->n_tokens;
        if (row->position != position || (g->next > g->run && position >= limit)
            || (row->want_logits && *outputs == most_outputs))
            break;
        b->token[i] = row->token;
        b->pos[i] = position;
        b->n_seq_id[i] = 1;
        b->seq_id[i][0] = g->of->id;
        b->logits[i] = (int8_t)(row->want_logits || r->hidden);
        slots[i] = row->want_logits ? g->slot++ : SIZE_MAX;
        *outputs += row->want_logits != 0;
        b->n_tokens++;
        if ((status = sequence_appended(h, g->of, position)) < 0)
            return status;
    }
    return PC_OK;
}

static pc_status decode(host *h)
{
    int result;
    do
        result = llama_decode(h->memory, h->batch);
    while (result == 1 && moved_drop(h, NULL));
    h->stats->decodes++;
    if (!result) {
        h->turning = 0;
        h->stats->tokens += (uint64_t)h->batch.n_tokens;
        return PC_OK;
    }
    if (result == 1)
        return host_fail(PC_ERR_LIMIT,
                         "no room for %d tokens among the context's %u cells: a larger n_ctx, or "
                         "fewer requests at once",
                         h->batch.n_tokens, llama_n_ctx(h->memory));
    if (result == 2)
        return PC_ERR_CANCELLED;
    return host_fail(PC_ERR_INTERNAL, "llama_decode failed with %d (llama.cpp's log says why)",
                     result);
}

static pc_status take_outputs(host *h, const rows *r, const size_t *slots)
{
    size_t width = (size_t)(r->hidden ? h->info.hidden : h->info.vocab);
    float *to = r->hidden ? r->hidden : r->logits;
    for (int32_t i = 0; i < h->batch.n_tokens; i++) {
        const float *from;
        if (slots[i] == SIZE_MAX)
            continue;
        from = r->hidden ? llama_get_embeddings_ith(h->memory, i)
                         : llama_get_logits_ith(h->memory, i);
        if (!from)
            return host_fail(PC_ERR_INTERNAL, "llama.cpp gave no %s",
                             r->hidden ? "hidden state" : "logits");
        memcpy(to + slots[i] * width, from, width * sizeof *to);
    }
    return PC_OK;
}

/* One call of llama_decode. */
static pc_status wave(host *h, const rows *r, group *groups, size_t count, size_t *slots)
{
    int32_t most = most_tokens(h, r), outputs = 0;
    pc_status status = PC_OK;
    h->batch.n_tokens = 0;
    for (size_t g = 0; g < count && status >= 0; g++) {
        groups[g].run = groups[g].next;
        if (groups[g].next < groups[g].end && h->batch.n_tokens < most)
            status = add_run(h, r, &groups[g], most, &outputs, slots);
    }
    if (status >= 0 && h->cancelled && h->cancelled(h->cancel_user))
        status = PC_ERR_CANCELLED;
    if (status >= 0)
        status = decode(h);
    if (status >= 0)
        status = take_outputs(h, r, slots);
    for (size_t g = 0; g < count && status >= 0; g++) {
        const group *x = &groups[g];
        if (x->next == x->run)
            continue;
        if (h->step > 1)
            llama_memory_seq_cp(h->cells, x->of->id, x->of->id + 1,
                                (llama_pos)row_at(r, x->run)->position,
                                (llama_pos)row_at(r, x->next - 1)->position + 1);
        if (r->harvest)
            r->harvest->take(h, r->harvest, x->run, x->next);
    }
    return status;
}

static size_t rows_left(const group *groups, size_t count)
{
    size_t left = 0;
    for (size_t g = 0; g < count; g++)
        left += groups[g].end - groups[g].next;
    return left;
}

pc_status rows_compute(host *h, const rows *r)
{
    group *groups;
    size_t count, *slots = malloc((size_t)h->batch_most * sizeof *slots);
    pc_status status = slots ? group_rows(r, &groups, &count) : PC_ERR_NOMEM;
    if (status < 0) {
        free(slots);
        return status;
    }
    for (size_t g = 0; g < count && status >= 0; g++)
        if (llama_memory_seq_pos_max(h->cells, groups[g].of->id) != groups[g].of->top)
            status = cells_changed();
    if (r->hidden)
        llama_set_embeddings(h->memory, true);
    while (status >= 0 && rows_left(groups, count))
        status = wave(h, r, groups, count, slots);
    if (r->hidden)
        llama_set_embeddings(h->memory, false);
    h->stats->undone += status < 0;
    for (size_t g = 0; g < count; g++)
        if (status < 0)
            sequence_undo(h, groups[g].of);
        else
            sequence_commit(h, groups[g].of);
    free(groups);
    free(slots);
    return status;
}

static pc_status step(host *h, const pc_step_args *args, float *hidden)
{
    rows r = {args->rows, args->row_stride, args->count, args->logits, hidden, NULL};
    pc_status status;
    if (args->visibility != PC_VISIBLE_BY_POSITION)
        return host_fail(PC_ERR_UNSUPPORTED,
                         "PC_VISIBLE_ALL: llama.cpp shows a token what stands before it only");
    h->cancelled = args->cancelled;
    h->cancel_user = args->cancel_user;
    status = rows_compute(h, &r);
    h->cancelled = NULL;
    return status;
}

pc_status model_step(void *user, const pc_step_args *args)
{
    return step(user, args, NULL);
}

pc_status model_step_hidden(void *user, const pc_step_args *args, float *hidden)
{
    return step(user, args, hidden);
}
