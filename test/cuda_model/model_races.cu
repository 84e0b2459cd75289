// Small kernels, each with places at which the test plants a race. Marks name the lines of reports.
#include "model_races.h"
#include "gpu.h"

// Sums what the neighbour has copied: two stages in shared memory, as main loops have them.
extern "C" __global__ void model_stages(PARAM struct race_task t)
{
    uint32_t *stages = (uint32_t *)dynamic_shared();
    uint32_t n = blockDim.x, me = threadIdx.x, sum = 0;
    const uint32_t *in = t.in + (size_t)blockIdx.x * t.tiles * n * 4 + me * 4;
    copy16(stages + me * 4, in);
    copy_commit();
    for (uint32_t tile = 0; tile < t.tiles; tile++) {
        uint32_t *stage = stages + tile % 2 * n * 4, *next = stages + (tile + 1) % 2 * n * 4;
        if (tile + 1 < t.tiles)
            copy16(next + me * 4, in + (tile + 1) * n * 4); // next copy
        copy_commit();
        if (t.fault != NO_WAIT)
            copy_wait<1>();
        if (t.fault != NO_BARRIER_AFTER)
            __syncthreads();
        uint4 four = load16(stage + (me + 32) % n * 4); // use of the copy
        sum += four.x + four.y + four.z + four.w;
        if (t.fault != NO_BARRIER_BEFORE)
            __syncthreads();
    }
    copy_wait<0>();
    t.out[blockIdx.x * n + me] = sum;
}

// Turns 32 numbers round within a warp and back, through shared memory.
extern "C" __global__ void model_warp(PARAM struct race_task t)
{
    volatile uint32_t *words = (volatile uint32_t *)dynamic_shared() + threadIdx.x / 32 * 32;
    uint32_t lane = threadIdx.x % 32;
    words[lane] = lane;
    if (t.fault == HALF_MASKS)
        __syncwarp(lane < 16 ? 0xffffu : 0xffff0000u);
    else if (t.fault != NO_WARP_BARRIER)
        __syncwarp();
    uint32_t turned = words[31 - lane]; // use of the turned
    if (t.fault != SECOND_TURN)
        __syncwarp();
    words[lane] = turned + 1; // second turn
    __syncwarp();
    t.out[blockIdx.x * blockDim.x + threadIdx.x] = words[31 - lane];
}

// All threads of all blocks add to one word.
extern "C" __global__ void model_sums(PARAM struct race_task t)
{
    if (t.fault == PLAIN_ADD)
        t.counter[0] += 1; // plain add
    else
        add_relaxed(t.counter, 1);
    if (t.fault == PLAIN_LOOK)
        t.out[blockIdx.x * blockDim.x + threadIdx.x] = t.counter[0]; // plain look
}

// Counts a block that is done; the value before.
static __device__ uint32_t count_block(const struct race_task &t)
{
    uint32_t before;
    if (t.fault == NO_RELEASE)
        return add_relaxed(t.counter, 1);
    if (t.fault == NO_ACQUIRE)
        return add_release(t.counter, 1);
    if (t.fault != WITH_FENCES && t.fault != NO_FENCE)
        return add_acq_rel(t.counter, 1);
    if (t.fault != NO_FENCE)
        __threadfence();
    before = add_relaxed(t.counter, 1);
    __threadfence();
    return before;
}

// The block that is done last adds the parts of all blocks.
extern "C" __global__ void model_last_block(PARAM struct race_task t)
{
    uint32_t n = blockDim.x, me = threadIdx.x, sum = 0, *last = (uint32_t *)dynamic_shared();
    if (me == 0)
        *last = 2; // not known yet
    __syncthreads();
    t.partial[blockIdx.x * n + me] = me; // part of a block
    if (t.fault != NO_BARRIER_RELEASE)
        __syncthreads();
    if (me == 0)
        store_relaxed(last, count_block(t) + 1 == gridDim.x);
    else if (t.fault == NO_BARRIER_ACQUIRE)
        while (load_relaxed(last) > 1) // no order: a relaxed load
            ;
    if (t.fault != NO_BARRIER_ACQUIRE)
        __syncthreads();
    if (!load_relaxed(last))
        return;
    for (uint32_t block = 0; block < gridDim.x; block++)
        sum += t.partial[block * n + me]; // sum of the parts
    t.out[me] = sum;
}

// Block by block: each adds to what the block before it has left.
extern "C" __global__ void model_chain(PARAM struct race_task t)
{
    uint32_t n = blockDim.x, me = threadIdx.x, block = blockIdx.x;
    if (me == 0)
        while ((t.fault == RELAXED_LOAD ? load_relaxed(t.counter) : load_acquire(t.counter))
               != block)
            ;
    __syncthreads();
    uint32_t before = block ? t.partial[(block - 1) * n + me] : 0; // of the block before
    t.partial[block * n + me] = before + 1;
    __syncthreads();
    if (me == 0 && t.fault == RELAXED_STORE)
        store_relaxed(t.counter, block + 1);
    else if (me == 0)
        store_release(t.counter, block + 1);
    t.out[block * n + me] = before;
}

// Blocks claim tiles until none is left, as persistent kernels do.
extern "C" __global__ void model_claims(PARAM struct race_task t)
{
    volatile uint32_t *slot = (volatile uint32_t *)dynamic_shared();
    uint32_t n = blockDim.x, me = threadIdx.x;
    for (;;) {
        if (me == 0)
            *slot = add_relaxed(t.counter, 1); // claim
        __syncthreads();
        uint32_t tile = *slot;
        if (t.fault != SLOT_REUSED)
            __syncthreads();
        if (tile >= t.tiles)
            return;
        t.out[tile * n + me] = tile;
    }
}

// The last thread writes a word after others have read it: a barrier and a release of each block
// make an order, mere counting makes none.
extern "C" __global__ void model_readers(PARAM struct race_task t)
{
    uint32_t n = blockDim.x, all = gridDim.x * n, me = blockIdx.x * n + threadIdx.x;
    uint32_t readers = t.fault == READ_BY_WARP ? 32 : t.fault == READ_BY_BLOCK ? n - 1 : all - 1;
    if (me < readers)
        t.out[me] = t.in[0];
    if (t.fault == NO_FAULT) {
        __syncthreads();
        if (threadIdx.x == 0)
            add_release(t.counter, 1);
        while (me == readers && load_acquire(t.counter) != gridDim.x)
            ;
    } else if (me < readers)
        add_relaxed(t.counter, 1);
    while (t.fault != NO_FAULT && me == readers && load_relaxed(t.counter) != readers)
        ;
    if (me == readers)
        t.in[0] = 0; // write after all reads
}

// The source of a copy is overwritten before the copy has landed.
extern "C" __global__ void model_source(PARAM struct race_task t)
{
    uint32_t *words = (uint32_t *)dynamic_shared();
    uint32_t n = blockDim.x, me = threadIdx.x, *in = t.in + blockIdx.x * n * 4;
    copy16(words + me * 4, in + me * 4); // copy of the source
    copy_commit();
    if (t.fault != SOURCE_CHANGED)
        copy_wait<0>();
    __syncthreads();
    in[(me + 32) % n * 4] = me;
    copy_wait<0>();
    t.out[blockIdx.x * n + me] = words[me * 4];
}
