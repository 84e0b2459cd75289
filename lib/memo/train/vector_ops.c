/* Picks the vector operations of the CPU level. */
#include "memo/train/vector_ops.h"

#include <string.h>

#include "attn/kernels.h"

static const pc__vector_ops *vector_ops_of(const char *level)
{
#if defined(__x86_64__)
    if (!strcmp(level, "avx2"))
        return &pc__vector_ops_avx2;
    if (strcmp(level, "c"))
        return &pc__vector_ops_avx512; /* avx512 and what is above it */
#endif
    (void)level;
    return &pc__vector_ops_c;
}

const pc__vector_ops *pc__vector_ops_named(const char *name)
{
    return pc__kernels_named(name) ? vector_ops_of(name) : NULL;
}

const pc__vector_ops *pc__vector_ops_get(void)
{
    return vector_ops_of(pc__kernels_get()->name);
}
