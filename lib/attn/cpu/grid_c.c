/* The reference for products on a grid. */
#include <math.h>
#include <string.h>

#include "attn/half.h"
#include "attn/kernels.h"

/* q of feature n for input k of a group. */
static int32_t q_at(const pc__grid *grid, const uint8_t *group, size_t k, size_t n)
{
    size_t half = grid->group / 2, at = grid->bits == 8 ? k : k % half;
    uint8_t byte = group[(at / 4 * PC__PANEL + n) * 4 + at % 4];
    return grid->bits == 8 ? byte : k < half ? byte & 15 : byte >> 4;
}

static float scale_at(const pc__grid *grid, const uint8_t *group, size_t n)
{
    const uint8_t *scales = group + pc__grid_scale_at(grid);
    uint16_t half;
    float scale;
    if (grid->half) {
        memcpy(&half, scales + 2 * n, sizeof half);
        return pc__half_to(half);
    }
    memcpy(&scale, scales + 4 * n, sizeof scale);
    return scale;
}

static float add_group(const pc__grid_task *task, size_t row, size_t g, size_t n, float y)
{
    const pc__grid *grid = &task->grid;
    const pc__cut_rows *in = &task->x;
    const uint8_t *group = task->panel + g * pc__grid_group_bytes(grid);
    size_t x = (row * task->groups + g) * grid->group;
    int32_t product = 0, by = 1 << in->shift[g * in->apart + row];
    float minimum;
    for (size_t k = 0; k < grid->group; k++)
        product += (q_at(grid, group, k, n) - grid->zero)
                   * (in->low ? 256 * in->high[x + k] + in->low[x + k] : in->high[x + k]);
    y = fmaf((float)(product * by), scale_at(grid, group, n), y);
    if (!grid->minimum)
        return y;
    memcpy(&minimum, group + pc__grid_minimum_at(grid) + 4 * n, sizeof minimum);
    return fmaf((float)(in->less[g * in->apart + row] * by), minimum, y);
}

void pc__grid_c(const pc__grid_task *task)
{
    for (size_t row = 0; row < task->rows; row++)
        for (size_t n = 0; n < task->width; n++) {
            float y = 0.0f;
            for (size_t g = 0; g < task->groups; g++)
                y = add_group(task, row, g, n, y);
            task->y[row * task->ldy + n] = y * task->x.step[row];
        }
}
