/* Chooses the kernels once: the best level that is built, that the CPU and the operating system
 * support, and that PC_CPU_MASK allows. */
#include <pthread.h>

#include "attn/cpu/amx_level.h"
#include "attn/cpu/kernels_internal.h"
#include "base/cpu_mask.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const pc__kernels *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const pc__kernels *plain_c(void)
{
    return &pc__kernels_c;
}

/* __builtin_cpu_supports checks CPUID and XCR0. */
#if defined(__x86_64__)
static const pc__kernels *avx2(void)
{
    unsigned a, b, c, d; /* some compilers' __builtin_cpu_supports do not know F16C */
    int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
               ? &pc__kernels_avx2
               : NULL;
}

static const pc__kernels *avx512(void)
{
    int all = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
              && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return all && avx2() ? &pc__kernels_avx512 : NULL;
}

static const pc__kernels *avx512vnni(void)
{
    return avx512() && __builtin_cpu_supports("avx512vnni") ? &pc__kernels_avx512vnni : NULL;
}

static const pc__kernels *avx512bf16(void)
{
    return avx512vnni() && __builtin_cpu_supports("avx512bf16") ? &pc__kernels_avx512bf16 : NULL;
}

static const pc__kernels *amx(void)
{
    return avx512bf16() ? pc__kernels_amx() : NULL; /* asks for permission */
}
#endif

/* The kernels of a level: NULL if it is not built, or a function that gives NULL if this machine
 * lacks it. */
static const pc__kernels *(*const levels[PC__CPU_LEVELS])(void) = {
#if defined(__x86_64__)
    [PC__CPU_AMX] = amx,
    [PC__CPU_AVX512BF16] = avx512bf16,
    [PC__CPU_AVX512VNNI] = avx512vnni,
    [PC__CPU_AVX512] = avx512,
    [PC__CPU_AVX2] = avx2,
#endif
    [PC__CPU_C] = plain_c,
};

static const pc__kernels *kernels_of(size_t level)
{
    return level < PC__CPU_LEVELS && levels[level] ? levels[level]() : NULL;
}

static void choose_kernels(void)
{
    size_t at = pc__cpu_mask();
    while (!(chosen = kernels_of(at)))
        at++;
}

const pc__kernels *pc__kernels_get(void)
{
    pthread_once(&once, choose_kernels);
    return chosen;
}

const pc__kernels *pc__kernels_named(const char *name)
{
    return kernels_of(pc__cpu_level(name));
}

pc__attend_fn pc__attend_of(const pc__kernels *kernels, uint32_t dtype)
{
    return dtype == PC_DTYPE_F32    ? kernels->attend_f32
           : dtype == PC_DTYPE_BF16 ? kernels->attend_bf16
           : dtype == PC_DTYPE_F16  ? kernels->attend_f16
                                    : kernels->attend_i8;
}

pc__pack_fn pc__pack_of(const pc__kernels *kernels, uint32_t dtype)
{
    return dtype == PC_DTYPE_F32  ? kernels->pack_f32
           : dtype == PC_DTYPE_I8 ? kernels->pack_i8
                                  : kernels->pack_16;
}

pc__map_fn pc__map_of(const pc__kernels *kernels, uint32_t dtype)
{
    return dtype == PC_DTYPE_F32    ? kernels->map_f32
           : dtype == PC_DTYPE_BF16 ? kernels->map_bf16
                                    : kernels->map_f16;
}

pc__weights_fn pc__weights_of(const pc__kernels *kernels, uint32_t dtype)
{
    return dtype == PC_DTYPE_F32 || dtype == PC_DTYPE_BF16 ? kernels->weights : pc__weights_c;
}
