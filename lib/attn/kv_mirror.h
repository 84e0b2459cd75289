/* Mirrors: copies of K/V runs that the host computed, in the memory of a backend that the host does
 * not see. pc__kv.device of such a run is its mirror's.
 *
 * Who lets a backend read runs *holds* their mirrors, from before its plans are made until the work
 * is finished. A mirror that nobody holds stays for the next holder until memory is short: then
 * `take` drops mirrors, the one whose last hold ended first before others, and tries again. A
 * mirror also goes with its run.
 *
 * Locks. `reserving`: one thread at a time takes what a pass needs, so that no two have half of it
 * each; one that waits for memory keeps its turn, and has nothing else. `lock` is the inner one,
 * and held for a moment only. Copies are made without locks: the mirror is `busy` meanwhile.
 *
 * Who sets pc__kv.device of a mirror to NULL owns the mirror: the last reference to the run does
 * that without a lock, others under `lock`. A run stays as long as its mirror is in a list. */
#ifndef PC_ATTN_KV_MIRROR_H
#define PC_ATTN_KV_MIRROR_H

#include <pthread.h>

#include "attn/kv.h"

typedef struct pc__kv_mirror pc__kv_mirror;

typedef struct pc__kv_mirrors { /* of a backend */
    pthread_mutex_t reserving, lock;
    /* a mirror is no longer busy, a holder has released, or memory has been given back */
    pthread_cond_t changed;
    pc__kv_mirror *oldest, *newest; /* those that nobody holds, by the end of the last hold */
    size_t count, bytes;            /* of all */
    size_t going;                   /* threads that give memory of mirrors back */
    size_t budget; /* with more bytes than that, those that nobody holds are dropped; 0: no limit */
    size_t holders;   /* that have not released yet */
    uint64_t holds;   /* so far */
    uint64_t dropped; /* mirrors, so far, for want of memory or by the budget */
} pc__kv_mirrors;

void pc__kv_mirrors_begin(pc__kv_mirrors *mirrors);
void pc__kv_mirrors_end(pc__kv_mirrors *mirrors); /* there are none */

typedef struct pc__kv_hold {
    pc__backend *backend; /* NULL: not begun */
    pc__kv *const *runs;  /* [count] */
    size_t count;
    void *memory;
    int alone;       /* until the release nobody else holds */
    int crowded;     /* others held when it began */
    uint64_t number; /* of this hold */
} pc__kv_hold;

/* Takes `bytes` of the backend, and holds mirrors of runs of the host: all of it or, after an
 * error, nothing. Without memory for that, waits until other holders have released. alone: waits
 * until there are none, and keeps others waiting. A thread that holds already never waits; others
 * give up after some time, in case that the holder waits for them. Mirrors have no contents at
 * first. Each run stands in the list once, lives until the release, and does not grow. A backend
 * whose memory the host sees has no mirrors. Any thread. */
pc_status pc__kv_mirrors_hold(pc__kv_hold *hold, pc__backend *backend, pc__kv *const *runs,
                              size_t count, size_t bytes, int alone);
/* Gives all back, on the same thread; not begun: does nothing. 1: others held something meanwhile,
 * so that there may be more memory alone. */
int pc__kv_mirrors_release(pc__kv_hold *hold);
/* Copies layers up to `layer` of the held runs, of those that are not loading all layers; waits for
 * the copies, also for those of other threads. */
pc_status pc__kv_mirrors_fill(const pc__kv_hold *hold, int32_t layer);

/* `take` for memory beside holds, such as that of runs that grow: waits as a hold does. */
void *pc__kv_mirrors_take(pc__backend *backend, size_t bytes);

/* For `take` that has found no memory: drops mirrors of at least `bytes` together, or all that
 * nobody holds, or waits for another thread that does. 0: there was none. */
int pc__kv_mirrors_drop(pc__backend *backend, size_t bytes);
void pc__kv_mirrors_set_budget(pc__backend *backend, size_t bytes);
/* The last reference to a run of the host goes: so does its mirror, which nobody holds. */
void pc__kv_mirror_free(pc__kv *kv);

#endif
