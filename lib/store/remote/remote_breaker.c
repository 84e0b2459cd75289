#include "store/remote/remote_breaker.h"

#define FIRST_WAIT 0.1
#define LONGEST_WAIT 30.0

int pc__breaker_allows(const pc__breaker *breaker, double now)
{
    return breaker->wait <= 0 || (now >= breaker->until && !breaker->trying);
}

int pc__breaker_enter(pc__breaker *breaker, double now)
{
    if (breaker->wait <= 0)
        return PC__BREAKER_OPEN_WAY;
    if (!pc__breaker_allows(breaker, now))
        return 0;
    breaker->trying = 1;
    return PC__BREAKER_TRY;
}

int pc__breaker_done(pc__breaker *breaker, int entered, int ok, double now, double chance)
{
    int was_open = breaker->wait > 0;
    if (entered == PC__BREAKER_TRY)
        breaker->trying = 0;
    if (ok) {
        breaker->wait = 0;
        return was_open;
    }
    if (was_open && entered != PC__BREAKER_TRY)
        return 0; /* one of several that were under way when the first failed */
    breaker->wait = was_open ? 2 * breaker->wait : FIRST_WAIT;
    if (breaker->wait > LONGEST_WAIT)
        breaker->wait = LONGEST_WAIT;
    breaker->until = now + breaker->wait * (0.75 + 0.5 * chance);
    return !was_open;
}

void pc__breaker_leave(pc__breaker *breaker, int entered)
{
    if (entered == PC__BREAKER_TRY)
        breaker->trying = 0;
}
