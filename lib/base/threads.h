/* Parallel loops, on the application's parallel_for or on our pool. */
#ifndef PC_BASE_THREADS_H
#define PC_BASE_THREADS_H

#include <pthread.h>

#include "base/context.h"

/* Runs body(arg, i) for every i < n and returns when all are done; the calling thread takes part.
 * Items are handed out one by one, which balances uneven ones. Must not be called from inside a
 * body. Safe from several threads; one loop runs at a time. In a child after fork()
 * the pool has no threads: the calling thread does all. */
void pc__parallel(const pc_context *context, size_t n, void (*body)(void *arg, size_t i),
                  void *arg);

/* Starts a thread that blocks all signals: those are the application's. 0: it could not be started.
 */
int pc__thread_start(pthread_t *id, void *(*body)(void *arg), void *arg);

/* A mutex of a type, such as PTHREAD_MUTEX_RECURSIVE. */
void pc__mutex_init(pthread_mutex_t *mutex, int type);

pc_status pc__pool_new(pc__thread_pool **out, const pc_allocator *mem, uint32_t workers);
void pc__pool_free(pc__thread_pool *pool); /* NULL does nothing */

#endif
