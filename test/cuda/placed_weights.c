/* Makes weights from their places. */
#include "placed_weights.h"

#include <stdlib.h>

#include "attn/half.h"
#include "block_formats.h"
#include "testing.h"

static uint64_t bits_at(const placed_weights *w, size_t place)
{
    pc_test_rng at = {w->seed * 1000003 + place};
    pc_test_bits(&at);
    return pc_test_bits(&at);
}

static float number_at(const placed_weights *w, size_t place)
{
    float number = (float)(int64_t)(bits_at(w, place) % 2001 - 1000) * 0.0005f;
    return w->stored == PC_DTYPE_F16 ? pc__half_to(pc__half_from(number)) : number;
}

static void give_rows(void *user, size_t first, size_t count, float *to)
{
    const placed_weights *w = user;
    for (size_t i = 0; i < count * w->in; i++)
        to[i] = number_at(w, first * w->in + i);
}

/* Numbers of d and dmin: 1/4096 to 64/4096, in fp16 or bf16. */
static uint16_t d_at(const placed_weights *w, size_t place)
{
    float d = (float)(bits_at(w, place) % 64 + 1) / 4096;
    return w->format.scales == PC__SCALES_BF16 ? pc__bf16_from(d) : pc__half_from(d);
}

static void give_quantised(void *user, size_t first, size_t count, const pc__block_rows *to)
{
    const placed_weights *w = user;
    const pc__block_format *format = &w->format;
    size_t blocks = w->in / format->block, groups = w->in / format->group;
    for (size_t i = 0; i < count * w->in; i++)
        to->q[i] = (uint8_t)(bits_at(w, first * w->in + i) & ((1u << format->bits) - 1));
    for (size_t i = 0; i < count * blocks; i++) {
        to->d[i] = d_at(w, first * blocks + i);
        if (format->minimum)
            to->dmin[i] = d_at(w, first * blocks + i + 1);
    }
    for (size_t i = 0; pc__has_group_scales(format) && i < count * groups; i++) {
        to->scale[i] = (int8_t)(bits_at(w, first * groups + i) % 16);
        to->minimum[i] = (int8_t)(bits_at(w, first * groups + i + 1) % 16);
    }
}

pc__weight_source placed_weights_source(placed_weights *w)
{
    return (pc__weight_source){.user = w,
                               .rows = give_rows,
                               .stored = w->stored,
                               .format = w->format,
                               .quantised_rows = w->format.bits ? give_quantised : NULL};
}

pc__linear *placed_weights_linear(pc__backend *backend, size_t in, size_t out, uint32_t compute,
                                  int format, int bias, uint64_t seed)
{
    placed_weights w = {
        .in = in, .seed = seed, .stored = compute == PC_DTYPE_F16 ? PC_DTYPE_F16 : 0};
    float *numbers = malloc(out * sizeof *numbers);
    pc__linear *linear = NULL;
    if (format >= 0)
        w.format = formats[format];
    for (size_t i = 0; i < out; i++)
        numbers[i] = number_at(&w, i + 77);
    pc__weight_source source = placed_weights_source(&w);
    if (compute == PC_DTYPE_F16 && pc__host_sees(backend))
        compute = PC_DTYPE_F32; /* the CPU keeps such numbers as they are, and rounds no inputs */
    CHECK_OK(backend->ops->linear_new(&linear, backend, out, in, compute, &source,
                                      bias ? numbers : NULL));
    free(numbers);
    return linear;
}
