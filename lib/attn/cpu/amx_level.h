/* Whether AMX is usable, and the table of its kernels. */
#ifndef PC_ATTN_CPU_AMX_LEVEL_H
#define PC_ATTN_CPU_AMX_LEVEL_H

#include "attn/kernels.h"

#if defined(__x86_64__)
/* What CPUID and XCR0 report; 0 where they report nothing. */
typedef struct pc__amx_facts {
    uint32_t leaf7_edx;                        /* CPUID leaf 7 */
    uint32_t tile_row_bytes, tiles, tile_rows; /* CPUID leaf 0x1d, palette 1 */
    uint64_t xcr0;
} pc__amx_facts;
int pc__amx_present(const pc__amx_facts *facts);
#endif

/* The AMX table, or NULL if AMX is not usable. The first call asks the operating system for
 * permission. The caller checks for AVX-512 with bf16. */
const pc__kernels *pc__kernels_amx(void);

#endif
