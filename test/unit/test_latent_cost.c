/* Catches: keys that are expanded for a step of decoding or for a few rows, and keys that are not
 * expanded for a long prompt. */
#include "model/forward/latent_cost.h"
#include "testing.h"

static pc__arch deepseek(void)
{
    pc__arch arch = {0};
    arch.heads = 128;
    arch.head_dim = 192;
    arch.v_dim = 128;
    arch.latent.rank = 512;
    arch.latent.plain = 128;
    arch.latent.rotated = 64;
    return arch;
}

/* `rows` new tokens behind `before` others. */
static int expands(size_t rows, uint64_t before)
{
    pc__arch arch = deepseek();
    uint64_t keys = (before + rows + 63) / 64 * 64;
    pc__latent_rows what = {rows, rows * before + rows * (rows + 1) / 2, keys, (rows + 511) / 512};
    return pc__latent_expanded_cost(&arch, &what) < pc__latent_absorbed_cost(&arch, &what);
}

static size_t break_even(uint64_t before)
{
    size_t rows = 1;
    while (rows < 4096 && !expands(rows, before))
        rows++;
    return rows;
}

int main(void)
{
    pc__arch arch = deepseek();
    pc__latent_rows one = {1, 1000, 1024, 1};
    /* worked out by hand */
    CHECK_INT(pc__latent_absorbed_cost(&arch, &one), 1000 * 1088 + 256 * 512);
    CHECK_INT(pc__latent_expanded_cost(&arch, &one), 1000 * 320 + 1024 * 256 * 512);
    /* 256 * 512 / (1088 - 320) = 170.7; absorbing rows costs as much as expanding as many keys */
    CHECK_INT(break_even(1 << 20), 171);
    CHECK(break_even(4096) > 155 && break_even(4096) <= 171);
    /* a text of its own: the new keys cost what absorbing would; pages are expanded whole */
    CHECK(break_even(0) > 32 && break_even(0) <= 64);
    CHECK(expands(512, 4096) && expands(513, 4096) && expands(4096, 0));
    for (uint64_t before = 0; before < 1 << 20; before = 2 * before + 1)
        CHECK(!expands(1, before) && !expands(8, before));
    return pc_test_end();
}
