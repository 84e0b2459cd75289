/* Catches ranks of ties that are not their mean, a sign that is lost, NaN where one side is constant, memory that is lost. */
#include "memo/rank.h"

#include <math.h>

#include "testing.h"

static double of(const double *a, const double *b, size_t count)
{
    double out = 2;
    CHECK_OK(pc__rank_correlation(&pc__libc_allocator, a, b, count, &out));
    return out;
}

int main(void)
{
    const double up[] = {-3, 0, 0.5, 1e9, INFINITY}, down[] = {5, 4, 3, 2, 1}, mixed[] = {2, 1, 4, 3, 5}, same[] = {7, 7, 7, 7, 7}, tied[] = {1, 2, 2, 3, 3};
    CHECK(of(up, up, 5) == 1);
    CHECK(of(up, down, 5) == -1);
    CHECK(fabs(of(up, mixed, 5) - 0.8) < 1e-15); /* 1 - 6 * 4 / (5 * 24) */
    CHECK(of(up, same, 5) == 0);
    CHECK(fabs(of(up, tied, 5) - 9 / sqrt(90)) < 1e-15); /* ranks 1, 2.5, 2.5, 4.5, 4.5: cov 9, squares 10 and 9 */
    CHECK(of(up, down, 1) == 0 && of(up, down, 0) == 0);
    pc_status status = PC_ERR_NOMEM;
    for (uint64_t at = 1; status != PC_OK && at < 10; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator failing = pc_test_allocator(&memory);
        double out;
        status = pc__rank_correlation(&failing, up, tied, 5, &out);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK_OK(status);
    return pc_test_end();
}
