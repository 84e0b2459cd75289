/* Tasks, their runners and their descriptors (task.h). */
#include "base/task.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

#include "base/clock.h"
#include "base/process.h"
#include "base/threads.h"

static const double FOREVER = 1e9; /* seconds, from which on a wait has no end */

typedef struct runner {
    struct pc__runners *of; /* NULL: they are gone, and this thread ends */
    pc_allocator mem;
    pthread_t id;
    pthread_cond_t wake;
    pc_task *task; /* to be run, or running */
    struct runner *next, *next_idle;
} runner;

struct pc__runners {
    pc_allocator mem;
    pid_t process; /* that has the threads */
    pthread_mutex_t lock;
    pthread_cond_t done; /* broadcast: a task is done */
    runner *all, *idle;
    int ending;
};

struct pc_task {
    atomic_size_t references; /* the caller's, that of links, and of the runner until it is done */
    pc_context *context;
    const pc__task_kind *kind;
    struct pc__runners *runners; /* NULL: it runs within pc__task_start */
    runner *runner;
    int readable, writable; /* descriptors, or -1. Under the lock until the task is done */
    const pc_task *outer;   /* that called this one in a callback, in a child after fork() */
    pc_status status;
    pc__error_state error;
    atomic_int done; /* set last */
    _Alignas(16) unsigned char work[];
};

static _Thread_local runner *own_runner;     /* NULL: this thread is none */
static _Thread_local const pc_task *running; /* by this thread */

/* ------------------------------------------------------------------ the task */

static int is_done(const pc_task *task)
{
    return atomic_load_explicit(&task->done, memory_order_acquire);
}

static void free_task(pc_task *task)
{
    pc_context *context = task->context;
    pc__free(&context->mem, task);
    pc__context_unref(context);
}

static void unref(pc_task *task)
{
    if (atomic_fetch_sub_explicit(&task->references, 1, memory_order_acq_rel) == 1)
        free_task(task);
}

static int runs_here(const pc_task *task)
{
    const pc_task *t = running;
    while (t && t != task)
        t = t->outer;
    return t != NULL;
}

static void run(pc_task *task)
{
    task->outer = running;
    running = task;
    task->status = task->kind->run(task->work);
    if (task->status < 0)
        task->error = *pc__fail_state();
    task->kind->let_go(task->work);
    running = task->outer;
}

/* With the lock, unless the task has no runner. */
static void make_readable(const pc_task *task)
{
    const uint64_t one = 1;
    if (task->writable >= 0 && write(task->writable, &one, sizeof one) < 0)
        return; /* it is readable already */
}

/* Gives up the runner's reference. 1: it was the last one, so nobody else knows of the task. */
static int end(pc_task *task)
{
    if (atomic_fetch_sub_explicit(&task->references, 1, memory_order_acq_rel) == 1)
        return 1;
    make_readable(task);
    atomic_store_explicit(&task->done, 1, memory_order_release);
    return 0;
}

/* ------------------------------------------------------------------ runners */

/* The next task; NULL: the runners end. */
static pc_task *next_task(runner *r)
{
    struct pc__runners *of = r->of;
    pthread_mutex_lock(&of->lock);
    while (!r->task && !of->ending)
        pthread_cond_wait(&r->wake, &of->lock);
    pc_task *task = r->task;
    pthread_mutex_unlock(&of->lock);
    return task;
}

static void rest(runner *r)
{
    r->task = NULL;
    r->next_idle = r->of->idle;
    r->of->idle = r;
}

/* The last reference may be the context's last one as well: then the runners end here. */
static void finish(runner *r, pc_task *task)
{
    struct pc__runners *of = r->of;
    pthread_mutex_lock(&of->lock);
    rest(r);
    int last = end(task);
    if (!last)
        pthread_cond_broadcast(&of->done);
    pthread_mutex_unlock(&of->lock);
    if (last)
        free_task(task);
}

static void free_runner(runner *r)
{
    pc_allocator mem = r->mem;
    pthread_cond_destroy(&r->wake);
    pc__free(&mem, r);
}

static void *runner_main(void *arg)
{
    runner *r = arg;
    pc_task *task;
    own_runner = r;
    while (r->of && (task = next_task(r))) {
        run(task);
        finish(r, task);
    }
    if (!r->of)
        free_runner(r);
    return NULL;
}

static struct pc__runners *make_runners(const pc_allocator *mem)
{
    struct pc__runners *runners = pc__calloc(mem, 1, sizeof *runners);
    pthread_condattr_t monotonic;
    if (!runners)
        return NULL;
    runners->mem = *mem;
    runners->process = pc__process();
    pthread_mutex_init(&runners->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&runners->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return runners;
}

static int is_own_runner(const struct pc__runners *runners)
{
    return own_runner && own_runner->of == runners;
}

/* Their locks are idle: a task that runs holds the context. */
static void end_threads(struct pc__runners *runners)
{
    pthread_mutex_lock(&runners->lock);
    runners->ending = 1;
    for (runner *r = runners->all; r; r = r->next)
        pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&runners->lock);
    for (runner *r = runners->all; r; r = r->next)
        if (r == own_runner)
            pthread_detach(r->id); /* nobody joins it */
        else
            pthread_join(r->id, NULL);
    pthread_cond_destroy(&runners->done);
    pthread_mutex_destroy(&runners->lock);
}

void pc__runners_free(struct pc__runners *runners)
{
    if (!runners)
        return;
    pc_allocator mem = runners->mem;
    int own = pc__is_own_process(runners->process), here = own && is_own_runner(runners);
    if (own)
        end_threads(runners);
    for (runner *r = runners->all, *next; r; r = next) {
        next = r->next;
        if (here && r == own_runner)
            r->of = NULL;
        else if (own)
            free_runner(r);
        else
            pc__free(&mem, r);
    }
    pc__free(&mem, runners);
}

/* Those of the context; made by the first task. Two threads may make them at once. */
static struct pc__runners *runners_of(pc_context *context)
{
    struct pc__runners *there = atomic_load_explicit(&context->runners, memory_order_acquire);
    struct pc__runners *made;
    if (there)
        return there;
    if (!(made = make_runners(&context->mem)))
        return NULL;
    if (atomic_compare_exchange_strong_explicit(&context->runners, &there, made,
                                                memory_order_acq_rel, memory_order_acquire))
        return made;
    pc__runners_free(made);
    return there;
}

static pc_status start_runner(struct pc__runners *runners, runner **out)
{
    runner *r = pc__calloc(&runners->mem, 1, sizeof *r);
    if (!r)
        return PC_ERR_NOMEM;
    r->of = runners;
    r->mem = runners->mem;
    pthread_cond_init(&r->wake, NULL);
    if (!pc__thread_start(&r->id, runner_main, r)) {
        free_runner(r);
        return pc__fail(PC_ERR_LIMIT, "cannot start a thread for a task");
    }
    pthread_mutex_lock(&runners->lock);
    r->next = runners->all;
    runners->all = r;
    pthread_mutex_unlock(&runners->lock);
    *out = r;
    return PC_OK;
}

/* An idle runner, or a new one. */
static pc_status take_runner(struct pc__runners *runners, runner **out)
{
    pthread_mutex_lock(&runners->lock);
    runner *r = runners->idle;
    if (r)
        runners->idle = r->next_idle;
    pthread_mutex_unlock(&runners->lock);
    *out = r;
    return r ? PC_OK : start_runner(runners, out);
}

/* ------------------------------------------------------------------ start */

static pc_status find_runner(pc_task *task)
{
    if (!pc__is_own_process(task->context->process))
        return PC_OK; /* the threads are the parent's */
    task->runners = runners_of(task->context);
    return task->runners ? take_runner(task->runners, &task->runner) : PC_ERR_NOMEM;
}

pc_status pc__task_new(pc_task **out, pc_context *context, const pc__task_kind *kind)
{
    pc_task *task = pc__calloc(&context->mem, 1, sizeof *task + kind->bytes);
    pc_status status;
    *out = NULL;
    if (!task)
        return PC_ERR_NOMEM;
    atomic_init(&task->references, 2); /* the caller's, and the runner's */
    task->context = pc__context_ref(context);
    task->kind = kind;
    task->readable = task->writable = -1;
    if ((status = find_runner(task)) < 0)
        free_task(task);
    else
        *out = task;
    return status;
}

void *pc__task_work(pc_task *task)
{
    return task->work;
}

void pc__task_start(pc_task *task)
{
    if (!task->runners) {
        run(task);
        if (end(task))
            free_task(task);
        return;
    }
    pthread_mutex_lock(&task->runners->lock);
    task->runner->task = task;
    pthread_cond_signal(&task->runner->wake);
    pthread_mutex_unlock(&task->runners->lock);
}

void pc__task_drop(pc_task *task)
{
    if (task->runners) {
        pthread_mutex_lock(&task->runners->lock);
        rest(task->runner);
        pthread_mutex_unlock(&task->runners->lock);
    }
    free_task(task);
}

/* ------------------------------------------------------------------ waiting */

/* No thread of this process goes on with it, if it is not done: it is a child after fork(). */
static int is_lost(const pc_task *task)
{
    return !task->runners || !pc__is_own_process(task->runners->process);
}

/* 0: it is not done within that time, or never will be. */
static int await(const pc_task *task, double seconds)
{
    struct pc__runners *runners = task->runners;
    if (is_done(task) || is_lost(task))
        return is_done(task);
    const struct timespec until = pc__timespec(pc__now() + (seconds < FOREVER ? seconds : FOREVER));
    int late = seconds <= 0;
    pthread_mutex_lock(&runners->lock);
    while (!is_done(task) && !late)
        if (seconds < FOREVER)
            late = pthread_cond_timedwait(&runners->done, &runners->lock, &until) == ETIMEDOUT;
        else
            pthread_cond_wait(&runners->done, &runners->lock);
    pthread_mutex_unlock(&runners->lock);
    return is_done(task);
}

pc_status pc_task_wait(pc_task *task, double seconds)
{
    if (!task || !(seconds >= 0))
        return pc__fail(PC_ERR_INVALID, "pc_task_wait: %s",
                        task ? "seconds is below 0, or NaN" : "task is NULL");
    if (runs_here(task))
        return pc__fail(PC_ERR_STATE, "pc_task_wait: this is a callback of the task itself");
    if (!is_done(task) && is_lost(task))
        return pc__fail(PC_ERR_STATE, "pc_task_wait: the task was under way at the moment of "
                                      "fork(): no thread of this process goes on with it");
    if (!await(task, seconds))
        return PC_AGAIN;
    if (task->status < 0)
        *pc__fail_state() = task->error;
    return task->status;
}

void pc_task_free(pc_task *task)
{
    if (!task)
        return;
    if (!runs_here(task))
        await(task, INFINITY);
    if (task->writable >= 0 && task->writable != task->readable)
        close(task->writable);
    if (task->readable >= 0)
        close(task->readable);
    task->readable = task->writable = -1;
    unref(task);
}

/* ------------------------------------------------------------------ the descriptor */

static int open_pair(int pair[2])
{
#ifdef __linux__
    pair[0] = pair[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return pair[0] >= 0;
#else
    if (pipe(pair))
        return 0;
    for (int i = 0; i < 2; i++) {
        fcntl(pair[i], F_SETFD, FD_CLOEXEC);
        fcntl(pair[i], F_SETFL, O_NONBLOCK);
    }
    return 1;
#endif
}

static pc_status open_descriptor(pc_task *task)
{
    int pair[2];
    if (task->readable >= 0)
        return PC_OK;
    if (!open_pair(pair))
        return pc__fail_system(PC_ERR_LIMIT, errno, "pc_task_fd: no descriptor: %s",
                               strerror(errno));
    task->readable = pair[0];
    task->writable = pair[1];
    if (is_done(task))
        make_readable(task);
    return PC_OK;
}

pc_status pc_task_fd(pc_task *task, int32_t *out)
{
    pc_status status;
    if (!task || !out)
        return pc__fail(PC_ERR_INVALID, "pc_task_fd: task or out is NULL");
    *out = -1;
    if (task->runners)
        PC__TRY_RETURN(pc__check_process(task->runners->process, "pc_task_fd", "the task"));
    if (task->runners)
        pthread_mutex_lock(&task->runners->lock);
    status = open_descriptor(task);
    *out = task->readable;
    if (task->runners)
        pthread_mutex_unlock(&task->runners->lock);
    return status;
}

/* ------------------------------------------------------------------ links */

void pc__task_link_to(pc__task_link *link, pc_task *task)
{
    if (link->task == task)
        return;
    atomic_fetch_add_explicit(&task->references, 1, memory_order_relaxed);
    pc__task_unlink(link);
    link->task = task;
}

int pc__task_has(const pc__task_link *link)
{
    return link->task && !is_done(link->task) && !runs_here(link->task);
}

pc_status pc__task_check(const pc__task_link *link, const char *call, const char *object)
{
    return pc__task_has(link)
               ? pc__fail(PC_ERR_STATE, "%s: a task that uses %s is under way", call, object)
               : PC_OK;
}

pc_task *pc__task_here(const pc__task_link *link)
{
    return link->task && runs_here(link->task) ? link->task : NULL;
}

int pc__task_await(const pc__task_link *link)
{
    return !pc__task_has(link) || await(link->task, INFINITY);
}

void pc__task_unlink(pc__task_link *link)
{
    if (link->task)
        unref(link->task);
    link->task = NULL;
}
