/* Panels of quantised weights as the device's kernels read them: 32 output features, group of
 * inputs after group. Each group has q, scale, minimum:
 *
 *   8 bits: q [group / 4][32][4]
 *   4 bits: q [group / 8][32][4]; low halves of the bytes: inputs 0 … group / 2 - 1, high halves:
 *           the others
 *   scale [32] fp16 or fp32 (half); minimum [32] fp32 (only with minimums)
 *
 * Other numbers of bits than 4, and values of tables, are widened to 8 bits. */
#ifndef PC_CUDA_CUDA_PANEL_H
#define PC_CUDA_CUDA_PANEL_H

#include "attn/backend.h"

typedef struct pc__cuda_panel_format {
    uint32_t bits;    /* 4 or 8; 0: not quantised */
    uint32_t group;   /* 16 or 32 */
    int32_t zero;     /* w = scale * (q - zero) - minimum */
    uint32_t minimum; /* 1: has minimums */
    uint32_t half;    /* 1: scales are fp16 */
} pc__cuda_panel_format;

/* How weights of a format lie on the device. */
pc__cuda_panel_format pc__cuda_panel_format_of(const pc__block_format *format);

enum { PC__CUDA_PANEL = 32 };

/* Bytes of one group of a panel, and where its scales and minimums begin. */
static inline size_t pc__cuda_scale_at(const pc__cuda_panel_format *format)
{
    return (size_t)format->group * format->bits / 8 * PC__CUDA_PANEL;
}

static inline size_t pc__cuda_minimum_at(const pc__cuda_panel_format *format)
{
    return pc__cuda_scale_at(format) + PC__CUDA_PANEL * (format->half ? 2u : 4u);
}

static inline size_t pc__cuda_group_bytes(const pc__cuda_panel_format *format)
{
    return pc__cuda_minimum_at(format) + (format->minimum ? PC__CUDA_PANEL * 4u : 0);
}

/* Writes `rows` <= PC__CUDA_PANEL rows into a panel; the features behind them are zero. */
void pc__cuda_pack(const pc__block_format *format, size_t in, const pc__block_rows *from,
                   size_t rows, uint8_t *panel);

#endif
