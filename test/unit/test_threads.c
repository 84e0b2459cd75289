/* Catches: parallel loops that skip an index or run it twice, return before all is done, block when
 * work is uneven or when several threads call at once, sleep for ever, or bypass the application's
 * parallel_for. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/threads.h"
#include "testing.h"

static pc_context *with_threads(uint32_t threads)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *c = NULL;
    o.threads = threads;
    CHECK_OK(pc_context_new(&c, &o));
    return c;
}

static void count_up(void *arg, size_t i)
{
    ((unsigned char *)
         arg)[i]++; /* plain memory: seen by the caller only if the loop hands it over */
}

static int each_once(const unsigned char *seen, size_t n)
{
    size_t right = 0;
    for (size_t i = 0; i < n; i++)
        right += seen[i] == 1;
    return right == n && seen[n] == 0;
}

static void every_index_once(void)
{
    static const size_t sizes[] = {0, 1, 2, 3, 7, 64, 1000, 100000};
    for (uint32_t threads = 1; threads <= 5; threads++) {
        pc_context *c = with_threads(threads);
        for (size_t s = 0; c && s < sizeof sizes / sizeof *sizes; s++) {
            unsigned char *seen = calloc(sizes[s] + 1, 1);
            pc__parallel(c, sizes[s], count_up, seen);
            CHECK(each_once(seen, sizes[s]));
            free(seen);
        }
        pc_context_free(c);
    }
}

static void many_short_loops(void)
{
    pc_context *c = with_threads(3);
    unsigned char seen[9];
    int right = 0;
    for (int loop = 0; loop < 2000; loop++) {
        memset(seen, 0, sizeof seen);
        pc__parallel(c, (size_t)loop % 8, count_up, seen);
        right += each_once(seen, (size_t)loop % 8);
        if (loop % 500 == 499)
            usleep(5000); /* the workers go to sleep and must wake again */
    }
    CHECK_INT(right, 2000);
    pc_context_free(c);
}

/* ------------------------------------------------------------- uneven work */

typedef struct uneven {
    atomic_size_t finished;
    size_t n;
    int stuck;
} uneven;

/* The first item ends when all others have: they must not wait behind it. */
static void wait_for_the_rest(void *arg, size_t i)
{
    uneven *u = arg;
    time_t end = time(NULL) + 20;
    while (i == 0 && atomic_load(&u->finished) < u->n - 1)
        if (time(NULL) > end) {
            u->stuck = 1;
            return;
        }
    atomic_fetch_add(&u->finished, 1);
}

static void uneven_work(void)
{
    pc_context *c = with_threads(2);
    uneven u = {.n = 500};
    pc__parallel(c, u.n, wait_for_the_rest, &u);
    CHECK(!u.stuck);
    CHECK_INT(atomic_load(&u.finished), 500);
    pc_context_free(c);
}

/* ---------------------------------------------------------- several callers */

enum { CALLERS = 4, LOOPS = 200, ITEMS = 97 };

typedef struct caller {
    pthread_t thread;
    pc_context *context;
    size_t right;
} caller;

static void *call(void *arg)
{
    caller *me = arg;
    unsigned char seen[ITEMS + 1];
    for (int loop = 0; loop < LOOPS; loop++) {
        memset(seen, 0, sizeof seen);
        pc__parallel(me->context, ITEMS, count_up, seen);
        me->right += (size_t)each_once(seen, ITEMS);
    }
    return NULL;
}

static void several_callers(void)
{
    pc_context *c = with_threads(3);
    caller callers[CALLERS];
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.context = c};
        CHECK(!pthread_create(&callers[i].thread, NULL, call, &callers[i]));
    }
    for (size_t i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        CHECK_INT(callers[i].right, LOOPS);
    }
    pc_context_free(c);
}

/* ---------------------------------------------------------- the application's loop */

typedef struct host {
    int calls, reverse;
    size_t n;
} host;

static void host_loop(void *user, size_t n, void (*body)(void *, size_t), void *arg)
{
    host *h = user;
    h->calls++;
    h->n = n;
    for (size_t i = 0; i < n; i++)
        body(arg, h->reverse ? n - 1 - i : i);
}

static void host_parallel_for(void)
{
    host h = {0};
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *c = NULL;
    o.parallel_for = host_loop;
    o.parallel_user = &h;
    o.threads = 8;
    CHECK_OK(pc_context_new(&c, &o));
    for (h.reverse = 0; h.reverse < 2; h.reverse++) {
        unsigned char seen[51] = {0};
        h.calls = 0;
        pc__parallel(c, 50, count_up, seen);
        CHECK(h.calls == 1 && h.n == 50 && each_once(seen, 50));
        pc__parallel(c, 0, count_up, seen);
        CHECK(each_once(seen, 50));
    }
    pc_context_free(c);
}

/* -------------------------------------------------------------- no workers */

typedef struct order {
    pthread_t caller;
    size_t next;
    int wrong;
} order;

static void in_order(void *arg, size_t i)
{
    order *o = arg;
    o->wrong |= i != o->next++ || !pthread_equal(pthread_self(), o->caller);
}

static void without_workers(void)
{
    pc_context *c = with_threads(1);
    order o = {.caller = pthread_self()};
    pc__parallel(c, 300, in_order, &o);
    CHECK(o.next == 300 && !o.wrong);
    pc_context_free(c);
}

static void pools(void)
{
    pc__thread_pool *pool = NULL;
    for (uint64_t at = 1; at <= 2; at++) {
        pc_test_memory memory = {.fail_at = at};
        const pc_allocator mem = pc_test_allocator(&memory);
        CHECK_STATUS(pc__pool_new(&pool, &mem, 2), PC_ERR_NOMEM);
        CHECK(!pool && !memory.live_blocks);
    }
    for (int i = 0; i < 20; i++) { /* freed before its threads have done anything */
        CHECK_OK(pc__pool_new(&pool, &pc__libc_allocator, 4));
        pc__pool_free(pool);
    }
    CHECK_OK(pc__pool_new(&pool, &pc__libc_allocator, 0));
    pc__pool_free(pool);
    pc__pool_free(NULL);
}

int main(void)
{
    every_index_once();
    many_short_loops();
    uneven_work();
    several_callers();
    host_parallel_for();
    without_workers();
    pools();
    return pc_test_end();
}
