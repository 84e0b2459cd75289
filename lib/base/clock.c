/* The clocks of the system. */
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"

double pc__now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t pc__now_date(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec;
}

struct timespec pc__timespec(double seconds)
{
    struct timespec t;
    if (!(seconds > 0))
        seconds = 0;
    if (seconds > 1e12)
        seconds = 1e12;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    return t;
}
