/* The C level: the reference for panels, activations and RoPE, and the table of the level. */
#include <math.h>
#include <string.h>

#include "attn/half.h"
#include "attn/cpu/kernels_internal.h"

static void panel_f32(const pc__panel_task *task)
{
    const float *w = task->panel, *row = task->x;
    float *y = task->y;
    for (size_t r = 0; r < task->rows; r++, row += task->ldx, y += task->ldy) {
        float sum[PC__PANEL] = {0};
        for (size_t i = 0; i < task->in; i++)
            for (size_t n = 0; n < PC__PANEL; n++)
                sum[n] += row[i] * w[i * PC__PANEL + n];
        memcpy(y, sum, task->width * sizeof *y);
    }
}

void pc__panel_bf16_c(const pc__panel_task *task)
{
    const uint16_t *w = task->panel, *row = task->x;
    float *y = task->y;
    for (size_t r = 0; r < task->rows; r++, row += task->ldx, y += task->ldy) {
        float sum[PC__PANEL] = {0};
        for (size_t i = 0; i < task->in; i += 2) {
            float x0 = pc__bf16_to(row[i]), x1 = pc__bf16_to(row[i + 1]);
            for (size_t n = 0; n < PC__PANEL; n++)
                sum[n] += x0 * pc__bf16_to(w[(i * PC__PANEL) + 2 * n])
                          + x1 * pc__bf16_to(w[(i * PC__PANEL) + 2 * n + 1]);
        }
        memcpy(y, sum, task->width * sizeof *y);
    }
}

static void silu_gate(float *x, const float *up, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = x[i] / (1.0f + expf(-x[i])) * up[i];
}

static void gelu(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678118654752f));
}

static void add_rows(const float *factor, const float *rows, size_t stride, size_t count, float *y,
                     size_t width)
{
    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < width; i++)
            y[i] += factor[r] * rows[r * stride + i];
}

void pc__to_bf16_c(const float *x, size_t count, uint16_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = pc__bf16_from(x[i]);
}

void pc__to_f16_c(const float *x, size_t count, uint16_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = pc__half_from(x[i]);
}

void pc__from_bf16_c(const uint16_t *x, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = pc__bf16_to(x[i]);
}

void pc__from_f16_c(const uint16_t *x, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = pc__half_to(x[i]);
}

static void rotate(const pc__rotation *rope, const float *cosine, const float *sine, float scale,
                   const float *from, float *to, size_t heads, size_t dim)
{
    for (size_t i = 0; i < heads * dim; i++)
        to[i] = from[i] * scale;
    if (rope)
        pc__rope_rotate(rope, cosine, sine, to, heads, dim);
}

const pc__kernels pc__kernels_c = {
    .name = "c",
    .attend_f32 = pc__attend_f32_c,
    .attend_bf16 = pc__attend_bf16_c,
    .attend_f16 = pc__attend_f16_c,
    .attend_i8 = pc__attend_i8_c,
    .panel_f32 = panel_f32,
    .panel_bf16 = pc__panel_bf16_c,
    .panel_quantised = pc__panel_quantised_c,
    .quantised_pack = pc__quantised_pack_c,
    .quantise = pc__quantise_c,
    .silu_gate = silu_gate,
    .gelu = gelu,
    .add_rows = add_rows,
    .to_bf16 = pc__to_bf16_c,
    .to_f16 = pc__to_f16_c,
    .from_bf16 = pc__from_bf16_c,
    .from_f16 = pc__from_f16_c,
    .pack_f32 = pc__pack_f32_c,
    .pack_16 = pc__pack_16_c,
    .pack_i8 = pc__pack_i8_c,
    .rotate = rotate,
    .map_f32 = pc__map_f32_c,
    .map_bf16 = pc__map_bf16_c,
    .map_f16 = pc__map_f16_c,
    .weights = pc__weights_c,
};
