/* The names of kernel levels, and the variable of the environment that selects one. */
#include "base/cpu_mask.h"

#include <string.h>

#include "base/environment.h"

static const char *const level_names[PC__CPU_LEVELS] = {[PC__CPU_AMX] = "amx",
                                                        [PC__CPU_AVX512BF16] = "avx512bf16",
                                                        [PC__CPU_AVX512VNNI] = "avx512vnni",
                                                        [PC__CPU_AVX512] = "avx512",
                                                        [PC__CPU_AVX2] = "avx2",
                                                        [PC__CPU_C] = "c"};

size_t pc__cpu_level(const char *name)
{
    size_t level = 0;
    while (level < PC__CPU_LEVELS && strcmp(level_names[level], name))
        level++;
    return level;
}

size_t pc__cpu_mask(void)
{
    const char *mask = pc__environment(PC__ENV_CPU_MASK);
    size_t level = mask ? pc__cpu_level(mask) : 0;
    return level < PC__CPU_LEVELS ? level : 0;
}

int pc__cpu_has_avx2(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

int pc__cpu_has_avx512(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    return 0;
#endif
}
