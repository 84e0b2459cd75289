/* Attention over pages in plain C, one row at a time: the reference. */
#include <string.h>

#include "attn/cpu/attend.h"
#include "attn/half.h"

typedef struct page_view {
    const pc__attn_task *task;
    const uint8_t *data;
    uint32_t dtype;
} page_view;

static float half_at(const uint8_t *block, size_t i, uint32_t dtype)
{
    uint16_t bits = ((const uint16_t *)(const void *)block)[i];
    return dtype == PC_DTYPE_BF16 ? pc__bf16_to(bits) : pc__half_to(bits);
}

static float scaled_at(const uint8_t *block, size_t i, size_t scales, size_t scale)
{
    return half_at(block + scales, scale, PC_DTYPE_BF16) * (float)((const int8_t *)block)[i];
}

static float k_at(const page_view *v, size_t d, size_t t)
{
    if (v->dtype == PC_DTYPE_F32)
        return ((const float *)(const void *)v->data)[d * PC__PAGE + t];
    if (v->dtype == PC_DTYPE_I8)
        return scaled_at(v->data, (d / 4 * PC__PAGE + t) * 4 + d % 4,
                         pc__i8_k_scales(v->task->k_dim), d);
    return half_at(v->data, (d / 2 * PC__PAGE + t) * 2 + d % 2, v->dtype);
}

static float v_at(const page_view *v, size_t t, size_t d)
{
    const uint8_t *block = v->data + v->task->v_offset;
    size_t dim = v->task->v_dim;
    if (v->dtype == PC_DTYPE_F32)
        return ((const float *)(const void *)block)[t * dim + d];
    if (v->dtype == PC_DTYPE_I8)
        return scaled_at(block, (t / 4 * dim + d) * 4 + t % 4, pc__i8_v_scales(dim), t);
    return half_at(block, (t / 2 * dim + d) * 2 + t % 2, v->dtype);
}

static float q_at(const page_view *v, size_t r, size_t d)
{
    size_t dim = v->task->k_dim;
    return v->dtype == PC_DTYPE_BF16 ? pc__bf16_to(v->task->q16[r * (dim + dim % 2) + d])
                                     : v->task->q[r * dim + d];
}

static void row_page(const page_view *v, size_t r, size_t page, uint32_t a, uint32_t b)
{
    const pc__attn_task *task = v->task;
    float s[PC__PAGE], top = task->m[r], scale, *acc = task->acc + r * task->v_dim;
    for (uint32_t t = a; t < b; t++) {
        s[t] = 0.0f;
        for (size_t d = 0; d < task->k_dim; d++)
            s[t] += q_at(v, r, d) * k_at(v, d, t);
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
            acc[d] += p * v_at(v, t, d);
    }
}

static void attend(const pc__attn_task *task, size_t first_page, size_t last_page, uint32_t dtype)
{
    for (size_t page = first_page; page < last_page; page++) {
        page_view v = {task, task->pages + page * task->page_stride, dtype};
        for (size_t r = 0; r < task->rows; r++) {
            uint32_t a, b;
            if (pc__slice(task, r, page, &a, &b))
                row_page(&v, r, page, a, b);
        }
    }
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
