/* Measures the machine: the same loop on all threads, the fastest of a few passes counts. */
#include "machine.h"

#include <pthread.h>
#include <promptcache.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_THREADS = 256, PASSES = 5 };
static const size_t read_bytes = (size_t)96 << 20; /* of each thread */

static clockid_t clock_of_now = CLOCK_MONOTONIC;

void machine_count_cpu_time(void)
{
    clock_of_now = CLOCK_PROCESS_CPUTIME_ID;
}

double machine_now(void)
{
    struct timespec t;
    clock_gettime(clock_of_now, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *machine_memory(size_t bytes)
{
    const size_t huge = (size_t)2 << 20;
    void *memory = aligned_alloc(huge, (bytes + huge - 1) / huge * huge + huge);
#if defined(MADV_HUGEPAGE)
    if (memory)
        madvise(memory, (bytes + huge - 1) / huge * huge, MADV_HUGEPAGE);
#endif
    return memory;
}

/* The number behind `key` at the start of a line of a file, or of the whole file if `key` is "". 0:
 * there is none. */
static uint64_t number_of(const char *path, const char *key)
{
    FILE *file = fopen(path, "r");
    unsigned long long value = 0;
    char line[128];
    size_t size = strlen(key);
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, size) && sscanf(line + size, "%llu", &value) == 1)
            break;
    if (file)
        fclose(file);
    return value;
}

uint64_t machine_free_memory(void)
{
    uint64_t bytes = number_of("/proc/meminfo", "MemAvailable:") * 1024,
             most = number_of("/sys/fs/cgroup/memory.max", ""),
             used = number_of("/sys/fs/cgroup/memory.current", ""),
             files = number_of("/sys/fs/cgroup/memory.stat", "inactive_file");
    if (!most) /* "max", or no such group */
        return bytes;
    used = used > files ? used - files : 0; /* cached files give way */
    uint64_t left = most > used ? most - used : 0;
    return left < bytes || !bytes ? left : bytes;
}

machine_bound machine_bound_of(double bytes, double read_rate, double flops, double flop_rate)
{
    machine_bound b = {bytes / read_rate, flops / flop_rate, 0};
    b.least = b.by_bytes > b.by_flops ? b.by_bytes : b.by_flops;
    return b;
}

long computing_threads;

unsigned machine_threads(void)
{
    cpu_set_t set;
    if (computing_threads)
        return (unsigned)computing_threads;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (unsigned)CPU_COUNT(&set);
}

typedef struct lane {
    pthread_barrier_t *start;
    void (*body)(struct lane *lane);
    void *data;
    size_t amount;
    double seconds; /* of the fastest pass */
    uint64_t sink;
} lane;

static void *run_lane(void *arg)
{
    lane *l = arg;
    l->seconds = 1e30;
    for (int pass = 0; pass < PASSES; pass++) {
        double began, seconds;
        pthread_barrier_wait(l->start);
        began = machine_now();
        l->body(l);
        pthread_barrier_wait(l->start); /* a pass ends with the slowest thread */
        seconds = machine_now() - began;
        l->seconds = seconds < l->seconds ? seconds : l->seconds;
    }
    return NULL;
}

/* Runs `body` on all threads at once. Returns the sum of their amounts a second, in the fastest
 * pass.
 */
static double rate(unsigned threads, void (*body)(lane *lane), size_t amount, size_t bytes)
{
    static lane lanes[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    pthread_barrier_t start;
    unsigned started = 0;
    double best;
    threads = threads > MOST_THREADS ? MOST_THREADS : threads ? threads : 1;
    pthread_barrier_init(&start, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        lanes[i] = (lane){.start = &start,
                          .body = body,
                          .amount = amount,
                          .data = bytes ? machine_memory(bytes) : NULL};
        if (bytes && !lanes[i].data)
            amount = 0;
        else if (bytes)
            memset(lanes[i].data, 1, bytes);
    }
    for (; amount && started + 1 < threads; started++)
        if (pthread_create(&ids[started], NULL, run_lane, &lanes[started + 1]))
            abort(); /* the others would wait at the barrier for ever */
    if (amount)
        run_lane(&lanes[0]);
    for (unsigned i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    best = lanes[0].seconds;
    for (unsigned i = 0; i < threads; i++)
        free(lanes[i].data);
    pthread_barrier_destroy(&start);
    return amount ? (double)amount * threads / best : 0;
}

static void read_all(lane *l)
{
    const uint64_t *p = l->data;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < l->amount / 8; i += 64)
        for (size_t j = 0; j < 64; j += 8)
            for (size_t k = 0; k < 8; k++)
                sum[k] += p[i + j + k];
    for (size_t k = 0; k < 8; k++)
        l->sink += sum[k];
}

double machine_read_rate(unsigned threads)
{
    return rate(threads, read_all, read_bytes, read_bytes);
}

enum { ROUNDS = 1 << 21, CHAINS = 12 };
typedef float portable __attribute__((vector_size(32)));

static void multiply_add_any(lane *l)
{
    portable x[CHAINS], a = {1.0f}, b = {0.5f};
    memset(x, 0, sizeof x);
    for (int i = 0; i < ROUNDS; i++)
        for (int c = 0; c < CHAINS; c++)
            x[c] = x[c] * a + b;
    for (int c = 0; c < CHAINS; c++)
        l->sink += (uint64_t)x[c][0];
}

#if defined(__x86_64__)
#include <immintrin.h>

/* clang unrolls these loops by itself, and ignores gcc's pragma. */
__attribute__((target("avx2,fma"))) static void multiply_add_avx2(lane *l)
{
    __m256 x[CHAINS], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.5f);
    for (int c = 0; c < CHAINS; c++)
        x[c] = _mm256_setzero_ps();
    for (int i = 0; i < ROUNDS; i++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            x[c] = _mm256_fmadd_ps(x[c], a, b);
    for (int c = 0; c < CHAINS; c++)
        l->sink += (uint64_t)_mm256_cvtss_f32(x[c]);
}

__attribute__((target("avx512f"))) static void multiply_add_avx512(lane *l)
{
    __m512 x[CHAINS], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.5f);
    for (int c = 0; c < CHAINS; c++)
        x[c] = _mm512_setzero_ps();
    for (int i = 0; i < ROUNDS; i++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            x[c] = _mm512_fmadd_ps(x[c], a, b);
    for (int c = 0; c < CHAINS; c++)
        l->sink += (uint64_t)_mm512_cvtss_f32(x[c]);
}

__attribute__((target("avx512f,avx512bf16"))) static void multiply_add_bf16(lane *l)
{
    __m512 x[CHAINS];
    __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f00), b = (__m512bh)_mm512_set1_epi16(0x3e80);
    for (int c = 0; c < CHAINS; c++)
        x[c] = _mm512_setzero_ps();
    for (int i = 0; i < ROUNDS; i++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            x[c] = _mm512_dpbf16_ps(x[c], a, b);
    for (int c = 0; c < CHAINS; c++)
        l->sink += (uint64_t)_mm512_cvtss_f32(x[c]);
}
#endif

double machine_flop_rate(unsigned threads, uint32_t dtype)
{
    size_t lanes = 8;
    void (*body)(lane * lane) = multiply_add_any;
#if defined(__x86_64__)
    if (dtype == PC_DTYPE_BF16 && __builtin_cpu_supports("avx512bf16"))
        body = multiply_add_bf16, lanes = 32;
    else if (__builtin_cpu_supports("avx512f"))
        body = multiply_add_avx512, lanes = 16;
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        body = multiply_add_avx2;
#else
    (void)dtype;
#endif
    return rate(threads, body, 2 * lanes * CHAINS * (size_t)ROUNDS, 0);
}
