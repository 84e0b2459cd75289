/* Mirrors: copies of K/V runs of the host, in the memory of a backend that the host does not see.
 * pc__kv.device of such a run is its mirror's. A backend that computes tokens of such a run writes
 * them into the mirror, and then to the host.
 *
 * Who lets a backend read runs *holds* their mirrors, from before its plans are made until the work
 * is finished. A mirror that nobody holds stays for the next holder until memory is short: then
 * `take` drops mirrors, the one whose last hold ended first before others, and tries again. A
 * mirror also goes with its run.
 *
 * Nobody waits for memory with memory in his hands. Instead, *work* that has found none beside
 * other work gives back what it has, and runs again when nothing else does.
 *
 * `lock` is held for a moment only. Copies are made without it: the mirror is `busy` meanwhile. Who
 * sets pc__kv.device of a mirror to NULL owns the mirror: the last reference to the run does that
 * without a lock, others under `lock`. A run stays as long as its mirror is in a list. */
#ifndef PC_ATTN_KV_MIRROR_H
#define PC_ATTN_KV_MIRROR_H

#include <pthread.h>

#include "attn/kv.h"

typedef struct pc__kv_mirror pc__kv_mirror;

typedef struct pc__kv_mirrors { /* of a backend */
    pthread_mutex_t lock;
    /* a mirror is no longer busy, memory of mirrors has been given back, or work has ended */
    pthread_cond_t changed;
    pc__kv_mirror *oldest, *newest; /* those that nobody holds, by the end of the last hold */
    size_t count, bytes;            /* of all */
    size_t going;                   /* threads that give memory of mirrors back */
    size_t budget; /* with more bytes than that, those that nobody holds are dropped; 0: no limit */
    uint64_t dropped; /* mirrors, so far, for want of memory or by the budget */
    size_t working;   /* threads that work */
    size_t alone;     /* that work alone, or wait for that */
    uint64_t works;   /* so far; what runs again counts again */
} pc__kv_mirrors;

void pc__kv_mirrors_begin(pc__kv_mirrors *mirrors);
void pc__kv_mirrors_end(pc__kv_mirrors *mirrors); /* there are none */

typedef struct pc__kv_hold {
    pc__backend *backend; /* NULL: not begun */
    pc__kv *const *runs;  /* [count] */
    size_t count;
    void *memory;
} pc__kv_hold;

/* Takes `bytes` of the backend, and holds mirrors of runs of the host: all of it or, after an
 * error, nothing. Mirrors have no contents at first. Each run stands in the list once, lives until
 * the release, and does not grow. A backend whose memory the host sees has no mirrors. Any thread.
 */
pc_status pc__kv_mirrors_hold(pc__kv_hold *hold, pc__backend *backend, pc__kv *const *runs,
                              size_t count, size_t bytes);
void pc__kv_mirrors_release(pc__kv_hold *hold); /* gives all back; not begun: does nothing */
/* Copies layers up to `layer` of the held runs, of those that are not loading all layers; waits for
 * the copies, also for those of other threads. */
pc_status pc__kv_mirrors_fill(const pc__kv_hold *hold, int32_t layer);
/* Queues copies of the pages of tokens [from, to) of the first `layers` layers from a held mirror
 * to its run. For a run that nobody else reads yet, whose tokens the backend has written. */
void pc__kv_mirror_fetch(pc__stream *stream, const pc__kv *kv, int32_t layers, size_t from,
                         size_t to);

/* Runs `run(work)`, which takes memory of the backend and, unless it succeeds, gives all of it back
 * and has changed nothing. After PC_ERR_NOMEM, if others have worked meanwhile, it runs once more,
 * alone: so it succeeds if there is enough memory for it and for what stays. `once`: it never runs
 * again, because others have seen what it did. Within work of the same thread: just runs, as a part
 * of that. A thread waits for others at most a minute, in case that they wait for it. */
pc_status pc__kv_mirrors_work(pc__backend *backend, pc_status (*run)(void *), void *work, int once);

/* For `take` that has found no memory: drops mirrors of at least `bytes` together, or all that
 * nobody holds, or waits for another thread that does. 0: there was none. */
int pc__kv_mirrors_drop(pc__backend *backend, size_t bytes);
void pc__kv_mirrors_set_budget(pc__backend *backend, size_t bytes);
/* The last reference to a run of the host goes: so does its mirror, which nobody holds. */
void pc__kv_mirror_free(pc__kv *kv);

#endif
