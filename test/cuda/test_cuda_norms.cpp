// Catches: sums that are less exact than promised, also of rows whose mean is far larger than their
// deviation; dimensions that are not multiples of 4, shorter than a warp, longer than a thread
// block holds; a norm in place; a sum x + y that is not written, or written where only the norm
// stays; an addend that is read after the norm has overwritten it; missing gain or bias, or that of
// another row; rows that depend on the others of the launch; wasted sectors.
#include "cuda/kernels/norms.h"

#include "dense_case.h"

extern "C" {
void pc__cuda_norm_warp(pc__cuda_norm), pc__cuda_norm_block(pc__cuda_norm);
}

namespace {

enum form { PLAIN, IN_PLACE, ADDED, ADDED_IN_PLACE, ADDED_OVER_ADDEND };

void run_norm(const pc__cuda_norm &t, bool by_block)
{
    if (by_block)
        run_kernel<pc__cuda_norm_block>(t, {t.rows}, PC__CUDA_NORM_BLOCK_THREADS,
                                        PC__CUDA_NORM_SHARED);
    else
        run_kernel<pc__cuda_norm_warp>(t, {pc__cuda_norm_blocks(&t)}, PC__CUDA_NORM_WARP_THREADS);
}

// One row in double, and how far each number may be off.
void expect(const pc__cuda_norm &t, const float *x, size_t row, size_t i, double mean, double scale,
            double *want, double *room)
{
    size_t at = row % t.vectors * t.dim + i;
    double gain = t.gain ? (double)t.gain[at] : 1, bias = t.bias ? (double)t.bias[at] : 0;
    double product = ((double)x[i] - mean) * scale * gain;
    *want = product + bias;
    *room = 2e-6 * fabs(product) + 2 * 0x1p-23 * (fabs(mean * scale * gain) + fabs(bias)) + 1e-37;
}

size_t wrong_in_row(const pc__cuda_norm &t, size_t row, const float *x, const float *y)
{
    double mean = 0, squares = 0, scale, want, room;
    size_t wrong = 0;
    for (size_t i = 0; i < t.dim && t.mean; i++)
        mean += (double)x[i] / t.dim;
    for (size_t i = 0; i < t.dim; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean) / t.dim;
    scale = 1 / sqrt(squares + (double)t.eps);
    for (size_t i = 0; i < t.dim; i++) {
        expect(t, x, row, i, mean, scale, &want, &room);
        wrong += isnan(want) ? !isnan(y[i]) : !(fabs((double)y[i] - want) <= room);
    }
    return wrong;
}

void norm(random_numbers &random, uint32_t rows, uint32_t dim, bool by_block, form how,
          uint32_t mean)
{
    bool added = how >= ADDED, in_place = how == IN_PLACE || how == ADDED_IN_PLACE,
         affine = random.below(4) > 0;
    uint32_t vectors = 1 + random.below(3);
    float far = random.below(2) ? 100.0f : 0.0f, add_scale = random.below(2) ? 1.0f : 0.22f;
    device<float> x("x", rows * dim, gpu_model::WRITTEN),
        add("add", rows * dim, gpu_model::WRITTEN), sum("sum", rows * dim),
        gain("gain", vectors * dim), bias("bias", vectors * dim),
        y("y", rows * dim, gpu_model::UNWRITTEN);
    size_t wrong = 0, wrong_sum = 0;
    float *to = in_place ? x.data() : how == ADDED_OVER_ADDEND ? add.data() : y.data();
    gain.fill([&](size_t) { return random.normal(); });
    bias.fill([&](size_t) { return random.normal(); });
    add.fill([&](size_t) { return random.normal(); });
    x.fill([&](size_t) { return random.normal() + far; });
    sum.fill([&](size_t i) {
        volatile float product = add[i] * add_scale;
        return added ? x[i] + product : x[i];
    });
    pc__cuda_norm t = {x.data(),
                       added ? add.data() : nullptr,
                       affine ? gain.data() : nullptr,
                       affine && mean ? bias.data() : nullptr,
                       to,
                       rows,
                       dim,
                       1e-5f,
                       add_scale,
                       mean,
                       vectors};
    run_norm(t, by_block);
    for (size_t r = 0; r < rows; r++)
        wrong += wrong_in_row(t, r, sum.data() + r * dim, to + r * dim);
    for (size_t i = 0; i < x.size && !in_place; i++)
        wrong_sum += !same(x[i], sum[i]);
    CHECK_INT(wrong, 0);
    CHECK_INT(wrong_sum, 0);
    if (dim % 8 == 0)
        check_traffic();
    gpu_model::forget_traffic();
}

void shapes(random_numbers &random)
{
    static const uint32_t shapes[][3] = {{1, 1, 0},    {5, 3, 0},    {0, 64, 0},  {3, 64, 0},
                                         {2, 1024, 0}, {6, 129, 0},  {1, 768, 0}, {2, 4096, 1},
                                         {1, 1027, 1}, {1, 8192, 1}, {2, 5, 1},   {1, 9000, 1},
                                         {1, 16641, 1}};
    for (const uint32_t *s : shapes)
        for (int how = PLAIN; how <= ADDED_OVER_ADDEND; how++)
            norm(random, s[0], s[1], s[2], (form)how, random.below(2));
}

// A row gives the same bits alone and among others; a NaN stays in its row.
void alone(random_numbers &random, uint32_t dim, bool by_block)
{
    enum { ROWS = 5 };
    device<float> x("x", ROWS * dim, gpu_model::WRITTEN), y("y", ROWS * dim, gpu_model::WRITTEN),
        one("one", dim, gpu_model::WRITTEN);
    size_t wrong = 0;
    x.fill([&](size_t) { return random.normal(); });
    x[0] = NAN;
    pc__cuda_norm t = {x.data(), nullptr, nullptr, nullptr, y.data(), ROWS, dim, 1e-6f, 1.0f, 1, 1};
    run_norm(t, by_block);
    t.x += 3 * dim;
    t.y = one.data();
    t.rows = 1;
    run_norm(t, by_block);
    for (size_t i = 0; i < dim; i++)
        wrong += !same(one[i], y[3 * dim + i]) + !isnan(y[i]) + isnan(y[dim + i]);
    CHECK_INT(wrong, 0);
}

} // namespace

int main()
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_numbers random(seed);
        shapes(random);
        alone(random, 96, false);
        alone(random, 1536, true);
    }
    return pc_test_end();
}
