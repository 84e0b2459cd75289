/* Pooled inputs with a known structure, for tests of projectors: a few numbers decide the labels;
 * other, louder ones do not. */
#ifndef PC_FEATURE_ITEMS_H
#define PC_FEATURE_ITEMS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "testing.h"

enum { TELLING = 3, LOUD = 8 };
typedef struct feature_items {
    size_t count, cells;
    float *pooled;             /* [count][cells] */
    float (*telling)[TELLING]; /* [count] */
    uint32_t *groups;          /* [count] */
} feature_items;

static inline feature_items feature_items_new(size_t count, size_t cells, uint64_t seed)
{
    pc_test_rng rng = {seed};
    feature_items f = {count, cells, malloc(count * cells * sizeof(float)),
                       malloc(count * sizeof(float[TELLING])), malloc(count * sizeof(uint32_t))};
    float *mix = malloc(cells * (TELLING + LOUD) * sizeof *mix);
    for (size_t i = 0; i < cells * (TELLING + LOUD); i++)
        mix[i] = pc_test_normal(&rng);
    for (size_t i = 0; i < count; i++) {
        float loud[LOUD];
        f.groups[i] = 20 + (uint32_t)(pc_test_bits(&rng) % 5);
        for (size_t k = 0; k < TELLING; k++)
            f.telling[i][k] = pc_test_normal(&rng);
        for (size_t k = 0; k < LOUD; k++)
            loud[k] = 2 * pc_test_normal(&rng);
        for (size_t c = 0; c < cells; c++) {
            float x = 5 + 0.1f * pc_test_normal(&rng);
            for (size_t k = 0; k < TELLING; k++)
                x += mix[c * (TELLING + LOUD) + k] * f.telling[i][k];
            for (size_t k = 0; k < LOUD; k++)
                x += mix[c * (TELLING + LOUD) + TELLING + k] * loud[k];
            f.pooled[i * cells + c] = x;
        }
    }
    free(mix);
    return f;
}

static inline void feature_items_free(feature_items *f)
{
    free(f->pooled);
    free(f->telling);
    free(f->groups);
}

/* Like labels of maps: around 0.05, 0 for equal items. */
static inline float feature_items_label(void *user, size_t i, size_t j)
{
    const feature_items *f = user;
    float sum = 0;
    for (size_t k = 0; k < TELLING; k++)
        sum += (f->telling[i][k] - f->telling[j][k]) * (f->telling[i][k] - f->telling[j][k]);
    return 0.025f * sqrtf(sum);
}

#endif
