/* Prefetches pages: while kernels work on a page, each step of a loop asks for a few cache lines of
 * the pages that come next. Pages of one head are far apart, and no hardware prefetcher follows
 * them. First comes the next page of the run, then the pages that the task names; all are taken to
 * be as long as this one. */
#ifndef PC_ATTN_CPU_PREFETCH_H
#define PC_ATTN_CPU_PREFETCH_H

#include "attn/kernels.h"
#include "base/unroll.h"

typedef struct pc__prefetch {
    const pc__attn_task *task;
    const char *next; /* lines of the next page of the run that are left */
    size_t next_lines;
    const char *later; /* lines of prefetch_pages[begun - 1] that are left */
    size_t later_lines, taken;
    size_t page_lines;
} pc__prefetch;

/* The lines that one loop prefetches: each step moves `by` bytes on; 0: nothing new. */
typedef struct pc__prefetch_cursor {
    const char *at;
    size_t by;
} pc__prefetch_cursor;

/* Starts a page. Lines of it that were not prefetched are skipped: they are read now. */
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

/* For a loop of `steps` steps that prefetch `count` lines each. `idle` is any valid address, for
 * when nothing is left to prefetch. */
static inline pc__prefetch_cursor pc__prefetch_loop(pc__prefetch *a, size_t steps, size_t count,
                                                    const void *idle)
{
    if (a->next_lines)
        return pc__prefetch_lines(&a->next, &a->next_lines, steps * count, count);
    if (!a->later_lines && a->taken < a->task->prefetch_count) {
        a->later = (const char *)a->task->prefetch_pages[a->taken++];
        a->later_lines = a->page_lines;
    }
    if (a->later_lines)
        return pc__prefetch_lines(&a->later, &a->later_lines, steps * count, count);
    return (pc__prefetch_cursor){(const char *)idle, 0};
}

/* One step, into the second-level cache. Without branches: loops that fill all registers must stay
 * loops. */
static inline __attribute__((always_inline)) void pc__prefetch_step(pc__prefetch_cursor *f,
                                                                    const int count)
{
    PC__UNROLL(8)
    for (int i = 0; i < count; i++)
        __builtin_prefetch(f->at + 64 * i, 0, 2);
    f->at += f->by;
}

#endif
