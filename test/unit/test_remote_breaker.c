/* Catches: a server that is down and delays every request, or is never tried again; simultaneous
 * failures that are counted one by one. */
#include "store/remote/remote_breaker.h"

#include "testing.h"

int main(void)
{
    pc__remote_breaker b = {0};
    double now = 100, longest = 0;
    int first, second;
    CHECK(pc__remote_breaker_allows(&b, now));
    first = pc__remote_breaker_enter(&b, now);
    second = pc__remote_breaker_enter(&b, now);
    CHECK(first && second);
    CHECK(pc__remote_breaker_done(&b, first, 0, now, 0.5));
    CHECK(!pc__remote_breaker_done(&b, second, 0, now, 0.5)); /* under way when the first failed */
    CHECK(!pc__remote_breaker_allows(&b, now + 0.09));
    CHECK(!pc__remote_breaker_enter(&b, now + 0.09));
    now += 0.11;
    first = pc__remote_breaker_enter(&b, now);
    CHECK_INT(first, PC__REMOTE_BREAKER_PROBE);
    CHECK(!pc__remote_breaker_allows(&b, now)); /* one at a time */
    CHECK(!pc__remote_breaker_enter(&b, now));
    pc__remote_breaker_cancel(&b, first);
    CHECK_INT(pc__remote_breaker_enter(&b, now), PC__REMOTE_BREAKER_PROBE);
    for (int i = 0; i < 20; i++) {
        double before = now;
        CHECK(!pc__remote_breaker_done(&b, PC__REMOTE_BREAKER_PROBE, 0, now, (i % 10) / 10.0));
        while (!pc__remote_breaker_allows(&b, now))
            now += 0.01;
        CHECK(i > 7 || now - before > longest * 1.1); /* twice as long, but for chance */
        longest = now - before > longest ? now - before : longest;
        CHECK_INT(pc__remote_breaker_enter(&b, now), PC__REMOTE_BREAKER_PROBE);
    }
    CHECK(longest > 20 && longest <= 37.6);
    CHECK(pc__remote_breaker_done(&b, PC__REMOTE_BREAKER_PROBE, 1, now, 0));
    CHECK_INT(pc__remote_breaker_enter(&b, now), PC__REMOTE_BREAKER_CLOSED);
    CHECK(!pc__remote_breaker_done(&b, PC__REMOTE_BREAKER_CLOSED, 1, now, 0));
    CHECK(pc__remote_breaker_done(&b, PC__REMOTE_BREAKER_CLOSED, 0, now, 0.5));
    CHECK(pc__remote_breaker_allows(&b, now + 0.11)); /* short again */
    return pc_test_end();
}
