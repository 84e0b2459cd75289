/* The table of the kernels that were compiled over the model (test/CMakeLists.txt renames them). */
#include <pthread.h>

#include "amx_emulated.h"
#include "attn/cpu/kernels_internal.h"

static pc__kernels table;
static const pc__kernels *below;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
    if (!(below = pc__kernels_named("avx512bf16")))
        return;
    table = *below;
    table.name = "amx, emulated";
    table.attend_bf16 = pc__attend_bf16_amx;
    table.panel_bf16 = pc__panel_bf16_amx;
    table.panel_quantised = pc__panel_quantised_amx;
}

const pc__kernels *amx_emulated(void)
{
    pthread_once(&once, fill);
    return below ? &table : NULL;
}
