/* The table of the kernels that were compiled over the model (test/CMakeLists.txt renames them). */
#include "amx_emulated.h"
#include "attn/cpu/kernels_amx.h"

const pc__kernels *amx_emulated(void)
{
    static pc__kernels table;
    if (!pc__kernels_named("avx512bf16"))
        return NULL;
    table = *pc__kernels_named("avx512bf16");
    table.name = "amx, emulated";
    table.attend_bf16 = pc__attend_bf16_amx;
    table.panel_bf16 = pc__panel_bf16_amx;
    table.grid = pc__grid_amx;
    return &table;
}
