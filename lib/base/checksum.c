/* XXH3 from the header of the xxHash library: at the level of this CPU, and as every CPU of its
 * kind can. */
#include "base/checksum.h"

#include <pthread.h>

#include "base/checksum_code.h"
#include "base/cpu_mask.h"
#include "base/little_endian.h"

_Static_assert(sizeof(XXH3_state_t) <= sizeof(((pc__checksum *)0)->state),
               "the state of XXH3 fits");

const pc__checksum_code pc__checksum_c = PC__CHECKSUM_CODE;

static const pc__checksum_code *code;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose_code(void)
{
    code = &pc__checksum_c;
#if defined(__x86_64__)
    size_t level = pc__cpu_mask();
    if (level <= PC__CPU_AVX512 && pc__cpu_has_avx512())
        code = &pc__checksum_avx512;
    else if (level <= PC__CPU_AVX2 && pc__cpu_has_avx2())
        code = &pc__checksum_avx2;
#endif
}

static const pc__checksum_code *best_code(void)
{
    pthread_once(&once, choose_code);
    return code;
}

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
    if (size)
        best_code()->add(xxh3_state(checksum), data, size);
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

uint64_t pc__checksum64_seeded(const void *data, size_t size, uint64_t seed)
{
    return best_code()->of64(data, size, seed);
}

uint64_t pc__checksum64(const void *data, size_t size)
{
    return pc__checksum64_seeded(data, size, 0);
}
