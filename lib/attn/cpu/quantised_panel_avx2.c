/* Writes panels of quantised weights with AVX2: the bits of a quarter of a panel's features are
 * joined in registers, and each line of a block is written while the block is in the cache. */
#include <string.h>

#include "attn/cpu/bytes256.h"
#include "attn/cpu/quantised_panel.h"
#include "base/unroll.h"

enum { QUARTER = PC__PANEL / 4 }; /* features whose words of four bytes fill a vector */

/* `bytes` (8 or 16) of two rows. */
INLINE __m256i two_rows256(const uint8_t *a, const uint8_t *b, const int bytes)
{
    const __m128i *x = (const __m128i *)(const void *)a, *y = (const __m128i *)(const void *)b;
    return bytes == 16 ? _mm256_set_m128i(_mm_loadu_si128(y), _mm_loadu_si128(x))
                       : _mm256_set_m128i(_mm_loadl_epi64(y), _mm_loadl_epi64(x));
}

/* Word w of a quarter's rows in to[w]; with 8 bytes, to[2] and to[3] are of no use. */
INLINE void words_of_rows256(const uint8_t *rows, size_t stride, const int bytes, __m256i *to)
{
    __m256i x[4], low[2], high[2];
    PC__UNROLL(4)
    for (size_t i = 0; i < 4; i++)
        x[i] = two_rows256(rows + i * stride, rows + (i + 4) * stride, bytes);
    PC__UNROLL(2)
    for (size_t i = 0; i < 2; i++) {
        low[i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
        high[i] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
    }
    to[0] = _mm256_unpacklo_epi64(low[0], low[1]);
    to[1] = _mm256_unpackhi_epi64(low[0], low[1]);
    to[2] = _mm256_unpacklo_epi64(high[0], high[1]);
    to[3] = _mm256_unpackhi_epi64(high[0], high[1]);
}

/* Bits [from, from + bits) of each q of a quarter, given as its steps, into its part of the lines.
 */
INLINE void put_lines256(const __m256i *steps, const int bits, const int from, uint8_t *lines)
{
    const int each = bits == 8 ? 1 : bits == 4 ? 2 : bits == 2 ? 4 : 8; /* steps of a line */
    PC__UNROLL(8)
    for (int i = 0; i < bits; i++) {
        __m256i line = _mm256_setzero_si256();
        PC__UNROLL(8)
        for (int k = 0; k < each; k++) {
            const int step = bits == 4 ? 4 * k + i : bits == 2 ? 4 * i + k : i + k;
            const __m256i mask = _mm256_set1_epi8((char)(((1 << bits) - 1) << (k * bits)));
            line = _mm256_or_si256(
                line, _mm256_and_si256(shifted256(steps[step], k * bits - from), mask));
        }
        store256(lines + i * PC__LINE, line);
    }
}

INLINE void pack_quarter256(const uint8_t *q, size_t in, size_t units, const int low,
                            const int high, uint8_t *to)
{
    for (size_t u = 0; u < units; u++, q += PC__UNIT, to += (low + high) * PC__LINE) {
        __m256i steps[PC__STEPS];
        words_of_rows256(q, in, 16, steps);
        words_of_rows256(q + 16, in, 16, steps + 4);
        put_lines256(steps, low, 0, to);
        if (high)
            put_lines256(steps, high, low, to + low * PC__LINE);
    }
}

/* `units` units of all rows; `q` is that of row 0. A quarter's rows are read to the end of the
 * block, so that whole cache lines of them are used at once. */
#define PACK256(bits, low, high)                                                               \
    static void pack_##bits##_256(const uint8_t *q, size_t in, size_t units, uint8_t *to)      \
    {                                                                                          \
        for (size_t j = 0; j < 4; j++)                                                         \
            pack_quarter256(q + j * QUARTER * in, in, units, low, high, to + j * 4 * QUARTER); \
    }
PACK256(2, 2, 0)
PACK256(3, 2, 1)
PACK256(4, 4, 0)
PACK256(5, 4, 1)
PACK256(6, 4, 2)
PACK256(8, 8, 0)

typedef void pack_units256(const uint8_t *q, size_t in, size_t units, uint8_t *to);

static pack_units256 *units_of(const pc__block_format *format)
{
    static pack_units256 *const all[] = {
        [2] = pack_2_256, [3] = pack_3_256, [4] = pack_4_256,
        [5] = pack_5_256, [6] = pack_6_256, [8] = pack_8_256,
    };
    return all[format->bits];
}

/* The bytes of four groups, from a word of them of each feature, a quarter a vector. */
INLINE void bytes_of_words256(const __m256i *words, __m256i *to)
{
    const __m256i bytes = _mm256_broadcastsi128_si256(
                      _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)),
                  halves = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i x[4], even[2], odd[2];
    PC__UNROLL(4)
    for (size_t j = 0; j < 4; j++)
        x[j] = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(words[j], bytes), halves);
    PC__UNROLL(2)
    for (size_t i = 0; i < 2; i++) {
        even[i] = _mm256_unpacklo_epi64(x[2 * i], x[2 * i + 1]);
        odd[i] = _mm256_unpackhi_epi64(x[2 * i], x[2 * i + 1]);
    }
    to[0] = _mm256_permute2x128_si256(even[0], even[1], 0x20);
    to[1] = _mm256_permute2x128_si256(odd[0], odd[1], 0x20);
    to[2] = _mm256_permute2x128_si256(even[0], even[1], 0x31);
    to[3] = _mm256_permute2x128_si256(odd[0], odd[1], 0x31);
}

/* Writes the s or m of `groups` groups (8 or 16) of all features; above: into the high four bits of
 * what is there. */
INLINE void put_groups256(const int8_t *rows, size_t stride, const int groups, const int above,
                          uint8_t *to)
{
    __m256i quarters[4][4], words[4], bytes[4];
    for (size_t j = 0; j < 4; j++)
        words_of_rows256((const uint8_t *)rows + j * QUARTER * stride, stride, groups, quarters[j]);
    PC__UNROLL(4)
    for (int w = 0; w < groups; w += 4) {
        PC__UNROLL(4)
        for (size_t j = 0; j < 4; j++)
            words[j] = quarters[j][w / 4];
        bytes_of_words256(words, bytes);
        for (size_t g = 0; g < 4; g++, to += PC__PANEL) {
            __m256i high = _mm256_and_si256(shifted256(bytes[g], 4), _mm256_set1_epi8((char)0xf0));
            store256(to, above ? _mm256_or_si256(load256(to), high) : bytes[g]);
        }
    }
}

/* `at`: where the groups of the block begin in those of row 0; `stride` from row to row. */
INLINE void pack_groups256(const pc__block_format *format, const pc__block_rows *from, size_t at,
                           size_t stride, const int groups, uint8_t *block)
{
    uint8_t *scale = block + pc__panel_scale_at(format);
    put_groups256(from->scale + at, stride, groups, 0, scale);
    if (format->minimum && format->scales == PC__SCALES_NIBBLES)
        put_groups256(from->minimum + at, stride, groups, 1, scale);
    else if (format->minimum)
        put_groups256(from->minimum + at, stride, groups, 0, block + pc__panel_minimum_at(format));
}

static void pack_d(const uint16_t *d, size_t stride, uint8_t *to)
{
    for (size_t n = 0; n < PC__PANEL; n++)
        memcpy(to + 2 * n, d + n * stride, 2);
}

void pc__quantised_pack_avx2(const pc__block_format *format, size_t in, const pc__block_rows *from,
                             size_t rows, uint8_t *panel)
{
    size_t blocks = in / format->block, groups = format->block / format->group;
    pack_units256 *pack_units = units_of(format);
    if (rows < PC__PANEL) {
        pc__quantised_pack_c(format, in, from, rows, panel);
        return;
    }
    for (size_t b = 0; b < blocks; b++, panel += pc__panel_block_bytes(format)) {
        pack_d(from->d + b, blocks, panel);
        if (format->minimum)
            pack_d(from->dmin + b, blocks, panel + 2 * PC__PANEL);
        if (pc__has_group_scales(format) && groups == 8)
            pack_groups256(format, from, b * groups, blocks * groups, 8, panel);
        else if (pc__has_group_scales(format))
            pack_groups256(format, from, b * groups, blocks * groups, 16, panel);
        pack_units(from->q + b * format->block, in, format->block / PC__UNIT,
                   panel + pc__panel_units_at(format));
    }
}
