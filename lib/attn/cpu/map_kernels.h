/* The kernels of attention maps of all levels, and what they share: where the weights of a row
 * are. */
#ifndef PC_ATTN_CPU_MAP_KERNELS_H
#define PC_ATTN_CPU_MAP_KERNELS_H

#include <string.h>

#include "attn/kernels.h"
#include "attn/map.h"

pc__map_kernel pc__map_f32_c, pc__map_bf16_c, pc__map_f16_c, pc__map_f32_avx2, pc__map_bf16_avx2,
    pc__map_f16_avx2, pc__map_f32_avx512, pc__map_bf16_avx512, pc__map_f16_avx512,
    pc__map_bf16_avx512bf16;
pc__weights_kernel pc__weights_c, pc__weights_avx2, pc__weights_avx512;

/* The keys of a row, and where its weights begin. */
static inline size_t pc__map_keys(const pc__map_task *task, size_t row)
{
    return task->causal ? row + 1 : task->tokens;
}

static inline const uint8_t *pc__map_weights_at(const pc__map_task *task, size_t row)
{
    size_t at = task->causal ? row * (row + 1) / 2 : row * task->tokens;
    return (const uint8_t *)task->weights + at * pc__map_weight_bytes(task->format);
}

/* The stored weights of a row for the PC__PAGE tokens of a page: in place, or in `own` with zeros
 * behind the last key. */
static inline const void *pc__map_page(const pc__map_task *task, size_t row, size_t page, void *own)
{
    size_t width = pc__map_weight_bytes(task->format), first = page * PC__PAGE,
           keys = pc__map_keys(task, row);
    const uint8_t *at = pc__map_weights_at(task, row) + first * width;
    size_t left = keys > first ? keys - first : 0;
    if (left >= PC__PAGE)
        return at;
    memset(own, 0, PC__PAGE * width);
    if (left)
        memcpy(own, at, left * width);
    return own;
}

/* Tokens of a page that the last of some rows sees, rounded up to even. */
static inline size_t pc__map_steps(const pc__map_task *task, size_t last_row, size_t page)
{
    size_t keys = pc__map_keys(task, last_row), first = page * PC__PAGE;
    size_t steps = keys > first ? keys - first : 0;
    return steps < PC__PAGE ? (steps + 1) & ~(size_t)1 : PC__PAGE;
}

static inline float pc__map_scale(const pc__map_task *task, size_t row)
{
    float scale = 1.0f;
    if (task->format == PC_MAP_U8)
        memcpy(&scale, (const uint8_t *)task->scale + row * sizeof scale, sizeof scale);
    return scale;
}

#endif
