/* Units of quantised weights as bytes and floats, for the kernels with AVX2: quantised512.h in
 * vectors of half the size. */
#ifndef PC_ATTN_CPU_QUANTISED256_H
#define PC_ATTN_CPU_QUANTISED256_H

#include "attn/cpu/bytes256.h"
#include "attn/cpu/quantised_panel.h"
#include "base/unroll.h"

/* 32 inputs of a panel. */
typedef struct unit256 {
    _Alignas(64) uint8_t bytes[PC__STEPS][PC__LINE];
    float scale[2][PC__PANEL], minimum[2][PC__PANEL]; /* of its groups */
    const uint8_t *values; /* [PC__STEPS][PC__LINE]: `bytes`, or the panel's own */
} unit256;

/* Steps of a unit from lines of 2 bits (`low`) or 4, and the bits above them: 0, 1 or 2. j: which
 * quarter of the lines. */
INLINE void unpack_quarter256(const uint8_t *unit, size_t j, const int low, const int high,
                              uint8_t (*to)[PC__LINE])
{
    const __m256i low_mask = _mm256_set1_epi8((char)((1 << low) - 1)),
                  high_mask = _mm256_set1_epi8((char)(((1 << high) - 1) << low));
    const int lines = low, each = low == 4 ? PC__STEPS / 4 : PC__STEPS / 2;
    PC__UNROLL(4)
    for (int i = 0; i < lines; i++) {
        __m256i line = load256(unit + i * PC__LINE + 32 * j);
        PC__UNROLL(4)
        for (int k = 0; k < each; k++) {
            const int step = low == 4 ? 4 * k + i : 4 * i + k;
            __m256i q = _mm256_and_si256(shifted256(line, -k * low), low_mask);
            if (high) {
                const int place = high == 2 ? step % 4 * 2 : step;
                __m256i above = load256(unit + low * PC__LINE
                                        + (high == 2 ? step / 4 * PC__LINE : 0) + 32 * j);
                q = _mm256_or_si256(q, _mm256_and_si256(shifted256(above, low - place), high_mask));
            }
            store256(to[step] + 32 * j, q);
        }
    }
}

#define UNPACK256(bits, low, high)                                               \
    static void unpack_##bits##_256(const uint8_t *unit, uint8_t(*to)[PC__LINE]) \
    {                                                                            \
        for (size_t j = 0; j < 4; j++)                                           \
            unpack_quarter256(unit, j, low, high, to);                           \
    }
UNPACK256(2, 2, 0)
UNPACK256(3, 2, 1)
UNPACK256(4, 4, 0)
UNPACK256(5, 4, 1)
UNPACK256(6, 4, 2)

static void replace_by_table256(const uint8_t *table, uint8_t (*to)[PC__LINE])
{
    __m256i values = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)table));
    for (size_t i = 0; i < PC__STEPS; i++)
        for (size_t j = 0; j < PC__LINE; j += 32)
            store256(to[i] + j, _mm256_shuffle_epi8(values, load256(to[i] + j)));
}

INLINE __m256 d256(const pc__block_format *format, const uint8_t *from, size_t j)
{
    __m128i d = _mm_load_si128((const __m128i *)(const void *)(from + 16 * j));
    if (format->scales == PC__SCALES_BF16)
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(d), 16));
    return _mm256_cvtph_ps(d);
}

/* nibble: 0 or 1; -1: signed bytes */
INLINE __m256 bytes256(const uint8_t *from, const int nibble)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)from);
    if (nibble < 0)
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    return _mm256_cvtepi32_ps(_mm256_and_si256(
        _mm256_srli_epi32(_mm256_cvtepu8_epi32(bytes), 4 * nibble), _mm256_set1_epi32(15)));
}

/* Scales and minimums of group `g` of a block. */
INLINE void unpack_scales256(const pc__block_format *format, const uint8_t *block, size_t g,
                             float *scale, float *minimum)
{
    const uint8_t *s = block + pc__panel_scale_at(format) + g * PC__PANEL,
                  *m = block + pc__panel_minimum_at(format) + g * PC__PANEL;
    for (size_t j = 0; j < 4; j++) {
        __m256 d = d256(format, block, j),
               dmin = format->minimum ? d256(format, block + 2 * PC__PANEL, j) : d;
        if (format->scales == PC__SCALES_BYTES) {
            d = _mm256_mul_ps(d, bytes256(s + 8 * j, -1));
            if (format->minimum)
                dmin = _mm256_mul_ps(dmin, bytes256(m + 8 * j, -1));
        } else if (format->scales == PC__SCALES_NIBBLES) {
            d = _mm256_mul_ps(d, bytes256(s + 8 * j, 0));
            dmin = _mm256_mul_ps(dmin, bytes256(s + 8 * j, 1));
        }
        _mm256_store_ps(scale + 8 * j, d);
        if (format->minimum)
            _mm256_store_ps(minimum + 8 * j, dmin);
    }
}

/* Unit `u` of a block. */
static void unpack_unit256(const pc__block_format *format, const uint8_t *block, size_t u,
                           unit256 *to)
{
    const uint8_t *unit = block + pc__panel_units_at(format) + u * pc__panel_unit_bytes(format);
    size_t groups = PC__UNIT / format->group;
    to->values = format->bits == 8 ? unit : to->bytes[0];
    switch (format->bits) {
    case 2:
        unpack_2_256(unit, to->bytes);
        break;
    case 3:
        unpack_3_256(unit, to->bytes);
        break;
    case 4:
        unpack_4_256(unit, to->bytes);
        break;
    case 5:
        unpack_5_256(unit, to->bytes);
        break;
    case 6:
        unpack_6_256(unit, to->bytes);
        break;
    default:
        break;
    }
    if (format->table)
        replace_by_table256(pc__block_tables[format->table], to->bytes);
    for (size_t i = 0; i < groups; i++)
        unpack_scales256(format, block, u * groups + i, to->scale[i], to->minimum[i]);
}

#endif
