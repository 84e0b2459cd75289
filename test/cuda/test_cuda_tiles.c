/* Catches: a tile of a call that is missing or there twice, and heavy tiles that stand together
 * while light ones are there to stand between them. */
#include <string.h>

#include "cuda/kernels/attend.h"
#include "testing.h"

enum { CALLS = 40, MOST = 400 };

static void check_tiles(const pc__cuda_call *calls, size_t count, uint32_t group, uint32_t format)
{
    static pc__cuda_tile tiles[MOST];
    static uint8_t seen[CALLS][MOST];
    uint32_t most = pc__cuda_tile_vectors(format, 128), light = pc__cuda_light_vectors(format);
    size_t expected = 0, heavy = 0, last = 0, least_gap = MOST,
           all = pc__cuda_make_tiles(calls, count, group, format, 128, NULL);
    for (size_t u = 0; u < count; u++)
        expected += (calls[u].pairs * group + most - 1) / most;
    CHECK_INT(all, expected);
    CHECK_INT(pc__cuda_make_tiles(calls, count, group, format, 128, tiles), expected);
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < all; i++) {
        uint32_t vectors = calls[tiles[i].call].pairs * group, left;
        CHECK(tiles[i].first_vector < vectors && tiles[i].first_vector % most == 0);
        CHECK_INT(seen[tiles[i].call][tiles[i].first_vector / most]++, 0);
        left = vectors - tiles[i].first_vector;
        if ((left < most ? left : most) <= light)
            continue;
        least_gap = heavy && i - last < least_gap ? i - last : least_gap;
        last = i;
        heavy++;
    }
    if (heavy > 1)
        CHECK(least_gap >= all / heavy);
}

int main(void)
{
    pc_test_rng rng = {3};
    for (size_t round = 0; round < 50; round++) {
        pc__cuda_call calls[CALLS];
        for (size_t u = 0; u < CALLS; u++)
            calls[u] = (pc__cuda_call){
                .pairs = 1 + (uint32_t)(pc_test_bits(&rng) % (u % 9 ? 6 : 200))};
        check_tiles(calls, round % 7 ? CALLS : round / 7, 1 + round % 4,
                    round % 2 ? PC__CUDA_F16 : PC__CUDA_F32);
    }
    return pc_test_end();
}
