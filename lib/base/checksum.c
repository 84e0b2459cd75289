/* XXH3 of the xxHash library. */
#include "base/checksum.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "base/little_endian.h"

_Static_assert(sizeof(XXH3_state_t) <= sizeof(((pc__checksum *)0)->state),
               "the state of XXH3 fits");

/* Debian's shared library has a variant for wider vectors under this name; others may lack it. On
 * Zen 4 it reads 43 GB/s from the second-level cache instead of 19. */
XXH_errorcode XXH3_128bits_update_dispatch(XXH3_state_t *state, const void *data, size_t size)
    __attribute__((weak));

static XXH3_state_t *xxh3_state(pc__checksum *checksum)
{
    return (XXH3_state_t *)(void *)checksum->state;
}

void pc__checksum_start(pc__checksum *checksum)
{
    XXH3_INITSTATE(xxh3_state(checksum));
    XXH3_128bits_reset(xxh3_state(checksum));
}

void pc__checksum_add(pc__checksum *checksum, const void *data, size_t size)
{
    if (!size)
        return;
    if (XXH3_128bits_update_dispatch)
        XXH3_128bits_update_dispatch(xxh3_state(checksum), data, size);
    else
        XXH3_128bits_update(xxh3_state(checksum), data, size);
}

void pc__checksum_end(const pc__checksum *checksum, uint8_t out[PC__CHECKSUM])
{
    XXH128_hash_t hash = XXH3_128bits_digest((const XXH3_state_t *)(const void *)checksum->state);
    pc__put_u64(out, hash.low64);
    pc__put_u64(out + 8, hash.high64);
}

void pc__checksum_of(const void *data, size_t size, uint8_t out[PC__CHECKSUM])
{
    pc__checksum checksum;
    pc__checksum_start(&checksum);
    pc__checksum_add(&checksum, data, size);
    pc__checksum_end(&checksum, out);
}
