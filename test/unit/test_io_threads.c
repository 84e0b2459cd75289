/* Catches: a background thread that goes round and round instead of sleeping, because something is due that it must not do while requests compute. */
#include "store/io_threads.h"

#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "testing.h"

/* The clock of the threads is the test's (test/CMakeLists.txt wraps its calls), which also tells how often they looked at it. */
static atomic_int behind, looks, sweeps; /* behind: seconds */
double __real_pc__now(void);
double __wrap_pc__now(void);

double __wrap_pc__now(void)
{
    atomic_fetch_add(&looks, 1);
    return __real_pc__now() - atomic_load(&behind);
}

static void sweep(void *user)
{
    (void)user;
    atomic_fetch_add(&sweeps, 1);
}

/* The last sweep was long ago, and a request computes. */
static void overdue(void)
{
    const struct timespec moment = {0, 50000000};
    pc__io *io = NULL;
    int before;
    atomic_store(&behind, 100);
    CHECK_OK(pc__io_new(&io, &pc__libc_allocator, 1, sweep, NULL));
    pc__io_working(io, 1);
    atomic_store(&behind, 0);
    nanosleep(&moment, NULL);
    before = atomic_load(&looks);
    nanosleep(&moment, NULL);
    CHECK(atomic_load(&looks) - before < 5);
    CHECK_INT(atomic_load(&sweeps), 0);
    pc__io_working(io, -1);
    pc__io_free(io);
}

int main(void)
{
    overdue();
    return pc_test_end();
}
