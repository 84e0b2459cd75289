/* Catches: a mean over wrong rows, first and last row swapped, a length other than 1, a default
 * other than the model's, a head that the model lacks. */
#include "model/forward/heads.h"

#include <promptcache/memo.h>
#include <math.h>

#include "testing.h"

static void pooling(void)
{
    const float rows[3][2] = {{1, -4}, {2, 0}, {6, 1}};
    float out[2];
    pc__pool_rows(PC_POOL_MEAN, rows[0], 3, 2, out);
    CHECK(out[0] == 3 && out[1] == -1);
    pc__pool_rows(PC_POOL_FIRST, rows[0], 3, 2, out);
    CHECK(out[0] == 1 && out[1] == -4);
    pc__pool_rows(PC_POOL_LAST, rows[0], 3, 2, out);
    CHECK(out[0] == 6 && out[1] == 1);
    pc__pool_rows(PC_POOL_MEAN, rows[1], 1, 2, out);
    CHECK(out[0] == 2 && out[1] == 0);
}

static void length(void)
{
    float x[3] = {3, 0, -4}, tiny[2] = {1e-30f, 1e-30f}, zero[2] = {0, 0};
    pc__normalize(x, 3);
    CHECK(fabsf(x[0] - 0.6f) < 1e-7f && x[1] == 0 && fabsf(x[2] + 0.8f) < 1e-7f);
    pc__normalize(tiny, 2); /* their squares underflow */
    CHECK(fabsf(tiny[0] - 0.70710678f) < 1e-6f);
    pc__normalize(zero, 2);
    CHECK(zero[0] == 0 && zero[1] == 0);
}

static void defaults(void)
{
    pc__native native = {0};
    CHECK_INT(pc__pool_of(&native, PC_POOL_DEFAULT), PC_POOL_MEAN);
    native.arch.causal = 1;
    CHECK_INT(pc__pool_of(&native, PC_POOL_DEFAULT), PC_POOL_LAST);
    native.pooling.pool = PC_POOL_FIRST;
    CHECK_INT(pc__pool_of(&native, PC_POOL_DEFAULT), PC_POOL_FIRST);
    CHECK_INT(pc__pool_of(&native, PC_POOL_MEAN), PC_POOL_MEAN);
}

static void none(void)
{
    pc__native native = {.arch.name = "bert"};
    float x = 0, y;
    CHECK_STATUS(pc__head_pooled(&native, &x, 1, &y), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("no pooler");
    CHECK_STATUS(pc__head_logits(&native, &x, 1, &y), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("no classifier");
}

int main(void)
{
    pooling();
    length();
    defaults();
    none();
    return pc_test_end();
}
