/* Picks the scan kernels of the CPU level that lib/attn has chosen. */
#include <string.h>

#include "attn/kernels.h"
#include "memo/index/scan_kernels.h"

static const pc__scan_kernels *scan_kernels_of(const char *level)
{
#if defined(__x86_64__)
    if (!strcmp(level, "avx2"))
        return &pc__scan_avx2;
    if (strcmp(level, "c"))
        return &pc__scan_avx512; /* every level above AVX2 has AVX-512 */
#endif
    (void)level;
    return &pc__scan_c;
}

const pc__scan_kernels *pc__scan_kernels_get(void)
{
    return scan_kernels_of(pc__kernels_get()->name);
}

const pc__scan_kernels *pc__scan_kernels_named(const char *name)
{
    return pc__kernels_named(name) ? scan_kernels_of(name) : NULL;
}
