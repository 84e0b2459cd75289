/* The names of kernel levels, and the environment variable that selects one. */
#include "base/cpu_mask.h"

#include <stdlib.h>
#include <string.h>

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

pc_status pc__cpu_mask(size_t *level)
{
    const char *mask = getenv("PC_CPU_MASK");
    size_t found = mask && *mask ? pc__cpu_level(mask) : 0;
    if (level)
        *level = found < PC__CPU_LEVELS ? found : 0;
    if (found < PC__CPU_LEVELS)
        return PC_OK;
    return pc__fail(PC_ERR_INVALID,
                    "the environment's PC_CPU_MASK is '%.40s', which is none of c, avx2, avx512, "
                    "avx512vnni, avx512bf16, amx",
                    mask);
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
