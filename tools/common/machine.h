/* The bandwidth and the peak arithmetic of this machine, measured by own loops, not by the
 * library's kernels. Benchmarks compute their bounds from them. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stddef.h>
#include <stdint.h>

extern long computing_threads;  /* --threads; 0: not given */
unsigned machine_threads(void); /* computing_threads, or one for each usable core */
/* Memory in huge pages, if the system has them: with 4 KiB pages a quarter of the bandwidth is
 * lost. To be freed with free(). NULL: out of memory. */
void *machine_memory(size_t bytes);
/* Memory that programs can still get, in bytes: what the system calls available, at most what the
 * control group of this process has left. 0: not known. */
uint64_t machine_free_memory(void);
/* Bytes a second that `threads` threads read together, from memory larger than any cache. 0: out of
 * memory. */
double machine_read_rate(unsigned threads);
/* Floating point operations a second of `threads` threads, all operands in registers; a
 * multiply-add counts as two. dtype: PC_DTYPE_F32, or PC_DTYPE_BF16 (bf16 products with fp32 sums
 * if the CPU has them, else fp32). */
double machine_flop_rate(unsigned threads, uint32_t dtype);
/* The least time for so many bytes and so many operations, done at once. In the rates' unit of
 * time.
 */
typedef struct machine_bound {
    double by_bytes, by_flops;
    double least; /* the larger one */
} machine_bound;
machine_bound machine_bound_of(double bytes, double read_rate, double flops, double flop_rate);
double machine_now(void);
/* From then on it tells the processor time of this process: on one thread of a busy machine, that
 * is the time of work alone. */
void machine_count_cpu_time(void); /* seconds */

#endif
