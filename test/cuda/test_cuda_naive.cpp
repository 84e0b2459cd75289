// Catches: a naive kernel of attention, or a kernel of attention maps, that differs from the C
// reference: for shapes without kernels of their own and for those with, and all formats.
#include "attend_launch.h"
extern "C" {
#include "testing.h"
}
#include <math.h>
#include <stdlib.h>
#include <vector>

extern "C" void pc__cuda_attend_naive(const pc__cuda_attend);
extern "C" void pc__cuda_attention_map(const pc__cuda_map_row);
using namespace gpu_model;

// The map of a row, span by span, over the regions of the last run.
static void check_map(const attend_case &c, size_t row)
{
    pc__cuda_map_row spans[CASE_SPANS];
    float *want;
    size_t keys, count = attend_case_map(&c, row, spans, &want, &keys), at = 0;
    std::vector<float> got(keys * c.task.heads + 1);
    region("map", got.data(), got.size() * 4, UNWRITTEN);
    for (size_t i = 0; i < count; i++) {
        region("lse", spans[i].layer.lse, c.spec.rows * c.task.heads * 4, READ_ONLY);
        spans[i].weights = got.data() + at;
        spans[i].stride = keys;
        unsigned blocks = (spans[i].tokens + PC__CUDA_BLOCK - 1) / PC__CUDA_BLOCK;
        CHECK(launch<pc__cuda_attention_map>(
            spans[i],
            {{blocks, c.task.heads}, {PC__CUDA_BLOCK}, PC__CUDA_ATTENTION_MAP_SHARED, 1}));
        forget_region(spans[i].layer.lse);
        at += spans[i].tokens;
    }
    double worst = 0;
    for (size_t i = 0; i < keys * c.task.heads; i++)
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
    CHECK(worst <= 1e-5);
    free(want);
}

static void check_case(const attend_spec &spec)
{
    attend_case c;
    attend_case_new(&c, &spec);
    bool whole = run_case<pc__cuda_attend_naive>(c, spec.seed, 3);
    double error = attend_case_error(&c), tolerance = attend_case_tolerance(&spec);
    if (!CHECK(whole && !reports() && error <= tolerance))
        fprintf(stderr, "    %s: error %.2g of %.2g\n", attend_spec_text(&spec), error, tolerance);
    check_map(c, spec.rows - 1);
    CHECK_INT(reports(), 0);
    free_results(c);
    attend_case_free(&c);
}

int main()
{
    static const uint32_t dims[][2] = {{8, 8}, {15, 33}, {33, 12}, {40, 40}, {1, 1}, {64, 64}};
    enum { SHAPES = sizeof dims / sizeof *dims };
    bool longer = getenv("PC_TEST_LONG") != NULL;
    size_t cases = longer ? 432 : 24;
    setenv("PC_CPU_MASK", "c", 1);
    for (size_t i = 0; i < cases; i++) {
        attend_spec spec = attend_spec_of(longer ? i : i * 17, 7);
        spec.k_dim = dims[i / 4 % SHAPES][0];
        spec.v_dim = dims[i / 4 % SHAPES][1];
        if (spec.k_dim % 16) // rotated pairs need even dimensions
            spec.rope = spec.k_dim % 2 || spec.rope == CASE_ODD ? 0u : spec.rope;
        spec.rows = spec.rows / 4 + 1;
        check_case(spec);
    }
    return pc_test_end();
}
