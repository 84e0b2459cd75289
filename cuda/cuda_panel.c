/* Packs quantised weights for the device. */
#include "cuda/cuda_panel.h"

#include <string.h>

pc__cuda_panel_format pc__cuda_panel_format_of(const pc__block_format *format)
{
    return (pc__cuda_panel_format){.bits = format->bits == 4 && !format->table ? 4 : 8,
                                   .group = format->group,
                                   .zero = format->zero,
                                   .minimum = format->minimum,
                                   .half = format->scales == PC__SCALES_F16};
}

/* The integers of one group of one feature. */
static void pack_integers(const pc__block_format *format, const pc__cuda_panel_format *to,
                          const uint8_t *q, size_t n, uint8_t *group)
{
    const uint8_t *table = format->table ? pc__block_tables[format->table] : NULL;
    for (size_t k = 0; k < to->group; k++) {
        size_t middle = to->group / 2, at = to->bits == 8 ? k : k % middle;
        uint8_t *byte = &group[(at / 4 * PC__CUDA_PANEL + n) * 4 + at % 4];
        uint8_t value = table ? table[q[k]] : q[k];
        *byte = (uint8_t)(to->bits == 8 || k < middle ? value : *byte | value << 4);
    }
}

/* Group g of row n. */
static void pack_scales(const pc__block_format *format, const pc__cuda_panel_format *to,
                        const pc__block_rows *from, size_t in, size_t g, size_t n, uint8_t *group)
{
    size_t b = n * (in / format->block) + g * format->group / format->block,
           i = n * (in / format->group) + g;
    int small = pc__has_group_scales(format);
    float scale = pc__block_scale(format, from->d[b], small ? from->scale[i] : 1);
    if (to->half)
        memcpy(group + pc__cuda_scale_at(to) + 2 * n, &from->d[b], sizeof from->d[b]);
    else
        memcpy(group + pc__cuda_scale_at(to) + 4 * n, &scale, sizeof scale);
    if (!format->minimum)
        return;
    float minimum = pc__block_scale(format, from->dmin[b], small ? from->minimum[i] : 1);
    memcpy(group + pc__cuda_minimum_at(to) + 4 * n, &minimum, sizeof minimum);
}

void pc__cuda_pack(const pc__block_format *format, size_t in, const pc__block_rows *from,
                   size_t rows, uint8_t *panel)
{
    pc__cuda_panel_format to = pc__cuda_panel_format_of(format);
    size_t bytes = pc__cuda_group_bytes(&to), groups = in / format->group;
    if (rows < PC__CUDA_PANEL)
        memset(panel, 0, groups * bytes);
    for (size_t g = 0; g < groups; g++, panel += bytes)
        for (size_t n = 0; n < rows; n++) {
            pack_integers(format, &to, from->q + n * in + g * format->group, n, panel);
            pack_scales(format, &to, from, in, g, n, panel);
        }
}
