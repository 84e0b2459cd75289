// Each wrapper of gpu.h in a kernel of its own, which test_wrappers_ptx.py reads as PTX: operands
// come from the parameter, results go to `out` in their order.
#include "wrappers.h"
#include "gpu.h"

#define WRAPPER(name) extern "C" __global__ void wrap_##name(PARAM struct operands t)

template <class T> static __device__ __forceinline__ void put(const struct operands &t, T d)
{
    *(T *)t.out = d;
}
template <class T, int count>
static __device__ __forceinline__ void put(const struct operands &t, const T (&d)[count])
{
    for (int i = 0; i < count; i++)
        ((T *)t.out)[i] = d[i];
}

#define MMA(name)                                         \
    WRAPPER(name)                                         \
    {                                                     \
        float d[4] = {t.f[0], t.f[1], t.f[2], t.f[3]};    \
        uint32_t a[4] = {t.a[0], t.a[1], t.a[2], t.a[3]}; \
        name(d, a, t.b[0], t.b[1]);                       \
        put(t, d);                                        \
    }
MMA(mma_f16)
MMA(mma_bf16)
WRAPPER(mma_s8)
{
    int32_t d[4] = {t.i[0], t.i[1], t.i[2], t.i[3]};
    uint32_t a[4] = {t.a[0], t.a[1], t.a[2], t.a[3]};
    mma_s8(d, a, t.b[0], t.b[1]);
    put(t, d);
}
WRAPPER(mma_s8_half)
{
    int32_t d[4] = {t.i[0], t.i[1], t.i[2], t.i[3]};
    uint32_t a[2] = {t.a[0], t.a[1]};
    mma_s8_half(d, a, t.b[0]);
    put(t, d);
}

WRAPPER(copy16)
{
    copy16(t.to, t.from);
}
WRAPPER(copy16_part)
{
    copy16_part(t.to, t.from, t.a[0]);
}
WRAPPER(copy8)
{
    copy8(t.to, t.from);
}
WRAPPER(copy4)
{
    copy4(t.to, t.from);
}
WRAPPER(copy_commit)
{
    copy_commit();
}
WRAPPER(copy_wait)
{
    copy_wait<3>();
}

WRAPPER(pack_f16)
{
    put(t, pack_f16(t.f[0], t.f[1]));
}
WRAPPER(pack_bf16)
{
    put(t, pack_bf16(t.f[0], t.f[1]));
}
WRAPPER(multiply_f16)
{
    put(t, multiply_f16(t.a[0], t.a[1]));
}
WRAPPER(unpack_i8)
{
    uint32_t words[2];
    unpack_i8(t.a[0], &words[0], &words[1]);
    put(t, words);
}
WRAPPER(exp2_fast)
{
    put(t, exp2_fast(t.f[0]));
}

WRAPPER(load_relaxed)
{
    put(t, load_relaxed((const uint32_t *)t.from));
}
WRAPPER(load_acquire)
{
    put(t, load_acquire((const uint32_t *)t.from));
}
WRAPPER(store_relaxed)
{
    store_relaxed((uint32_t *)t.to, t.a[0]);
}
WRAPPER(store_release)
{
    store_release((uint32_t *)t.to, t.a[0]);
}
WRAPPER(add_relaxed)
{
    put(t, add_relaxed((uint32_t *)t.to, t.a[0]));
}
WRAPPER(add_release)
{
    put(t, add_release((uint32_t *)t.to, t.a[0]));
}
WRAPPER(add_acq_rel)
{
    put(t, add_acq_rel((uint32_t *)t.to, t.a[0]));
}

WRAPPER(load16_once)
{
    put(t, load16_once(t.from));
}
WRAPPER(copy_by_8) // one instruction each
{
    store8(t.to, load8(t.from));
}
WRAPPER(copy_by_16)
{
    store16(t.to, load16(t.from));
}
