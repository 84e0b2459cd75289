/* Catches: what test_dense_kernels.c catches, in the panels of AMX, also on processors without AMX
 * (see test_amx_attend.c). */
#include "amx_emulated.h"
#include "attn/cpu/amx_level.h"

static const pc__kernels *amx_level(const char *name);
int dense_kernels_main(void);
#define pc__kernels_named amx_level
#define main dense_kernels_main
#include "test_dense_kernels.c"
#undef main
#undef pc__kernels_named

static const pc__kernels *level;
static size_t asked; /* for the level that is replaced */

static const pc__kernels *amx_level(const char *name)
{
    asked += !strcmp(name, "avx512bf16");
    return !strcmp(name, "avx512bf16") ? level : NULL;
}

/* Blocks of 32 rows, in inputs on both sides of a step and of a piece, of full width and less. */
static void many_rows(pc_test_rng *rng)
{
    static const size_t ins[] = {30, 31, 32, 65, 256, 257, 520};
    for (size_t rows = 31; rows <= 81; rows += rows % 16 < 2 ? 1 : 14)
        for (size_t i = 0; i < sizeof ins / sizeof *ins; i++) {
            product p = make_product(
                1, ins[i], rows, (rows + i) % 3 ? PC__PANEL : 1 + (rows * 7 + i) % PC__PANEL, rng);
            panel(level, &p);
            guarded_free(&p.panel);
            guarded_free(&p.x);
            free(p.w);
            free(p.values);
        }
}

int main(void)
{
    const pc__kernels *all[] = {amx_emulated("avx512bf16"), pc__kernels_amx()
                                                                ? pc__kernels_named("amx")
                                                                : amx_trapped("avx512bf16")};
    pc_test_rng rng = {3};
    if (!all[0])
        pc_test_skip("no AVX-512 with bf16");
    for (size_t i = 0; i < 2 && all[i]; i++) {
        level = all[i];
        panels(&rng);
        many_rows(&rng);
    }
    CHECK(asked);
    return pc_test_end();
}
