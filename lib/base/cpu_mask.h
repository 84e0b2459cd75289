/* PC_CPU_MASK in the environment: the highest level of kernels that may be used. A level that does
 * not exist is an error of pc_context_new (base/environment.h). */
#ifndef PC_BASE_CPU_MASK_H
#define PC_BASE_CPU_MASK_H

#include <stddef.h>

/* Best first. */
enum {
    PC__CPU_AMX,
    PC__CPU_AVX512BF16,
    PC__CPU_AVX512VNNI,
    PC__CPU_AVX512,
    PC__CPU_AVX2,
    PC__CPU_C,
    PC__CPU_LEVELS
};

/* The level of a name; PC__CPU_LEVELS: no level has it. */
size_t pc__cpu_level(const char *name);
/* The level of the variable; the best one if it is unset, empty or unknown. */
size_t pc__cpu_mask(void);
/* What the CPU and the system can, whatever the variable says. */
int pc__cpu_has_avx2(void);   /* and FMA */
int pc__cpu_has_avx512(void); /* F, BW, DQ and VL */

#endif
