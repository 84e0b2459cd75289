/* The commands of `promptcache-bench`; each is defined in the file of its name. */
#ifndef BENCH_H
#define BENCH_H

#include "program.h"

extern const command bench_attend, bench_calibrate, bench_check, bench_decode, bench_device_rates,
    bench_eval, bench_inputs, bench_memo, bench_mmlu, bench_needles, bench_samples, bench_serve,
    bench_store, bench_trace, bench_ttft;

#endif
