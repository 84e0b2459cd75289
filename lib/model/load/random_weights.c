#include "model/load/random_weights.h"

#include <math.h>

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void pc__random_rows(void *user, size_t first, size_t count, float *rows)
{
    const pc__random_matrix *m = user;
    float step = m->scale / 32768.0f;
    for (size_t r = 0; r < count; r++) {
        uint64_t start = mix(m->seed + (first + r) * UINT64_C(0x9e3779b97f4a7c15));
        float *out = rows + r * m->cols;
        for (size_t c = 0; c < m->cols; c += 4) { /* four values of 16 bits to a draw */
            uint64_t draw = mix(start + c * UINT64_C(0x9e3779b97f4a7c15));
            for (size_t i = c; i < m->cols && i < c + 4; i++, draw >>= 16)
                out[i] = step * (float)(int16_t)(uint16_t)draw;
        }
    }
}

static uint64_t seed_of(const pc__random_weights *w, pc__part part, int32_t layer, int bias)
{
    return mix(
        w->seed
        + mix(((uint64_t)(uint32_t)(layer + 1) << 16 | (uint64_t)part << 1 | (uint64_t)bias) + 1));
}

/* Variance 1/cols, as trained matrices have it roughly, so that activations keep their size. */
static pc_status matrix(void *user, pc__part part, int32_t layer, size_t rows, size_t cols,
                        pc__weight_source *out)
{
    pc__random_weights *w = user;
    pc__random_matrix *m = &w->ring[w->next++ % 8];
    (void)rows;
    m->seed = seed_of(w, part, layer, 0);
    m->cols = cols;
    m->scale = part == PC__PART_EMBEDDING || part == PC__PART_POSITIONS || part == PC__PART_TYPES
                       || part == PC__PART_RELATIVE
                   ? 1.0f
                   : sqrtf(3.0f / (float)cols);
    *out = (pc__weight_source){.user = m, .rows = pc__random_rows};
    return PC_OK;
}

static int is_norm(pc__part part)
{
    return part == PC__PART_NORM1 || part == PC__PART_NORM2 || part == PC__PART_FINAL_NORM
           || part == PC__PART_EMBEDDING_NORM || part == PC__PART_RELATIVE_NORM
           || part == PC__PART_CONV_NORM;
}

/* Gains are one; nothing has a bias. */
static pc_status vector(void *user, pc__part part, int32_t layer, int bias, size_t count,
                        float *out)
{
    (void)user;
    (void)layer;
    if (bias || !is_norm(part))
        return 0;
    for (size_t i = 0; i < count; i++)
        out[i] = 1.0f;
    return 1;
}

static size_t table_rows(void *user, pc__part part)
{
    const pc__random_weights *w = user;
    if (part == PC__PART_POSITIONS)
        return (size_t)w->arch->context_length + (size_t)w->arch->position_offset;
    if (part == PC__PART_TYPES)
        return (size_t)w->arch->encoder.types;
    if (part == PC__PART_RELATIVE)
        return 2 * (size_t)w->arch->encoder.relative;
    if (part == PC__PART_POOL)
        return (size_t)w->arch->hidden;
    if (part == PC__PART_CLASSIFIER)
        return 0;
    return (size_t)w->arch->vocab;
}

void pc__random_provider(pc__random_weights *weights, const pc__arch *arch, uint64_t seed,
                         pc__provider *out)
{
    *weights = (pc__random_weights){.arch = arch, .seed = seed};
    *out = (pc__provider){weights, matrix, vector, table_rows};
}
