// Catches: wrong rows, scales or addends of look-ups; rows that are not multiples of 16 bytes,
// single rows and empty launches; neighbours across the ends of a lane; flat operations that miss
// the last numbers of a block, that treat NaN or infinity otherwise than the CPU, or that round
// twice or not at all; wasted sectors.
#include "cuda/kernels/flat.h"
#include "cuda/kernels/rows.h"

#include "dense_case.h"
extern "C" {
#include "attn/half.h"
}

extern "C" {
void pc__cuda_lookup_f32(pc__cuda_lookup), pc__cuda_lookup_bf16(pc__cuda_lookup),
    pc__cuda_lookup_f16(pc__cuda_lookup), pc__cuda_neighbours(pc__cuda_neighbours_task),
    pc__cuda_scale_rows(pc__cuda_scale_rows_task), pc__cuda_scale(pc__cuda_flat),
    pc__cuda_clip(pc__cuda_flat), pc__cuda_cap(pc__cuda_flat), pc__cuda_add(pc__cuda_flat);
}

namespace {

float number(float x)
{
    return x;
}

struct bf16 {
    uint16_t bits;
};

struct f16 {
    uint16_t bits;
};

float number(bf16 x)
{
    return pc__bf16_to(x.bits);
}

float number(f16 x)
{
    return pc__half_to(x.bits);
}

void set_number(float &to, float x)
{
    to = x;
}

void set_number(bf16 &to, float x)
{
    to.bits = pc__bf16_from(x);
}

void set_number(f16 &to, float x)
{
    to.bits = pc__half_from(x);
}

template <auto kernel, class T>
void look_up(random_numbers &random, uint32_t rows, uint32_t dim, float scale, uint32_t add)
{
    enum { TABLE = 37 };
    device<T> table("table", TABLE * dim);
    device<uint32_t> row("row", rows);
    device<float> x("x", rows * dim, add ? gpu_model::WRITTEN : gpu_model::UNWRITTEN);
    device<float> before("before", rows * dim);
    size_t wrong = 0;
    for (size_t i = 0; i < table.size; i++)
        set_number(table[i], random.odd());
    row.fill([&](size_t) { return random.below(TABLE); });
    x.fill([&](size_t i) { return before[i] = random.odd(); });
    run_kernel<kernel>(pc__cuda_lookup{table.data(), row.data(), x.data(), rows, dim, scale, add},
                       {rows}, PC__CUDA_ROW_THREADS);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < dim; i++) {
            float want = number(table[row[r] * dim + i]) * scale;
            want = add ? before[r * dim + i] + want : want;
            wrong += !same(x[r * dim + i], want);
        }
    CHECK_INT(wrong, 0);
    if (dim % 8 == 0)
        check_traffic();
    gpu_model::forget_traffic();
}

void look_ups(random_numbers &random)
{
    static const uint32_t shapes[][2] = {{1, 1}, {0, 8},   {1, 64},  {3, 130},
                                         {5, 7}, {9, 776}, {2, 2048}};
    for (const uint32_t *s : shapes)
        for (uint32_t add = 0; add < 2; add++) {
            look_up<pc__cuda_lookup_f32, float>(random, s[0], s[1], add ? 1.0f : 45.25f, add);
            look_up<pc__cuda_lookup_bf16, bf16>(random, s[0], s[1], add ? 0.3f : 1.0f, add);
            look_up<pc__cuda_lookup_f16, f16>(random, s[0], s[1], add ? 0.3f : 1.0f, add);
        }
}

void neighbours(random_numbers &random)
{
    static const uint32_t ends[] = {1, 6, 8, 20}; // lanes of 1, 5, 2 and 12 rows
    for (uint32_t taps = 1; taps <= 5; taps++) {
        uint32_t rows = 20, dim = taps == 2 ? 33 : 48;
        device<float> x("x", rows * dim), y("y", rows * dim * taps, gpu_model::UNWRITTEN);
        device<uint32_t> first("lane_first", rows), end("lane_end", rows);
        size_t wrong = 0;
        x.fill([&](size_t) { return random.normal(); });
        for (uint32_t r = 0, lane = 0; r < rows; r++) {
            lane += r == ends[lane];
            first[r] = lane ? ends[lane - 1] : 0;
            end[r] = ends[lane];
        }
        run_kernel<pc__cuda_neighbours>(
            pc__cuda_neighbours_task{x.data(), y.data(), first.data(), end.data(), rows, dim, taps},
            {rows}, PC__CUDA_ROW_THREADS);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < dim; c++)
                for (size_t t = 0; t < taps; t++) {
                    int64_t at = (int64_t)(r + t) - taps / 2;
                    bool inside = at >= (int64_t)first[r] && at < (int64_t)end[r];
                    wrong += !same(y[(r * dim + c) * taps + t],
                                   inside ? x[(size_t)at * dim + c] : 0.0f);
                }
        CHECK_INT(wrong, 0);
    }
}

void factors(random_numbers &random)
{
    static const uint32_t dims[] = {1, 33, 64, 1028};
    for (uint32_t dim : dims) {
        const uint32_t rows = 5;
        device<float> x("x", rows * dim, gpu_model::WRITTEN), by("factors", rows);
        device<float> want("want", rows * dim);
        size_t wrong = 0;
        by.fill([&](size_t) { return random.odd(2.0f); });
        x.fill([&](size_t) { return random.normal(); });
        want.fill([&](size_t i) { return x[i] * by[i / dim]; });
        run_kernel<pc__cuda_scale_rows>(pc__cuda_scale_rows_task{x.data(), by.data(), rows, dim},
                                        {rows}, PC__CUDA_ROW_THREADS);
        for (size_t i = 0; i < rows * dim; i++)
            wrong += !same(x[i], want[i]);
        CHECK_INT(wrong, 0);
        gpu_model::forget_traffic();
    }
}

// One flat operation at every kind of end, and with operands that are not aligned.
// `places`: how many units in the last place CUDA's function may be off, by its programming guide.
template <auto kernel, class F>
void flat(random_numbers &random, float factor, bool two, F f, float places = 0)
{
    float room = gpu_model::runs_elsewhere() ? places * 0x1p-23f : 0;
    static const size_t counts[] = {0, 1, 255, 4095, 4096, 4097, 9000, 8192};
    for (size_t count : counts)
        for (size_t off = 0; off < (count == 4096 ? 2 : 1); off++) {
            device<float> x("x", count + off, gpu_model::WRITTEN), y("y", count);
            device<float> want("want", count);
            size_t wrong = 0;
            y.fill([&](size_t) { return random.odd(3.0f); });
            x.fill([&](size_t) { return random.odd(3.0f); });
            want.fill([&](size_t i) { return f(x[off + i], y[i], factor); });
            run_kernel<kernel>(
                pc__cuda_flat{x.data() + off, two ? y.data() : nullptr, count, factor, 0},
                {pc__cuda_flat_blocks(count)}, PC__CUDA_FLAT_THREADS);
            for (size_t i = 0; i < count; i++)
                wrong += !same(x[off + i], want[i])
                         && !(fabsf(x[off + i] - want[i]) <= room * fabsf(want[i]));
            CHECK_INT(wrong, 0);
            if (count == 8192)
                check_traffic();
            gpu_model::forget_traffic();
        }
}

void flats(random_numbers &random)
{
    flat<pc__cuda_scale>(random, 0.1f, false, [](float x, float, float a) { return x * a; });
    flat<pc__cuda_clip>(random, 2.5f, false, [](float x, float, float a) {
        return x > a ? a : x < -a ? -a : x;
    });
    flat<pc__cuda_cap>(
        random, 30.0f, false, [](float x, float, float a) { return a * tanhf(x / a); }, 3);
    flat<pc__cuda_add>(random, 0.0f, true, [](float x, float y, float) { return x + y; });
}

} // namespace

int main()
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_numbers random(seed);
        look_ups(random);
        neighbours(random);
        factors(random);
        flats(random);
    }
    return pc_test_end();
}
