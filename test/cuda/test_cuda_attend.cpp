// Catches: attention kernels whose results differ from the C reference, for any format, shape,
// sharing, window, chunk, soft cap, slopes, sinks or rotation; that race, read what is not there,
// lose items, leave claims to the next launch, meet bank conflicts in their main loop, or read
// pages that no query sees. Arguments: FIRST COUNT SEEDS of the list of cases. PC_TEST_LONG=1: all
// cases, three seeds.
#include "attend_launch.h"
extern "C" {
#include "testing.h"
}
#include <stdlib.h>

static uint64_t conflicts_in(const char *file)
{
    gpu_model::traffic t = gpu_model::traffic_at(file, 0);
    return t.wavefronts - t.least_wavefronts;
}

// Passes of shared memory that bank conflicts add to the loops over pages: all but those at the end
// of an item, and of copies where rows of V are no whole multiples of the banks.
static uint64_t conflicts_of(const attend_spec &spec)
{
    gpu_model::traffic all = gpu_model::total_traffic();
    uint64_t end = conflicts_in(spec.format == PC__CUDA_F32 ? "attend_join.h" : "attend_store.h"),
             copies = spec.v_dim % 32 ? conflicts_in("attend_ring.h") : 0;
    if (spec.format == PC__CUDA_F32 && spec.k_dim % 64) // and of queries
        return 0;
    return all.wavefronts - all.least_wavefronts - end - copies;
}

static void check_case(size_t index, const attend_spec &spec, uint64_t seed)
{
    attend_case c;
    attend_case_new(&c, &spec);
    bool whole = run_case(c, seed);
    double error = attend_case_error(&c), tolerance = attend_case_tolerance(&spec);
    uint64_t reports = gpu_model::reports(), read = page_bytes_read(c);
    uint64_t conflicts = conflicts_of(spec);
    CHECK_INT(*c.task.claimed, 0);
    if (!CHECK(whole && !reports && !conflicts && error <= tolerance
               && (double)read <= (double)c.needed_bytes * 1.05)
        || getenv("PC_TEST_TELL")) {
        fprintf(stderr, "%zu: %s: error %.2g of %.2g, %llu reports, %.3f of the bytes%s\n", index,
                attend_spec_text(&spec), error, tolerance, (unsigned long long)reports,
                (double)read / (double)c.needed_bytes, conflicts ? ", conflicts" : "");
        gpu_model::print_traffic();
    }
    free_results(c);
    attend_case_free(&c);
}

// As many pages as a section may have.
static void check_largest_section()
{
    attend_spec spec = attend_spec_of(PC__CUDA_F16, 1);
    spec.kind = CASE_SINGLE;
    spec.kv_heads = 1;
    spec.rows = 2;
    spec.section_pages = PC__CUDA_SECTION_PAGES;
    spec.tokens = PC__CUDA_SECTION_PAGES * PC__CUDA_PAGE;
    check_case(PC__CUDA_F16, spec, 1);
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
            check_case(i, attend_spec_of(i, seed), seed);
    if (argc == 1)
        check_largest_section();
    return pc_test_end();
}
