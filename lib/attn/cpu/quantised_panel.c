/* Writes panels of quantised weights in plain C, and reads single features back. */
#include "attn/cpu/quantised_panel.h"

#include <string.h>

/* The lines of a unit that hold `bits` bits of each q: the bytes of one step, and where its bits
 * are in them. */
typedef struct step_place {
    size_t line;
    uint32_t shift;
} step_place;

static step_place place_of(uint32_t bits, size_t step)
{
    switch (bits) {
    case 8:
        return (step_place){step, 0};
    case 4:
        return (step_place){step % 4, (uint32_t)(step / 4 * 4)};
    case 2:
        return (step_place){step / 4, (uint32_t)(step % 4 * 2)};
    default:
        return (step_place){0, (uint32_t)step};
    }
}

static uint32_t read_bits(const uint8_t *lines, uint32_t bits, size_t step, size_t lane)
{
    step_place at = place_of(bits, step);
    return (uint32_t)lines[at.line * PC__LINE + lane] >> at.shift & ((1u << bits) - 1);
}

/* The bits of the four inputs of a step, of feature n. */
static uint32_t read_four(const uint8_t *lines, uint32_t bits, size_t step, size_t n)
{
    step_place at = place_of(bits, step);
    uint32_t word;
    memcpy(&word, lines + at.line * PC__LINE + 4 * n, sizeof word);
    return word >> at.shift & ((1u << bits) - 1) * 0x01010101u;
}

size_t pc__quantised_panel_bytes(const pc__block_format *format, size_t in)
{
    return in / format->block * pc__panel_block_bytes(format);
}

uint8_t pc__panel_q(const pc__block_format *format, const uint8_t *block, size_t input, size_t n)
{
    const uint8_t *unit = block + pc__panel_units_at(format)
                          + input / PC__UNIT * pc__panel_unit_bytes(format);
    uint32_t low = pc__panel_low_bits(format);
    size_t step = input % PC__UNIT / 4, lane = n * 4 + input % 4;
    uint32_t q = read_bits(unit, low, step, lane);
    if (format->bits > low)
        q |= read_bits(unit + low * PC__LINE, format->bits - low, step, lane) << low;
    return (uint8_t)q;
}

static uint16_t load_16(const uint8_t *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

float pc__panel_scale(const pc__block_format *format, const uint8_t *block, size_t group, size_t n)
{
    uint8_t s = 0;
    if (pc__has_group_scales(format))
        s = block[pc__panel_scale_at(format) + group * PC__PANEL + n];
    return pc__block_scale(format, load_16(block + 2 * n),
                           (int8_t)(format->scales == PC__SCALES_NIBBLES ? s & 15 : s));
}

float pc__panel_minimum(const pc__block_format *format, const uint8_t *block, size_t group,
                        size_t n)
{
    uint8_t m = 0;
    if (format->scales == PC__SCALES_BYTES)
        m = block[pc__panel_minimum_at(format) + group * PC__PANEL + n];
    else if (format->scales == PC__SCALES_NIBBLES)
        m = block[pc__panel_scale_at(format) + group * PC__PANEL + n] >> 4;
    return pc__block_scale(format, load_16(block + 2 * PC__PANEL + 2 * n), (int8_t)m);
}

static void pack_scales(const pc__block_format *format, const pc__block_rows *from, size_t b,
                        size_t n, uint8_t *block)
{
    size_t groups = format->block / format->group;
    memcpy(block + 2 * n, from->d + b, 2);
    if (format->minimum)
        memcpy(block + 2 * PC__PANEL + 2 * n, from->dmin + b, 2);
    for (size_t g = 0; pc__has_group_scales(format) && g < groups; g++) {
        uint8_t s = (uint8_t)from->scale[b * groups + g],
                m = format->minimum ? (uint8_t)from->minimum[b * groups + g] : 0;
        uint8_t *to = block + pc__panel_scale_at(format) + g * PC__PANEL + n;
        *to = (uint8_t)(format->scales == PC__SCALES_NIBBLES ? s | m << 4 : s);
        if (format->scales == PC__SCALES_BYTES && format->minimum)
            block[pc__panel_minimum_at(format) + g * PC__PANEL + n] = m;
    }
}

/* Writes bits [from, from + bits) of each q of one feature of a unit, given as the four q of each
 * step. `bits` is a constant. */
static inline void put_bits(const uint32_t *steps, uint32_t bits, uint32_t from, size_t n,
                            uint8_t *lines)
{
    uint32_t words[PC__STEPS] = {0}, mask = ((1u << bits) - 1) * 0x01010101u;
    for (size_t step = 0; step < PC__STEPS; step++) {
        step_place at = place_of(bits, step);
        words[at.line] |= (steps[step] >> from & mask) << at.shift;
    }
    for (size_t line = 0; line < bits; line++)
        memcpy(lines + line * PC__LINE + 4 * n, &words[line], sizeof *words);
}

static void pack_unit(const pc__block_format *format, const uint8_t *q, size_t n, uint8_t *unit)
{
    uint32_t steps[PC__STEPS], low = pc__panel_low_bits(format), high = format->bits - low;
    memcpy(steps, q, sizeof steps);
    if (low == 8)
        put_bits(steps, 8, 0, n, unit);
    else if (low == 4)
        put_bits(steps, 4, 0, n, unit);
    else
        put_bits(steps, 2, 0, n, unit);
    if (high == 2)
        put_bits(steps, 2, low, n, unit + low * PC__LINE);
    else if (high == 1)
        put_bits(steps, 1, low, n, unit + low * PC__LINE);
}

void pc__quantised_pack_c(const pc__block_format *format, size_t in, const pc__block_rows *from,
                          size_t rows, uint8_t *panel)
{
    size_t blocks = in / format->block, units = format->block / PC__UNIT;
    if (rows < PC__PANEL)
        memset(panel, 0, pc__quantised_panel_bytes(format, in));
    for (size_t b = 0; b < blocks; b++, panel += pc__panel_block_bytes(format))
        for (size_t n = 0; n < rows; n++) {
            const uint8_t *q = from->q + n * in + b * format->block;
            uint8_t *unit = panel + pc__panel_units_at(format);
            pack_scales(format, from, n * blocks + b, n, panel);
            for (size_t u = 0; u < units; u++)
                pack_unit(format, q + u * PC__UNIT, n, unit + u * pc__panel_unit_bytes(format));
        }
}

/* The q of one feature of a unit. */
static void unpack_unit(const pc__block_format *format, const uint8_t *unit, size_t n, uint8_t *q)
{
    uint32_t low = pc__panel_low_bits(format), high = format->bits - low;
    for (size_t step = 0; step < PC__STEPS; step++) {
        uint32_t four = read_four(unit, low, step, n);
        if (high)
            four |= read_four(unit + low * PC__LINE, high, step, n) << low;
        memcpy(q + 4 * step, &four, sizeof four);
    }
}

void pc__quantised_unpack(const pc__block_format *format, size_t in, const uint8_t *panel, size_t n,
                          int add, float *out)
{
    uint8_t q[PC__UNIT];
    for (size_t i = 0; i < in; i += format->group, out += format->group) {
        const uint8_t *block = panel + i / format->block * pc__panel_block_bytes(format);
        size_t at = i % format->block, group = at / format->group;
        float scale = pc__panel_scale(format, block, group, n),
              minimum = format->minimum ? pc__panel_minimum(format, block, group, n) : 0.0f;
        if (at % PC__UNIT == 0)
            unpack_unit(format,
                        block + pc__panel_units_at(format)
                            + at / PC__UNIT * pc__panel_unit_bytes(format),
                        n, q);
        for (size_t k = 0; k < format->group; k++) {
            float w = scale * (float)pc__block_value(format, q[at % PC__UNIT + k]);
            w = format->minimum ? w - minimum : w;
            out[k] = add ? out[k] + w : w;
        }
    }
}
