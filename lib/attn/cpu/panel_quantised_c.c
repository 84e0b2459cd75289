/* Quantised weights in plain C: the reference. */
#include <math.h>

#include "attn/cpu/panel.h"
#include "attn/cpu/quantised_panel.h"

/* Adds group g of the inputs. */
static float add_group(const pc__quantised_task *task, size_t row, size_t g, size_t n, float y)
{
    const pc__block_format *format = &task->format;
    const pc__quantised_inputs *in = &task->x;
    size_t first = g * format->group, at = first % format->block;
    size_t x = row * task->groups * format->group + first, i = g * in->stride + row;
    const uint8_t *block = task->panel + first / format->block * pc__panel_block_bytes(format);
    int32_t product = 0;
    float part, all = (float)in->negative_sum[i] * in->step[i];
    for (size_t k = 0; k < format->group; k++)
        product += pc__block_value(format, pc__panel_q(format, block, at + k, n))
                   * (in->wide[i] ? 256 * in->high[x + k] + in->low[x + k] : in->high[x + k]);
    part = (float)product * in->step[i];
    y = fmaf(part, pc__panel_scale(format, block, at / format->group, n), y);
    if (!format->minimum)
        return y;
    return fmaf(all, pc__panel_minimum(format, block, at / format->group, n), y);
}

void pc__panel_quantised_c(const pc__quantised_task *task)
{
    for (size_t row = 0; row < task->rows; row++)
        for (size_t n = 0; n < task->width; n++) {
            float y = 0.0f;
            for (size_t g = 0; g < task->groups; g++)
                y = add_group(task, row, g, n, y);
            task->y[row * task->ldy + n] = y;
        }
}
