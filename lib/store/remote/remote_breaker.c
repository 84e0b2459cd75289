/* The states of a circuit breaker: closed, open (paused), one probe under way. */
#include "store/remote/remote_breaker.h"

#define FIRST_WAIT 0.1
#define LONGEST_WAIT 30.0

int pc__remote_breaker_allows(const pc__remote_breaker *breaker, double now)
{
    return breaker->open_seconds <= 0 || (now >= breaker->open_until && !breaker->probing);
}

int pc__remote_breaker_enter(pc__remote_breaker *breaker, double now)
{
    if (breaker->open_seconds <= 0)
        return PC__REMOTE_BREAKER_CLOSED;
    if (!pc__remote_breaker_allows(breaker, now))
        return 0;
    breaker->probing = 1;
    return PC__REMOTE_BREAKER_PROBE;
}

int pc__remote_breaker_done(pc__remote_breaker *breaker, int permit, int ok, double now,
                            double chance)
{
    int was_open = breaker->open_seconds > 0;
    if (permit == PC__REMOTE_BREAKER_PROBE)
        breaker->probing = 0;
    if (ok) {
        breaker->open_seconds = 0;
        return was_open;
    }
    if (was_open && permit != PC__REMOTE_BREAKER_PROBE)
        return 0; /* it began before the breaker opened */
    breaker->open_seconds = was_open ? 2 * breaker->open_seconds : FIRST_WAIT;
    if (breaker->open_seconds > LONGEST_WAIT)
        breaker->open_seconds = LONGEST_WAIT;
    breaker->open_until = now + breaker->open_seconds * (0.75 + 0.5 * chance);
    return !was_open;
}

void pc__remote_breaker_cancel(pc__remote_breaker *breaker, int permit)
{
    if (permit == PC__REMOTE_BREAKER_PROBE)
        breaker->probing = 0;
}
