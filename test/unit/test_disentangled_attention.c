/* Catches: a distance with the wrong row, in the plain and the logarithmic table; rows out of
 * range. Expected rows come from the published formulas, by hand or in double. */
#include "attn/disentangled_attention.h"

#include <math.h>

#include "testing.h"

/* One row a distance, up to the farthest. */
static void plain(void)
{
    const pc__relative_config c = {.relative = 128, .farthest = 128};
    CHECK_INT(pc__disentangled_row(&c, 0), 128);
    CHECK_INT(pc__disentangled_row(&c, 1), 129);
    CHECK_INT(pc__disentangled_row(&c, -1), 127);
    CHECK_INT(pc__disentangled_row(&c, 127), 255);
    CHECK_INT(pc__disentangled_row(&c, 128), 255);
    CHECK_INT(pc__disentangled_row(&c, 5000), 255);
    CHECK_INT(pc__disentangled_row(&c, -127), 1);
    CHECK_INT(pc__disentangled_row(&c, -128), 0);
    CHECK_INT(pc__disentangled_row(&c, INT64_C(-5000000000)), 0);
}

/* Distances below half of the buckets keep their own row; then the logarithm decides. */
static int32_t bucket(int32_t buckets, int32_t farthest, int32_t distance)
{
    int32_t half = buckets / 2, size = distance < 0 ? -distance : distance, at = size;
    if (size > half)
        at = (int32_t)ceil(
                 log((double)size / half) / log((double)(farthest - 1) / half) * (half - 1) - 1e-9)
             + half;
    at = buckets + (distance < 0 ? -at : at);
    return at < 0 ? 0 : at > 2 * buckets - 1 ? 2 * buckets - 1 : at;
}

static void logarithmic(int32_t buckets, int32_t farthest)
{
    const pc__relative_config c = {.relative = buckets, .buckets = buckets, .farthest = farthest};
    int32_t before = -1;
    for (int32_t d = -farthest; d <= farthest; d++) {
        int32_t row = pc__disentangled_row(&c, d);
        CHECK_INT(row, bucket(buckets, farthest, d));
        CHECK(row >= before && row >= 0 && row < 2 * buckets);
        before = row;
    }
    CHECK_INT(pc__disentangled_row(&c, 100000), 2 * buckets - 1);
    CHECK_INT(pc__disentangled_row(&c, -100000), 0);
}

int main(void)
{
    plain();
    logarithmic(8, 128);
    logarithmic(256, 512);
    logarithmic(32, 64);
    return pc_test_end();
}
