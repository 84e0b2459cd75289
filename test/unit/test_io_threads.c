/* Catches: a background thread that spins instead of sleeping, because something is due that must
 * wait for a pause; sweeps that never run if requests leave no pause; a flush that also waits for
 * later writes, perhaps for ever. */
#include "store/io_threads.h"

#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "testing.h"

/* A clock of the test's (test/CMakeLists.txt wraps its calls), which counts how often the threads
 * look at it. */
static atomic_int behind, looks, sweeps; /* behind: seconds */
double __real_pc__now(void);
double __wrap_pc__now(void);

double __wrap_pc__now(void)
{
    atomic_fetch_add(&looks, 1);
    return __real_pc__now() - atomic_load(&behind);
}

static atomic_int more; /* sweeps that shall say so */

static int sweep(void *user)
{
    (void)user;
    atomic_fetch_add(&sweeps, 1);
    return atomic_load(&more) > 0 && atomic_fetch_sub(&more, 1) > 0;
}

/* The last sweep was so many seconds ago, and a request computes. */
static void overdue(int seconds, int expected)
{
    const struct timespec moment = {0, 50000000};
    pc__io *io = NULL;
    int before;
    atomic_store(&sweeps, 0);
    atomic_store(&behind, seconds);
    CHECK_OK(pc__io_new(&io, &pc__libc_allocator, 1, sweep, NULL));
    pc__io_request_running(io, 1);
    atomic_store(&behind, 0);
    for (int i = 0; i < 200 && (!i || atomic_load(&sweeps) < expected);
         i++) /* the thread is one of low priority */
        nanosleep(&moment, NULL);
    before = atomic_load(&looks);
    nanosleep(&moment, NULL);
    CHECK(atomic_load(&looks) - before < 5);
    CHECK_INT(atomic_load(&sweeps), expected);
    pc__io_request_running(io, -1);
    pc__io_free(io);
}

/* Each of these writes queues another one, as requests do during a flush. */
enum { CHAIN = 300 };

typedef struct chain {
    pc__io_job job; /* first */
    pc__io *io;
    atomic_int done;
    atomic_int swept; /* before the last of them */
} chain;

static void write_and_queue(pc__io_job *job, int give_up)
{
    const struct timespec moment = {0, 1000000};
    chain *c = (chain *)job;
    nanosleep(&moment, NULL);
    atomic_store(&c->swept, atomic_load(&sweeps));
    if (atomic_fetch_add(&c->done, 1) + 1 < CHAIN && !give_up)
        pc__io_add(c->io, PC__IO_WRITE, job);
}

static void flushing(void)
{
    chain c = {.job.run = write_and_queue};
    CHECK_OK(pc__io_new(&c.io, &pc__libc_allocator, 1, sweep, NULL));
    pc__io_flush(c.io); /* nothing to wait for */
    CHECK(pc__io_add(c.io, PC__IO_WRITE, &c.job));
    pc__io_flush(c.io);
    CHECK(atomic_load(&c.done) >= 1 && atomic_load(&c.done) < CHAIN);
    pc__io_free(c.io);
}

/* There is always something to write. */
static void between_writes(void)
{
    chain c = {.job.run = write_and_queue};
    atomic_store(&sweeps, 0);
    atomic_store(&behind, 100);
    CHECK_OK(pc__io_new(&c.io, &pc__libc_allocator, 1, sweep, NULL));
    CHECK(pc__io_add(c.io, PC__IO_WRITE, &c.job));
    atomic_store(&behind, 0);
    while (atomic_load(&c.done) < CHAIN)
        pc__io_flush(c.io);
    CHECK_INT(atomic_load(&c.swept), 1);
    pc__io_free(c.io);
}

/* After a sweep that has more to do, others follow soon, also beside a request that computes; they
 * stop once it is done. */
static void more_to_do(int working)
{
    const struct timespec moment = {0, 20000000};
    pc__io *io = NULL;
    double start = __real_pc__now();
    atomic_store(&sweeps, 0);
    atomic_store(&more, 3);
    CHECK_OK(pc__io_new(&io, &pc__libc_allocator, 1, sweep, NULL));
    pc__io_request_running(io, working);
    pc__io_sweep_soon(io);
    for (int i = 0; i < 500 && atomic_load(&sweeps) < 4; i++)
        nanosleep(&moment, NULL);
    CHECK_INT(atomic_load(&sweeps), 4);
    CHECK(!working || __real_pc__now() - start > 0.7); /* with pauses: it is not alone */
    for (int i = 0; i < 20; i++)
        nanosleep(&moment, NULL);
    CHECK_INT(atomic_load(&sweeps), 4);
    pc__io_request_running(io, -working);
    pc__io_free(io);
}

int main(void)
{
    more_to_do(0);
    more_to_do(1);
    flushing();
    overdue(30, 0);
    overdue(100, 1);
    between_writes();
    return pc_test_end();
}
