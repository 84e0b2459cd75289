/* Catches: a RoPE kernel of any level whose bits differ from the reference's, that reads or writes
 * past the end of a vector or of the angles, or that cannot work in place. */
#include "attn/cpu/kernels_internal.h"
#include "guarded.h"
#include "testing.h"

static const char *const levels[] = {"avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};
enum { LEVELS = sizeof levels / sizeof *levels, HEADS = 3 };

static void fill(float *x, size_t count, pc_test_rng *rng)
{
    for (size_t i = 0; i < count; i++)
        x[i] = pc_test_normal(rng);
}

/* dims 0: not rotated. */
static void same_bits(const pc__kernels *kernels, int32_t dims, int interleaved, size_t dim,
                      pc_test_rng *rng)
{
    pc__rotation rope = {dims, interleaved, 1.0f, NULL};
    size_t half = (size_t)dims / 2, bytes = HEADS * dim * sizeof(float);
    guarded c = guarded_new(half * sizeof(float)), s = guarded_new(half * sizeof(float)),
            from = guarded_new(bytes), to = guarded_new(bytes);
    float *cosine = (float *)(void *)c.data, *sine = (float *)(void *)s.data,
          *x = (float *)(void *)from.data, *y = (float *)(void *)to.data;
    float want[HEADS * PC__MAX_HEAD];
    fill(cosine, half, rng);
    fill(sine, half, rng);
    fill(x, HEADS * dim, rng);
    pc__kernels_c.rotate(dims ? &rope : NULL, cosine, sine, 0.37f, x, want, HEADS, dim);
    kernels->rotate(dims ? &rope : NULL, cosine, sine, 0.37f, x, y, HEADS, dim);
    CHECK(!memcmp(y, want, bytes));
    kernels->rotate(dims ? &rope : NULL, cosine, sine, 0.37f, x, x, HEADS, dim);
    CHECK(!memcmp(x, want, bytes));
    CHECK(guarded_intact(&c) && guarded_intact(&s) && guarded_intact(&from) && guarded_intact(&to));
    guarded_free(&c);
    guarded_free(&s);
    guarded_free(&from);
    guarded_free(&to);
}

/* By hand: (1, 2) rotated by a quarter circle is (-2, 1). */
static void reference(void)
{
    const float cosine[] = {0.0f, 1.0f}, sine[] = {1.0f, 0.0f},
                x[] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f};
    pc__rotation halves = {4, 0, 1.0f, NULL}, pairs = {4, 1, 1.0f, NULL};
    float y[5];
    pc__kernels_c.rotate(&halves, cosine, sine, 2.0f, x, y, 1, 5);
    CHECK(y[0] == -6.0f && y[1] == 4.0f && y[2] == 2.0f && y[3] == 8.0f && y[4] == 10.0f);
    pc__kernels_c.rotate(&pairs, cosine, sine, 2.0f, x, y, 1, 5);
    CHECK(y[0] == -4.0f && y[1] == 2.0f && y[2] == 6.0f && y[3] == 8.0f && y[4] == 10.0f);
}

int main(void)
{
    static const size_t sizes[] = {1, 2, 7, 16, 32, 40, 64, 80, 96, 100, 128, 256};
    pc_test_rng rng = {5};
    reference();
    for (size_t l = 0; l < LEVELS; l++) {
        const pc__kernels *kernels = pc__kernels_named(levels[l]);
        for (size_t i = 0; kernels && i < sizeof sizes / sizeof *sizes; i++)
            for (int32_t dims = 0; dims <= (int32_t)sizes[i]; dims += dims < 36 ? 2 : 14)
                for (int interleaved = 0; interleaved < 2; interleaved++)
                    same_bits(kernels, dims, interleaved, sizes[i], &rng);
    }
    return pc_test_end();
}
