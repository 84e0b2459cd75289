// The launches of a case: the kernel of its format and shape, then the merge.
#include "attend_launch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE(format, k, v) \
    extern "C" void pc__cuda_attend_##format##_##k##_##v(const pc__cuda_attend);
PC__CUDA_SHAPES(DECLARE, f32)
PC__CUDA_SHAPES(DECLARE, bf16)
PC__CUDA_SHAPES(DECLARE, f16)
PC__CUDA_SHAPES(DECLARE, i8)
extern "C" void pc__cuda_merge_states(const pc__cuda_merge);

namespace {
using namespace gpu_model;

bool launch_attend(const attend_case &c, const launch_shape &shape)
{
#define ENTRY(format, k, v)                     \
    if (c.spec.k_dim == k && c.spec.v_dim == v) \
        return launch<pc__cuda_attend_##format##_##k##_##v>(c.task, shape);
    switch (c.spec.format) {
    case PC__CUDA_F32:
        PC__CUDA_SHAPES(ENTRY, f32)
        break;
    case PC__CUDA_BF16:
        PC__CUDA_SHAPES(ENTRY, bf16)
        break;
    case PC__CUDA_F16:
        PC__CUDA_SHAPES(ENTRY, f16)
        break;
    case PC__CUDA_I8:
        PC__CUDA_SHAPES(ENTRY, i8)
        break;
    }
    abort();
}

float *result(const char *name, size_t floats)
{
    size_t bytes = (floats * 4 + 64) / 64 * 64;
    float *at = (float *)aligned_alloc(64, bytes);
    memset(at, 0xff, bytes); // NaN
    region(name, at, floats * 4, UNWRITTEN);
    return at;
}
} // namespace

bool run_case_with(attend_launcher launcher, attend_case &c, uint64_t seed, unsigned most_blocks)
{
    unsigned items = c.task.tile_count * c.task.kv_heads,
             blocks = most_blocks && most_blocks < items ? most_blocks : items,
             warps = PC__CUDA_BLOCK / 32;
    reset();
    for (size_t i = 0; i < c.input_count; i++)
        region(c.inputs[i].name, c.inputs[i].data, c.inputs[i].bytes, READ_ONLY);
    c.task.state = result("state", c.slots * c.task.heads * c.spec.v_dim);
    c.task.state_lse = result("state_lse", c.slots * c.task.heads);
    c.task.out = result("out", c.vectors * c.spec.v_dim);
    c.task.lse = result("lse", c.vectors);
    c.task.claimed = (uint32_t *)aligned_alloc(64, 64);
    *c.task.claimed = 0;
    region("claimed", c.task.claimed, 4, WRITTEN);
    c.merge.state = c.task.state;
    c.merge.state_lse = c.task.state_lse;
    c.merge.out = c.task.out;
    c.merge.lse = c.task.lse;
    uint32_t shared = pc__cuda_has_shape(c.spec.k_dim, c.spec.v_dim)
                          ? pc__cuda_attend_shared(c.spec.format, c.spec.k_dim, c.spec.v_dim)
                          : (uint32_t)PC__CUDA_NAIVE_SHARED;
    if (blocks && !launcher(c, {{blocks}, {PC__CUDA_BLOCK}, shared, seed, blocks}))
        return false;
    blocks = (c.merge.rows * c.task.heads + warps - 1) / warps;
    return !blocks || launch<pc__cuda_merge_states>(c.merge, {{blocks}, {PC__CUDA_BLOCK}, 0, seed});
}

bool run_case(attend_case &c, uint64_t seed, unsigned most_blocks)
{
    return run_case_with(launch_attend, c, seed, most_blocks);
}

void free_results(attend_case &c)
{
    reset();
    free(c.task.state), free(c.task.state_lse), free(c.task.out), free(c.task.lse);
    free(c.task.claimed);
}

uint64_t page_bytes_read(const attend_case &c)
{
    uint64_t sectors = 0;
    for (size_t i = 0; i < c.input_count; i++)
        if (!strcmp(c.inputs[i].name, "pages"))
            sectors += traffic_of(c.inputs[i].data).read_sectors;
    return sectors * 32;
}
