/* pc_generate_options.bench for a baseline alone. */
#ifndef PC_TEST_BASELINE_H
#define PC_TEST_BASELINE_H

#include <promptcache/bench.h>

/* Static: a request that is made later may point to it. */
static inline const pc_bench_options *pc_test_baseline(uint32_t baseline)
{
    static pc_bench_options all[16];
    all[baseline] = (pc_bench_options)PC_BENCH_OPTIONS_INIT;
    all[baseline].baseline = baseline;
    return &all[baseline];
}

#endif
