/* Catches: checksums that depend on how the bytes are divided or on the variant for the CPU, or
 * that are not those of the xxHash library. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/checksum.h"
#include "base/checksum_levels.h"
#include "testing.h"

static void want_of(const void *data, size_t size, uint8_t out[PC__CHECKSUM])
{
    XXH128_canonical_t canonical; /* big-endian */
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
    for (int i = 0; i < PC__CHECKSUM; i++)
        out[i] = canonical.digest[PC__CHECKSUM - 1 - i];
}

static void test_sizes(const uint8_t *data)
{
    for (size_t size = 0; size < 3000; size += 1 + size / 40) {
        uint8_t got[PC__CHECKSUM], want[PC__CHECKSUM];
        want_of(data, size, want);
        pc__checksum_of(data, size, got);
        CHECK(!memcmp(got, want, sizeof got));
        for (size_t step = 1; step < size; step = step * 3 + 1) {
            pc__checksum sum;
            pc__checksum_start(&sum);
            for (size_t at = 0; at < size; at += step)
                pc__checksum_add(&sum, data + at, size - at < step ? size - at : step);
            pc__checksum_end(&sum, got);
            CHECK(!memcmp(got, want, sizeof got));
        }
    }
}

static void test_large(const uint8_t *data, size_t size)
{
    uint8_t got[PC__CHECKSUM], want[PC__CHECKSUM];
    for (size_t from = 0; from < 64; from += 13) { /* any alignment */
        want_of(data + from, size - from, want);
        pc__checksum_of(data + from, size - from, got);
        CHECK(!memcmp(got, want, sizeof got));
    }
}

/* The code of one level, whichever checksum.c has chosen here. */
static void test_level(const pc__checksum_code *code, const uint8_t *data)
{
    for (size_t size = 0; size < 5000; size += 1 + size / 9)
        for (size_t from = 0; from < 64; from += 21) {
            uint8_t got[PC__CHECKSUM], want[PC__CHECKSUM];
            pc__checksum sum;
            pc__checksum_start(&sum);
            code->add(sum.state, data + from, size);
            code->add(sum.state, data + from + size, size);
            pc__checksum_end(&sum, got);
            want_of(data + from, 2 * size, want);
            CHECK(!memcmp(got, want, sizeof got));
            CHECK(code->of64(data + from, size, 0) == XXH3_64bits(data + from, size));
            CHECK(code->of64(data + from, size, 7) == XXH3_64bits_withSeed(data + from, size, 7));
        }
}

static void test_levels(const uint8_t *data)
{
    test_level(&pc__checksum_c, data);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        test_level(&pc__checksum_avx2, data);
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl"))
        test_level(&pc__checksum_avx512, data);
#endif
    CHECK(pc__checksum64(data, 99) == XXH3_64bits(data, 99));
    CHECK(pc__checksum64_seeded(data, 99, 5) == XXH3_64bits_withSeed(data, 99, 5));
}

int main(void)
{
    static const uint8_t empty[PC__CHECKSUM] = {0x7f, 0x49, 0x8d, 0x46, 0x24, 0xc3, 0x01, 0x60,
                                                0xd8, 0x98, 0x47, 0x01, 0xd3, 0x06, 0xaa, 0x99};
    const size_t size = 1 << 20;
    uint8_t *data = malloc(size), got[PC__CHECKSUM];
    pc_test_rng rng = {5};
    CHECK(data);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)pc_test_bits(&rng);
    pc__checksum_of(NULL, 0, got);
    CHECK(!memcmp(got, empty, sizeof got));
    test_sizes(data);
    test_large(data, size);
    test_levels(data);
    free(data);
    return pc_test_end();
}
