/* The software prefetcher: every prefetch instruction of the kernels is issued here.
 *
 * Attention prefetches pages: while kernels work on one page, each step of a loop asks for a few
 * cache lines of the pages that come next. Pages of one head are far apart, and no hardware
 * prefetcher follows them. First comes the next page of the run, then the task's prefetch_pages;
 * all are taken to be as long as the current page. Linear layers read panels as one stream, and
 * prefetch a fixed distance ahead, or, while many rows are computed, the next panel. */
#ifndef PC_ATTN_CPU_PREFETCH_H
#define PC_ATTN_CPU_PREFETCH_H

#include "attn/cpu/quantised_panel.h"
#include "attn/kernels.h"
#include "base/unroll.h"

#define PC__PREFETCH static inline __attribute__((always_inline))

/* One cache line into the second-level cache. */
PC__PREFETCH void pc__prefetch_line(const void *at)
{
    __builtin_prefetch(at, 0, 2);
}

/* One line into the first-level cache. */
PC__PREFETCH void pc__prefetch_near(const void *at)
{
    __builtin_prefetch(at, 0, 3);
}

/* One line that is read once: it goes past the outer caches. */
PC__PREFETCH void pc__prefetch_once(const void *at)
{
    __builtin_prefetch(at, 0, 0);
}

/* One line that will be written. */
PC__PREFETCH void pc__prefetch_write(const void *at)
{
    __builtin_prefetch(at, 1);
}

/* Unit `u` of the `all` units of a quantised panel is being unpacked: asks for the lines that lie a
 * page of 4 KiB further on, in the panel and then in the next one. Hardware prefetchers stop where
 * such a page ends, and follow a stream at two thirds of the speed. */
PC__PREFETCH void pc__prefetch_panel(const pc__quantised_task *task, size_t u, size_t all)
{
    size_t bytes = pc__panel_block_bytes(&task->format), units = task->format.block / PC__UNIT,
           from = u * bytes / units + 4096, to = (u + 1) * bytes / units + 4096,
           size = all * bytes / units;
    const uint8_t *panel = task->panel;
    if (from >= size) {
        panel = task->next;
        from -= size;
        to -= size;
    }
    for (size_t line = from / 64; panel && line < to / 64; line++)
        pc__prefetch_once(panel + line * 64);
}

/* Rows of a task's lists, for one loop: chosen before it, as the pages below. */
typedef struct pc__rows_cursor {
    const char *at;
    size_t by;   /* bytes from a line to the next one; 0: nothing is left */
    size_t left; /* lines of this row */
    const uint8_t *const *row;
    size_t rows, lines; /* rows from this one on; lines of each */
} pc__rows_cursor;

/* 1: lists [2], or NULL, have lines left. Loops that prefetch them are other code than those that
 * do not, for the sums fill the registers. */
static inline int pc__rows_left(const pc__prefetch_rows *lists)
{
    return lists
           && (lists[0].done < lists[0].count * lists[0].lines
               || lists[1].done < lists[1].count * lists[1].lines);
}

/* For a loop that prefetches `count` lines. */
static inline pc__rows_cursor pc__rows_loop(pc__prefetch_rows *lists, size_t count,
                                            const void *idle)
{
    for (int i = 0; lists && i < 2; i++) {
        pc__prefetch_rows *a = &lists[i];
        size_t all = a->count * a->lines, done = a->done;
        if (done >= all)
            continue;
        a->done = all - done < count ? all : done + count;
        return (pc__rows_cursor){(const char *)a->rows[done / a->lines] + done % a->lines * 64,
                                 64,
                                 a->lines - done % a->lines,
                                 a->rows + done / a->lines,
                                 a->count - done / a->lines,
                                 a->lines};
    }
    return (pc__rows_cursor){(const char *)idle, 0, SIZE_MAX, NULL, 0, 0};
}

/* One step of the loop. */
PC__PREFETCH void pc__rows_step(pc__rows_cursor *c, const int count)
{
    PC__UNROLL(8)
    for (int i = 0; i < count; i++) {
        pc__prefetch_line(c->at);
        c->at += c->by;
        if (--c->left)
            continue;
        if (--c->rows) {
            c->at = (const char *)*++c->row;
            c->left = c->lines;
        } else {
            c->by = 0;
            c->left = SIZE_MAX;
        }
    }
}

/* Pages for loops that fill all registers: the lines of a loop are chosen before it, and its steps
 * have no branches. */
typedef struct pc__prefetch {
    const pc__attn_task *task;
    const char *next; /* lines of the next page of the run that are left */
    size_t next_lines;
    const char *later; /* lines of task->prefetch_pages[begun - 1] that are left */
    size_t later_lines, begun;
    size_t page_lines;
} pc__prefetch;

/* The lines that one loop prefetches: each step moves `by` bytes on; 0: nothing new. */
typedef struct pc__prefetch_cursor {
    const char *at;
    size_t by;
} pc__prefetch_cursor;

/* Starts a page. Lines of it that were not prefetched are skipped: they are read now. */
static inline void pc__prefetch_page(pc__prefetch *p, const uint8_t *page, int last)
{
    p->next = (const char *)page + p->task->page_stride;
    p->next_lines = last ? 0 : p->page_lines;
}

static inline pc__prefetch_cursor pc__prefetch_take(const char **at, size_t *left, size_t lines,
                                                    size_t count)
{
    pc__prefetch_cursor cursor = {*at, 64 * count};
    *at += 64 * lines;
    *left -= *left < lines ? *left : lines;
    return cursor;
}

/* For a loop of `steps` steps that prefetch `count` lines each. `idle` is any valid address, for
 * when nothing is left to prefetch. */
static inline pc__prefetch_cursor pc__prefetch_loop(pc__prefetch *p, size_t steps, size_t count,
                                                    const void *idle)
{
    if (p->next_lines)
        return pc__prefetch_take(&p->next, &p->next_lines, steps * count, count);
    if (!p->later_lines && p->begun < p->task->prefetch_count) {
        p->later = (const char *)p->task->prefetch_pages[p->begun++];
        p->later_lines = p->page_lines;
    }
    if (p->later_lines)
        return pc__prefetch_take(&p->later, &p->later_lines, steps * count, count);
    return (pc__prefetch_cursor){(const char *)idle, 0};
}

/* 1: all pages are prefetched, and rows come next. */
static inline int pc__prefetches_rows(const pc__prefetch *p)
{
    return pc__rows_left(p->task->prefetch_rows) && !p->next_lines && !p->later_lines
           && p->begun == p->task->prefetch_count;
}

/* One step of the loop. */
PC__PREFETCH void pc__prefetch_step(pc__prefetch_cursor *cursor, const int count)
{
    PC__UNROLL(8)
    for (int i = 0; i < count; i++)
        pc__prefetch_line(cursor->at + 64 * i);
    cursor->at += cursor->by;
}

#endif
