/* Simulated stores of blocks of one size: one evicts the least recently used, one is the best
 * possible. */
#include <stdlib.h>

#include "program.h"
#include "trace.h"

/* In a model of 8 billion weights (32 layers of 4096), attention takes as long as all other work
 * behind about 30,000 tokens; a block has 512. */
double trace_cost(size_t place)
{
    return 1 + (double)place * 512 / 30000;
}

double trace_cost_of_all(const trace *t)
{
    double sum = 0;
    for (size_t r = 0; r < t->request_count; r++)
        for (size_t i = 0; !t->novel[r] && i < t->first[r + 1] - t->first[r]; i++)
            sum += trace_cost(i);
    return sum;
}

static void count_hit(const trace *t, size_t request, size_t i, trace_result *out)
{
    if (t->novel[request])
        return;
    out->hits++;
    out->saved += trace_cost(i - t->first[request]);
}

/* ------------------------------------------------------------------- LRU */

typedef struct lru {
    uint32_t *next, *previous; /* [block_count + 1] a ring; the last one is its head */
} lru;

#define NOWHERE UINT32_MAX

static void put_in(lru *l, uint32_t block, uint32_t head)
{
    l->next[block] = head;
    l->previous[block] = l->previous[head];
    l->next[l->previous[head]] = block;
    l->previous[head] = block;
}

static void take_out(lru *l, uint32_t block)
{
    l->next[l->previous[block]] = l->next[block];
    l->previous[l->next[block]] = l->previous[block];
    l->next[block] = NOWHERE;
}

static void replay_lru(const trace *t, size_t room, lru *l, trace_result *out)
{
    uint32_t head = (uint32_t)t->block_count;
    size_t used = 0;
    for (size_t i = 0; i < t->block_count; i++)
        l->next[i] = NOWHERE;
    l->next[head] = l->previous[head] = head;
    for (size_t r = 0; r < t->request_count; r++)
        for (size_t i = t->first[r]; i < t->first[r + 1]; i++) {
            uint32_t block = t->blocks[i];
            if (l->next[block] != NOWHERE) {
                count_hit(t, r, i, out);
                take_out(l, block);
            } else if (used == room) {
                take_out(l, l->next[head]);
            } else {
                used++;
            }
            put_in(l, block, head);
        }
}

int trace_lru(const trace *t, size_t room, trace_result *out)
{
    lru l = {malloc((t->block_count + 1) * sizeof *l.next),
             malloc((t->block_count + 1) * sizeof *l.previous)};
    int ok = l.next && l.previous;
    *out = (trace_result){0};
    if (ok && room)
        replay_lru(t, room, &l, out);
    free(l.next);
    free(l.previous);
    return ok ? EXIT_OK : plain_error("out of memory");
}

/* ------------------------------------------------------------------ Belady */

typedef struct future {
    size_t *next; /* [all] of the block at each place: the place of its next use; SIZE_MAX: none */
    size_t *next_use; /* [block_count] next use of a stored block; 0: not stored */
    size_t *latest;   /* [count] heap of next uses, the latest on top; used ones are not removed */
    size_t count;
} future;

static void heap_push(future *f, size_t use)
{
    size_t i = f->count++;
    for (; i && f->latest[(i - 1) / 2] < use; i = (i - 1) / 2)
        f->latest[i] = f->latest[(i - 1) / 2];
    f->latest[i] = use;
}

static size_t heap_pop(future *f)
{
    size_t top = f->latest[0], use = f->latest[--f->count], i = 0;
    for (size_t child = 1; child < f->count; child = 2 * i + 1) {
        if (child + 1 < f->count && f->latest[child + 1] > f->latest[child])
            child++;
        if (f->latest[child] <= use)
            break;
        f->latest[i] = f->latest[child];
        i = child;
    }
    f->latest[i] = use;
    return top;
}

static void look_ahead(const trace *t, future *f)
{
    size_t all = t->first[t->request_count];
    for (size_t b = 0; b < t->block_count; b++)
        f->next_use[b] = SIZE_MAX;
    for (size_t i = all; i-- > 0;) {
        f->next[i] = f->next_use[t->blocks[i]];
        f->next_use[t->blocks[i]] = i;
    }
    for (size_t b = 0; b < t->block_count; b++)
        f->next_use[b] = 0;
}

/* A use is a place in the trace and so names its block. Places behind the current one are up to
 * date. */
static void replay_best(const trace *t, size_t room, future *f, trace_result *out)
{
    size_t used = 0;
    for (size_t r = 0; r < t->request_count; r++)
        for (size_t i = t->first[r]; i < t->first[r + 1]; i++) {
            uint32_t block = t->blocks[i];
            if (f->next_use[block]) {
                count_hit(t, r, i, out);
                f->next_use[block] = 0;
                used--;
            }
            if (f->next[i] == SIZE_MAX)
                continue;
            f->next_use[block] = f->next[i];
            heap_push(f, f->next[i]);
            for (used++; used > room;) {
                size_t use = heap_pop(f);
                uint32_t victim = t->blocks[use];
                used -= f->next_use[victim] == use;
                f->next_use[victim] = f->next_use[victim] == use ? 0 : f->next_use[victim];
            }
        }
}

int trace_best(const trace *t, size_t room, trace_result *out)
{
    size_t all = t->first[t->request_count];
    future f = {malloc(all * sizeof *f.next), malloc(t->block_count * sizeof *f.next_use),
                malloc(all * sizeof *f.latest), 0};
    int ok = f.next && f.next_use && f.latest;
    *out = (trace_result){0};
    if (ok && room) {
        look_ahead(t, &f);
        replay_best(t, room, &f, out);
    }
    free(f.next);
    free(f.next_use);
    free(f.latest);
    return ok ? EXIT_OK : plain_error("out of memory");
}
