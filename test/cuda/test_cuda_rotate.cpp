// Catches: pairs, halves or angles that are mixed up; bits that differ from the CPU's; dimensions
// beyond the rotated ones that are not copied or not scaled; shapes that fours do not fit; strided
// rows; wasted sectors.
#include "cuda/kernels/kv_write.h"

#include "dense_case.h"
#include "dense_reference.h"

extern "C" void pc__cuda_rotate(pc__cuda_rotate_task);

namespace {

struct shape {
    uint32_t rows, heads, dim, dims, gap; // gap: floats between rows
};

void rotate(random_numbers &random, const shape &s, uint32_t interleaved, bool in_place)
{
    uint32_t half = s.dims / 2, row = s.heads * s.dim, stride = row + s.gap;
    float scale = in_place ? 1.0f : 0.3f;
    device<float> from("from", s.rows * stride, gpu_model::WRITTEN),
        to("to", s.rows * stride, gpu_model::WRITTEN), cosine("cosine", s.rows * half),
        sine("sine", s.rows * half), want("want", s.rows * stride);
    size_t wrong = 0;
    for (size_t i = 0; i < s.rows * half; i++) {
        double angle = (double)random.below(100000) / 31;
        cosine[i] = (float)cos(angle);
        sine[i] = (float)sin(angle);
    }
    from.fill([&](size_t) { return random.odd(); });
    to.fill([](size_t) { return 7.0f; });
    for (size_t i = 0; i < want.size; i++)
        want[i] = in_place ? from[i] : to[i];
    for (size_t r = 0; r < s.rows; r++)
        reference_rotate(s.dims, interleaved, cosine.data() + r * half, sine.data() + r * half,
                         scale, from.data() + r * stride, want.data() + r * stride, s.heads, s.dim);
    pc__cuda_rotate_task t = {from.data(),
                              in_place ? from.data() : to.data(),
                              stride,
                              stride,
                              {cosine.data(), sine.data(), s.dims, interleaved},
                              s.rows,
                              s.heads,
                              s.dim,
                              scale};
    run_kernel<pc__cuda_rotate>(t, {s.rows}, PC__CUDA_ROTATE_THREADS);
    for (size_t i = 0; i < want.size; i++)
        wrong += !same(t.to[i], want[i]);
    CHECK_INT(wrong, 0);
    if (s.dims && s.dims % 64 == 0 && !s.gap)
        check_traffic();
    gpu_model::forget_traffic();
}

} // namespace

int main()
{
    static const shape shapes[] = {{1, 1, 2, 2, 0},     {3, 4, 64, 64, 0},  {0, 2, 64, 64, 0},
                                   {2, 8, 128, 128, 0}, {2, 3, 96, 64, 12}, {3, 2, 80, 20, 0},
                                   {2, 3, 15, 10, 0},   {2, 5, 36, 36, 3},  {1, 2, 256, 64, 4},
                                   {4, 1, 576, 64, 0},  {2, 2, 48, 0, 0},   {1, 3, 7, 6, 2}};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_numbers random(seed);
        for (const shape &s : shapes)
            for (int form = 0; form < 4; form++)
                rotate(random, s, form % 2, form / 2);
    }
    return pc_test_end();
}
