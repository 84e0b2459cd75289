/* The AMX level: the AVX-512 bf16 kernels, with tiles where they are faster. It exists if the CPU
 * has tiles of the size that the kernels need, if the operating system saves them, and if it
 * permits this process to use them: Linux wants to be asked once per process. */
#include "attn/cpu/amx_level.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attn/cpu/kernels_internal.h"

int pc__amx_present(const pc__amx_facts *facts)
{
    const uint32_t instructions = 1u << 22 | 1u << 24 | 1u << 25; /* AMX-BF16, AMX-TILE, AMX-INT8 */
    const uint64_t saved = 3u << 17; /* tile configuration, tile data */
    return (facts->leaf7_edx & instructions) == instructions && (facts->xcr0 & saved) == saved
           && facts->tile_row_bytes >= 64 && facts->tiles >= 8 && facts->tile_rows >= 16;
}

static pc__amx_facts amx_facts_here(void)
{
    pc__amx_facts facts = {0};
    unsigned a, b, c, d, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) /* OSXSAVE: xgetbv exists */
        return facts;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(high) : "c"(0));
    facts.xcr0 = (uint64_t)high << 32 | a;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
        facts.leaf7_edx = d;
    if (__get_cpuid_count(0x1d, 1, &a, &b, &c, &d)) { /* palette 1 */
        facts.tile_row_bytes = b & 0xffff;
        facts.tiles = b >> 16;
        facts.tile_rows = c & 0xffff;
    }
    return facts;
}

static int permitted(void)
{
    /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA of Linux 5.16 */
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static pc__kernels table;
static int usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_amx_table(void)
{
    pc__amx_facts facts = amx_facts_here();
    usable = pc__amx_present(&facts) && permitted();
    table = pc__kernels_avx512bf16;
    table.name = "amx";
    table.attend_bf16 = pc__attend_bf16_amx;
    table.panel_bf16 = pc__panel_bf16_amx;
}

const pc__kernels *pc__kernels_amx(void)
{
    pthread_once(&once, fill_amx_table);
    return usable ? &table : NULL;
}
#else
const pc__kernels *pc__kernels_amx(void)
{
    return NULL;
}
#endif
