// Catches: attention kernels whose results differ from the C reference, for any format, shape,
// sharing, window, soft cap, slopes, sinks or rotation; that race, read what is not there, lose
// items, meet bank conflicts in their main loop, or read pages that no query sees.
// Arguments: FIRST COUNT SEEDS of the list of cases. PC_TEST_LONG=1: all cases, three seeds.
#include "attend_launch.h"
extern "C" {
#include "testing.h"
}
#include <stdlib.h>

// The loops over pages: loads from shared memory, and, where rows of V are whole multiples of the
// banks, copies into it.
static bool has_conflicts(const attend_spec &spec)
{
    gpu_model::traffic loads = gpu_model::traffic_at("attend_tensor.h", 0),
                       weights = gpu_model::traffic_at("attend_softmax.h", 0),
                       copies = gpu_model::traffic_at("attend_ring.h", 0);
    return loads.wavefronts != loads.least_wavefronts
           || weights.wavefronts != weights.least_wavefronts
           || (spec.v_dim % 32 == 0 && copies.wavefronts != copies.least_wavefronts);
}

static void check_case(size_t index, uint64_t seed)
{
    attend_spec spec = attend_spec_of(index, seed);
    if (spec.format == PC__CUDA_F32)
        return;
    attend_case c;
    attend_case_new(&c, &spec);
    bool whole = run_case(c, seed);
    double error = attend_case_error(&c), tolerance = attend_case_tolerance(&spec);
    uint64_t reports = gpu_model::reports(), read = page_bytes_read(c);
    CHECK(!has_conflicts(spec));
    if (!CHECK(whole && !reports && error <= tolerance
               && (double)read <= (double)c.needed_bytes * 1.05))
        fprintf(stderr, "    case %zu: %s: error %.2g of %.2g, %llu reports, %.3f of the bytes\n",
                index, attend_spec_text(&spec), error, tolerance, (unsigned long long)reports,
                (double)read / (double)c.needed_bytes);
    if (getenv("PC_TEST_TELL"))
        printf("%zu: %s: error %.2g, %llu reports, %.3f of the bytes\n", index,
               attend_spec_text(&spec), error, (unsigned long long)reports,
               (double)read / (double)c.needed_bytes),
            gpu_model::print_traffic();
    free_results(c);
    attend_case_free(&c);
}

int main(int argc, char **argv)
{
    bool longer = getenv("PC_TEST_LONG") != NULL;
    size_t first = argc > 1 ? strtoul(argv[1], NULL, 10) : 0,
           count = argc > 2 ? strtoul(argv[2], NULL, 10) : 432,
           seeds = argc > 3 ? strtoul(argv[3], NULL, 10)
                   : longer ? 3
                            : 1,
           step = argc > 1 || longer ? 1 : 47;
    setenv("PC_CPU_MASK", "c", 1);
    for (size_t i = first; i < first + count; i += step)
        for (uint64_t seed = 1; seed <= seeds; seed++)
            check_case(i, seed);
    return pc_test_end();
}
