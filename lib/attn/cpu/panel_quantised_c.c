/* Quantised weights in plain C: the reference. */
#include <math.h>
#include <string.h>

#include "attn/half.h"
#include "attn/cpu/panel.h"

/* q of feature n and input k of a group. */
static int32_t q_at(const pc__block_format *format, const uint8_t *group, size_t k, size_t n)
{
    size_t half = format->group / 2, at = format->bits == 8 ? k : k % half;
    uint8_t byte = group[(at / 4 * PC__PANEL + n) * 4 + at % 4];
    return format->bits == 8 ? byte : k < half ? byte & 15 : byte >> 4;
}

static float scale_at(const pc__block_format *format, const uint8_t *group, size_t n)
{
    const uint8_t *scales = group + pc__quantised_scale_at(format);
    uint16_t half;
    float scale;
    if (format->half) {
        memcpy(&half, scales + 2 * n, sizeof half);
        return pc__half_to(half);
    }
    memcpy(&scale, scales + 4 * n, sizeof scale);
    return scale;
}

static float add_group(const pc__quantised_task *task, size_t row, size_t g, size_t n, float y)
{
    const pc__block_format *format = &task->format;
    const pc__quantised_inputs *in = &task->x;
    const uint8_t *group = task->panel + g * pc__quantised_group_bytes(format);
    size_t x = (row * task->groups + g) * format->group;
    int32_t product = 0, by = 1 << in->shift[g * in->shift_stride + row];
    float minimum;
    for (size_t k = 0; k < format->group; k++)
        product += (q_at(format, group, k, n) - format->zero)
                   * (in->low ? 256 * in->high[x + k] + in->low[x + k] : in->high[x + k]);
    y = fmaf((float)(product * by), scale_at(format, group, n), y);
    if (!format->minimum)
        return y;
    memcpy(&minimum, group + pc__quantised_minimum_at(format) + 4 * n, sizeof minimum);
    return fmaf((float)(in->negative_sum[g * in->shift_stride + row] * by), minimum, y);
}

void pc__panel_quantised_c(const pc__quantised_task *task)
{
    for (size_t row = 0; row < task->rows; row++)
        for (size_t n = 0; n < task->width; n++) {
            float y = 0.0f;
            for (size_t g = 0; g < task->groups; g++)
                y = add_group(task, row, g, n, y);
            task->y[row * task->ldy + n] = y * task->x.scale[row];
        }
}
