/* Catches: a kernel of the exact scan, of any level, whose distances differ by more than the
 * contract says, that gives a query other bits among others than alone, whose hits are not
 * exactly those within the limit, that reads past the end of vectors or writes past the end of
 * its results. */
#include <math.h>

#include "attn/kernels.h"
#include "guarded.h"
#include "memo/index/scan_kernels.h"
#include "testing.h"

enum { MOST_DIM = 300, MOST_QUERIES = 9 };

static double squared(const float *a, size_t a_step, const float *b, size_t dim)
{
    double sum = 0.0;
    for (size_t d = 0; d < dim; d++)
        sum += ((double)a[d * a_step] - b[d]) * ((double)a[d * a_step] - b[d]);
    return sum;
}

static int within(float got, double want, size_t dim)
{
    return fabs(got - want) <= want * (double)(dim + 2) * 0x1p-24;
}

static void fill(pc_test_rng *rng, guarded *g, float size)
{
    float *x = (float *)(void *)g->data;
    for (size_t i = 0; i < g->bytes / sizeof *x; i++)
        x[i] = size * pc_test_normal(rng);
}

static void check_block(const pc__scan_kernels *kernels, size_t dim, size_t count, pc_test_rng *rng)
{
    guarded block = guarded_new(dim * PC__SCAN_BLOCK * sizeof(float)),
            queries = guarded_new(count * dim * sizeof(float)),
            limit = guarded_new(count * sizeof(float)),
            distances = guarded_new(count * PC__SCAN_BLOCK * sizeof(float)),
            hits = guarded_new(count * sizeof(uint32_t));
    fill(rng, &block, 1.0f);
    fill(rng, &queries, dim % 2 ? 1.0f : 1e-3f);
    float *b = (float *)(void *)block.data, *q = (float *)(void *)queries.data,
          *l = (float *)(void *)limit.data, *got = (float *)(void *)distances.data,
          alone[PC__SCAN_BLOCK];
    uint32_t *h = (uint32_t *)(void *)hits.data, hit_alone;
    for (size_t i = 0; i < count; i++)
        l[i] = (float)dim * pc_test_uniform(rng) * 2.0f;
    kernels->block(b, dim, q, count, l, got, h);
    for (size_t i = 0; i < count; i++) {
        int good = 1;
        for (size_t v = 0; v < PC__SCAN_BLOCK; v++) {
            good &= within(got[i * PC__SCAN_BLOCK + v],
                           squared(b + v, PC__SCAN_BLOCK, q + i * dim, dim), dim);
            good &= (h[i] >> v & 1) == (got[i * PC__SCAN_BLOCK + v] <= l[i]);
        }
        CHECK(good);
        l[i] = got[i * PC__SCAN_BLOCK + 7]; /* exactly as far counts */
        kernels->block(b, dim, q + i * dim, 1, l + i, alone, &hit_alone);
        CHECK(!memcmp(alone, got + i * PC__SCAN_BLOCK, sizeof alone));
        CHECK(hit_alone >> 7 & 1);
    }
    CHECK(guarded_intact(&distances) && guarded_intact(&hits));
    guarded *all[] = {&block, &queries, &limit, &distances, &hits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_free(all[i]);
}

static void check_pair(const pc__scan_kernels *kernels, size_t dim, pc_test_rng *rng)
{
    guarded a = guarded_new(dim * sizeof(float)), b = guarded_new(dim * sizeof(float));
    fill(rng, &a, 1.0f);
    fill(rng, &b, 3.0f);
    const float *x = (const float *)(const void *)a.data, *y = (const float *)(const void *)b.data;
    CHECK(within(kernels->pair(x, y, dim), squared(x, 1, y, dim), dim));
    CHECK(kernels->pair(x, x, dim) == 0.0f);
    guarded_free(&a);
    guarded_free(&b);
}

int main(void)
{
    static const char *const levels[] = {"c", "avx2", "avx512"};
#if defined(__x86_64__)
    static const pc__scan_kernels *const tables[] = {&pc__scan_c, &pc__scan_avx2, &pc__scan_avx512};
#else
    static const pc__scan_kernels *const tables[] = {&pc__scan_c, NULL, NULL};
#endif
    static const size_t dims[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 100, 128, 129, MOST_DIM};
    pc_test_rng rng = {11};
    for (size_t level = 0; level < sizeof levels / sizeof *levels; level++) {
        const pc__scan_kernels *kernels = tables[level];
        if (!pc__kernels_named(levels[level])) {
            printf("%s: not here\n", levels[level]);
            continue;
        }
        CHECK_STR(kernels->name, levels[level]);
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
            for (size_t count = 1; count <= MOST_QUERIES; count++)
                check_block(kernels, dims[d], count, &rng);
            check_pair(kernels, dims[d], &rng);
        }
    }
    return pc_test_end();
}
