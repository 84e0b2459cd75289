/* Catches: a CPU level whose results differ from plain C by a bit; reading or writing beyond rows;
 * sums that are wrong, against fp64. */
#include "memo/train/vector_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/half.h"
#include "attn/kernels.h"
#include "testing.h"

static const char *const levels[] = {"c", "avx2", "avx512"};
#if defined(__x86_64__)
static const pc__vector_ops *const tables[] = {&pc__vector_ops_c, &pc__vector_ops_avx2,
                                               &pc__vector_ops_avx512};
#else
static const pc__vector_ops *const tables[] = {&pc__vector_ops_c, NULL, NULL};
#endif
enum { LEVELS = 3, MOST = 5000, ROWS_MOST = 70 };

static void *filled(size_t floats, pc_test_rng *rng)
{
    float *x = malloc(floats * sizeof *x); /* up to its last byte, for the sanitizer */
    for (size_t i = 0; i < floats; i++)
        x[i] = pc_test_normal(rng);
    return x;
}

static void linear(const pc__vector_ops *loops, size_t ins, size_t outs, size_t rows, size_t spare)
{
    pc_test_rng rng = {ins * 1000 + outs + rows};
    float *w = filled(ins * outs, &rng), *x = filled(rows * ins + (rows - 1) * spare, &rng),
          *y = filled(rows * outs, &rng), *want = malloc(rows * outs * sizeof *want);
    memcpy(want, y, rows * outs * sizeof *y);
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < outs; o++) {
            double exact = (double)want[r * outs + o], size = fabs(exact);
            for (size_t i = 0; i < ins; i++) {
                float product = x[r * (ins + spare) + i] * w[i * outs + o];
                exact += (double)product, size += fabs((double)product);
                want[r * outs + o] += product;
            }
            CHECK(fabs(exact - (double)want[r * outs + o]) <= 1e-6 * size * sqrt((double)ins + 1));
        }
    loops->linear(w, ins, outs, x, ins + spare, rows, y);
    CHECK(!memcmp(want, y, rows * outs * sizeof *y));
    free(w), free(x), free(y), free(want);
}

static void largest(const pc__vector_ops *loops, size_t rows, size_t columns, size_t spare)
{
    pc_test_rng rng = {rows * 100 + columns};
    float *x = filled(rows * columns + (rows - 1) * spare, &rng),
          *got = malloc(columns * sizeof *got);
    loops->largest(x, rows, columns + spare, columns, got);
    for (size_t c = 0; c < columns; c++) {
        float want = x[c];
        for (size_t r = 1; r < rows; r++)
            want = fmaxf(want, x[r * (columns + spare) + c]);
        CHECK(got[c] == want);
    }
    free(x), free(got);
}

/* Uses the last n of MOST elements, so that the sanitizer finds reading beyond. */
static void apart(const pc__vector_ops *loops, const float *a, const float *b, size_t n,
                  int squared, double out[3])
{
    uint16_t *half_a = malloc(2 * n + 1), *half_b = malloc(2 * n + 1);
    uint8_t *byte_a = malloc(n + 1), *byte_b = malloc(n + 1);
    float *float_a = malloc(4 * n + 1), *float_b = malloc(4 * n + 1);
    double want[3] = {0};
    for (size_t i = 0; i < n; i++) {
        half_a[i] = pc__half_from(a[i]), half_b[i] = pc__half_from(b[i]);
        byte_a[i] = (uint8_t)(fabsf(a[i]) * 60), byte_b[i] = (uint8_t)(fabsf(b[i]) * 60);
        float_a[i] = a[i], float_b[i] = b[i];
        double off[3] = {(double)a[i] - (double)b[i],
                         (double)pc__half_to(half_a[i]) - (double)pc__half_to(half_b[i]),
                         0.25 * byte_a[i] - 0.5 * byte_b[i]};
        for (int k = 0; k < 3; k++)
            want[k] += squared ? off[k] * off[k] : fabs(off[k]);
    }
    out[0] = loops->distance_f32(float_a, float_b, n, squared);
    out[1] = loops->distance_f16(half_a, half_b, n, squared);
    out[2] = loops->distance_u8(byte_a, 0.25f, byte_b, 0.5f, n, squared);
    for (int k = 0; k < 3; k++)
        CHECK(fabs(out[k] - want[k]) <= 2e-6 * want[k]);
    free(half_a), free(half_b), free(byte_a), free(byte_b), free(float_a), free(float_b);
}

/* Consecutive rows, with 15 bytes behind them that must not matter. */
static double apart_rows(const pc__vector_ops *loops, size_t rows, size_t keys, size_t grow,
                         int squared)
{
    pc_test_rng rng = {rows + keys};
    size_t all = rows * keys + grow * (rows * (rows - 1) / 2), at = 0;
    uint8_t *a = malloc(all + 15), *b = malloc(all + 15);
    float *scales = filled(2 * rows, &rng);
    double want = 0;
    for (size_t i = 0; i < all + 15; i++)
        a[i] = (uint8_t)pc_test_bits(&rng), b[i] = (uint8_t)pc_test_bits(&rng);
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < keys + r * grow; k++, at++) {
            double off = (double)scales[r] * a[at] - (double)scales[rows + r] * b[at];
            want += squared ? off * off : fabs(off);
        }
    double got = loops->distance_u8_rows(a, scales, b, scales + rows, rows, keys, grow, squared);
    CHECK(fabs(got - want) <= 2e-6 * want);
    free(a), free(b), free(scales);
    return got;
}

int main(void)
{
    static const size_t sizes[] = {0, 1, 7, 15, 16, 17, 100, 2047, 2048, 2049, 4111, MOST};
    pc_test_rng rng = {1};
    float *a = filled(MOST, &rng), *b = filled(MOST, &rng), square = 0;
    double first[sizeof sizes / sizeof *sizes][2][3], got[3];
    static double first_rows[ROWS_MOST + 1][2][2];
    CHECK(pc__vector_ops_get());
    for (size_t l = 0; l < LEVELS; l++) {
        const pc__vector_ops *loops = tables[l];
        if (!pc__kernels_named(levels[l])) {
            printf("%s: not here\n", levels[l]);
            continue;
        }
        CHECK_STR(loops->name, levels[l]);
        for (size_t outs = 16; outs <= 160; outs += 16)
            for (size_t rows = 1; rows <= 6; rows++)
                linear(loops, outs == 16 ? 0 : 3 * outs + 1, outs, rows, outs % 3);
        for (size_t columns = 1; columns <= 70; columns += columns < 20 ? 1 : 7)
            for (size_t rows = 1; rows <= 4; rows++)
                largest(loops, rows, columns, columns % 4);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int squared = 0; squared < 2; squared++) {
                apart(loops, a, b, sizes[s], squared, got);
                if (!l)
                    memcpy(first[s][squared], got, sizeof got);
                CHECK(!memcmp(first[s][squared], got, sizeof got));
            }
        for (size_t n = 1; n <= ROWS_MOST; n++)
            for (int squared = 0; squared < 2; squared++) {
                double full = apart_rows(loops, n, n, 0, squared),
                       triangle = apart_rows(loops, n, 1, 1, squared);
                if (!l)
                    first_rows[n][squared][0] = full, first_rows[n][squared][1] = triangle;
                CHECK(full == first_rows[n][squared][0] && triangle == first_rows[n][squared][1]);
            }
        float distance = loops->square_distance(a, b, 128);
        square = l ? square : distance;
        CHECK(distance == square
              && fabs((double)distance - loops->distance_f32(a, b, 128, 1)) < 1e-4);
    }
    free(a), free(b);
    return pc_test_end();
}
