/* The state of attention kernels (attn/kernels.h) in guarded memory. */
#ifndef PC_TEST_GUARDED_STATE_H
#define PC_TEST_GUARDED_STATE_H

#include <math.h>

#include "guarded.h"

typedef struct state {
    guarded m, l, acc;
} state;

/* Of rows that have seen nothing. */
static inline state state_new(size_t rows, size_t v_dim)
{
    state s = {guarded_new(rows * 4), guarded_new(rows * 4), guarded_new(rows * v_dim * 4)};
    for (size_t r = 0; r < rows; r++)
        ((float *)(void *)s.m.data)[r] = -INFINITY;
    memset(s.l.data, 0, s.l.bytes);
    memset(s.acc.data, 0, s.acc.bytes);
    return s;
}

static inline void state_free(state *s)
{
    guarded_free(&s->m);
    guarded_free(&s->l);
    guarded_free(&s->acc);
}

static inline int state_equal(const state *a, const state *b)
{
    return !memcmp(a->m.data, b->m.data, a->m.bytes) && !memcmp(a->l.data, b->l.data, a->l.bytes)
           && !memcmp(a->acc.data, b->acc.data, a->acc.bytes);
}

#endif
