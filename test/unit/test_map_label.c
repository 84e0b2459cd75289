/* Catches: a distance that leaves out rows, keys, heads or layers, reads a triangle or a scale from
 * the wrong place, or grows with length; a label that is not symmetric, or not 0 for equal maps;
 * reading beyond a map; other bits at another CPU level (known_bits, with PC_CPU_MASK). Compares
 * with plain loops in fp64 over dense maps. */
#include "memo/train/map_label.h"

#include <math.h>
#include <stdlib.h>

#include "testing.h"
#include "unpack_map.h"

/* A map with random rows that sum to 1, and the same as dense numbers [head][row][tokens]. */
typedef struct sample {
    pc__map_shape shape;
    void *map;
    float *dense;
} sample;

static sample sample_new(pc__map_shape shape, pc_test_rng *rng)
{
    size_t n = shape.tokens, rows = (size_t)shape.heads * n;
    sample s = {shape, malloc(pc__map_bytes(&shape)),
                calloc(rows * n, sizeof(float))}; /* up to its last byte, for the sanitizer */
    for (size_t r = 0; r < rows; r++) {
        size_t keys = shape.causal ? r % n + 1 : n;
        float *row = s.dense + r * n, sum = 0;
        for (size_t k = 0; k < keys; k++)
            sum += row[k] = 0.01f + pc_test_uniform(rng) * pc_test_uniform(rng);
        for (size_t k = 0; k < keys; k++)
            row[k] /= sum;
    }
    pc__map_pack(&shape, s.dense, s.map);
    unpack_map(&shape, s.map, s.dense);
    return s;
}

static void sample_free(sample *s)
{
    free(s->map);
    free(s->dense);
}

static double weight(const sample *s, size_t head, size_t row, size_t key)
{
    size_t n = s->shape.tokens;
    return row < n && key < n ? (double)s->dense[(head * n + row) * n + key] : 0;
}

static double plain(const pc__label_rule *rule, const sample *a, const sample *b)
{
    size_t n = a->shape.tokens > b->shape.tokens ? a->shape.tokens : b->shape.tokens,
           step = rule->row_step;
    double sum = 0;
    for (size_t h = 0; h < (size_t)a->shape.heads; h++) {
        double head = 0, rows = 0;
        for (size_t r = 0; r < n; r += step, rows++)
            for (size_t k = 0; k < n; k++) {
                double off = weight(a, h, r, k) - weight(b, h, r, k);
                head += rule->measure == PC__MAP_EUCLIDEAN ? off * off : fabs(off);
            }
        sum += rule->measure == PC__MAP_EUCLIDEAN ? 0.5 * sqrt(head / rows) : 0.5 * head / rows;
    }
    return sum / a->shape.heads;
}

static void distances(void)
{
    static const size_t lengths[][2] = {{1, 1},   {5, 5},   {16, 16}, {37, 37},
                                        {70, 70}, {20, 31}, {3, 40},  {1, 7}};
    pc_test_rng rng = {1};
    for (uint32_t format = PC_MAP_F32; format <= PC_MAP_U8; format++)
        for (int causal = 0; causal < 2; causal++)
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                sample a = sample_new((pc__map_shape){format, 3, lengths[l][0], causal}, &rng),
                       b = sample_new((pc__map_shape){format, 3, lengths[l][1], causal}, &rng);
                for (int measure = 0; measure < 2; measure++)
                    for (size_t step = 1; step <= 3; step++) {
                        pc__label_rule rule = {measure, 1, 1, step};
                        double want = plain(&rule, &a, &b),
                               got = pc__map_distance(&rule, &a.shape, a.map, &b.shape, b.map);
                        CHECK(fabs(got - want) <= 1e-6 * want + 1e-9);
                        CHECK(got == pc__map_distance(&rule, &b.shape, b.map, &a.shape, a.map));
                        CHECK(pc__map_distance(&rule, &a.shape, a.map, &a.shape, a.map) == 0);
                        CHECK(got <= 1);
                        rule.row_step = 0; /* as 1 */
                        if (step == 1)
                            CHECK(got == pc__map_distance(&rule, &a.shape, a.map, &b.shape, b.map));
                    }
                sample_free(&a);
                sample_free(&b);
            }
}

/* Disjoint maps have distance 1 for any length, heads and layers. */
static void bounds(void)
{
    for (size_t n = 2; n <= 64; n *= 2) {
        pc__map_shape shape = {PC_MAP_F32, 2, n, 0};
        float *first = calloc(2 * n * n, sizeof *first),
              *second = calloc(2 * n * n, sizeof *second);
        for (size_t r = 0; r < 2 * n; r++)
            first[r * n] = second[r * n + 1] = 1;
        pc__label_rule tv = pc__label_default, euclidean = pc__label_default;
        euclidean.measure = PC__MAP_EUCLIDEAN;
        CHECK(pc__map_distance(&tv, &shape, first, &shape, second) == 1);
        CHECK(fabs(pc__map_distance(&euclidean, &shape, first, &shape, second) - 0.5 * sqrt(2))
              < 1e-12);
        const void *a[3] = {first, first, second}, *b[3] = {second, first, first};
        CHECK(fabsf(pc__map_label(&tv, 3, &shape, a, &shape, b) - 0.2f * 2 / 3)
              < 1e-7f); /* alpha times the mean over layers */
        CHECK(pc__map_label(&tv, 3, &shape, a, &shape, a) == 0);
        free(first);
        free(second);
    }
}

/* The length term is a share of the longer length, so that it cannot hide the maps. */
static void lengths(void)
{
    pc_test_rng rng = {3};
    sample a = sample_new((pc__map_shape){PC_MAP_F16, 1, 30, 1}, &rng),
           b = sample_new((pc__map_shape){PC_MAP_F16, 1, 40, 1}, &rng);
    const void *maps_a[1] = {a.map}, *maps_b[1] = {b.map};
    pc__label_rule rule = {PC__MAP_TOTAL_VARIATION, 0, 0.5f, 1};
    CHECK(fabsf(pc__map_label(&rule, 1, &a.shape, maps_a, &b.shape, maps_b) - 0.125f) < 1e-7f);
    CHECK(fabsf(pc__map_label(&rule, 1, &b.shape, maps_b, &a.shape, maps_a) - 0.125f) < 1e-7f);
    rule.length = 0, rule.alpha = 1;
    CHECK(fabs((double)pc__map_label(&rule, 1, &b.shape, maps_b, &a.shape, maps_a)
               - plain(&rule, &a, &b))
          < 1e-6);
    CHECK(pc__map_label(&pc__label_default, 0, &a.shape, NULL, &a.shape, NULL) == 0);
    sample_free(&a);
    sample_free(&b);
}

static void known_bits(void)
{
    static const float want[] = {0x1.742cbep-4f, 0x1.6f4f66p-4f, 0x1.64e98p-4f};
    pc_test_rng rng = {4};
    for (uint32_t format = PC_MAP_F32; format <= PC_MAP_U8; format++) {
        sample a = sample_new((pc__map_shape){format, 2, 61, 1}, &rng),
               b = sample_new((pc__map_shape){format, 2, 61, 1}, &rng);
        const void *maps_a[1] = {a.map}, *maps_b[1] = {b.map};
        float got = pc__map_label(&pc__label_default, 1, &a.shape, maps_a, &b.shape, maps_b);
        CHECK(got == want[format]);
        if (got != want[format])
            printf("format %u: %a\n", format, (double)got);
        sample_free(&a);
        sample_free(&b);
    }
}

int main(void)
{
    distances();
    bounds();
    lengths();
    known_bits();
    return pc_test_end();
}
