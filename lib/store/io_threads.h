/* The cache's threads for the tiers below RAM: a bounded queue of jobs in three classes. Loads go
 * before writes, writes before prefetches.
 *
 * Requests compute on the same cores. So one more thread, the background thread, has the lowest
 * scheduling priority. It writes and prefetches, one job at a time, and pauses while a request
 * computes (pc__io_request_running), unless a write has waited for IO_PATIENCE seconds or somebody
 * flushes. It never loads what a request waits for: on a busy machine the request would wait for
 * long. */
#ifndef PC_STORE_IO_THREADS_H
#define PC_STORE_IO_THREADS_H

#include "base/context.h"

enum {
    PC__IO_LOAD = 0,
    PC__IO_WRITE = 1,
    PC__IO_PREFETCH = 2,
    PC__IO_CLASSES = 3,
    PC__IO_MAX_THREADS = 64
};

enum { PC__IO_FORGET = 2 };

typedef struct pc__io pc__io;

/* First member of the caller's job; run() frees it. */
typedef struct pc__io_job {
    struct pc__io_job *next;
    /* give_up 1: the threads end, only free it. PC__IO_FORGET, of writes: the same in a child after
     * fork(), without locks and reports. */
    void (*run)(struct pc__io_job *job, int give_up);
    double queued; /* pc__now() */
} pc__io_job;

/* Starts `threads` for loads, and the background thread. That one calls `sweep` now and then, in
 * pauses of the requests or once a minute. If sweep returns 1 it has more to do and is called again
 * soon, four times a second while requests compute. PC_ERR_NOMEM also if no thread could be
 * started. */
pc_status pc__io_new(pc__io **out, const pc_allocator *mem, uint32_t threads,
                     int (*sweep)(void *user), void *user);
/* Runs the queued writes, gives up all other jobs, ends the threads. NULL does nothing. In a
 * child after fork() it gives back memory only; jobs that read are lost with theirs. */
void pc__io_free(pc__io *io);
int pc__io_is_own_thread(const pc__io *io); /* NULL: 0 */
/* As pc__io_free, on a thread of `io`, which cannot wait for itself. It returns at once; when that
 * thread ends it waits for the others, frees `io` and calls then(user). */
void pc__io_free_within(pc__io *io, void (*then)(void *user));
/* 0: the queue is full or the threads are ending; the job stays the caller's. */
int pc__io_add(pc__io *io, int class, pc__io_job *job);
/* Makes a queued prefetch a load. 0: it is no longer queued. */
int pc__io_make_load(pc__io *io, pc__io_job *job);
/* Waits until all writes queued or running now have ended; not on a thread of `io`. */
void pc__io_flush(pc__io *io);
/* Waits until a write has ended. 0: none is queued or running. */
int pc__io_await_write(pc__io *io);
/* A request begins (+1) or ends (-1) to compute. */
void pc__io_request_running(pc__io *io, int by);
/* A sweep has work: calls it as if the last one had returned 1. */
void pc__io_sweep_soon(pc__io *io);
int pc__io_is_ending(const pc__io *io);
uint32_t pc__io_threads(const pc__io *io); /* that load */

#endif
