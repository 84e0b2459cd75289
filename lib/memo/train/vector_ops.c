/* Picks the vector operations of the CPU level. */
#include "memo/train/vector_ops.h"

#include <string.h>

#include "attn/kernels.h"

const pc__vector_ops *pc__vector_ops_named(const char *name)
{
#if defined(__x86_64__)
    if (!strcmp(name, "avx512"))
        return pc__kernels_named("avx512") ? &pc__vector_ops_avx512 : NULL;
    if (!strcmp(name, "avx2"))
        return pc__kernels_named("avx2") ? &pc__vector_ops_avx2 : NULL;
#endif
    return strcmp(name, "c") ? NULL : &pc__vector_ops_c;
}

const pc__vector_ops *pc__vector_ops_get(void)
{
    const char *level = pc__kernels_get()->name;
#if defined(__x86_64__)
    if (!strcmp(level, "avx2"))
        return &pc__vector_ops_avx2;
    if (strcmp(level, "c"))
        return &pc__vector_ops_avx512; /* avx512 and what is above it */
#endif
    (void)level;
    return &pc__vector_ops_c;
}
