/* Picks the scan kernels of the CPU level that lib/attn has chosen. */
#include <string.h>

#include "attn/kernels.h"
#include "memo/index/scan_kernels.h"

const pc__scan_kernels *pc__scan_kernels_get(void)
{
#if defined(__x86_64__)
    const char *level = pc__kernels_get()->name;
    if (!strcmp(level, "avx2"))
        return &pc__scan_avx2;
    if (strcmp(level, "c"))
        return &pc__scan_avx512; /* every level above AVX2 has AVX-512 */
#endif
    return &pc__scan_c;
}
