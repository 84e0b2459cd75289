/* Replaces the choice of kernels (linked with --wrap=pc__kernels_get), so that tests of the planner
 * and of whole models run on those of AMX. */
#include <pthread.h>

#include "amx_emulated.h"

const pc__kernels *__wrap_pc__kernels_get(void);
const pc__kernels *__real_pc__kernels_get(void);

static const pc__kernels *emulated;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
    emulated = amx_emulated("avx512bf16");
}

const pc__kernels *__wrap_pc__kernels_get(void)
{
    pthread_once(&once, find);
    return emulated ? emulated : __real_pc__kernels_get();
}
