/* In the place of tools/promptcache-bench/bench_peak.cu: the fake device has no kernels of these
 * addresses, so that its peak and its launches are not measured. */
#include "bench_peak.h"

void bench_peak(float *out, unsigned rounds)
{
    (void)out, (void)rounds;
}

void bench_nothing(void)
{
}
