/* XXH3 at each level of CPU instructions; checksum.c chooses. States have the same layout at every
 * level. */
#ifndef PC_BASE_CHECKSUM_LEVELS_H
#define PC_BASE_CHECKSUM_LEVELS_H

#include <stddef.h>
#include <stdint.h>

typedef struct pc__checksum_code {
    void (*add)(void *state, const void *data, size_t size); /* state: XXH3_state_t */
    uint64_t (*of64)(const void *data, size_t size, uint64_t seed);
} pc__checksum_code;

extern const pc__checksum_code pc__checksum_c, pc__checksum_avx2, pc__checksum_avx512;

#endif
