/* Chooses the kernels once: what was built, what the CPU has, what the operating system saves, what PC_CPU_MASK allows. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "attn/cpu/amx_level.h"
#include "attn/kernels.h"

static const pc__kernels *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Best first. __builtin_cpu_supports asks CPUID and XCR0. */
static const pc__kernels *supported(size_t i)
{
#if defined(__x86_64__)
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    int bf16 = avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni"); /* whoever has the first has the second */
    const pc__kernels *level[] = {
        bf16 && i == 0 ? pc__kernels_amx() : NULL, /* which asks for permission */
        bf16 ? &pc__kernels_avx512bf16 : NULL,
        avx512 ? &pc__kernels_avx512 : NULL,
        &pc__kernels_c,
    };
#else
    const pc__kernels *level[] = {NULL, NULL, NULL, &pc__kernels_c};
#endif
    return level[i];
}

static void choose(void)
{
    const char *mask = getenv("PC_CPU_MASK");
    size_t from = 0;
    if (mask && !strcmp(mask, "avx512bf16"))
        from = 1;
    else if (mask && !strcmp(mask, "avx512"))
        from = 2;
    else if (mask && !strcmp(mask, "c"))
        from = 3;
    while (!(chosen = supported(from)))
        from++;
}

const pc__kernels *pc__kernels_get(void)
{
    pthread_once(&once, choose);
    return chosen;
}

const pc__kernels *pc__kernels_named(const char *name)
{
    for (size_t i = 0; i < 4; i++)
        if (supported(i) && !strcmp(supported(i)->name, name))
            return supported(i);
    return NULL;
}
