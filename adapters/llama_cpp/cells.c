/* Ids, shelves and copies: where cells stand and whom they belong to. Owns the ids of the context.
 */
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* ------------------------------------------------------------------- ids */

static llama_seq_id free_id(host *h)
{
    for (uint32_t i = 0; i + (uint32_t)h->step <= h->ids; i += (uint32_t)h->step)
        if (!h->used[i])
            return (llama_seq_id)i;
    return -1;
}

pc_status cells_changed(void)
{
    return host_fail(PC_ERR_STATE, "the context's memory was changed by other code since the model "
                                   "was made: free the cache and the model, and clear it");
}

pc_status ids_take(host *h, llama_seq_id *out)
{
    llama_seq_id id;
    *out = -1;
    while ((id = free_id(h)) < 0 && moved_drop(h, NULL))
        continue;
    if (id < 0)
        return host_fail(PC_ERR_LIMIT,
                         "all %u sequence ids of the context are in use: fewer requests at once, "
                         "or a larger n_seq_max",
                         h->ids);
    for (int i = 0; i < h->step; i++)
        if (llama_memory_seq_pos_max(h->cells, id + i) >= 0)
            return cells_changed();
    h->used[id] = 1;
    h->stats->ids += (uint64_t)h->step;
    *out = id;
    return PC_OK;
}

void ids_give(host *h, llama_seq_id id)
{
    if (id < 0)
        return;
    cells_remove(h, id, -1, -1);
    h->used[id] = 0;
    h->stats->ids -= (uint64_t)h->step;
}

void cells_share(host *h, llama_seq_id from, llama_seq_id to, llama_pos first, llama_pos end)
{
    for (int i = 0; i < h->step; i++)
        llama_memory_seq_cp(h->cells, from, to + i, first, end);
}

/* Whole cells, or what is behind a position: llama.cpp refuses neither for such memory. */
void cells_remove(host *h, llama_seq_id id, llama_pos first, llama_pos end)
{
    for (int i = 0; i < h->step; i++)
        llama_memory_seq_rm(h->cells, id + i, first, end);
}

/* ---------------------------------------------------------------- copies */

/* The bytes of a run are complete only if no window leaves out a part of them. So runs end where a
 * window, or a chunk, may. */
static llama_pos run_end(const host *h, llama_pos first, llama_pos end)
{
    llama_pos border;
    if (!h->window)
        return end;
    border = (first / h->window + 1) * h->window;
    return border < end ? border : end;
}

static pc_status copy_run(host *h, llama_seq_id from, llama_seq_id to, llama_pos first,
                          llama_pos end, llama_pos delta, llama_pos label)
{
    size_t size;
    pc_status status;
    llama_memory_seq_cp(h->cells, from, h->source, first, end);
    status = state_take(h, h->source, &size);
    llama_memory_seq_rm(h->cells, h->source, -1, -1);
    if (status >= 0) {
        if (label >= 0)
            state_label(h->bytes, label - delta);
        status = state_put(h, h->target, h->bytes, size);
    }
    if (status >= 0 && delta) {
        llama_memory_seq_add(h->cells, h->target, -1, -1, delta);
        h->turning = 1;
    }
    if (status >= 0)
        cells_share(h, h->target, to, -1, -1);
    llama_memory_seq_rm(h->cells, h->target, -1, -1);
    return status;
}

pc_status cells_copy(host *h, llama_seq_id from, llama_seq_id to, llama_pos first, llama_pos end,
                     llama_pos delta, llama_pos label)
{
    pc_status status = PC_OK;
    for (llama_pos run; first < end && status >= 0; first = run) {
        run = run_end(h, first, end);
        status = copy_run(h, from, to, first, run, delta, label);
    }
    return status;
}

/* --------------------------------------------------------------- shelves */

/* Index of the first interval that ends at `first` or behind it. */
static size_t shelf_search(const shelf *s, llama_pos first)
{
    size_t lo = 0, hi = s->count;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (s->taken[mid].last < first)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int shelf_has_room(const shelf *s, llama_pos first, llama_pos last, size_t *at)
{
    *at = shelf_search(s, first);
    return *at == s->count || s->taken[*at].first > last;
}

static pc_status shelf_insert(shelf *s, size_t at, llama_pos first, llama_pos last)
{
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 8;
        interval *taken = realloc(s->taken, capacity * sizeof *taken);
        if (!taken)
            return PC_ERR_NOMEM;
        s->taken = taken;
        s->capacity = capacity;
    }
    memmove(s->taken + at + 1, s->taken + at, (s->count - at) * sizeof *s->taken);
    s->taken[at] = (interval){first, last};
    s->count++;
    return PC_OK;
}

pc_status shelf_take(host *h, llama_pos first, llama_pos last, place *out)
{
    int32_t fresh = -1;
    size_t at = 0;
    pc_status status;
    *out = (place){-1, first, last};
    for (int32_t i = 0; i < HOST_MAX_IDS; i++) {
        shelf *s = &h->shelves[i];
        if (s->id < 0 && fresh < 0)
            fresh = i;
        if (s->id < 0 || !shelf_has_room(s, first, last, &at))
            continue;
        if ((status = shelf_insert(s, at, first, last)) >= 0)
            out->shelf = i;
        return status;
    }
    if ((status = ids_take(h, &h->shelves[fresh].id)) < 0)
        return status;
    status = shelf_insert(&h->shelves[fresh], 0, first, last);
    if (status >= 0) {
        out->shelf = fresh;
        return PC_OK;
    }
    ids_give(h, h->shelves[fresh].id);
    h->shelves[fresh].id = -1;
    return status;
}

void shelf_give(host *h, place *at)
{
    shelf *s;
    size_t i;
    if (at->shelf < 0)
        return;
    s = &h->shelves[at->shelf];
    i = shelf_search(s, at->first);
    cells_remove(h, s->id, at->first, at->last + 1);
    memmove(s->taken + i, s->taken + i + 1, (s->count - i - 1) * sizeof *s->taken);
    if (!--s->count) {
        ids_give(h, s->id);
        s->id = -1;
    }
    at->shelf = -1;
}

llama_seq_id shelf_id(const host *h, const place *at)
{
    return h->shelves[at->shelf].id;
}

/* ---------------------------------------------------------- moved copies */

static void moved_remove(host *h, size_t i)
{
    h->moved_cells -= h->moved[i].of->count;
    h->stats->cells_moved = h->moved_cells;
    shelf_give(h, &h->moved[i].at);
    h->moved[i] = h->moved[--h->moved_count];
}

int moved_drop(host *h, const segment *of)
{
    size_t oldest = 0, dropped = 0;
    for (size_t i = 0; of && i < h->moved_count;)
        if (h->moved[i].of == of)
            moved_remove(h, i), dropped++;
        else
            i++;
    if (of || !h->moved_count)
        return dropped > 0;
    for (size_t i = 1; i < h->moved_count; i++)
        if (h->moved[i].used < h->moved[oldest].used)
            oldest = i;
    moved_remove(h, oldest);
    return 1;
}

static moved *moved_find(host *h, const segment *of, llama_pos delta)
{
    for (size_t i = 0; i < h->moved_count; i++)
        if (h->moved[i].of == of && h->moved[i].delta == delta)
            return &h->moved[i];
    return NULL;
}

/* A copy of a whole segment for this request and later ones. NULL: not worth it, or no room. */
static moved *moved_make(host *h, const segment *of, llama_pos delta)
{
    moved m = {of, delta, {-1, 0, 0}, 0};
    if (of->count > h->moved_most)
        return NULL;
    while (h->moved_cells + of->count > h->moved_most)
        moved_drop(h, NULL);
    if (h->moved_count == h->moved_capacity) {
        size_t capacity = h->moved_capacity ? 2 * h->moved_capacity : 16;
        moved *list = realloc(h->moved, capacity * sizeof *list);
        if (!list)
            return NULL;
        h->moved = list;
        h->moved_capacity = capacity;
    }
    if (shelf_take(h, of->at.first + delta, of->at.last + delta, &m.at) < 0)
        return NULL;
    if (cells_copy(h, shelf_id(h, &of->at), shelf_id(h, &m.at), of->at.first, of->at.last + 1,
                   delta, -1)
        < 0) {
        shelf_give(h, &m.at);
        return NULL;
    }
    h->moved_cells += of->count;
    h->stats->cells_moved = h->moved_cells;
    h->stats->cells_copied += of->count;
    h->moved[h->moved_count] = m;
    return &h->moved[h->moved_count++];
}

pc_status segment_intact(const host *h, const segment *s)
{
    const shelf *on = &h->shelves[s->at.shelf];
    llama_pos top = llama_memory_seq_pos_max(h->cells, on->id);
    /* behind it there may be a segment that is being computed */
    return top < s->at.last || top > on->taken[on->count - 1].last ? cells_changed() : PC_OK;
}

pc_status segment_join(host *h, llama_seq_id to, const segment *s, llama_pos delta, uint32_t lo,
                       uint32_t hi)
{
    llama_pos first = s->pos[lo], end = s->pos[hi - 1] + 1;
    /* windows leave out cells of a copy that only its last tokens' successors do without */
    int useful = h->window ? !lo && hi == s->count : 2 * (hi - lo) >= s->count;
    moved *copy;
    pc_status status = segment_intact(h, s);
    if (status < 0)
        return status;
    if (!delta) {
        cells_share(h, shelf_id(h, &s->at), to, first, end);
        h->stats->cells_shared += hi - lo;
        return PC_OK;
    }
    copy = moved_find(h, s, delta);
    if (copy)
        h->stats->cells_shared += hi - lo;
    else
        copy = useful ? moved_make(h, s, delta) : NULL;
    if (copy) {
        copy->used = ++h->clock;
        cells_share(h, shelf_id(h, &copy->at), to, first + delta, end + delta);
        return PC_OK;
    }
    h->stats->cells_copied += hi - lo;
    return cells_copy(h, shelf_id(h, &s->at), to, first, end, delta, -1);
}

/* A call of llama_decode, so that cells which wait for it are rotated. */
static pc_status turn_now(host *h)
{
    struct llama_batch one = llama_batch_init(1, 0, 1);
    int result;
    if (!one.token)
        return PC_ERR_NOMEM;
    one.n_tokens = 1;
    one.token[0] = 0;
    one.pos[0] = 0;
    one.n_seq_id[0] = 1;
    one.seq_id[0][0] = h->source;
    one.logits[0] = 0;
    result = llama_decode(h->memory, one);
    llama_batch_free(one);
    llama_memory_seq_rm(h->cells, h->source, -1, -1);
    h->stats->decodes++;
    if (result)
        return host_fail(result == 1 ? PC_ERR_LIMIT : PC_ERR_INTERNAL,
                         "no room for a token to move a segment with (%d)", result);
    h->turning = 0;
    return PC_OK;
}

/* llama.cpp rotates by as much as the position grows. The first token of a segment may have to be
 * rotated further than its label allows. So it is rotated first, and labelled then. */
static pc_status join_turned(host *h, llama_seq_id to, const segment *s, llama_pos delta,
                             uint32_t at, llama_pos label)
{
    llama_seq_id id;
    llama_pos there = s->pos[at] + delta;
    pc_status status = ids_take(h, &id);
    if (status >= 0)
        status = cells_copy(h, shelf_id(h, &s->at), id, s->pos[at], s->pos[at] + 1, delta, -1);
    if (status >= 0)
        status = turn_now(h);
    if (status >= 0)
        status = cells_copy(h, id, to, there, there + 1, 0, label);
    ids_give(h, id);
    return status;
}

pc_status segment_join_as(host *h, llama_seq_id to, const segment *s, llama_pos delta, uint32_t at,
                          llama_pos label)
{
    pc_status status = segment_intact(h, s);
    if (status < 0)
        return status;
    h->stats->cells_renamed++;
    if (label < delta)
        return join_turned(h, to, s, delta, at, label);
    return cells_copy(h, shelf_id(h, &s->at), to, s->pos[at], s->pos[at] + 1, delta, label);
}
