/* XXH3, compiled into every file that includes this, with the vectors that the file's compile flags
 * allow. */
#ifndef PC_BASE_CHECKSUM_CODE_H
#define PC_BASE_CHECKSUM_CODE_H

#include "base/checksum_levels.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static void pc__checksum_code_add(void *state, const void *data, size_t size)
{
    XXH3_128bits_update(state, data, size);
}

static uint64_t pc__checksum_code_of64(const void *data, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, size, seed);
}

#define PC__CHECKSUM_CODE                             \
    {                                                 \
        pc__checksum_code_add, pc__checksum_code_of64 \
    }

#endif
