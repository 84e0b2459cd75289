/* A kernel that keeps the tensor cores busy: products of a warp, in bf16 with sums in fp32, eight at
 * a time that do not depend on each other. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

enum { BENCH_PEAK_PRODUCTS = 8, BENCH_PEAK_THREADS = 256 };

/* nvcc makes a kernel of it, which cudaLaunchKernel takes by this address. out: a number of each
 * thread, so that the products are not left out. */
#ifndef __CUDACC__
void bench_peak(float *out, unsigned rounds);
#endif

#endif
