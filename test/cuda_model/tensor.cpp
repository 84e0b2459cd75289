// The tensor cores: products of small matrices whose elements lie spread over the lanes of a warp,
// as the PTX ISA shows them ("Matrix Fragments for mma.m16n8k16" and after).
//
// The lanes form 8 groups of 4. Row g of A and column g of B belong to group g. The sums are
// computed in fp64 and rounded once; a device's own sums differ in the last bits.
#include "machine.h"
#include "report.h"

namespace gpu_model {

#define CALLER __builtin_return_address(0)

// ---- 16-bit numbers --------------------------------------------------------------------------

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float widen_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31,
             fraction = half & 0x3ff;
    if (exponent == 0)
        return from_bits(sign | to_bits((float)fraction * 0x1p-24f));
    if (exponent == 31)
        return from_bits(sign | 0x7f800000u | fraction << 13);
    return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

struct f16_table {
    float value[65536];
    f16_table()
    {
        for (uint32_t i = 0; i < 65536; i++)
            value[i] = widen_f16((uint16_t)i);
    }
};

static const f16_table table;

float float_of_f16(uint16_t bits)
{
    return table.value[bits];
}

uint16_t f16_of(float x)
{
    uint32_t bits = to_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return 0x7fff;      // a NaN is always this one
    if (size >= 0x477ff000) // 65520
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) // a subnormal half: adding 0.5 leaves its bits at the end
        return (uint16_t)(sign | (to_bits(from_bits(size) + 0.5f) - 0x3f000000));
    size += 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | (size - 0x38000000) >> 13);
}

uint16_t bf16_of(float x)
{
    uint32_t bits = to_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// ---- products --------------------------------------------------------------------------------

struct mma_call {
    float *d;
    const uint32_t *a;
    uint32_t b[2];
};

struct operands {
    double a[16][16]; // [row][k]
    double b[16][8];  // [k][column]
};

template <mma_kind kind> static inline double element(uint32_t word, int high)
{
    if (kind == MMA_F16)
        return table.value[(uint16_t)(word >> high * 16)];
    return from_bits(high ? word & 0xffff0000u : word << 16);
}

// A has 4 registers a lane, B has 2, each with two neighbours in k.
template <mma_kind kind> static void gather_16(const meeting &all, operands *o)
{
    for (int lane = 0; lane < 32; lane++) {
        const mma_call *call = (const mma_call *)all.arguments[lane];
        int group = lane / 4, k = lane % 4 * 2;
        for (int high = 0; high < 2; high++) {
            for (int i = 0; i < 4; i++)
                o->a[group + i % 2 * 8][k + high + i / 2 * 8] = element<kind>(call->a[i], high);
            for (int i = 0; i < 2; i++)
                o->b[k + high + i * 8][group] = element<kind>(call->b[i], high);
        }
    }
}

static void multiply(const meeting &all, const operands &o)
{
    for (int row = 0; row < 16; row++) {
        double sum[8];
        for (int column = 0; column < 8; column++)
            sum[column] = ((const mma_call *)all.arguments[row % 8 * 4 + column / 2])
                              ->d[row / 8 * 2 + column % 2];
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++)
                sum[column] += o.a[row][k] * o.b[k][column];
        for (int column = 0; column < 8; column++)
            ((const mma_call *)all.arguments[row % 8 * 4 + column / 2])
                ->d[row / 8 * 2 + column % 2] = (float)sum[column];
    }
}

static bool is_whole(const meeting &all, const char *name)
{
    if (all.mask == ~0u)
        return true;
    report(DIVERGED, all.pc, "%s needs the whole warp; lanes %08x are there", name, all.mask);
    return false;
}

template <mma_kind kind> static void run_mma(meeting &all)
{
    operands o;
    if (!is_whole(all, "a product"))
        return;
    gather_16<kind>(all, &o);
    multiply(all, o);
}

void mma(mma_kind kind, float *d, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    mma_call call = {d, a, {b0, b1}};
    collective run = kind == MMA_F16 ? run_mma<MMA_F16> : run_mma<MMA_BF16>;
    meet("a product", run, ~0u, &call, CALLER);
}

} // namespace gpu_model
