/* Attention over pages, maps times values, and weights of maps in plain C, one row at a time: the
 * reference. */
#include <string.h>

#include "attn/cpu/attend.h"
#include "attn/cpu/map_kernels.h"
#include "attn/half.h"

/* Everything is inlined, so that the format becomes part of the loops. */
#define INLINE static inline __attribute__((always_inline))

INLINE float half_at(const uint8_t *block, size_t i, uint32_t dtype)
{
    uint16_t bits = ((const uint16_t *)(const void *)block)[i];
    return dtype == PC_DTYPE_BF16 ? pc__bf16_to(bits) : pc__half_to(bits);
}

INLINE float scaled_at(const uint8_t *block, size_t i, size_t scales, size_t scale)
{
    return half_at(block + scales, scale, PC_DTYPE_BF16) * (float)((const int8_t *)block)[i];
}

/* K of dimension d and token t, from a K block of k_dim `dim`. */
INLINE float k_at(const uint8_t *k, uint32_t dtype, size_t dim, size_t d, size_t t)
{
    if (dtype == PC_DTYPE_F32)
        return ((const float *)(const void *)k)[d * PC__PAGE + t];
    if (dtype == PC_DTYPE_I8)
        return scaled_at(k, (d / 4 * PC__PAGE + t) * 4 + d % 4, pc__i8_k_scales(dim), d);
    return half_at(k, (d / 2 * PC__PAGE + t) * 2 + d % 2, dtype);
}

INLINE float v_at(const uint8_t *v, uint32_t dtype, size_t dim, size_t t, size_t d)
{
    if (dtype == PC_DTYPE_F32)
        return ((const float *)(const void *)v)[t * dim + d];
    if (dtype == PC_DTYPE_I8)
        return scaled_at(v, (t / 4 * dim + d) * 4 + t % 4, pc__i8_v_scales(dim), t);
    return half_at(v, (t / 2 * dim + d) * 2 + t % 2, dtype);
}

INLINE float q_at(const pc__attn_task *task, uint32_t dtype, size_t r, size_t d)
{
    size_t dim = task->k_dim;
    return dtype == PC_DTYPE_BF16 ? pc__bf16_to(task->q16[r * (dim + dim % 2) + d])
                                  : task->q[r * dim + d];
}

/* Tokens [a, b) of a page. */
INLINE void row_page(const pc__attn_task *task, uint32_t dtype, size_t r, size_t page, uint32_t a,
                     uint32_t b)
{
    const uint8_t *k = task->pages + page * task->page_stride, *v = pc__task_values(task, k);
    float s[PC__PAGE], top = task->m[r], scale, *acc = task->acc + r * task->v_dim;
    for (uint32_t t = a; t < b; t++) {
        s[t] = 0.0f;
        for (size_t d = 0; d < task->k_dim; d++)
            s[t] += q_at(task, dtype, r, d) * k_at(k, dtype, task->k_dim, d, t);
    }
    pc__score_terms(task, r, page, a, b, s);
    for (uint32_t t = a; t < b; t++)
        top = fmaxf(top, s[t]);
    if (top == -INFINITY)
        return;
    scale = expf(task->m[r] - top);
    task->m[r] = top;
    task->l[r] *= scale;
    for (size_t d = 0; d < task->v_dim; d++)
        acc[d] *= scale;
    for (uint32_t t = a; t < b; t++) {
        float p = expf(s[t] - top);
        task->l[r] += p;
        for (size_t d = 0; d < task->v_dim; d++)
            acc[d] += p * v_at(v, dtype, task->v_dim, t, d);
    }
}

INLINE void attend(const pc__attn_task *task, size_t first_page, size_t last_page, uint32_t dtype)
{
    uint32_t a, b;
    for (size_t page = first_page; page < last_page; page++)
        for (size_t r = 0; r < task->rows; r++)
            if (pc__slice(task, r, page, &a, &b))
                row_page(task, dtype, r, page, a, b);
}

void pc__attend_f32_c(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend(task, first_page, last_page, PC_DTYPE_F32);
}

void pc__attend_bf16_c(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend(task, first_page, last_page, PC_DTYPE_BF16);
}

void pc__attend_f16_c(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend(task, first_page, last_page, PC_DTYPE_F16);
}

void pc__attend_i8_c(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    attend(task, first_page, last_page, PC_DTYPE_I8);
}

static float weight(const pc__map_task *task, size_t at)
{
    if (task->format == PC_MAP_F32)
        return ((const float *)task->weights)[at];
    if (task->format == PC_MAP_F16)
        return pc__half_to(((const uint16_t *)task->weights)[at]);
    return (float)((const uint8_t *)task->weights)[at];
}

INLINE void multiply_map(const pc__map_task *task, uint32_t dtype)
{
    pc__map_shape shape = {task->format, 1, task->tokens, task->causal};
    for (size_t r = 0; r < task->rows; r++) {
        size_t row = task->first + r, at = pc__map_row_at(&shape, row);
        float *out = task->out + r * task->out_stride, scale = pc__map_scale(task, row);
        memset(out, 0, task->v_dim * sizeof *out);
        for (size_t t = 0; t < pc__map_row_keys(&shape, row); t++) {
            const uint8_t *page = task->values + t / PC__PAGE * task->page_stride;
            for (size_t d = 0; d < task->v_dim; d++)
                out[d] += weight(task, at + t) * v_at(page, dtype, task->v_dim, t % PC__PAGE, d);
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

void pc__weights_c(const pc__attn_task *task, uint32_t dtype, size_t pages, float *weights,
                   size_t stride)
{
    for (size_t r = 0; r < task->rows; r++)
        for (size_t page = 0; page < pages; page++) {
            float *to = weights + r * stride + page * PC__PAGE;
            const uint8_t *k = task->pages + page * task->page_stride;
            uint32_t a, b;
            memset(to, 0, PC__PAGE * sizeof *to);
            if (!pc__slice(task, r, page, &a, &b))
                continue;
            for (uint32_t t = a; t < b; t++) {
                float sum = 0.0f;
                for (size_t d = 0; d < task->k_dim; d++)
                    sum += task->q[r * task->k_dim + d] * k_at(k, dtype, task->k_dim, d, t);
                to[t] = sum;
            }
            pc__score_terms(task, r, page, a, b, to);
            for (uint32_t t = a; t < b; t++)
                to[t] = expf(to[t] - task->m[r]);
        }
}
