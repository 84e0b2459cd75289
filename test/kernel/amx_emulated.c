/* The table of the kernels that were compiled over the model (test/CMakeLists.txt renames them). */
#include "amx_emulated.h"
#include "attn/cpu/kernels_internal.h"

const pc__kernels *amx_emulated(const char *below)
{
    static pc__kernels table;
    if (!pc__kernels_named(below))
        return NULL;
    table = *pc__kernels_named(below);
    table.name = "amx, emulated";
    table.attend_bf16 = pc__attend_bf16_amx;
    table.panel_bf16 = pc__panel_bf16_amx;
    return &table;
}
