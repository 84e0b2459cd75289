// Catches: one bit of a result that differs from the CPU's, for every block format, inputs of 8 and
// 16 bits, few rows and many: operands of the tensor cores that are mixed up, a sum in another
// order, a group that is left out at the end; rows with NaN, infinity, zeros and numbers of very
// different sizes; rows that depend on how many are computed together; ends of panels and tiles;
// races between the warps that share a panel; wasted sectors.
#include "cuda/kernels/experts.h"
#include "cuda/kernels/quantised.h"

#include <memory>
#include <vector>

#include "dense_case.h"
#include "dense_reference.h"

extern "C" {
void pc__cuda_quantise(pc__cuda_quantise_task), pc__cuda_quantised_few(pc__cuda_quantised_task),
    pc__cuda_quantised_many(pc__cuda_quantised_task),
    pc__cuda_quantised_experts_few(pc__cuda_quantised_experts),
    pc__cuda_quantised_experts_many(pc__cuda_quantised_experts);
}

namespace {

// Q8_0, Q4_0, Q4_K, Q6_K, and what a format could be besides
const reference_quantised formats[] = {{8, 32, 0, 1, 128, 0, 0, 0}, {4, 32, 0, 1, 8, 0, 0, 0},
                                       {4, 32, 1, 0, 0, 0, 0, 0},   {8, 16, 0, 0, 32, 0, 0, 0},
                                       {4, 16, 1, 1, 3, 0, 0, 0},   {8, 32, 1, 0, 100, 0, 0, 0}};

float input(random_numbers &random, size_t row)
{
    float x = random.normal(row % 2 ? 1.0f : expf(random.normal(3.0f)));
    if (row == 2)
        return 0.0f;
    if (row == 4 && random.below(50) == 0)
        return random.odd();
    return x;
}

struct layer {
    reference_quantised q;
    size_t rows, in;
    device<uint8_t> panels;
    device<float> x, bias;
    device<uint32_t> codes;
    device<int32_t> factors;
    device<float> y;
    std::vector<float> want;
    layer(random_numbers &random, const reference_quantised &format, size_t row_count)
        : q(format), rows(row_count), in(q.groups * q.group),
          panels("panels", (q.out + 31) / 32 * reference_panel_bytes(&q)), x("x", rows * in),
          bias("bias", q.out),
          codes("codes", pc__cuda_codes_bytes(rows, in) / 4, gpu_model::UNWRITTEN),
          factors("factors", pc__cuda_factors_bytes(rows, q.groups) / 4, gpu_model::UNWRITTEN),
          y("y", rows * q.out, gpu_model::UNWRITTEN), want(rows * q.out)
    {
        // q - zero is at most 127
        uint32_t end = q.bits == 4 || q.zero == 128 ? 256 : (uint32_t)q.zero + 128;
        panels.fill([&](size_t) { return random.below(end); });
        x.fill([&](size_t i) { return input(random, i / in); });
        bias.fill([&](size_t) { return random.normal(); });
        for (size_t p = 0; p < (q.out + 31) / 32; p++)
            for (size_t g = 0; g < q.groups; g++)
                for (size_t o = 0; o < 32; o++)
                    reference_panel_scale(&q, panels.data() + p * reference_panel_bytes(&q), g, o,
                                          random.normal(0.01f), random.normal(0.1f));
        reference_quantised_run(&q, panels.data(), x.data(), rows, want.data());
    }
    pc__cuda_quantised_task task(bool biased) const
    {
        pc__cuda_quantised_task t = {};
        t.part[0] = part(biased);
        t.x = {codes.data(), factors.data()};
        t.panel_bytes = reference_panel_bytes(&q);
        t.rows = (uint32_t)rows;
        t.groups = (uint32_t)q.groups;
        t.format = {q.bits, q.group, q.zero, q.minimum, q.half};
        return t;
    }
    pc__cuda_quantised_part part(bool biased) const
    {
        return {panels.data(), biased ? bias.data() : nullptr, y.data(), (uint32_t)q.out, 0};
    }
    size_t wrong(bool biased)
    {
        size_t count = 0;
        for (size_t i = 0; i < want.size(); i++) {
            volatile float sum = want[i] + (biased ? bias[i % q.out] : 0.0f);
            count += !same(y[i], biased ? sum : want[i]);
        }
        return count;
    }
};

void compare(random_numbers &random, reference_quantised q, size_t groups, size_t out, size_t rows,
             uint32_t bytes)
{
    q.groups = groups;
    q.out = out;
    q.bytes = bytes;
    layer l(random, q, rows);
    bool biased = random.below(2);
    unsigned tiles = (unsigned)(rows + 7) / 8, panels = (unsigned)(out + 31) / 32;
    run_kernel<pc__cuda_quantise>(pc__cuda_quantise_task{l.x.data(),
                                                         {l.codes.data(), l.factors.data()},
                                                         (uint32_t)rows,
                                                         (uint32_t)l.in,
                                                         q.group,
                                                         bytes},
                                  {tiles * 8}, PC__CUDA_QUANTISE_THREADS, PC__CUDA_QUANTISE_SHARED);
    gpu_model::forget_traffic();
    run_kernel<pc__cuda_quantised_few>(l.task(biased), {panels, (tiles + 3) / 4},
                                       PC__CUDA_QUANTISED_THREADS, PC__CUDA_QUANTISED_SHARED);
    CHECK_INT(l.wrong(biased), 0);
    if (rows <= PC__CUDA_QUANTISED_ROWS) // the weights are read once
        CHECK(gpu_model::traffic_of(l.panels.data()).read_bytes <= l.panels.size);
    if (out % 8 == 0) // else rows begin within a sector
        check_traffic();
    gpu_model::forget_traffic();
    memset(l.y.data(), 0xee, l.y.size * sizeof(float));
    run_kernel<pc__cuda_quantised_many>(l.task(biased), {(panels + 3) / 4, (tiles + 3) / 4},
                                        PC__CUDA_QUANTISED_MANY_THREADS);
    CHECK_INT(l.wrong(biased), 0);
    if (out % 8 == 0)
        check_traffic();
    gpu_model::forget_traffic();
}

// Three layers of one format and different numbers of outputs in one launch.
void compare_together(random_numbers &random, reference_quantised q)
{
    q.groups = 1 + random.below(40);
    q.bytes = 1 + random.below(2);
    const size_t rows = 1 + random.below(40), outs[] = {40 + random.below(90), 33, 8};
    std::vector<std::unique_ptr<layer>> all;
    for (size_t out : outs) {
        q.out = out;
        all.push_back(std::make_unique<layer>(random, q, rows));
    }
    layer &a = *all[0]; // whose rows all have
    unsigned tiles = (unsigned)(rows + 7) / 8, panels = (unsigned)(a.q.out + 31) / 32;
    run_kernel<pc__cuda_quantise>(pc__cuda_quantise_task{a.x.data(),
                                                         {a.codes.data(), a.factors.data()},
                                                         (uint32_t)rows,
                                                         (uint32_t)a.in,
                                                         q.group,
                                                         q.bytes},
                                  {tiles * 8}, PC__CUDA_QUANTISE_THREADS, PC__CUDA_QUANTISE_SHARED);
    pc__cuda_quantised_task t = a.task(true);
    for (size_t i = 1; i < all.size(); i++) {
        t.part[i] = all[i]->part(true);
        reference_quantised_run(&all[i]->q, all[i]->panels.data(), a.x.data(), rows,
                                all[i]->want.data());
    }
    for (int many = 0; many < 2; many++) {
        if (many)
            run_kernel<pc__cuda_quantised_many>(t, {(panels + 3) / 4, (tiles + 3) / 4, 3},
                                                PC__CUDA_QUANTISED_MANY_THREADS);
        else
            run_kernel<pc__cuda_quantised_few>(t, {panels, (tiles + 3) / 4, 3},
                                               PC__CUDA_QUANTISED_THREADS,
                                               PC__CUDA_QUANTISED_SHARED);
        for (auto &l : all) {
            CHECK_INT(l->wrong(true), 0);
            memset(l->y.data(), 0xee, l->y.size * sizeof(float));
        }
    }
    gpu_model::forget_traffic();
}

// Rows in any order for each expert: the bits of the layer alone.
void compare_experts(random_numbers &random, reference_quantised q, std::vector<uint32_t> counts)
{
    q.groups = 2 * (1 + random.below(20));
    q.out = 32 + random.below(3) * 60;
    q.bytes = 1 + random.below(2);
    layer a(random, q, 13), b(random, q, 13);
    uint32_t experts = (uint32_t)counts.size(), entries = 0, wrong = 0;
    device<uint32_t> first("first", experts + 1), row("row", 64);
    device<uint64_t> panels("expert panels", experts);
    row.fill([&](size_t) { return random.below(13); });
    for (uint32_t e = 0; e < experts; e++) {
        first[e] = entries;
        entries += counts[e];
        panels[e] = (uint64_t)(uintptr_t)(e % 2 ? b : a).panels.data();
    }
    first[experts] = entries;
    device<float> y("expert y", entries * q.out, gpu_model::UNWRITTEN);
    // the rows are those of a, also where the weights are those of b
    reference_quantised_run(&q, b.panels.data(), a.x.data(), 13, b.want.data());
    run_kernel<pc__cuda_quantise>(
        pc__cuda_quantise_task{
            a.x.data(), {a.codes.data(), a.factors.data()}, 13, (uint32_t)a.in, q.group, q.bytes},
        {16}, PC__CUDA_QUANTISE_THREADS, PC__CUDA_QUANTISE_SHARED);
    pc__cuda_quantised_experts t = {a.task(false), panels.data(), nullptr, row.data(),
                                    first.data(),  experts,       0};
    unsigned all = (unsigned)(q.out + 31) / 32;
    t.layer.part[0].y = y.data();
    for (int many = 0; many < 2; many++) {
        if (many)
            run_kernel<pc__cuda_quantised_experts_many>(
                t,
                {(all + 3) / 4, pc__cuda_expert_tiles(entries, experts, PC__CUDA_QUANTISED_ROWS)},
                PC__CUDA_QUANTISED_MANY_THREADS);
        else
            run_kernel<pc__cuda_quantised_experts_few>(
                t, {all, experts}, PC__CUDA_QUANTISED_THREADS, PC__CUDA_QUANTISED_SHARED);
        for (uint32_t e = 0; e < experts; e++)
            for (uint32_t i = first[e]; i < first[e + 1]; i++)
                for (uint32_t o = 0; o < q.out; o++)
                    wrong += !same(y[i * q.out + o], (e % 2 ? b : a).want[row[i] * q.out + o]);
        CHECK_INT(wrong, 0);
        memset(y.data(), 0xee, y.size * sizeof(float));
    }
    gpu_model::forget_traffic();
}

} // namespace

int main()
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_numbers random(seed);
        for (const reference_quantised &q : formats)
            for (uint32_t bytes = 1; bytes <= 2; bytes++) {
                compare(random, q, 2 * (1 + random.below(10)), 40, 1 + random.below(9), bytes);
                compare(random, q, 1 + random.below(5), 33, 33 + random.below(8), bytes);
                compare(random, q, 32 + random.below(8), 32, 1, bytes);
                compare(random, q, 32 + random.below(40), 32, 9 + random.below(24), bytes);
                compare_together(random, q);
                compare_experts(random, q, {1, 0, 9});
                compare_experts(random, q, {35, 8, 17});
            }
    }
    return pc_test_end();
}
