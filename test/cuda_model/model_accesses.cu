// A kernel that touches memory in many ways, with places at which the test plants a fault.
#include "model_accesses.h"
#include "gpu.h"

static __device__ const float weights[4] = {1, 2, 4, 8};

// a copy to shared memory, its use, and what is wrong about it
static __device__ float through_copy(const struct access_task &t, float *words)
{
    uint32_t me = threadIdx.x, n = blockDim.x;
    const float *in = t.in + blockIdx.x * n + me / 2 * 2;
    float before = 0, *own = words + me * 2;
    copy8(own, in); // copy
    if (t.fault == ODD_COPY)
        copy8(words + n * 2 + 1, in); // odd copy
    copy_commit();
    if (t.fault == READ_IN_FLIGHT)
        before = own[me % 2]; // read in flight
    if (t.fault == WRITTEN_IN_FLIGHT)
        own[me % 2] = 1; // write in flight
    if (t.fault == NEVER_WAITED)
        return before;
    copy_wait<0>();
    return own[me % 2] + before;
}

// numbers of 1 and 2 bytes: neighbours in a word belong to different threads
static __device__ void write_parts(const struct access_task &t)
{
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    t.halves[at] = (uint16_t)at;
    if (t.fault != THREE_OF_FOUR || at % 4 != 2)
        t.bytes[at] = (uint8_t)at;
    __syncthreads();
    if (at % 4 == 0)
        t.out[at] = (float)load4(t.bytes + at); // four bytes
}

struct six {
    float v[6];
};

// copies of more bytes than a device moves at once
static __device__ float in_bulk(const struct access_task &t, float *words)
{
    uint32_t n = blockDim.x, some = t.fault == STRUCT_READ || t.fault == LIBRARY_READ ? 5 : 6;
    float *own = words + n * 4 + threadIdx.x * 6, copied[6];
    for (uint32_t i = 0; i < some; i++)
        own[i] = 1;
    struct six whole = *(const struct six *)own; // a struct
    if (t.fault == LIBRARY_READ)
        memcpy(copied, own, sizeof copied); // a copy
    else
        memcpy(copied, &whole, sizeof copied);
    if (t.fault == LIBRARY_WRITE)
        memset(t.bytes + t.rows * n - 1, 0, 2); // a memset
    return copied[threadIdx.x % 6];
}

extern "C" __global__ void model_accesses(PARAM struct access_task t)
{
    uint32_t me = threadIdx.x, n = blockDim.x, row = blockIdx.x;
    float *words = (float *)dynamic_shared(), sum = weights[me % 4];
    if (row >= t.rows + (t.fault == ROW_TOO_MANY))
        return;
    sum += through_copy(t, words) + in_bulk(t, words);
    if (t.fault == SHARED_TOO_FAR)
        words[n * 10 + me] = 0; // too far
    if (t.fault == HOST_MEMORY)
        sum += *t.host; // of the host
    if (t.fault == INPUT_WRITTEN)
        *(float *)(t.in + me) = 0; // input written
    if (t.fault == OUTPUT_READ)
        sum += t.out[row * n + me]; // output read
    if (t.fault == SHARED_UNWRITTEN)
        sum += words[n * 2 + me]; // unwritten
    if (t.fault == ODD_LOAD)
        sum += __uint_as_float(load16(t.in + row * n + me).x); // odd load
    if (t.fault == ODD_WORD)
        sum += *(const float *)((const uint8_t *)t.in + 2); // odd word
    write_parts(t);
    t.out[row * n + me] = sum; // a row
}
