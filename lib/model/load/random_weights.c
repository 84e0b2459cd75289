/* A provider of random weights. */
#include "model/load/random_weights.h"

#include <math.h>

#include "base/splitmix.h"

void pc__random_rows(void *user, size_t first, size_t count, float *rows)
{
    const pc__random_matrix *m = user;
    float step = m->scale / 32768.0f;
    for (size_t r = 0; r < count; r++) {
        uint64_t start = pc__splitmix_mix(m->seed + (first + r) * PC__SPLITMIX_STEP);
        float *out = rows + r * m->cols;
        for (size_t c = 0; c < m->cols; c += 4) { /* four values of 16 bits a draw */
            uint64_t draw = pc__splitmix_mix(start + c * PC__SPLITMIX_STEP);
            for (size_t i = c; i < m->cols && i < c + 4; i++, draw >>= 16)
                out[i] = step * (float)(int16_t)(uint16_t)draw;
        }
    }
}

static uint64_t seed_of(const pc__random_weights *w, pc__tensor_role role, int32_t layer, int bias)
{
    return pc__splitmix_mix(
        w->seed
        + pc__splitmix_mix(
            ((uint64_t)(uint32_t)(layer + 1) << 16 | (uint64_t)role << 1 | (uint64_t)bias) + 1));
}

/* Variance 1/cols, about that of trained matrices, so that activations keep their size. */
static pc_status random_matrix(void *user, pc__tensor_role role, int32_t layer, size_t rows,
                               size_t cols, pc__weight_source *out)
{
    pc__random_weights *w = user;
    pc__random_matrix *m = &w->ring[w->next++ % 8];
    (void)rows;
    m->seed = seed_of(w, role, layer, 0);
    m->cols = cols;
    m->scale = role == PC__ROLE_EMBEDDING || role == PC__ROLE_POSITIONS || role == PC__ROLE_TYPES
                       || role == PC__ROLE_RELATIVE
                   ? 1.0f
                   : sqrtf(3.0f / (float)cols);
    *out = (pc__weight_source){.user = m, .rows = pc__random_rows};
    return PC_OK;
}

static int is_norm(pc__tensor_role role)
{
    return role == PC__ROLE_NORM1 || role == PC__ROLE_NORM2 || role == PC__ROLE_FINAL_NORM
           || role == PC__ROLE_EMBEDDING_NORM || role == PC__ROLE_RELATIVE_NORM
           || role == PC__ROLE_CONV_NORM || role == PC__ROLE_Q_NORM || role == PC__ROLE_K_NORM
           || role == PC__ROLE_OUTPUT_NORM1 || role == PC__ROLE_OUTPUT_NORM2;
}

/* Gains are 1; there are no biases. */
static pc_status random_vector(void *user, pc__tensor_role role, int32_t layer, int bias,
                               size_t count, float *out)
{
    (void)user;
    (void)layer;
    if (bias || !is_norm(role))
        return 0;
    for (size_t i = 0; i < count; i++)
        out[i] = 1.0f;
    return 1;
}

static size_t random_table_rows(void *user, pc__tensor_role role)
{
    const pc__random_weights *w = user;
    if (role == PC__ROLE_POSITIONS)
        return (size_t)w->arch->context_length + (size_t)w->arch->position_offset;
    if (role == PC__ROLE_TYPES)
        return (size_t)w->arch->encoder.types;
    if (role == PC__ROLE_RELATIVE)
        return 2 * (size_t)w->arch->encoder.relative;
    if (role == PC__ROLE_POOL)
        return (size_t)w->arch->hidden;
    if (role == PC__ROLE_CLASSIFIER)
        return 0;
    return (size_t)w->arch->vocab;
}

void pc__random_weights_provider(pc__random_weights *weights, const pc__arch *arch, uint64_t seed,
                                 pc__weight_provider *out)
{
    *weights = (pc__random_weights){.arch = arch, .seed = seed};
    *out = (pc__weight_provider){weights, random_matrix, random_vector, random_table_rows};
}
