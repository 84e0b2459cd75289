/* In the place of tools/promptcache-bench/bench_peak.cu: the fake device has no kernel of this
 * address, so that its peak is not measured. */
#include "bench_peak.h"

void bench_peak(float *out, unsigned rounds)
{
    (void)out, (void)rounds;
}
