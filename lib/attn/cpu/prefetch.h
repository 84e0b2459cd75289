/* Fetching ahead: while a page is worked on, the lines of those that come next are asked for, a few
 * at each step of a loop. Pages of one head are far apart, which no hardware prefetcher follows.
 * First the run's next page, then those that the task names, each taken to be as long as this one.
 */
#ifndef PC_ATTN_CPU_AHEAD_H
#define PC_ATTN_CPU_AHEAD_H

#include "attn/kernels.h"
#include "base/unroll.h"

typedef struct pc__prefetch {
    const pc__attn_task *task;
    const char *next; /* of the run's next page: what is not asked for yet */
    size_t next_lines;
    const char *later; /* of task->fetch[taken - 1] */
    size_t later_lines, taken;
    size_t page_lines;
} pc__prefetch;

/* What one loop asks for: `by` bytes on at each step, 0: nothing new. */
typedef struct pc__prefetch_cursor {
    const char *at;
    size_t by;
} pc__prefetch_cursor;

/* Before a page. What was left of its own fetching is not made up for: it is wanted now. */
static inline void pc__prefetch_page(pc__prefetch *a, const uint8_t *page, int last)
{
    a->next = (const char *)page + a->task->page_stride;
    a->next_lines = last ? 0 : a->page_lines;
}

static inline pc__prefetch_cursor pc__prefetch_lines(const char **at, size_t *left, size_t lines,
                                                     size_t count)
{
    pc__prefetch_cursor f = {*at, 64 * count};
    *at += 64 * lines;
    *left -= *left < lines ? *left : lines;
    return f;
}

/* For a loop of `steps` steps that ask for `count` lines each; `idle` is an address at hand, which
 * is asked for where there is nothing else. */
static inline pc__prefetch_cursor pc__prefetch_loop(pc__prefetch *a, size_t steps, size_t count,
                                                    const void *idle)
{
    if (a->next_lines)
        return pc__prefetch_lines(&a->next, &a->next_lines, steps * count, count);
    if (!a->later_lines && a->taken < a->task->fetches) {
        a->later = (const char *)a->task->fetch[a->taken++];
        a->later_lines = a->page_lines;
    }
    if (a->later_lines)
        return pc__prefetch_lines(&a->later, &a->later_lines, steps * count, count);
    return (pc__prefetch_cursor){(const char *)idle, 0};
}

/* One step, into the second-level cache. No branches: loops full of registers must stay loops. */
static inline __attribute__((always_inline)) void pc__prefetch_step(pc__prefetch_cursor *f,
                                                                    const int count)
{
    PC__UNROLL(8)
    for (int i = 0; i < count; i++)
        __builtin_prefetch(f->at + 64 * i, 0, 2);
    f->at += f->by;
}

#endif
