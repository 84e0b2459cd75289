/* Tests that run once a CPU level (pc_add_levels() in test/CMakeLists.txt sets PC_CPU_MASK). */
#ifndef PC_TEST_LEVELS_H
#define PC_TEST_LEVELS_H

#include <stdlib.h>
#include <string.h>

#include "attn/kernels.h"
#include "testing.h"

/* Skips the test if the CPU lacks the level: otherwise it would pass at another one. */
static inline void pc_test_need_level(void)
{
    const char *mask = getenv("PC_CPU_MASK");
    static char reason[128];
    if (!mask || !*mask || !strcmp(pc__kernels_get()->name, mask))
        return;
    snprintf(reason, sizeof reason, "this CPU has no %.40s, it would run as %s", mask,
             pc__kernels_get()->name);
    pc_test_skip(reason);
}

#endif
