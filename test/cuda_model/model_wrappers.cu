// Each wrapper that works on a thread alone, with all that it gives and gets in memory. Those of a
// warp are in model_tensor.cu.
#include "model_wrappers.h"
#include "gpu.h"

extern "C" __global__ void model_numbers(PARAM struct numbers_task t)
{
    uint32_t thread = threadIdx.x, a = t.a[thread * 2], b = t.a[thread * 2 + 1];
    uint32_t *result = t.result + thread * NUMBER_RESULTS;
    float x = t.x[thread * 2], y = t.x[thread * 2 + 1];
    float2 brain = unpack_bf16(a);
    result[F16_OF] = f16_of(x);
    result[FLOAT_OF_F16] = __float_as_uint(float_of_f16((uint16_t)a));
    result[BF16_OF] = bf16_of(x);
    result[FLOAT_OF_BF16] = __float_as_uint(float_of_bf16((uint16_t)a));
    result[PACKED_F16] = pack_f16(x, y);
    result[PACKED_BF16] = pack_bf16(x, y);
    result[UNPACKED_BF16] = __float_as_uint(brain.x);
    result[UNPACKED_BF16 + 1] = __float_as_uint(brain.y);
    result[PRODUCT_F16] = multiply_f16(a, b);
    unpack_i8(a, &result[UNPACKED_I8], &result[UNPACKED_I8 + 1]);
    result[EXP2] = __float_as_uint(exp2_fast(x));
    result[SUM_OVER_4] = (uint32_t)sum_over<4>((float)thread);
    result[MAX_OVER_32] = (uint32_t)max_over<32>((float)thread);
}

static __device__ void move_by_loads(const uint32_t *from, uint32_t *to, uint32_t step)
{
    for (uint32_t i = 0; i < 4; i++)
        store4(to + MOVE_4 * step + i, load4(from + i));
    for (uint32_t i = 0; i < 4; i += 2)
        store8(to + MOVE_8 * step + i, load8(from + i));
    store16(to + MOVE_16 * step, load16(from));
    store16(to + MOVE_16_ONCE * step, load16_once(from));
}

// The last group is waited for last, and brings MOVE_PART.
static __device__ void move_by_copies(const uint32_t *from, uint32_t *to, uint32_t step)
{
    uint32_t thread = threadIdx.x,
             *room = (uint32_t *)dynamic_shared() + thread * 4 * (MOVES - MOVE_ASYNC_4);
    for (uint32_t i = 0; i < 4; i++)
        copy4(room + i, from + i);
    for (uint32_t i = 0; i < 4; i += 2)
        copy8(room + 4 + i, from + i);
    copy16(room + 8, from);
    copy_commit();
    copy16_part(room + 12, from, thread % 17);
    copy_commit();
    copy_wait<1>();
    for (uint32_t way = MOVE_ASYNC_4; way < MOVE_PART; way++)
        for (uint32_t i = 0; i < 4; i++)
            to[way * step + i] = room[(way - MOVE_ASYNC_4) * 4 + i];
    copy_wait<0>();
    for (uint32_t i = 0; i < 4; i++)
        to[MOVE_PART * step + i] = room[12 + i];
}

extern "C" __global__ void model_moves(PARAM struct moves_task t)
{
    uint32_t step = blockDim.x * 4;
    const uint32_t *from = t.from + threadIdx.x * 4;
    uint32_t *to = t.to + threadIdx.x * 4;
    move_by_loads(from, to, step);
    move_by_copies(from, to, step);
}

extern "C" __global__ void model_atomics(PARAM struct atomics_task t)
{
    uint32_t all = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;
    t.before[ADD_RELAXED * all + me] = add_relaxed(t.word + ADD_RELAXED, 1);
    t.before[ADD_RELEASE * all + me] = add_release(t.word + ADD_RELEASE, 1);
    t.before[ADD_ACQ_REL * all + me] = add_acq_rel(t.word + ADD_ACQ_REL, 1);
}

// Block 0 hands data to block 1.
extern "C" __global__ void model_message(PARAM struct atomics_task t)
{
    uint32_t me = threadIdx.x;
    if (blockIdx.x == 0) {
        t.data[me] = me * 3 + 1;
        __syncthreads();
        if (me == 0) {
            store_relaxed(t.flag, 5);
            store_release(t.flag + 1, 1);
        }
        return;
    }
    if (me == 0)
        while (!load_acquire(t.flag + 1))
            continue;
    __syncthreads();
    t.seen[me] = t.data[me] + load_relaxed(t.flag);
}
