/* What this machine can do at best, measured by loops of our own, apart from the library's kernels:
 * the bounds of the benchmarks. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stddef.h>
#include <stdint.h>

extern long computing_threads;  /* of --threads; 0: not given */
unsigned machine_threads(void); /* those, or one for each usable core */
/* Memory that is read from end to end: in huge pages where the system has them (as the library
 * takes its own; 4 KiB pages cost a quarter of the bandwidth). NULL: none left. For free(). */
void *machine_memory(size_t bytes);
/* Bytes a second that `threads` threads read together from memory too large for any cache. 0: no
 * memory for it. */
double machine_read_rate(unsigned threads);
/* Floating point operations a second (a multiply-add counts two) of `threads` threads, all operands
 * in registers. dtype: PC_DTYPE_F32 or PC_DTYPE_BF16 (products of bf16 with fp32 sums where the CPU
 * has them, else as fp32). */
double machine_flop_rate(unsigned threads, uint32_t dtype);
/* How long a work takes at least that moves so many bytes and does so many operations, both at
 * once; in the rates' unit of time. */
typedef struct machine_bound {
    double by_bytes, by_flops;
    double least; /* the larger one */
} machine_bound;
machine_bound machine_bound_of(double bytes, double read_rate, double flops, double flop_rate);
double machine_now(void); /* seconds */

#endif
