/* Panels of quantised weights: PC__PANEL output features, block of inputs after block of inputs. A
 * block holds, for all features of the panel:
 *
 *   d [PC__PANEL] 16 bits; with minimums dmin [PC__PANEL] 16 bits
 *   BYTES: s [groups][PC__PANEL]; with minimums m [groups][PC__PANEL]
 *   NIBBLES: [groups][PC__PANEL] s, in the high four bits m
 *   then for each unit of 32 inputs its q, as lines [PC__PANEL][4] of bytes. Inputs 4t … 4t + 3 are
 *   step t, 0 … 7:
 *     8 bits: eight lines, one a step
 *     4 to 6 bits: four lines; line i has step i in its low four bits, step i + 4 in its high four
 *     2 and 3 bits: two lines; line i has step 4i + j in bits 2j and 2j + 1
 *     then the bits above those: 3 and 5 bits: one line, with step t in bit t; 6 bits: two lines,
 * as of 2 bits
 *
 * All parts begin at multiples of 64 bytes. */
#ifndef PC_ATTN_CPU_QUANTISED_PANEL_H
#define PC_ATTN_CPU_QUANTISED_PANEL_H

#include "attn/kernels.h"

enum { PC__UNIT = 32, PC__STEPS = 8, PC__LINE = 4 * PC__PANEL };

static inline size_t pc__panel_scale_at(const pc__block_format *format)
{
    return 2 * PC__PANEL * (1 + format->minimum);
}

static inline size_t pc__panel_minimum_at(const pc__block_format *format)
{
    return pc__panel_scale_at(format) + format->block / format->group * PC__PANEL;
}

/* Where the units of a block begin. */
static inline size_t pc__panel_units_at(const pc__block_format *format)
{
    size_t at = pc__panel_scale_at(format), one = format->block / format->group * PC__PANEL;
    return format->scales == PC__SCALES_BYTES     ? at + one * (1 + format->minimum)
           : format->scales == PC__SCALES_NIBBLES ? at + one
                                                  : at;
}

static inline size_t pc__panel_unit_bytes(const pc__block_format *format)
{
    return format->bits * PC__LINE;
}

static inline size_t pc__panel_block_bytes(const pc__block_format *format)
{
    return pc__panel_units_at(format) + format->block / PC__UNIT * pc__panel_unit_bytes(format);
}

/* Bits of the first lines of a unit; the rest are above. */
static inline uint32_t pc__panel_low_bits(const pc__block_format *format)
{
    return format->bits == 8 ? 8 : format->bits >= 4 ? 4 : 2;
}

/* Of one feature: q of an input of a block, and scale and minimum of a group of it. */
uint8_t pc__panel_q(const pc__block_format *format, const uint8_t *block, size_t input, size_t n);
float pc__panel_scale(const pc__block_format *format, const uint8_t *block, size_t group, size_t n);
float pc__panel_minimum(const pc__block_format *format, const uint8_t *block, size_t group,
                        size_t n);

pc__quantised_pack_kernel pc__quantised_pack_c, pc__quantised_pack_avx2;
/* The weights of one feature, [in], to `out`, or added. */
void pc__quantised_unpack(const pc__block_format *format, size_t in, const uint8_t *panel, size_t n,
                          int add, float *out);

#endif
