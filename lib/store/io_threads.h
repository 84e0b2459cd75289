/* The cache's own threads, for the tiers below RAM: a bounded queue of jobs in three classes.
 * Loads go before writes, writes before prefetches.
 *
 * Requests compute while these threads work, often on the same few cores. So one more thread, the
 * background thread, has the lowest priority of the system's scheduler; it writes and prefetches,
 * one job at a time, and not while a request computes (pc__io_request_running), unless a write has
 * waited for IO_PATIENCE seconds or somebody waits for it. It loads nothing that somebody waits
 * for: on a busy machine it would keep them waiting. */
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

typedef struct pc__io pc__io;

/* Part of what is to be done, which it lives as long as: run() disposes of it. */
typedef struct pc__io_job {
    struct pc__io_job *next;
    void (*run)(struct pc__io_job *job, int give_up); /* give_up: the threads end, only dispose */
    double queued;                                    /* pc__now() */
} pc__io_job;

/* `threads` for loads, and the background thread. `sweep` is called now and then from the
 * background thread, in pauses of the requests or once a minute; and when it has returned 1,
 * because there is more to do, soon again: while requests compute four times a second. PC_ERR_NOMEM
 * also if no thread could be started. */
pc_status pc__io_new(pc__io **out, const pc_allocator *mem, uint32_t threads,
                     int (*sweep)(void *user), void *user);
/* Runs the writes that are queued, gives up the rest, ends the threads. NULL does nothing. */
void pc__io_free(pc__io *io);
/* 0: the queue is full or the threads end; the job stays the caller's. */
int pc__io_add(pc__io *io, int class, pc__io_job *job);
/* A queued prefetch becomes a load; 0: it is not queued any more. */
int pc__io_make_load(pc__io *io, pc__io_job *job);
/* Until all writes that are queued or under way now have ended, whatever others queue meanwhile. */
void pc__io_flush(pc__io *io);
/* A request begins (+1) or ends (-1) to compute. */
void pc__io_request_running(pc__io *io, int by);
/* There is something for a sweep to do: as if the last one had returned 1. */
void pc__io_sweep_soon(pc__io *io);
int pc__io_is_ending(const pc__io *io);
uint32_t pc__io_threads(const pc__io *io); /* for loads */

#endif
