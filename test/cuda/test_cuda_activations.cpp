// Catches: a wrong formula, constant or limit of an activation or gate; an activation that is less
// exact than promised; NaN and infinity that end otherwise than on the CPU; a gate that forgets its
// factor; ends of blocks.
#include "cuda/kernels/flat.h"

#include "dense_case.h"
#include "dense_reference.h"

#define DECLARE(name) void pc__cuda_##name(pc__cuda_flat), pc__cuda_gate_##name(pc__cuda_flat)
extern "C" {
DECLARE(relu);
DECLARE(gelu);
DECLARE(gelu_tanh);
DECLARE(silu);
DECLARE(tanh);
DECLARE(relu_squared);
void pc__cuda_gate_none(pc__cuda_flat), pc__cuda_gate_clamped(pc__cuda_flat);
}

namespace {

double relu(double x)
{
    return x > 0 ? x : 0;
}

double relu_squared(double x)
{
    return x > 0 ? x * x : 0;
}

double gelu(double x)
{
    return 0.5 * x * (1 + erf(x * M_SQRT1_2));
}

double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}

double silu(double x)
{
    return x / (1 + exp(-x));
}

double nothing(double x)
{
    return x;
}

// Off by at most 4 places of the result and of |x| (the largest summand in 1 + erf is 1), or of the
// smallest numbers.
bool near(float got, double want, double x)
{
    if (isnan(want) || isinf((float)want))
        return isnan(want) ? isnan(got) : got == (float)want;
    return fabs((double)got - want)
           <= 4 * 0x1p-24 * (fabs(want) + (isnan(x) ? 0 : fabs(x))) + 1e-37;
}

template <auto activate, auto gate>
void compare(random_numbers &random, double (*f)(double), bool has_alone = true)
{
    static const size_t counts[] = {0, 3, 4096, 5000};
    for (size_t count : counts) {
        device<float> x("x", count, gpu_model::WRITTEN), y("y", count, gpu_model::WRITTEN),
            up("up", count), from("from", count);
        size_t wrong = 0, blocks = pc__cuda_flat_blocks(count);
        for (size_t i = 0; i < count; i++) {
            x[i] = y[i] = from[i] = i % 100 ? random.normal(4.0f) : random.odd();
            up[i] = random.normal();
        }
        if (has_alone)
            run_kernel<activate>(pc__cuda_flat{x.data(), nullptr, count, 0, 0}, {(unsigned)blocks},
                                 PC__CUDA_FLAT_THREADS);
        run_kernel<gate>(pc__cuda_flat{y.data(), up.data(), count, 0, 0}, {(unsigned)blocks},
                         PC__CUDA_FLAT_THREADS);
        for (size_t i = 0; i < count; i++) {
            wrong += !near(x[i], f((double)from[i]), (double)from[i]);
            wrong += !same(y[i], x[i] * up[i]);
        }
        CHECK_INT(wrong, 0);
        check_traffic();
    }
}

double clamped(double x, double up, double limit, double alpha)
{
    double g = x > limit ? limit : x, u = up > limit ? limit : up < -limit ? -limit : up;
    return g / (1 + exp(-alpha * g)) * (u + 1);
}

// The gate with limits, near them and far beyond. Next to u = -1 the sum u + 1 is small, but exact.
void clamp(random_numbers &random)
{
    enum { COUNT = 5000 };
    const float limit = 2.5f, alpha = 1.702f;
    device<float> x("x", COUNT, gpu_model::WRITTEN), up("up", COUNT), from("from", COUNT);
    size_t wrong = 0;
    for (size_t i = 0; i < COUNT; i++) {
        x[i] = from[i] = i % 10 ? random.normal(3.0f) : random.odd();
        up[i] = i % 9 ? random.normal(3.0f) : random.odd();
    }
    run_kernel<pc__cuda_gate_clamped>(pc__cuda_flat{x.data(), up.data(), COUNT, limit, alpha},
                                      {pc__cuda_flat_blocks(COUNT)}, PC__CUDA_FLAT_THREADS);
    for (size_t i = 0; i < COUNT; i++) {
        double want = clamped((double)from[i], (double)up[i], (double)limit, (double)alpha);
        bool nan = isnan(want) || (isinf(from[i]) && from[i] < 0); // -inf * 0, or -inf / inf
        wrong += nan ? !isnan(x[i]) && x[i] != 0.0f
                     : !(fabs((double)x[i] - want) <= 1e-6 * fabs(want) + 1e-30);
    }
    CHECK_INT(wrong, 0);
    gpu_model::forget_traffic();
}

// The CPU's own functions, for finite and other numbers.
void compare_with_cpu(random_numbers &random)
{
    enum { COUNT = 5000 };
    device<float> x("x", COUNT, gpu_model::WRITTEN), y("y", COUNT, gpu_model::WRITTEN),
        up("up", COUNT);
    device<float> want_x("want x", COUNT), want_y("want y", COUNT);
    size_t wrong = 0;
    for (size_t i = 0; i < COUNT; i++) {
        x[i] = y[i] = want_x[i] = want_y[i] = random.odd(4.0f);
        up[i] = random.odd();
    }
    reference_gelu(want_x.data(), COUNT);
    reference_silu_gate(want_y.data(), up.data(), COUNT);
    run_kernel<pc__cuda_gelu>(pc__cuda_flat{x.data(), nullptr, COUNT, 0, 0},
                              {pc__cuda_flat_blocks(COUNT)}, PC__CUDA_FLAT_THREADS);
    run_kernel<pc__cuda_gate_silu>(pc__cuda_flat{y.data(), up.data(), COUNT, 0, 0},
                                   {pc__cuda_flat_blocks(COUNT)}, PC__CUDA_FLAT_THREADS);
    for (size_t i = 0; i < COUNT; i++)
        wrong += !same(x[i], want_x[i]) + !same(y[i], want_y[i]);
    if (!gpu_model::runs_elsewhere())
        CHECK_INT(wrong, 0); // over the model both call the same erff and expf
}

} // namespace

int main()
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_numbers random(seed);
        compare<pc__cuda_relu, pc__cuda_gate_relu>(random, relu);
        compare<pc__cuda_gelu, pc__cuda_gate_gelu>(random, gelu);
        compare<pc__cuda_gelu_tanh, pc__cuda_gate_gelu_tanh>(random, gelu_tanh);
        compare<pc__cuda_silu, pc__cuda_gate_silu>(random, silu);
        compare<pc__cuda_tanh, pc__cuda_gate_tanh>(random, tanh);
        compare<pc__cuda_relu_squared, pc__cuda_gate_relu_squared>(random, relu_squared);
        compare<pc__cuda_relu, pc__cuda_gate_none>(random, nothing, false);
        clamp(random);
        compare_with_cpu(random);
    }
    return pc_test_end();
}
