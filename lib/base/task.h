/* Tasks: work that a thread of the library does for a caller who goes on (promptcache/task.h).
 *
 * A context has *runners*, threads that run tasks. A runner is a calling thread as any other: the
 * loops of its work share the pool of the context. A task finds an idle runner or starts one, so no
 * task waits for another. All runners of a context have one lock. Under it a runner becomes idle
 * and says that its task is done. After that it does not touch the task: whoever knows that the
 * task is done may free all there is, and the context joins its runners.
 *
 * An object that a task uses has a *link* to it. The link stays when the task is done; the next
 * task replaces it. So nobody has to find the objects of a task at its end. */
#ifndef PC_BASE_TASK_H
#define PC_BASE_TASK_H

#include <promptcache/task.h>

#include "base/context.h"

/* The last task that has used an object. One thread at a time, as the object. */
typedef struct pc__task_link {
    pc_task *task; /* counted; NULL: there was none */
} pc__task_link;

/* What a task does, with its work memory. */
typedef struct pc__task_kind {
    size_t bytes; /* of the work memory */
    pc_status (*run)(void *work);
    void (*let_go)(void *work); /* of what the work holds. The task is not done before it returns */
} pc__task_kind;

/* Makes a task, with a thread that waits for it. PC_ERR_LIMIT: no thread could be started. */
pc_status pc__task_new(pc_task **out, pc_context *context, const pc__task_kind *kind);
void *pc__task_work(pc_task *task); /* zeroed at first, 16-byte aligned */
/* The work begins. All that the caller has to write is written. */
void pc__task_start(pc_task *task);
/* Instead of that: frees the task. let_go is not called. */
void pc__task_drop(pc_task *task);

/* The object belongs to the task until it is done. */
void pc__task_link_to(pc__task_link *link, pc_task *task);
/* PC_ERR_STATE: a task has the object, and it is not this thread that runs the task. object: "the
 * batch". */
pc_status pc__task_check(const pc__task_link *link, const char *call, const char *object);
int pc__task_has(const pc__task_link *link); /* the same, without an error text */
/* The task whose callback this is, if it has the object; else NULL. */
pc_task *pc__task_here(const pc__task_link *link);
/* Waits until no other thread has the object. 0: that will never be, in a child after fork(). */
int pc__task_await(const pc__task_link *link);
void pc__task_unlink(pc__task_link *link); /* at the end of the object */

/* At the end of a context. On a runner it frees all but this one, which ends when it can. NULL does
 * nothing. */
void pc__runners_free(struct pc__runners *runners);

#endif
