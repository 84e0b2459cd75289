/* Catches: what test_attend_kernels.c catches, in the attention of AMX, also on processors without
 * AMX: compiled over a model of the tile instructions, and as the object code of the library with
 * its tile instructions trapped. In the object code it also catches stores to a tile configuration
 * or to scratch memory that the compiler drops, or moves behind the tile instruction that reads
 * them. */
#include "amx_emulated.h"
#include "attn/cpu/amx_level.h"

/* The scenes are those of all levels; here the names of levels lead to these kernels. */
static const pc__kernels *amx_level(const char *name);
int attend_kernels_main(void);
#define pc__kernels_named amx_level
#define main attend_kernels_main
#include "test_attend_kernels.c"
#undef main
#undef pc__kernels_named

static const pc__kernels *level;
static size_t asked; /* for the level that is replaced */

static const pc__kernels *amx_level(const char *name)
{
    if (!strcmp(name, "c"))
        return pc__kernels_named(name);
    asked += !strcmp(name, "avx512bf16");
    return !strcmp(name, "avx512bf16") ? level : NULL;
}

/* Blocks of 16 rows: a last one that reaches back into the rows before it. */
static void many_rows(void)
{
    static const size_t rows[] = {15, 16, 17, 31, 32, 33, 40};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < KINDS; k++) {
            scene s = {.bf16 = 1,
                       .kind = (kind)k,
                       .rows = rows[i],
                       .tokens = 70 + 20 * k,
                       .k_dim = i % 2 ? 64 : 72,
                       .v_dim = i % 3 ? 64 : 100};
            try_scene(&s,
                      (options){.all = k % 2 == 0, .cap = k == 1, .slopes = k == 2, .skip = k == 4},
                      1000 + i * KINDS + k);
        }
}

int main(void)
{
    const pc__kernels *levels[] = {amx_emulated("avx512bf16"), pc__kernels_amx()
                                                                   ? pc__kernels_named("amx")
                                                                   : amx_trapped("avx512bf16")};
    if (!levels[0])
        pc_test_skip("no AVX-512 with bf16");
    for (size_t i = 0; i < 2 && levels[i]; i++) {
        level = levels[i];
        dims_and_rows(1);
        tails(1);
        many_rows();
        nothing_seen(level, 1);
    }
    CHECK(asked);
    return pc_test_end();
}
