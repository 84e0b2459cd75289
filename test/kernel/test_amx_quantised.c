/* Catches: the faults of test_panel_quantised.c in the AMX kernels of quantised weights, also on
 * processors without AMX (see test_amx_attend.c). */
#include "amx_emulated.h"
#include "attn/cpu/amx_level.h"

static const pc__kernels *amx_level(void);
int quantised_main(void);
#define pc__kernels_get amx_level
#define main quantised_main
#include "test_panel_quantised.c"
#undef main
#undef pc__kernels_get

static const pc__kernels *level;

static const pc__kernels *amx_level(void)
{
    return level;
}

int main(void)
{
    const pc__kernels *all[] = {amx_emulated("avx512vnni"), pc__kernels_amx()
                                                                ? pc__kernels_named("amx")
                                                                : amx_trapped("avx512vnni")};
    pc_test_rng rng = {77};
    if (!all[0])
        pc_test_skip("no AVX-512 with byte products");
    for (size_t i = 0; i < 2 && all[i]; i++) {
        level = all[i];
        kernels(&rng);
    }
    return pc_test_end();
}
