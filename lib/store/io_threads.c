/* The I/O threads and their queues (io_threads.h). */
#include "store/io_threads.h"

#include <pthread.h>
#include <time.h>
#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/clock.h"
#include "base/process.h"
#include "base/threads.h"

enum { MAX_QUEUED = 8192, LOWEST_PRIORITY = 19 };
static const double IO_PATIENCE = 1.0; /* seconds that a write waits for a pause of the requests */
static const double SWEEP_EVERY = 5.0, SWEEP_LATEST = 60.0; /* even without a pause */
/* The same while a sweep has more to do; others get its locks in between. */
static const double MORE_EVERY = 0.005, MORE_LATEST = 0.25;

typedef struct job_queue {
    pc__io_job *head, *tail;
    size_t count;
    uint64_t added, ended; /* in total */
} job_queue;

typedef struct worker {
    struct pc__io *io;
    pthread_t id;
    uint32_t index;
} worker;

struct pc__io {
    pc_allocator mem;
    pid_t process; /* that has the threads */
    pthread_mutex_t lock;
    pthread_cond_t load; /* signalled: there is a load */
    pthread_cond_t wake; /* signalled: the background thread may have a job */
    pthread_cond_t idle; /* signalled: a write has ended */
    job_queue queues[PC__IO_CLASSES];
    int requests_running, flushing, started;
    atomic_int ending;
    int (*sweep)(void *user);
    void *user;
    /* When the next sweep is due: in a pause of the requests; in any case. */
    double sweep_from, sweep_by;
    uint32_t threads;
    /* pc__io_free_within: the thread that called it, and what it does at its end */
    const worker *last;
    void (*then)(void *user);
    worker workers[];
};

static _Thread_local const worker *own_worker; /* NULL: not a thread of any pc__io */

static pc__io_job *pop_job(job_queue *q)
{
    pc__io_job *job = q->head;
    q->head = job->next;
    if (!q->head)
        q->tail = NULL;
    q->count--;
    return job;
}

static void push_job(job_queue *q, pc__io_job *job)
{
    job->next = NULL;
    if (q->tail)
        q->tail->next = job;
    else
        q->head = job;
    q->tail = job;
    q->count++;
    q->added++;
}

static int is_background(const worker *w)
{
    return w->index == 0;
}

/* 1: the oldest write may go now. */
static int write_is_due(const pc__io *io)
{
    const job_queue *q = &io->queues[PC__IO_WRITE];
    return q->head
           && (io->requests_running <= 0 || io->flushing || io->ending
               || pc__now() - q->head->queued >= IO_PATIENCE);
}

/* Class of the next job for this thread; -1: none. */
static int choose_class(const worker *w)
{
    const pc__io *io = w->io;
    if (!is_background(w))
        return io->queues[PC__IO_LOAD].head ? PC__IO_LOAD : -1;
    if (write_is_due(io))
        return PC__IO_WRITE;
    return io->queues[PC__IO_PREFETCH].head && (io->requests_running <= 0 || io->ending)
               ? PC__IO_PREFETCH
               : -1;
}

/* Sleeps until there may be a job for this thread. */
static void sleep_idle(worker *w)
{
    pc__io *io = w->io;
    const pc__io_job *write = io->queues[PC__IO_WRITE].head;
    double now = pc__now(), until = io->sweep_from;
    struct timespec t;
    if (!is_background(w)) {
        pthread_cond_wait(&io->load, &io->lock);
        return;
    }
    if (until <= now) /* overdue, because requests compute */
        until = now + SWEEP_EVERY < io->sweep_by ? now + SWEEP_EVERY : io->sweep_by;
    if (write && write->queued + IO_PATIENCE < until)
        until = write->queued + IO_PATIENCE;
    t = pc__timespec(until);
    pthread_cond_timedwait(&io->wake, &io->lock, &t);
}

static void run_job(worker *w, int class)
{
    pc__io *io = w->io;
    pc__io_job *job = pop_job(&io->queues[class]);
    int give_up = io->ending && class != PC__IO_WRITE;
    pthread_mutex_unlock(&io->lock);
    job->run(job, give_up);
    pthread_mutex_lock(&io->lock);
    io->queues[class].ended++;
    if (class == PC__IO_WRITE)
        pthread_cond_broadcast(&io->idle);
}

static int sweep_is_due(const worker *w, int busy)
{
    return is_background(w) && !w->io->ending
           && pc__now() >= (busy ? w->io->sweep_by : w->io->sweep_from);
}

static void sweep_now(pc__io *io)
{
    double now = pc__now();
    io->sweep_from = now + SWEEP_EVERY;
    io->sweep_by = now + SWEEP_LATEST;
    pthread_mutex_unlock(&io->lock);
    int more = io->sweep(io->user);
    pthread_mutex_lock(&io->lock);
    if (!more)
        return;
    now = pc__now();
    io->sweep_from = now + MORE_EVERY;
    io->sweep_by = now + MORE_LATEST;
}

/* Under the lock. They end when their queues are empty. */
static void tell_threads_to_end(pc__io *io)
{
    atomic_store(&io->ending, 1);
    pthread_cond_broadcast(&io->load);
    pthread_cond_signal(&io->wake);
}

/* Waits for all threads but `last`. */
static void join_and_free(pc__io *io)
{
    pc_allocator mem = io->mem;
    for (int i = 0; i < io->started; i++)
        if (&io->workers[i] != io->last)
            pthread_join(io->workers[i].id, NULL);
    pthread_cond_destroy(&io->load);
    pthread_cond_destroy(&io->wake);
    pthread_cond_destroy(&io->idle);
    pthread_mutex_destroy(&io->lock);
    pc__free(&mem, io);
}

static void free_from_within(pc__io *io)
{
    void (*then)(void *user) = io->then;
    void *user = io->user;
    own_worker = NULL;
    pthread_detach(pthread_self()); /* nobody joins it */
    join_and_free(io);
    then(user);
}

static void *thread_main(void *arg)
{
    worker *w = arg;
    pc__io *io = w->io;
    own_worker = w;
#ifdef __linux__
    if (is_background(w))
        /* If the system refuses, the thread runs as the others do. */
        setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWEST_PRIORITY);
#endif
    pthread_mutex_lock(&io->lock);
    for (;;) {
        int class = choose_class(w);
        if (sweep_is_due(w, class >= 0 || io->requests_running > 0))
            sweep_now(io);
        else if (class >= 0)
            run_job(w, class);
        else if (io->ending)
            break;
        else
            sleep_idle(w);
    }
    pthread_mutex_unlock(&io->lock);
    if (io->last == w)
        free_from_within(io);
    return NULL;
}

static pc_status start_threads(pc__io *io)
{
    pc_status status = PC_OK;
    for (uint32_t i = 0; i < io->threads && status >= 0; i++) {
        io->workers[i] = (worker){.io = io, .index = i};
        if (!pc__thread_start(&io->workers[i].id, thread_main, &io->workers[i]))
            status = pc__fail(PC_ERR_NOMEM, "cache: I/O thread %u of %u could not be started",
                              i + 1, io->threads);
        else
            io->started++;
    }
    return status;
}

pc_status pc__io_new(pc__io **out, const pc_allocator *mem, uint32_t threads,
                     int (*sweep)(void *user), void *user)
{
    pc__io *io = pc__calloc(mem, 1, sizeof *io + (threads + 1) * sizeof io->workers[0]);
    pthread_condattr_t monotonic;
    pc_status status;
    *out = NULL;
    if (!io)
        return PC_ERR_NOMEM;
    io->mem = *mem;
    io->process = pc__process();
    io->sweep = sweep;
    io->user = user;
    io->sweep_from = pc__now() + SWEEP_EVERY;
    io->sweep_by = pc__now() + SWEEP_LATEST;
    io->threads = threads + 1;
    pthread_mutex_init(&io->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&io->load, NULL);
    pthread_cond_init(&io->wake, &monotonic);
    pthread_cond_init(&io->idle, &monotonic);
    pthread_condattr_destroy(&monotonic);
    status = start_threads(io);
    if (status < 0)
        pc__io_free(io);
    else
        *out = io;
    return status;
}

/* In a child after fork(): there are no threads to wait for, and they may have held the lock. */
static void free_inherited(pc__io *io)
{
    pc_allocator mem = io->mem;
    int is_whole = !pthread_mutex_trylock(&io->lock);
    for (pc__io_job *job = io->queues[PC__IO_WRITE].head, *next; is_whole && job; job = next) {
        next = job->next;
        job->run(job, PC__IO_FORGET);
    }
    pc__free(&mem, io);
}

void pc__io_free(pc__io *io)
{
    if (!io)
        return;
    if (!pc__is_own_process(io->process)) {
        free_inherited(io);
        return;
    }
    pthread_mutex_lock(&io->lock);
    tell_threads_to_end(io);
    pthread_mutex_unlock(&io->lock);
    join_and_free(io);
}

int pc__io_is_own_thread(const pc__io *io)
{
    return io && own_worker && own_worker->io == io;
}

void pc__io_free_within(pc__io *io, void (*then)(void *user))
{
    pthread_mutex_lock(&io->lock);
    io->last = own_worker;
    io->then = then;
    tell_threads_to_end(io);
    pthread_mutex_unlock(&io->lock);
}

/* Wakes only the thread that the job is for, so that no other takes a core from the request. */
static void wake_thread(pc__io *io, int class)
{
    if (class == PC__IO_LOAD)
        pthread_cond_signal(&io->load);
    else if (io->queues[class].count
             == 1) /* else the thread is awake, or sleeps until the first write is due */
        pthread_cond_signal(&io->wake);
}

int pc__io_add(pc__io *io, int class, pc__io_job *job)
{
    int added;
    pthread_mutex_lock(&io->lock);
    added = !io->ending && io->queues[class].count < MAX_QUEUED;
    if (added) {
        job->queued = pc__now();
        push_job(&io->queues[class], job);
        wake_thread(io, class);
    }
    pthread_mutex_unlock(&io->lock);
    return added;
}

int pc__io_make_load(pc__io *io, pc__io_job *job)
{
    job_queue *q = &io->queues[PC__IO_PREFETCH];
    pc__io_job **link, *before = NULL;
    int found;
    pthread_mutex_lock(&io->lock);
    for (link = &q->head; *link && *link != job; link = &(*link)->next)
        before = *link;
    found = *link == job && !io->ending;
    if (found) {
        *link = job->next;
        if (q->tail == job)
            q->tail = before;
        q->count--;
        push_job(&io->queues[PC__IO_LOAD], job);
        wake_thread(io, PC__IO_LOAD);
    }
    pthread_mutex_unlock(&io->lock);
    return found;
}

void pc__io_flush(pc__io *io)
{
    job_queue *q = &io->queues[PC__IO_WRITE];
    uint64_t until;
    if (pc__io_is_own_thread(io))
        return; /* it would wait for itself */
    pthread_mutex_lock(&io->lock);
    until = q->added; /* one thread writes, in order */
    io->flushing++;
    pthread_cond_signal(&io->wake);
    while (q->ended < until)
        pthread_cond_wait(&io->idle, &io->lock);
    io->flushing--;
    pthread_mutex_unlock(&io->lock);
}

int pc__io_await_write(pc__io *io)
{
    job_queue *q = &io->queues[PC__IO_WRITE];
    uint64_t ended;
    int waits;
    pthread_mutex_lock(&io->lock);
    ended = q->ended;
    waits = q->added > ended;
    io->flushing++;
    pthread_cond_signal(&io->wake);
    while (waits && q->ended == ended)
        pthread_cond_wait(&io->idle, &io->lock);
    io->flushing--;
    pthread_mutex_unlock(&io->lock);
    return waits;
}

void pc__io_request_running(pc__io *io, int by)
{
    if (!pc__is_own_process(io->process))
        return;
    pthread_mutex_lock(&io->lock);
    io->requests_running += by;
    if (io->requests_running <= 0
        && (io->queues[PC__IO_WRITE].head || io->queues[PC__IO_PREFETCH].head))
        pthread_cond_signal(&io->wake);
    pthread_mutex_unlock(&io->lock);
}

void pc__io_sweep_soon(pc__io *io)
{
    pthread_mutex_lock(&io->lock);
    io->sweep_from = pc__now();
    io->sweep_by = io->sweep_from + MORE_LATEST;
    pthread_cond_signal(&io->wake);
    pthread_mutex_unlock(&io->lock);
}

int pc__io_is_ending(const pc__io *io)
{
    return atomic_load(&io->ending);
}

uint32_t pc__io_threads(const pc__io *io)
{
    return io->threads - 1;
}
