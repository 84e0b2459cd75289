// What tests of kernels outside attention share: device memory with its region of the model, random
// numbers, launches that must leave no report, and the count of sectors.
#ifndef PC_TEST_DENSE_CASE_H
#define PC_TEST_DENSE_CASE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_model.h"

extern "C" {
#include "testing.h"
}

// `count` numbers, aligned to 64 bytes, with a region of exactly their size.
template <class T> class device {
  public:
    device(const char *name, size_t count, gpu_model::region_use use = gpu_model::READ_ONLY)
        : size(count)
    {
        // behind the end lies memory that no region has
        at = (T *)aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64);
        memset((void *)at, 0xee, count * sizeof(T));
        if (count)
            gpu_model::region(name, at, count * sizeof(T), use);
    }
    ~device()
    {
        if (size)
            gpu_model::forget_region(at);
        free(at);
    }
    device(const device &) = delete;
    device &operator=(const device &) = delete;
    T &operator[](size_t i)
    {
        return at[i];
    }
    T *data() const
    {
        return at;
    }
    template <class F> device &fill(F f)
    {
        for (size_t i = 0; i < size; i++)
            at[i] = (T)f(i);
        return *this;
    }
    const size_t size;

  private:
    T *at;
};

struct random_numbers {
    pc_test_rng rng;
    explicit random_numbers(uint64_t seed) : rng{seed * 0x9e3779b97f4a7c15u + 1}
    {
    }
    float normal(float scale = 1.0f)
    {
        return pc_test_normal(&rng) * scale;
    }
    uint32_t below(uint32_t end)
    {
        return (uint32_t)(pc_test_bits(&rng) % end);
    }
    // now and then what arithmetic treats apart
    float odd(float scale = 1.0f)
    {
        static const float others[] = {0.0f,   -0.0f, INFINITY, -INFINITY, NAN,
                                       1e-40f, 3e38f, 65519.0f, -65536.0f, 6e-8f};
        return below(8) ? normal(scale) : others[below(10)];
    }
};

inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// The same bits; a NaN is a NaN.
inline bool same(float a, float b)
{
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

// Runs a kernel; CHECKs that the model has nothing to report. In a test of few blocks all lanes of
// all warps run, in an order that `seed` decides.
template <auto kernel, class Task>
void run_kernel(const Task &task, gpu_model::extent blocks, unsigned threads, size_t shared = 0)
{
    static uint64_t seed = 1;
    if (!blocks.x || !blocks.y || !blocks.z)
        return; // a device takes no empty grid: the host launches nothing
    gpu_model::launch_shape shape;
    shape.blocks = blocks;
    shape.threads = {threads};
    shape.shared = shared;
    shape.seed = seed++;
    gpu_model::launch<kernel>(task, shape);
    CHECK_INT(gpu_model::reports(), 0);
    gpu_model::forget_reports();
}

// Of the launches since the last call: sectors of global memory are at most 1.05 x those that had
// to be moved, and no lanes waited for each other at a bank of shared memory.
inline void check_traffic()
{
    gpu_model::traffic all = gpu_model::total_traffic();
    bool well = (double)all.sectors <= 1.05 * (double)all.least_sectors
                && all.wavefronts == all.least_wavefronts;
    CHECK(well);
    if (!well)
        gpu_model::print_traffic();
    gpu_model::forget_traffic();
}

#endif
