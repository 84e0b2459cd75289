/* A pool of workers that sleep between loops. One loop runs at a time; an atomic counter hands out
 * its items. Workers spin for a short while before they sleep, because the loops of a forward pass
 * follow each other within microseconds.
 *
 * Workers join a loop through a gate, which the calling thread shuts when no item is left. It waits
 * only for workers inside: one that is not scheduled on a busy machine delays nobody. */
#include "base/threads.h"

#include <sched.h>
#include <signal.h>

#include "base/process.h"

enum { SPINS = 4000 };
static const unsigned SHUT = 1u << 31;

struct pc__thread_pool {
    pc_allocator mem;
    pid_t process; /* that has the threads */
    pthread_t *threads;
    uint32_t started;
    pthread_mutex_t loop_lock; /* one loop at a time */
    pthread_mutex_t lock;      /* guards sleep and wake */
    pthread_cond_t wake;
    atomic_uint_fast64_t epoch; /* changes with every loop */
    atomic_int stop;
    void (*body)(void *, size_t);
    void *arg;
    size_t n;
    atomic_size_t next;
    atomic_uint gate; /* workers inside; SHUT: nobody may join */
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void run_items(pc__thread_pool *pool)
{
    size_t i;
    while ((i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->n)
        pool->body(pool->arg, i);
}

static uint64_t wait_for_epoch(pc__thread_pool *pool, uint64_t last)
{
    uint64_t now;
    for (int i = 0; i < SPINS; i++) {
        if ((now = atomic_load_explicit(&pool->epoch, memory_order_acquire)) != last)
            return now;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    while ((now = atomic_load_explicit(&pool->epoch, memory_order_acquire)) == last)
        pthread_cond_wait(&pool->wake, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return now;
}

/* body, arg and n may be read only from here until the worker leaves. */
static int join_loop(pc__thread_pool *pool)
{
    unsigned gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
    do {
        if (gate & SHUT)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&pool->gate, &gate, gate + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    return 1;
}

static void *worker_main(void *arg)
{
    pc__thread_pool *pool = arg;
    uint64_t epoch = 0;
    for (;;) {
        epoch = wait_for_epoch(pool, epoch);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire))
            return NULL;
        if (!join_loop(pool))
            continue;
        run_items(pool);
        atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_release);
    }
}

static void next_epoch(pc__thread_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add_explicit(&pool->epoch, 1, memory_order_release);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

int pc__thread_start(pthread_t *id, void *(*body)(void *arg), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(id, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !error;
}

void pc__mutex_init(pthread_mutex_t *mutex, int type)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

pc_status pc__pool_new(pc__thread_pool **out, const pc_allocator *mem, uint32_t workers)
{
    pc__thread_pool *pool = pc__calloc(mem, 1, sizeof *pool);
    *out = NULL;
    if (!pool)
        return PC_ERR_NOMEM;
    pool->mem = *mem;
    pool->process = pc__process();
    atomic_init(&pool->gate, SHUT);
    pthread_mutex_init(&pool->loop_lock, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->threads = pc__calloc(mem, workers, sizeof *pool->threads);
    if (!pool->threads) {
        pc__pool_free(pool);
        return PC_ERR_NOMEM;
    }
    for (; pool->started < workers; pool->started++)
        if (pthread_create(&pool->threads[pool->started], NULL, worker_main, pool)) {
            pc__pool_free(pool);
            return pc__fail(PC_ERR_LIMIT,
                            "cannot start a worker thread: %u of %u run; ask for fewer threads",
                            pool->started, workers);
        }
    *out = pool;
    return PC_OK;
}

static void end_threads(pc__thread_pool *pool)
{
    atomic_store_explicit(&pool->stop, 1, memory_order_release);
    next_epoch(pool);
    for (uint32_t i = 0; i < pool->started; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->loop_lock);
}

void pc__pool_free(pc__thread_pool *pool)
{
    if (!pool)
        return;
    if (pc__is_own_process(pool->process))
        end_threads(pool);
    pc_allocator mem = pool->mem;
    pc__free(&mem, pool->threads);
    pc__free(&mem, pool);
}

static void pool_run(pc__thread_pool *pool, size_t n, void (*body)(void *, size_t), void *arg)
{
    pthread_mutex_lock(&pool->loop_lock);
    pool->body = body;
    pool->arg = arg;
    pool->n = n;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->gate, 0, memory_order_release);
    next_epoch(pool);
    run_items(pool);
    atomic_fetch_or_explicit(&pool->gate, SHUT, memory_order_relaxed);
    for (unsigned spins = 0; atomic_load_explicit(&pool->gate, memory_order_acquire) != SHUT;
         spins++)
        if (spins < SPINS)
            relax();
        else
            sched_yield();
    pthread_mutex_unlock(&pool->loop_lock);
}

void pc__parallel(const pc_context *context, size_t n, void (*body)(void *arg, size_t i), void *arg)
{
    if (n > 1 && context->parallel_for) {
        context->parallel_for(context->parallel_user, n, body, arg);
    } else if (n > 1 && context->pool && pc__is_own_process(context->pool->process)) {
        pool_run(context->pool, n, body, arg);
    } else {
        for (size_t i = 0; i < n; i++)
            body(arg, i);
    }
}
