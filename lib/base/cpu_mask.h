/* PC_CPU_MASK in the environment: the highest level of kernels that may be used. pc_context_new
 * checks it, so that a misspelt level is an error and no measurement uses other kernels than it
 * reports. */
#ifndef PC_BASE_CPU_MASK_H
#define PC_BASE_CPU_MASK_H

#include <stddef.h>

#include "base/fail.h"

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
/* *level (may be NULL): of the variable; the best one if it is unset, empty or unknown. Unknown:
 * PC_ERR_INVALID, and the text lists the levels. */
pc_status pc__cpu_mask(size_t *level);
/* What the CPU and the system can, whatever the variable says. */
int pc__cpu_has_avx2(void);   /* and FMA */
int pc__cpu_has_avx512(void); /* F, BW, DQ and VL */

#endif
