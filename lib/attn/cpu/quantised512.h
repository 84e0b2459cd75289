/* Units of quantised weights as bytes and floats, for the kernel with AVX-512. */
#ifndef PC_ATTN_CPU_QUANTISED512_H
#define PC_ATTN_CPU_QUANTISED512_H

#include "attn/cpu/quantised_panel.h"
#include "attn/cpu/vec512.h"
#include "base/unroll.h"

/* 32 inputs of a panel. */
typedef struct unit512 {
    _Alignas(64) uint8_t bytes[PC__STEPS][PC__LINE];
    float scale[2][PC__PANEL], minimum[2][PC__PANEL]; /* of its groups */
    const uint8_t *values; /* [PC__STEPS][PC__LINE]: `bytes`, or the panel's own */
} unit512;

typedef uint16_t words512 __attribute__((vector_size(64)));

/* Shifts bits within bytes, for masks that leave out what comes from other bytes; left if n > 0. */
INLINE __m512i shifted512(__m512i x, const int n)
{
    return n >= 0 ? (__m512i)((words512)x << n) : (__m512i)((words512)x >> -n);
}

/* The bits of `mask` from a, the others from b. */
INLINE __m512i merged512(__m512i mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi64(mask, a, b, 0xca);
}

/* Steps of a unit from lines of 2 bits (`low`) or 4, and the bits above them: 0, 1 or 2. j: which
 * half of the lines. */
INLINE void unpack_half512(const uint8_t *unit, size_t j, const int low, const int high,
                           uint8_t (*to)[PC__LINE])
{
    const __m512i low_mask = _mm512_set1_epi8((char)((1 << low) - 1)),
                  high_mask = _mm512_set1_epi8((char)(((1 << high) - 1) << low));
    const int lines = low, each = low == 4 ? PC__STEPS / 4 : PC__STEPS / 2;
    PC__UNROLL(4)
    for (int i = 0; i < lines; i++) {
        __m512i line = _mm512_load_si512(unit + i * PC__LINE + 64 * j);
        PC__UNROLL(4)
        for (int k = 0; k < each; k++) {
            const int step = low == 4 ? 4 * k + i : 4 * i + k;
            __m512i q = shifted512(line, -k * low);
            if (high) {
                const int place = high == 2 ? step % 4 * 2 : step;
                __m512i above = _mm512_load_si512(unit + low * PC__LINE
                                                  + (high == 2 ? step / 4 * PC__LINE : 0) + 64 * j);
                above = _mm512_and_si512(shifted512(above, low - place), high_mask);
                q = merged512(low_mask, q, above);
            } else {
                q = _mm512_and_si512(q, low_mask);
            }
            _mm512_store_si512(to[step] + 64 * j, q);
        }
    }
}

#define UNPACK512(bits, low, high)                                               \
    static void unpack_##bits##_512(const uint8_t *unit, uint8_t(*to)[PC__LINE]) \
    {                                                                            \
        unpack_half512(unit, 0, low, high, to);                                  \
        unpack_half512(unit, 1, low, high, to);                                  \
    }
UNPACK512(2, 2, 0)
UNPACK512(3, 2, 1)
UNPACK512(4, 4, 0)
UNPACK512(5, 4, 1)
UNPACK512(6, 4, 2)

static void replace_by_table512(const uint8_t *table, uint8_t (*to)[PC__LINE])
{
    __m512i values = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table));
    for (size_t i = 0; i < PC__STEPS; i++)
        for (size_t j = 0; j < 2; j++)
            _mm512_store_si512(to[i] + 64 * j,
                               _mm512_shuffle_epi8(values, _mm512_load_si512(to[i] + 64 * j)));
}

INLINE __m512 d512(const pc__block_format *format, const uint8_t *from, size_t j)
{
    __m256i d = _mm256_load_si256((const __m256i *)(const void *)(from + 32 * j));
    if (format->scales == PC__SCALES_BF16)
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(d), 16));
    return _mm512_cvtph_ps(d);
}

INLINE __m512 bytes512(const uint8_t *from, const int nibble)
{
    __m128i bytes = _mm_load_si128((const __m128i *)(const void *)from);
    const __m512i low = _mm512_set1_epi32(15);
    if (nibble < 0)
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
    return _mm512_cvtepi32_ps(_mm512_and_si512(
        _mm512_srli_epi32(_mm512_cvtepu8_epi32(bytes), (unsigned)(4 * nibble)), low));
}

/* Scales and minimums of group `g` of a block. */
INLINE void unpack_scales512(const pc__block_format *format, const uint8_t *block, size_t g,
                             float *scale, float *minimum)
{
    const uint8_t *s = block + pc__panel_scale_at(format) + g * PC__PANEL,
                  *m = block + pc__panel_minimum_at(format) + g * PC__PANEL;
    for (size_t j = 0; j < 2; j++) {
        __m512 d = d512(format, block, j),
               dmin = format->minimum ? d512(format, block + 2 * PC__PANEL, j) : d;
        if (format->scales == PC__SCALES_BYTES) {
            d = _mm512_mul_ps(d, bytes512(s + 16 * j, -1));
            if (format->minimum)
                dmin = _mm512_mul_ps(dmin, bytes512(m + 16 * j, -1));
        } else if (format->scales == PC__SCALES_NIBBLES) {
            d = _mm512_mul_ps(d, bytes512(s + 16 * j, 0));
            dmin = _mm512_mul_ps(dmin, bytes512(s + 16 * j, 1));
        }
        _mm512_store_ps(scale + 16 * j, d);
        if (format->minimum)
            _mm512_store_ps(minimum + 16 * j, dmin);
    }
}

/* Unit `u` of a block. */
static void unpack_unit512(const pc__block_format *format, const uint8_t *block, size_t u,
                           unit512 *to)
{
    const uint8_t *unit = block + pc__panel_units_at(format) + u * pc__panel_unit_bytes(format);
    size_t groups = PC__UNIT / format->group;
    to->values = format->bits == 8 ? unit : to->bytes[0];
    switch (format->bits) {
    case 2:
        unpack_2_512(unit, to->bytes);
        break;
    case 3:
        unpack_3_512(unit, to->bytes);
        break;
    case 4:
        unpack_4_512(unit, to->bytes);
        break;
    case 5:
        unpack_5_512(unit, to->bytes);
        break;
    case 6:
        unpack_6_512(unit, to->bytes);
        break;
    default:
        break;
    }
    if (format->table)
        replace_by_table512(pc__block_tables[format->table], to->bytes);
    for (size_t i = 0; i < groups; i++)
        unpack_scales512(format, block, u * groups + i, to->scale[i], to->minimum[i]);
}

#endif
