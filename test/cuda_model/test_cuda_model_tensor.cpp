// Catches a model whose lanes hold other elements of a matrix than those of a device, whose
// shuffles read other lanes, or whose 16-bit numbers are rounded in another way.
//
// The second source of the layouts are the traits of CuTe's atoms (cute/atom/mma_traits_sm80.hpp):
// functions from (lane, value) to a place in a matrix whose rows (of B: columns) come first. That
// of shuffles is the text of shfl in the PTX ISA.
#include "attn/half.h"
#include "gpu_device.h"
#include "model_tensor.h"
#include "planted.h"
#include <math.h>

extern "C" {
void model_product(struct tensor_task);
void model_lanes(struct lanes_task);
}
namespace model = gpu_model;

// Shape (4, 8) of lanes and up to three values, each with its strides.
struct layout {
    int lane[2], shape[3], value[3];
    size_t operator()(int at, int v) const
    {
        return (size_t)(at % 4 * lane[0] + at / 4 * lane[1] + v % shape[0] * value[0]
                        + v / shape[0] % shape[1] * value[1] + v / shape[0] / shape[1] * value[2]);
    }
};
static const layout C = {{32, 1}, {2, 2, 1}, {16, 8, 0}};

// One kind of product: numbers of a register, registers of A and B, k, the layouts of A and B.
struct atom {
    int packed, a_registers, b_registers, ks;
    layout a, b;
};
static const atom
    f16 = {2, 4, 2, 16, {{32, 1}, {2, 2, 2}, {16, 8, 128}}, {{16, 1}, {2, 2, 1}, {8, 64, 0}}},
    s8 = {4, 4, 2, 32, {{64, 1}, {4, 2, 2}, {16, 8, 256}}, {{32, 1}, {4, 2, 1}, {8, 128, 0}}},
    s8_half = {4, 2, 1, 16, {{64, 1}, {4, 2, 1}, {16, 8, 0}}, {{32, 1}, {4, 1, 1}, {8, 0, 0}}};
static const atom *const atoms[] = {&f16, &f16, &s8, &s8_half};

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// Whole numbers, whose products add up exactly.
static std::vector<float> numbers(size_t count, pc_test_rng *rng)
{
    std::vector<float> all(count);
    for (float &x : all)
        x = (float)(int)(pc_test_bits(rng) % 17) - 8;
    return all;
}

static uint32_t in_register(uint32_t product, const float *x)
{
    if (product == OF_F16)
        return pc__half_of(x[0]) | (uint32_t)pc__half_of(x[1]) << 16;
    if (product == OF_BF16)
        return pc__bf16_from(x[0]) | (uint32_t)pc__bf16_from(x[1]) << 16;
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        word |= (uint32_t)(uint8_t)(int8_t)x[i] << 8 * i;
    return word;
}

// [lane][stride] registers
static std::vector<uint32_t> spread(uint32_t product, const std::vector<float> &matrix,
                                    const layout &places, int registers, int stride)
{
    std::vector<uint32_t> all(32 * (size_t)stride);
    int packed = atoms[product]->packed;
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < registers; i++) {
            float x[4];
            for (int j = 0; j < packed; j++)
                x[j] = matrix[places(lane, i * packed + j)];
            all[(size_t)(lane * stride + i)] = in_register(product, x);
        }
    return all;
}

static uint32_t as_sum(uint32_t product, float x)
{
    return product >= OF_S8 ? (uint32_t)(int32_t)x : bits_of(x);
}

static void check_product(uint32_t product, uint32_t seed)
{
    pc_test_rng rng = {seed};
    const atom &kind = *atoms[product];
    size_t ks = (size_t)kind.ks;
    std::vector<float> a = numbers(16 * ks, &rng), b = numbers(8 * ks, &rng),
                       c = numbers(16 * 8, &rng);
    std::vector<uint32_t> a_lanes = spread(product, a, kind.a, kind.a_registers, 4),
                          b_lanes = spread(product, b, kind.b, kind.b_registers, 2), d(32 * 4);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++)
            d[(size_t)(lane * 4 + i)] = as_sum(product, c[C(lane, i)]);
    model::reset();
    model::region("a", a_lanes.data(), a_lanes.size() * 4, model::READ_ONLY);
    model::region("b", b_lanes.data(), b_lanes.size() * 4, model::READ_ONLY);
    model::region("d", d.data(), d.size() * 4, model::WRITTEN);
    CHECK(model::launch<model_product>(
        tensor_task{product, a_lanes.data(), b_lanes.data(), d.data()}, {{1}, {32}, 0, seed}));
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            size_t row = C(lane, i) % 16, column = C(lane, i) / 16;
            float sum = c[row + column * 16];
            for (size_t k = 0; k < ks; k++)
                sum += a[row + k * 16] * b[column + k * 8];
            CHECK_INT(d[(size_t)(lane * 4 + i)], as_sum(product, sum));
        }
    CHECK_INT(model::reports(), 0);
}

// The pseudo-code of shfl.sync, with the operand c that CUDA's functions give it.
static uint32_t shfl(int kind, uint32_t lane, uint32_t b, uint32_t width)
{
    uint32_t segment = 32 - width, c = kind == 2 ? 0 : 31;
    int most = (int)((lane & segment) | (c & ~segment)), least = (int)(lane & segment);
    int j = 0;
    bool valid = false;
    if (kind == 0)
        j = least | (int)(b & ~segment & 31), valid = j <= most;
    if (kind == 1)
        j = (int)(lane ^ b), valid = j <= most;
    if (kind == 2)
        j = (int)lane - (int)b, valid = j >= most;
    if (kind == 3)
        j = (int)(lane + b), valid = j <= most;
    return valid ? (uint32_t)j : lane;
}

static void check_lanes(uint32_t by, uint32_t width, uint32_t yes)
{
    std::vector<uint32_t> result(32 * LANE_RESULTS);
    model::reset();
    model::region("result", result.data(), result.size() * 4, model::UNWRITTEN);
    CHECK(model::launch<model_lanes>(lanes_task{by, width, yes, result.data()},
                                     {{1}, {32}, 0, by + 1}));
    for (uint32_t lane = 0; lane < 32; lane++) {
        const uint32_t *got = &result[lane * LANE_RESULTS];
        for (int kind = 0; kind < 4; kind++)
            CHECK_INT(got[kind], shfl(kind, lane, by, width));
        CHECK_INT(got[4], yes);
        CHECK_INT(got[5], yes != 0);
        CHECK_INT(got[6], yes == ~0u);
        CHECK_INT(got[7], lane / 8 * 64 + 28);
        CHECK_INT(got[8], lane | 15);
    }
    CHECK_INT(model::reports(), 0);
}

// The library's own conversions are exact to every bit (test_half), but do not overflow.
static void check_numbers()
{
    pc_test_rng rng = {1};
    size_t wrong = 0;
    for (uint32_t i = 0; i < 65536; i++) {
        float half = float_of_f16((uint16_t)i), want = pc__half_to((uint16_t)i);
        wrong += bits_of(half) != bits_of(want) && !(half != half && want != want);
        wrong += half == half && f16_of(half) != i;
        wrong += bits_of(float_of_bf16((uint16_t)i)) != i << 16;
    }
    for (int i = 0; i < 1000000; i++) {
        uint32_t bits = (uint32_t)pc_test_bits(&rng);
        float x, half;
        if (i % 2) // halfway between two, or near it
            bits = (bits & 0xffffe000u) | 0x1000u | (bits & 1);
        memcpy(&x, &bits, sizeof x);
        half = fabsf(x) < 65520 ? x : 0;
        wrong += f16_of(half) != pc__half_from(half);
        wrong += x == x && bf16_of(x) != pc__bf16_from(x);
    }
    CHECK_INT(wrong, 0);
    CHECK_INT(f16_of(65519.9f), 0x7bff);
    CHECK_INT(f16_of(65520), 0x7c00);
    CHECK_INT(f16_of(-INFINITY), 0xfc00);
    CHECK_INT(pack_f16(1, -2), 0xc0003c00);
    CHECK_INT(pack_bf16(1, -2), 0xc0003f80);
    CHECK(unpack_bf16(0xc0003f80).x == 1);
}

int main()
{
    for (uint32_t seed = 1; seed <= 3; seed++)
        for (uint32_t product : {OF_F16, OF_BF16, OF_S8, OF_S8_HALF})
            check_product(product, seed);
    for (uint32_t width = 2; width <= 32; width *= 2)
        for (uint32_t by = 0; by < width; by++)
            check_lanes(by, width, by == 0 ? 0 : by == 1 ? ~0u : 0x9e3779b9u * by);
    check_numbers();
    return pc_test_end();
}
