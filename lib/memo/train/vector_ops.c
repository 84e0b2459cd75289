/* Picks the vector operations of the CPU level. */
#include "memo/train/vector_ops.h"

#include <string.h>

#include "attn/kernels.h"

const pc__vector_ops *pc__vector_ops_get(void)
{
#if defined(__x86_64__)
    const char *level = pc__kernels_get()->name;
    if (!strcmp(level, "avx2"))
        return &pc__vector_ops_avx2;
    if (strcmp(level, "c"))
        return &pc__vector_ops_avx512; /* avx512 and what is above it */
#endif
    return &pc__vector_ops_c;
}
