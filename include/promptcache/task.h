/*
 * promptcache/task.h: steps and attention that run while the caller goes on.
 * Conventions: promptcache.h. Everything here is since version 0.10.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_TASK_H
#define PROMPTCACHE_TASK_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pc_batch;       /* promptcache/batch.h */
struct pc_plan;        /* promptcache/attend.h */
struct pc_attend_args; /* promptcache/attend.h */

/* ---- Tasks */

/* Work that a thread of the library does. A call that starts one checks its arguments, makes the
 * task and returns. Then wait for it (pc_task_wait), look now and then (pc_task_wait with 0
 * seconds), or let an event loop tell (pc_task_fd).
 *
 * Threads. A context starts a thread when a task finds none of its threads idle, and keeps it for
 * later tasks; it ends with the context. So as many tasks run at once as the caller starts, but
 * loops of their computing share the pool of the context. These threads block all signals.
 *
 * Callbacks. Whatever the work calls runs on the library's thread, or where its comment says: all
 * functions of the options of a sequence (on_text, on_token, on_logits, cancelled), of an own
 * model, of the cache, the allocator, the log, parallel_for. They may do what they may do within
 * the same call without a task; a callback that waits for its own task gets PC_ERR_STATE.
 *
 * Meanwhile. Until the task is done, its batch, the sequences of that batch, or its plan belong to
 * it. On other threads than the task's:
 * - their calls return PC_ERR_STATE and change nothing; calls that return something else say that
 *   there is nothing: NULL and 0, PC_FINISH_NONE;
 * - pc_sequence_cancel works;
 * - pc_batch_free and pc_plan_free wait for the task; pc_sequence_free cancels the sequence, and
 *   waits.
 * All other objects may be used, and freed.
 *
 * fork. In a child, work is done within the call that starts it, by the calling thread; the task is
 * done when the call returns. A task that was under way at the moment of fork() is never done
 * there: waiting for it is PC_ERR_STATE, and freeing it, and what it uses, gives back nothing.
 *
 * Handle: any thread; pc_task_free once. */
typedef struct pc_task pc_task;

/* Waits until the task is done, at most `seconds`: 0 does not wait, INFINITY has no end.
 * Returns PC_AGAIN (not done yet), or what the call without a task would have returned;
 * pc_error_text() and pc_error_place() are then of this thread. May be asked again. Returns
 * PC_ERR_STATE too, in a callback of the task, and in a child after fork(). */
PC_API pc_status pc_task_wait(pc_task *task, double seconds);
/* A descriptor for poll, epoll or an event loop. It becomes readable when the task is done, and
 * stays so: do not read it. Made by the first call, the task's own, closed on exec: pc_task_free
 * closes it. An eventfd on Linux, else a pipe. Returns PC_ERR_LIMIT (there are no descriptors
 * left), PC_ERR_STATE (in a child after fork()). */
PC_API pc_status pc_task_fd(pc_task *task, int32_t *out);
/* Waits until the task is done, and frees it; its status is lost. In a callback of the task it does
 * not wait: the task goes when the work ends. NULL does nothing. */
PC_API void pc_task_free(pc_task *task);

/* pc_batch_step on another thread. The task holds the batch; free its sequences and the batch in
 * any order. Of several batches as many steps run at once. Returns PC_ERR_LIMIT (no thread can be
 * started), and PC_ERR_STATE as pc_batch_step. The task's status is that of pc_batch_step. */
PC_API pc_status pc_batch_step_async(pc_task **out, struct pc_batch *batch);

/* pc_attend on another thread. `args`, and what it points to but K, V, q, out and lse, is read
 * before the call returns; these belong to the task until it is done. Returns all errors of
 * arguments at once, and PC_ERR_LIMIT as pc_batch_step_async.
 *
 * On a backend that queues ("cuda"), the call queues the work as with PC_ATTEND_QUEUE, which need
 * not be set, and the task is done when the stream has done it. The plan does not belong to the
 * task there: further calls of it may queue more. */
PC_API pc_status pc_attend_async(pc_task **out, struct pc_plan *plan,
                                 const struct pc_attend_args *args);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_TASK_H */
