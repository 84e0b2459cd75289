/* PC_CPU_MASK in the environment: the highest level of kernels that may be used. Every context asks
 * for it, so that a level that nobody knows is an error there and no measurement runs with other
 * kernels than it says. */
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

/* The level of a name; PC__CPU_LEVELS: there is none of that name. */
size_t pc__cpu_level(const char *name);
/* *level (may be NULL): the best one where the variable is not set, or empty. PC_ERR_INVALID lists
 * the levels, and leaves *level there too. */
pc_status pc__cpu_mask(size_t *level);

#endif
