/* Maps times values, and weights of maps, in plain C: the reference. */
#include <math.h>
#include <string.h>

#include "attn/cpu/attend.h"
#include "attn/half.h"
#include "attn/cpu/map_kernels.h"

static float weight(const pc__map_task *task, size_t at)
{
    if (task->format == PC_MAP_F32)
        return ((const float *)task->weights)[at];
    if (task->format == PC_MAP_F16)
        return pc__half_to(((const uint16_t *)task->weights)[at]);
    return (float)((const uint8_t *)task->weights)[at];
}

static float value(const void *page, uint32_t dtype, size_t v_dim, size_t t, size_t d)
{
    if (dtype == PC_DTYPE_F32)
        return ((const float *)page)[t * v_dim + d];
    uint16_t bits = ((const uint16_t *)page)[(t / 2 * v_dim + d) * 2 + t % 2];
    return dtype == PC_DTYPE_BF16 ? pc__bf16_to(bits) : pc__half_to(bits);
}

static void multiply_map(const pc__map_task *task, uint32_t dtype)
{
    pc__map_shape shape = {task->format, 1, task->tokens, task->causal};
    for (size_t r = 0; r < task->rows; r++) {
        size_t row = task->first + r, at = pc__map_row_at(&shape, row);
        float *out = task->out + r * task->out_stride, scale = pc__map_scale(task, row);
        memset(out, 0, task->v_dim * sizeof *out);
        for (size_t t = 0; t < pc__map_row_keys(&shape, row); t++) {
            const uint8_t *page = task->values + t / PC__PAGE * task->page_stride;
            for (size_t d = 0; d < task->v_dim; d++)
                out[d] += weight(task, at + t) * value(page, dtype, task->v_dim, t % PC__PAGE, d);
        }
        for (size_t d = 0; d < task->v_dim; d++)
            out[d] *= scale;
    }
}

void pc__map_f32_c(const pc__map_task *task)
{
    multiply_map(task, PC_DTYPE_F32);
}

void pc__map_bf16_c(const pc__map_task *task)
{
    multiply_map(task, PC_DTYPE_BF16);
}

void pc__map_f16_c(const pc__map_task *task)
{
    multiply_map(task, PC_DTYPE_F16);
}

static float score_of(const pc__attn_task *task, size_t r, const void *page, uint32_t dtype,
                      size_t t)
{
    float sum = 0.0f;
    for (size_t d = 0; d < task->k_dim; d++) {
        size_t at = (d / 2 * PC__PAGE + t) * 2 + d % 2;
        float k = dtype == PC_DTYPE_F32    ? ((const float *)page)[d * PC__PAGE + t]
                  : dtype == PC_DTYPE_BF16 ? pc__bf16_to(((const uint16_t *)page)[at])
                                           : pc__half_to(((const uint16_t *)page)[at]);
        sum += task->q[r * task->k_dim + d] * k;
    }
    return sum;
}

void pc__weights_c(const pc__attn_task *task, uint32_t dtype, size_t pages, float *weights,
                   size_t stride)
{
    for (size_t r = 0; r < task->rows; r++)
        for (size_t page = 0; page < pages; page++) {
            float *to = weights + r * stride + page * PC__PAGE;
            uint32_t a, b;
            memset(to, 0, PC__PAGE * sizeof *to);
            if (!pc__slice(task, r, page, &a, &b))
                continue;
            for (uint32_t t = a; t < b; t++)
                to[t] = score_of(task, r, task->pages + page * task->page_stride, dtype, t);
            pc__score_terms(task, r, page, a, b, to);
            for (uint32_t t = a; t < b; t++)
                to[t] = expf(to[t] - task->m[r]);
        }
}
