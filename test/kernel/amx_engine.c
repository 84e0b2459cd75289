/* Replaces the choice of kernels (linked with --wrap=pc__kernels_get), so that tests of the planner
 * and of whole models run on those of AMX. */
#include "amx_emulated.h"

const pc__kernels *__wrap_pc__kernels_get(void);
const pc__kernels *__real_pc__kernels_get(void);

const pc__kernels *__wrap_pc__kernels_get(void)
{
    return amx_emulated() ? amx_emulated() : __real_pc__kernels_get();
}
