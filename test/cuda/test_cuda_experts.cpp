// Catches: another choice of experts than the CPU's (equal logits, -0, infinity, NaN); weights that
// are not those of the softmax over all experts or of the sigmoid; groups that are open or closed
// otherwise; a bias that counts in the weights; entries out of order, lost or twice; rows of an
// expert that get another expert's weights; products that are less exact than promised, at ends of
// outputs, inputs, rows and tiles; rows whose result depends on their neighbours, or on the kernel;
// sums of a row in another order than the CPU's, in parts, in place, with and without the shared
// MLP; wasted sectors.
#include "cuda/kernels/experts.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "dense_case.h"
#include "dense_reference.h"
extern "C" {
#include "attn/half.h"
}

extern "C" {
void pc__cuda_route_choice(pc__cuda_route_choice_task), pc__cuda_route(pc__cuda_route_task),
    pc__cuda_route_sort(pc__cuda_route_sort_task), pc__cuda_expert_sum(pc__cuda_expert_sum_task),
    pc__cuda_expert_linear_bf16(pc__cuda_expert_linear),
    pc__cuda_expert_linear_f16(pc__cuda_expert_linear),
    pc__cuda_expert_linear_f32(pc__cuda_expert_linear),
    pc__cuda_expert_many_bf16(pc__cuda_expert_many), pc__cuda_expert_many_f16(pc__cuda_expert_many);
}

namespace {

// Logits with many equal ones and, now and then, numbers that are not finite.
float logit(random_numbers &random, int kind)
{
    static const float some[] = {1.0f, -1.0f, 0.0f, -0.0f, 2.5f};
    if (kind == 0)
        return random.normal(3.0f);
    if (kind == 1)
        return some[random.below(5)];
    return random.below(3) ? some[random.below(5)] : random.below(2) ? NAN : -INFINITY;
}

struct routed {
    uint32_t rows, count, used;
    device<float> logits, weight, share;
    device<int32_t> chosen;
    device<uint32_t> first, row, of_row;
    routed(uint32_t r, uint32_t c, uint32_t u)
        : rows(r), count(c), used(u), logits("logits", r * c),
          weight("weight", r * u, gpu_model::UNWRITTEN),
          share("share", r * u, gpu_model::UNWRITTEN),
          chosen("chosen", r * u, gpu_model::UNWRITTEN),
          first("first", c + 1, gpu_model::UNWRITTEN), row("row", r * u, gpu_model::UNWRITTEN),
          of_row("of_row", r * u, gpu_model::UNWRITTEN)
    {
    }
};

// How experts are chosen, beside by their logits.
struct choosing {
    bool sigmoid, biased;
    uint32_t groups, used, best;
};

void run_routing(routed &r, const choosing &how, const float *bias, uint32_t renormalise,
                 float scale)
{
    device<float> choice("choice", r.rows * r.count, gpu_model::UNWRITTEN),
        group_sum("group_sum", r.rows * how.groups, gpu_model::UNWRITTEN);
    bool chooses = bias || how.groups;
    if (chooses)
        run_kernel<pc__cuda_route_choice>(
            pc__cuda_route_choice_task{r.logits.data(), bias, choice.data(), group_sum.data(),
                                       r.rows, r.count, how.sigmoid, how.groups, how.used,
                                       how.best},
            {pc__cuda_route_blocks(r.rows)}, PC__CUDA_ROUTE_THREADS);
    run_kernel<pc__cuda_route>(
        pc__cuda_route_task{r.logits.data(), chooses ? choice.data() : nullptr, r.chosen.data(),
                            r.weight.data(), r.rows, r.count, r.used, renormalise, scale,
                            how.sigmoid},
        {pc__cuda_route_blocks(r.rows)}, PC__CUDA_ROUTE_THREADS);
    run_kernel<pc__cuda_route_sort>(
        pc__cuda_route_sort_task{r.chosen.data(), r.weight.data(), r.first.data(), r.row.data(),
                                 r.share.data(), r.of_row.data(), r.rows, r.count, r.used, 0},
        {r.count}, PC__CUDA_SORT_THREADS, PC__CUDA_SORT_SHARED);
}

bool near(float got, float want, double room)
{
    return isnan(want) ? isnan(got) : same(got, want) || fabs((double)got - (double)want) <= room;
}

void route(random_numbers &random, uint32_t rows, uint32_t count, uint32_t used, int kind,
           const choosing &how)
{
    uint32_t renormalise = random.below(2), wrong = 0;
    float scale = random.below(2) ? 2.5f : 0.0f;
    double room = (2 * count + 40) * 0x1p-24; // the CPU adds up `count` numbers one by one
    routed r(rows, count, used);
    r.logits.fill([&](size_t) { return logit(random, kind); });
    device<float> bias("bias of the choice", count);
    bias.fill([&](size_t) { return random.normal(0.3f); });
    const float *biases = how.biased ? bias.data() : nullptr;
    std::vector<int32_t> chosen(rows * used);
    std::vector<float> weight(rows * used), share(rows * used), scratch(2 * rows * count);
    std::vector<uint32_t> first(count + 1), row(rows * used), of_row(rows * used);
    reference_routes want = {
        count,          used,         renormalise, scale,        r.logits.data(), chosen.data(),
        weight.data(),  first.data(), row.data(),  share.data(), of_row.data(),   biases,
        scratch.data(), how.sigmoid,  how.groups,  how.used,     how.best};
    reference_route(&want, rows);
    run_routing(r, how, biases, renormalise, scale);
    for (size_t i = 0; i < rows * used; i++)
        wrong += r.chosen[i] != chosen[i] || r.row[i] != row[i] || r.of_row[i] != of_row[i]
                 || !near(r.weight[i], weight[i], room * (double)fabsf(weight[i]))
                 || !near(r.share[i], share[i], room * (double)fabsf(share[i]));
    for (size_t e = 0; e <= count && rows; e++)
        wrong += r.first[e] != first[e];
    CHECK_INT(wrong, 0);
    gpu_model::forget_traffic();
}

// Weights of all experts in one format; `number` is what the products see.
struct expert_weights {
    uint32_t bits, out, in;
    device<uint8_t> bytes;
    std::vector<float> number;
    expert_weights(random_numbers &random, int format, uint32_t experts, uint32_t o, uint32_t i)
        : bits(format == 2 ? 32 : 16), out(o), in(i), bytes("weights", experts * each()),
          number(experts * o * i)
    {
        for (size_t n = 0; n < number.size(); n++) {
            float x = random.normal(0.1f);
            uint8_t *at = bytes.data() + n / (o * i) * each() + n % (o * i) * (bits / 8);
            uint16_t half = format == 0 ? pc__bf16_from(x) : pc__half_from(x);
            number[n] = format == 2 ? x : format == 0 ? pc__bf16_to(half) : pc__half_to(half);
            memcpy(at, format == 2 ? (void *)&x : (void *)&half, bits / 8);
        }
    }
    size_t each() const // at multiples of 16 bytes
    {
        return (out * in * (bits / 8) + 15) / 16 * 16;
    }
};

float rounded(int format, float x)
{
    return format == 2   ? x
           : format == 0 ? pc__bf16_to(pc__bf16_from(x))
                         : pc__half_to(pc__half_from(x));
}

void launch_linear(int format, const pc__cuda_expert_linear &t)
{
    gpu_model::extent grid = {(t.out + PC__CUDA_EXPERT_OUT - 1) / PC__CUDA_EXPERT_OUT, t.experts};
    if (format == 0)
        run_kernel<pc__cuda_expert_linear_bf16>(t, grid, PC__CUDA_EXPERT_THREADS,
                                                PC__CUDA_EXPERT_SHARED);
    else if (format == 1)
        run_kernel<pc__cuda_expert_linear_f16>(t, grid, PC__CUDA_EXPERT_THREADS,
                                               PC__CUDA_EXPERT_SHARED);
    else
        run_kernel<pc__cuda_expert_linear_f32>(t, grid, PC__CUDA_EXPERT_THREADS,
                                               PC__CUDA_EXPERT_SHARED);
}

// The same products by the kernel for many rows: equal bits.
void many(int format, const pc__cuda_expert_linear &t, uint32_t entries, size_t rows)
{
    device<uint16_t> x("rounded", rows * t.in);
    device<float> y("y of many", entries * t.out, gpu_model::UNWRITTEN);
    uint32_t wrong = 0;
    x.fill([&](size_t i) { return format ? pc__half_from(t.x[i]) : pc__bf16_from(t.x[i]); });
    pc__cuda_expert_many task = {t.weights, t.bias,    x.data(), t.row, t.first,
                                 y.data(),  t.experts, t.in,     t.out, 0};
    gpu_model::extent grid = {(t.out + PC__CUDA_EXPERT_TILE - 1) / PC__CUDA_EXPERT_TILE,
                              pc__cuda_expert_tiles(entries, t.experts, PC__CUDA_EXPERT_TILE)};
    if (format == 0)
        run_kernel<pc__cuda_expert_many_bf16>(task, grid, PC__CUDA_EXPERT_MANY_THREADS,
                                              PC__CUDA_EXPERT_MANY_SHARED);
    else
        run_kernel<pc__cuda_expert_many_f16>(task, grid, PC__CUDA_EXPERT_MANY_THREADS,
                                             PC__CUDA_EXPERT_MANY_SHARED);
    for (size_t i = 0; i < y.size; i++)
        wrong += !same(y[i], t.y[i]);
    CHECK_INT(wrong, 0);
    if (t.in % 64 == 0 && t.out % 64 == 0 && !t.row)
        check_traffic();
    gpu_model::forget_traffic();
}

// Experts with the given numbers of rows. Every second entry is computed again alone.
void linear(random_numbers &random, int format, std::vector<uint32_t> rows, uint32_t in,
            uint32_t out, bool gathered)
{
    uint32_t experts = (uint32_t)rows.size(), entries = 0, wrong = 0;
    expert_weights w(random, format, experts, out, in);
    device<uint64_t> weights("weight addresses", experts), bias("bias addresses", experts);
    const uint32_t ROWS = std::max(50u, std::accumulate(rows.begin(), rows.end(), 0u));
    device<float> b("bias", experts * out), x("x", ROWS * in);
    device<uint32_t> first("first", experts + 1), row("row", ROWS);
    for (uint32_t e = 0; e < experts; e++) {
        first[e] = entries;
        entries += rows[e];
        weights[e] = (uint64_t)(uintptr_t)(w.bytes.data() + e * w.each());
        bias[e] = (uint64_t)(uintptr_t)(b.data() + e * out);
    }
    first[experts] = entries;
    device<float> y("y", entries * out, gpu_model::UNWRITTEN), one("one", out, gpu_model::WRITTEN);
    b.fill([&](size_t) { return random.normal(); });
    x.fill([&](size_t) { return random.normal(); });
    row.fill([&](size_t i) { return gathered ? random.below(ROWS) : (uint32_t)i; });
    bool biased = random.below(2);
    pc__cuda_expert_linear t = {weights.data(),
                                biased ? bias.data() : nullptr,
                                x.data(),
                                gathered ? row.data() : nullptr,
                                first.data(),
                                y.data(),
                                experts,
                                in,
                                out,
                                0};
    launch_linear(format, t);
    if (in % 64 == 0 && out % 64 == 0 && !gathered)
        check_traffic();
    for (uint32_t e = 0; e < experts; e++)
        for (uint32_t i = first[e]; i < first[e + 1]; i++)
            for (uint32_t o = 0; o < out; o++) {
                const float *from = &x[row[i] * in], *by = &w.number[(e * out + o) * in];
                double sum = biased ? (double)b[e * out + o] : 0, size = fabs(sum);
                for (uint32_t k = 0; k < in; k++) {
                    double product = (double)rounded(format, from[k]) * (double)by[k];
                    sum += product;
                    size += fabs(product);
                }
                wrong += !(fabs((double)y[i * out + o] - sum) <= (in / 16 + 16) * 0x1p-24 * size);
            }
    CHECK_INT(wrong, 0);
    if (format < 2 && in % 8 == 0)
        many(format, t, entries, ROWS);
    for (uint32_t e = 0; e < experts && rows[e] > 1; e++) { // its last row alone
        uint32_t last = first[e + 1] - 1;
        for (uint32_t i = 0; i <= experts; i++)
            first[i] = i > e;
        t.x = x.data() + row[last] * in;
        t.row = nullptr;
        t.y = one.data();
        launch_linear(format, t);
        for (uint32_t o = 0; o < out; o++)
            wrong += !same(one[o], y[last * out + o]);
        break;
    }
    CHECK_INT(wrong, 0);
    gpu_model::forget_traffic();
}

struct summed {
    device<float> results, share, shared, scale, out, want;
    device<uint32_t> of_row;
    summed(random_numbers &random, uint32_t rows, uint32_t dim, uint32_t used)
        : results("results", rows * used * dim), share("share", rows * used),
          shared("shared", rows * dim), scale("shared_scale", rows),
          out("out", rows * dim, gpu_model::WRITTEN), want("want", rows * dim),
          of_row("of_row", rows * used)
    {
        results.fill([&](size_t) { return random.normal(); });
        share.fill([&](size_t) { return random.normal(); });
        shared.fill([&](size_t) { return random.normal(); });
        scale.fill([&](size_t) { return random.normal(); });
        for (size_t i = 0; i < of_row.size; i++) // ascending within a row
            of_row[i] = (uint32_t)(i % used * rows + i / used);
    }
};

// In two parts of the entries; `how`: without shared MLP, with, in place, with its own scale.
void sum(random_numbers &random, uint32_t rows, uint32_t dim, uint32_t used, int how)
{
    summed s(random, rows, dim, used);
    uint32_t entries = rows * used, part = random.below(entries + 1), wrong = 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < dim; i++) {
            volatile float sum = how ? s.shared[r * dim + i] : 0.0f, product;
            if (how == 3)
                sum = sum * (1.0f / (1.0f + expf(-s.scale[r])));
            for (size_t u = 0; u < used; u++) {
                uint32_t entry = s.of_row[r * used + u];
                product = s.share[entry] * s.results[entry * dim + i];
                sum = sum + product;
            }
            s.want[r * dim + i] = sum;
        }
    if (how == 2)
        memcpy(s.out.data(), s.shared.data(), s.shared.size * sizeof(float));
    pc__cuda_expert_sum_task t = {s.results.data(),
                                  s.of_row.data(),
                                  s.share.data(),
                                  how == 0   ? nullptr
                                  : how == 2 ? s.out.data()
                                             : s.shared.data(),
                                  how == 3 ? s.scale.data() : nullptr,
                                  s.out.data(),
                                  rows,
                                  dim,
                                  used,
                                  0,
                                  part,
                                  0};
    run_kernel<pc__cuda_expert_sum>(t, {rows}, PC__CUDA_EXPERT_THREADS);
    t.results += part * dim;
    t.first = part;
    t.entries = entries - part;
    t.goes_on = 1;
    run_kernel<pc__cuda_expert_sum>(t, {rows}, PC__CUDA_EXPERT_THREADS);
    for (size_t i = 0; i < s.out.size; i++)
        wrong += !same(s.out[i], s.want[i]);
    CHECK_INT(wrong, 0);
    if (dim % 128 == 0)
        check_traffic();
    gpu_model::forget_traffic();
}

} // namespace

int main()
{
    static const uint32_t routings[][3] = {{1, 8, 2},   {0, 8, 2},   {37, 8, 2}, {5, 60, 4},
                                           {90, 16, 8}, {7, 128, 8}, {3, 3, 3},  {2, 1, 1}};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_numbers random(seed);
        for (const uint32_t *r : routings)
            for (int kind = 0; kind < 3; kind++)
                route(random, r[0], r[1], r[2], kind, {false, false, 0, 0, 0});
        for (int kind = 0; kind < 3; kind++) {
            route(random, 9, 16, 4, kind, {true, false, 0, 0, 0});
            route(random, 9, 12, 3, kind, {true, true, 0, 0, 0});
            route(random, 21, 16, 4, kind, {false, false, 4, 2, 1});
            route(random, 9, 70, 6, kind, {true, true, 35, 9, 2});
            route(random, 5, 256, 8, kind, {true, true, 8, 4, 2});
            route(random, 5, 12, 4, kind, {true, false, 4, 2, 5}); // more than a group has
        }
        for (int format = 0; format < 3; format++) {
            linear(random, format, {1, 0, 3}, 64, 64, false);
            linear(random, format, {9, 2}, 160, 40, true);
            linear(random, format, {0, 35, 1}, 37, 70, false);
            linear(random, format, {2}, 264, 65, false);
            linear(random, format, {8}, 6, 1, true);
        }
        linear(random, 0, {130, 0, 3, 70}, 256, 192, false);
        linear(random, 0, {1, 256, 33}, 40, 130, true);
        linear(random, 0, {129}, 8, 8, false);
        std::vector<uint32_t> some(70); // more experts than the kernel looks at together
        for (uint32_t &rows : some)
            rows = random.below(3) ? random.below(3) : 0;
        some[66] = 140;
        linear(random, 0, some, 64, 16, true);
        for (int how = 0; how < 4; how++) {
            sum(random, 3, 256, 4, how);
            sum(random, 2, 37, 1, how);
            sum(random, 1, 520, 8, how);
        }
    }
    return pc_test_end();
}
