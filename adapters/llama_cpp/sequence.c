/* Running sequences: segments that wait to join, tokens of their own, and the way back from a step
 * that fails. */
#include <limits.h>
#include <stdlib.h>

#include "host.h"

pc_status sequence_new(void *user, const pc_sequence_args *args, void **out)
{
    host *h = user;
    sequence *s;
    pc_status status;
    *out = NULL;
    if (args && args->adapter)
        return host_fail(PC_ERR_UNSUPPORTED,
                         "an adapter of one request: set adapters on the context, and name them in "
                         "pc_llama_options.identity");
    if (!(s = calloc(1, sizeof *s)))
        return PC_ERR_NOMEM;
    s->top = s->attached = -1;
    s->backup = -1;
    if ((status = ids_take(h, &s->id)) < 0) {
        free(s);
        return status;
    }
    *out = s;
    return PC_OK;
}

static pc_status spans_reserve(sequence *s, size_t count)
{
    size_t capacity = s->span_capacity ? s->span_capacity : 8;
    span *spans;
    if (count <= s->span_capacity)
        return PC_OK;
    while (capacity < count)
        capacity *= 2;
    if (!(spans = realloc(s->spans, capacity * sizeof *spans)))
        return PC_ERR_NOMEM;
    s->spans = spans;
    s->span_capacity = capacity;
    return PC_OK;
}

/* Cells join when a row comes that sees them: what stands behind it must wait. */
pc_status sequence_attach(void *user, void *x, const pc_span *p)
{
    sequence *s = x;
    const segment *of = p->segment;
    uint32_t hi = p->hi ? p->hi : of->count;
    int64_t delta = p->start - of->pos[0];
    pc_status status;
    (void)user;
    if (p->start < 0 || p->start + (of->at.last - of->pos[0]) >= INT32_MAX)
        return host_fail(PC_ERR_UNSUPPORTED,
                         "a segment at position %lld: llama.cpp has positions "
                         "from 0 to 2147483646",
                         (long long)p->start);
    if ((status = spans_reserve(s, s->span_count + 1)) < 0)
        return status;
    s->spans[s->span_count++] = (span){of, (llama_pos)delta, p->lo, hi, p->lo};
    return PC_OK;
}

static pc_status own_reserve(sequence *s, size_t count)
{
    size_t capacity = s->own_capacity ? s->own_capacity : 64;
    llama_pos *own;
    if (count <= s->own_capacity)
        return PC_OK;
    while (capacity < count)
        capacity *= 2;
    if (!(own = realloc(s->own, capacity * sizeof *own)))
        return PC_ERR_NOMEM;
    s->own = own;
    s->own_capacity = capacity;
    return PC_OK;
}

pc_status sequence_fork(void *user, void *x, void **copy)
{
    host *h = user;
    sequence *s = x, *t;
    void *made;
    pc_status status = sequence_new(h, NULL, &made);
    *copy = NULL;
    if (status < 0)
        return status;
    t = made;
    if ((status = spans_reserve(t, s->span_count)) < 0
        || (status = own_reserve(t, s->own_count)) < 0) {
        sequence_drop(h, t);
        return status;
    }
    for (size_t i = 0; i < s->span_count; i++)
        t->spans[i] = s->spans[i];
    for (size_t i = 0; i < s->own_count; i++)
        t->own[i] = s->own[i];
    t->span_count = s->span_count;
    t->own_count = s->own_count;
    t->top = s->top;
    t->attached = s->attached;
    cells_share(h, s->id, t->id, -1, -1);
    *copy = t;
    return PC_OK;
}

/* Own tokens are removed by position, so nothing else may stand there. */
pc_status sequence_truncate(void *user, void *x, size_t count)
{
    host *h = user;
    sequence *s = x;
    llama_pos first;
    if (!count)
        return PC_OK;
    if (count > s->own_count)
        return host_fail(PC_ERR_INVALID, "%zu tokens of %zu", count, s->own_count);
    first = s->own[s->own_count - count];
    if (s->attached >= first)
        return host_fail(PC_ERR_UNSUPPORTED,
                         "a segment stands at position %d, behind the first of the tokens to "
                         "remove (%d)",
                         s->attached, first);
    cells_remove(h, s->id, first, -1);
    s->own_count -= count;
    s->top = llama_memory_seq_pos_max(h->cells, s->id);
    return PC_OK;
}

void sequence_drop(void *user, void *x)
{
    sequence *s = x;
    if (!s)
        return;
    ids_give(user, s->backup);
    ids_give(user, s->id);
    free(s->spans);
    free(s->own);
    free(s);
}

/* --------------------------------------------------- before a row comes */

/* The first token from p->lo on that stands at `position` or behind it. */
static uint32_t span_reach(const span *p, llama_pos position)
{
    uint32_t lo = p->lo, hi = p->hi;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (p->segment->pos[mid] + p->delta < position)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

llama_pos sequence_next(const sequence *s)
{
    llama_pos next = INT32_MAX;
    for (size_t i = 0; i < s->span_count; i++) {
        const span *p = &s->spans[i];
        if (p->lo < p->hi && p->segment->pos[p->lo] + p->delta < next)
            next = p->segment->pos[p->lo] + p->delta;
    }
    return next;
}

/* Cells are about to change place, so removing by position would not bring back what was. */
static pc_status sequence_guard(host *h, sequence *s)
{
    pc_status status;
    if (s->fresh || s->backup >= 0)
        return PC_OK;
    if ((status = ids_take(h, &s->backup)) < 0)
        return status;
    cells_share(h, s->id, s->backup, -1, s->first);
    return PC_OK;
}

/* What joins before a row. */
typedef struct joining {
    size_t spans;      /* that have something to join */
    size_t equal;      /* tokens at the row's own position */
    llama_pos highest; /* position before the row's; -1: none */
    size_t last;       /* the span that has it; span_count: cells that are there already */
} joining;

static joining sequence_look(const sequence *s, llama_pos position)
{
    joining j = {0, 0, s->top, s->span_count};
    for (size_t i = 0; i < s->span_count; i++) {
        const span *p = &s->spans[i];
        uint32_t n = span_reach(p, position);
        size_t equal = n < p->hi && p->segment->pos[n] + p->delta == position;
        j.equal += equal;
        j.spans += equal || n > p->lo;
        if (n > p->lo && p->segment->pos[n - 1] + p->delta > j.highest) {
            j.highest = p->segment->pos[n - 1] + p->delta;
            j.last = i;
        }
    }
    return j;
}

static pc_status span_join(host *h, sequence *s, span *p, llama_pos position, int rename)
{
    uint32_t n = span_reach(p, position), plain = n - (rename ? 1 : 0);
    pc_status status = PC_OK;
    if (plain > p->lo) {
        status = segment_join(h, s->id, p->segment, p->delta, p->lo, plain);
        if (p->segment->pos[plain - 1] + p->delta > s->attached)
            s->attached = p->segment->pos[plain - 1] + p->delta;
    }
    if (rename && status >= 0)
        status = segment_join_as(h, s->id, p->segment, p->delta, plain, position - 1);
    p->lo = n;
    if (status >= 0 && n < p->hi && p->segment->pos[n] + p->delta == position) {
        status = segment_join_as(h, s->id, p->segment, p->delta, n, position - 1);
        p->lo = n + 1;
        rename = 1;
    }
    if (rename && position - 1 > s->attached)
        s->attached = position - 1;
    return status;
}

/* The highest cell of the sequence takes the position before the row. */
static pc_status rename_top(host *h, sequence *s, llama_pos position)
{
    pc_status status = cells_copy(h, s->id, s->id, s->top, s->top + 1, 0, position - 1);
    h->stats->cells_renamed++;
    cells_remove(h, s->id, s->top, s->top + 1);
    return status;
}

pc_status sequence_reach(host *h, sequence *s, llama_pos position)
{
    joining j = sequence_look(s, position);
    int rename = j.equal || (j.highest >= 0 && j.highest < position - 1);
    pc_status status = PC_OK;
    if (s->top >= position)
        return host_fail(PC_ERR_UNSUPPORTED,
                         "text at position %d, where other text of the prompt stands (up to %d): "
                         "llama.cpp computes a sequence in order of position",
                         position, s->top);
    if (!j.spans && !rename)
        return PC_OK;
    if (rename && h->labels_matter)
        return host_fail(PC_ERR_UNSUPPORTED,
                         "positions %d to %d before a new token are empty, or shared: with %s, "
                         "llama.cpp needs each position once (import modules without gaps)",
                         j.highest + 1, position - 1, h->window ? "a sliding window" : "ALiBi");
    if (rename && !position)
        return host_fail(PC_ERR_UNSUPPORTED,
                         "text at position 0, where a segment stands: llama.cpp computes a "
                         "sequence in order of position");
    status = sequence_guard(h, s);
    for (size_t i = 0; i < s->span_count && status >= 0; i++)
        if (s->spans[i].lo < s->spans[i].hi)
            status = span_join(h, s, &s->spans[i], position, rename && !j.equal && j.last == i);
    if (status >= 0 && rename && !j.equal && j.last == s->span_count)
        status = rename_top(h, s, position);
    s->top = rename ? position - 1 : j.highest;
    return status;
}

/* ------------------------------------------------------------- the step */

void sequence_begin(sequence *s, llama_pos first)
{
    s->fresh = s->top < 0;
    s->first = first;
    s->top_before = s->top;
    s->attached_before = s->attached;
    s->own_before = s->own_count;
    for (size_t i = 0; i < s->span_count; i++)
        s->spans[i].lo_at_start = s->spans[i].lo;
}

pc_status sequence_appended(host *h, sequence *s, llama_pos position)
{
    pc_status status = own_reserve(s, s->own_count + 1);
    (void)h;
    if (status < 0)
        return status;
    s->own[s->own_count++] = position;
    s->top = position;
    return PC_OK;
}

void sequence_undo(host *h, sequence *s)
{
    if (s->fresh || s->backup >= 0)
        cells_remove(h, s->id, -1, -1);
    else
        cells_remove(h, s->id, s->first, -1);
    if (s->backup >= 0)
        cells_share(h, s->backup, s->id, -1, -1);
    s->top = s->top_before;
    s->attached = s->attached_before;
    s->own_count = s->own_before;
    for (size_t i = 0; i < s->span_count; i++)
        s->spans[i].lo = s->spans[i].lo_at_start;
    sequence_commit(h, s);
}

void sequence_commit(host *h, sequence *s)
{
    ids_give(h, s->backup);
    s->backup = -1;
}
