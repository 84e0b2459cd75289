// RoPE of queries or keys, and rows of K and V into fp32 and 16-bit pages.
//
// K: a warp takes 8 tokens x 4 units. A unit is 4 dimensions (or 8 that rotate together), so a warp
// reads 64 bytes of each row, and its writes of one dimension are 8 tokens x 4 bytes: one sector.
#include "cuda/kernels/kv_write.h"

#include "cuda/kernels/words.cuh"

namespace {

__device__ __forceinline__ void turn(float c, float s, float &a, float &b)
{
    float low = pc__plus(pc__times(a, c), -pc__times(b, s));
    b = pc__plus(pc__times(a, s), pc__times(b, c));
    a = low;
}

// Number of units in which a head is rotated. A unit is a pair, or (fours) two fours of pairs
// (i, i + dims / 2), or a four of two neighbouring pairs; what does not rotate, one number or four.
__device__ __forceinline__ uint32_t turning_units(const pc__cuda_angles &a, bool fours)
{
    return a.interleaved || !fours ? a.dims / (fours ? 4 : 2) : a.dims / 8;
}

// Fours can be rotated at once.
__device__ __forceinline__ bool turns_fours(const pc__cuda_angles &a)
{
    return a.dims % (a.interleaved ? 4 : 8) == 0 && pc__aligned16(a.cosine)
           && pc__aligned16(a.sine);
}

// Rotates fours x (from i on) and y (from i + dims / 2 on). The angles are those of the row.
__device__ __forceinline__ void turn_halves(const float *cosine, const float *sine, uint32_t i,
                                            pc__four &x, pc__four &y)
{
    pc__four c = pc__load4(cosine + i), s = pc__load4(sine + i);
#pragma unroll
    for (int k = 0; k < 4; k++)
        turn(c.v[k], s.v[k], x.v[k], y.v[k]);
}

// Rotates the two pairs of the four x, from number i of the head on.
__device__ __forceinline__ void turn_pairs(const float *cosine, const float *sine, uint32_t i,
                                           pc__four &x)
{
    uint2 c = load8(cosine + i / 2), s = load8(sine + i / 2);
    turn(__uint_as_float(c.x), __uint_as_float(s.x), x.v[0], x.v[1]);
    turn(__uint_as_float(c.y), __uint_as_float(s.y), x.v[2], x.v[3]);
}

__device__ __forceinline__ pc__four scaled(const float *from, float scale)
{
    pc__four x = pc__load4(from);
    for (int k = 0; k < 4; k++)
        x.v[k] = pc__times(x.v[k], scale);
    return x;
}

// Unit `unit` of a head, in fours.
__device__ __forceinline__ void rotate_fours(const pc__cuda_rotate_task &t, uint32_t unit,
                                             const float *cosine, const float *sine,
                                             const float *from, float *to)
{
    const pc__cuda_angles &a = t.angles;
    uint32_t turning = turning_units(a, true), half = a.dims / 2, i = unit * 4;
    if (unit >= turning) {
        i = a.dims + (unit - turning) * 4;
        pc__store4(to + i, scaled(from + i, t.scale));
    } else if (a.interleaved) {
        pc__four x = scaled(from + i, t.scale);
        turn_pairs(cosine, sine, i, x);
        pc__store4(to + i, x);
    } else {
        pc__four x = scaled(from + i, t.scale), y = scaled(from + i + half, t.scale);
        turn_halves(cosine, sine, i, x, y);
        pc__store4(to + i, x);
        pc__store4(to + i + half, y);
    }
}

__device__ __forceinline__ void rotate_one(const pc__cuda_rotate_task &t, uint32_t unit,
                                           const float *cosine, const float *sine,
                                           const float *from, float *to)
{
    const pc__cuda_angles &a = t.angles;
    uint32_t half = a.dims / 2, i = a.interleaved ? 2 * unit : unit,
             other = a.interleaved ? i + 1 : i + half;
    if (unit >= half) {
        i = a.dims + unit - half;
        to[i] = pc__times(from[i], t.scale);
        return;
    }
    float x = pc__times(from[i], t.scale), y = pc__times(from[other], t.scale);
    turn(cosine[unit], sine[unit], x, y);
    to[i] = x;
    to[other] = y;
}

// The words of pages: BY numbers each, neighbouring dimensions of K or tokens of V.
struct f32_page {
    enum { BY = 1 };
    static __device__ __forceinline__ uint32_t word(const float *x)
    {
        return __float_as_uint(x[0]);
    }
};

template <class FORMAT> struct half_page {
    enum { BY = 2 };
    static __device__ __forceinline__ uint32_t from(float x)
    {
        return FORMAT::from(x);
    }
    static __device__ __forceinline__ uint32_t word(const float *x)
    {
        return FORMAT::from(x[0]) | FORMAT::from(x[1]) << 16;
    }
};

enum { TOKENS = 8, UNITS = PC__WARP / TOKENS, WARPS = PC__CUDA_KV_THREADS / PC__WARP };

struct kv_part {
    const pc__cuda_kv_write &t;
    pc__cuda_kv_piece piece;
    uint8_t *page;
    const float *k, *v; // of the piece's first row and this head; NULL: none
    const float *cosine, *sine;

    __device__ __forceinline__ explicit kv_part(const pc__cuda_kv_write &task)
        : t(task), piece(task.pieces[blockIdx.x])
    {
        uint64_t half = t.angles.dims / 2;
        page = (uint8_t *)(uintptr_t)(piece.page + t.layer * piece.layer_stride)
               + (uint64_t)blockIdx.y * t.shape.page_bytes;
        k = t.k ? t.k + piece.row * t.k_stride + blockIdx.y * t.shape.k_dim : nullptr;
        v = t.v ? t.v + piece.row * t.v_stride + blockIdx.y * t.shape.v_dim : nullptr;
        cosine = t.angles.cosine + piece.row * half;
        sine = t.angles.sine + piece.row * half;
    }
};

template <class PAGE>
__device__ __forceinline__ void put_key(const kv_part &p, uint32_t slot, uint32_t d,
                                        const pc__four &x)
{
    uint32_t *k = (uint32_t *)p.page;
#pragma unroll
    for (int i = 0; i < 4; i += PAGE::BY)
        k[(d + i) / PAGE::BY * PC__CUDA_KV_PAGE + slot] = PAGE::word(x.v + i);
}

// Unit `unit` of token `token` of the piece.
template <class PAGE>
__device__ __forceinline__ void write_key_fours(const kv_part &p, uint32_t token, uint32_t unit)
{
    const pc__cuda_angles &a = p.t.angles;
    const float *k = p.k + token * p.t.k_stride;
    uint32_t turning = turning_units(a, true), half = a.dims / 2, d = unit * 4,
             slot = p.piece.slot + token;
    if (unit >= turning) {
        d = a.dims + (unit - turning) * 4;
        put_key<PAGE>(p, slot, d, pc__load4(k + d));
    } else if (a.interleaved) {
        pc__four x = pc__load4(k + d);
        turn_pairs(p.cosine + token * half, p.sine + token * half, d, x);
        put_key<PAGE>(p, slot, d, x);
    } else {
        pc__four x = pc__load4(k + d), y = pc__load4(k + d + half);
        turn_halves(p.cosine + token * half, p.sine + token * half, d, x, y);
        put_key<PAGE>(p, slot, d, x);
        put_key<PAGE>(p, slot, d + half, y);
    }
}

// Number d of a key after rotation, for shapes that fours do not fit; 0 beyond its end.
__device__ __forceinline__ float key_at(const kv_part &p, uint32_t token, uint32_t d)
{
    const pc__cuda_angles &a = p.t.angles;
    const float *k = p.k + token * p.t.k_stride;
    uint32_t half = a.dims / 2, pair = a.interleaved ? d / 2 : d % (half ? half : 1);
    if (d >= a.dims)
        return d < p.t.shape.k_dim ? k[d] : 0.0f;
    float x = k[a.interleaved ? 2 * pair : pair], y = k[a.interleaved ? 2 * pair + 1 : pair + half];
    turn(p.cosine[token * half + pair], p.sine[token * half + pair], x, y);
    return (a.interleaved ? d % 2 : d / half) ? y : x;
}

template <class PAGE>
__device__ __forceinline__ void write_key_word(const kv_part &p, uint32_t token, uint32_t unit)
{
    float x[2] = {key_at(p, token, unit * PAGE::BY), 0.0f};
    if (PAGE::BY == 2)
        x[1] = key_at(p, token, unit * PAGE::BY + 1);
    ((uint32_t *)p.page)[unit * PC__CUDA_KV_PAGE + p.piece.slot + token] = PAGE::word(x);
}

template <class PAGE> __device__ __forceinline__ void write_keys(const kv_part &p)
{
    const pc__cuda_angles &a = p.t.angles;
    uint32_t k_dim = p.t.shape.k_dim, lane = threadIdx.x % PC__WARP;
    bool fours = turns_fours(a) && k_dim % 4 == 0 && p.t.k_stride % 4 == 0 && pc__aligned16(p.t.k);
    uint32_t units = fours ? turning_units(a, true) + (k_dim - a.dims) / 4
                           : (k_dim + PAGE::BY - 1) / PAGE::BY,
             columns = (units + UNITS - 1) / UNITS, first = p.piece.slot / TOKENS,
             last = (p.piece.slot + p.piece.count + TOKENS - 1) / TOKENS;
    for (uint32_t i = threadIdx.x / PC__WARP; i < (last - first) * columns; i += WARPS) {
        uint32_t slot = (first + i / columns) * TOKENS + lane / UNITS,
                 unit = i % columns * UNITS + lane % UNITS;
        // a slot before the piece wraps around and is past its end
        if (slot - p.piece.slot >= p.piece.count || unit >= units)
            continue;
        if (fours)
            write_key_fours<PAGE>(p, slot - p.piece.slot, unit);
        else
            write_key_word<PAGE>(p, slot - p.piece.slot, unit);
    }
}

__device__ __forceinline__ void write_values(const kv_part &p, f32_page)
{
    uint32_t dim = p.t.shape.v_dim, columns = dim;
    float *to = (float *)(p.page + p.t.shape.v_offset) + p.piece.slot * dim;
    bool fours = dim % 4 == 0 && p.t.v_stride % 4 == 0 && pc__aligned16(p.t.v);
    columns = fours ? dim / 4 : dim;
    for (uint32_t i = threadIdx.x; i < p.piece.count * columns; i += PC__CUDA_KV_THREADS) {
        const float *row = p.v + i / columns * p.t.v_stride;
        if (fours)
            pc__store4(to + i * 4, pc__load4(row + i % columns * 4));
        else
            to[i] = row[i % columns];
    }
}

// Words of two tokens, from dimension d on; a token that the piece has not is left as it is.
template <class PAGE, int COUNT>
__device__ __forceinline__ void put_values(const kv_part &p, uint32_t pair, uint32_t d)
{
    uint32_t token = pair * 2 - p.piece.slot, dim = p.t.shape.v_dim; // may be -1
    uint32_t *to = (uint32_t *)(p.page + p.t.shape.v_offset) + pair * dim + d;
    const float *row = p.v + (int64_t)(int32_t)token * (int64_t)p.t.v_stride + d;
    float x[2][COUNT];
    bool has[2] = {token < p.piece.count, token + 1 < p.piece.count};
#pragma unroll
    for (int h = 0; h < 2; h++) {
        pc__four four = {};
        if (has[h] && COUNT == 4)
            four = pc__load4(row + h * p.t.v_stride);
        for (int i = 0; i < COUNT && has[h]; i++)
            x[h][i] = COUNT == 4 ? four.v[i] : row[h * p.t.v_stride + i];
    }
    if (has[0] && has[1]) {
        uint32_t word[COUNT];
        for (int i = 0; i < COUNT; i++)
            word[i] = PAGE::from(x[0][i]) | PAGE::from(x[1][i]) << 16;
        if (COUNT == 4)
            store16(to, make_uint4(word[0], word[1 % COUNT], word[2 % COUNT], word[3 % COUNT]));
        else
            *to = word[0];
        return;
    }
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < COUNT && has[h]; i++)
            ((uint16_t *)(to + i))[h] = (uint16_t)PAGE::from(x[h][i]);
}

template <class FORMAT>
__device__ __forceinline__ void write_values(const kv_part &p, half_page<FORMAT>)
{
    uint32_t dim = p.t.shape.v_dim, first = p.piece.slot / 2,
             pairs = (p.piece.slot + p.piece.count + 1) / 2 - first;
    bool fours = dim % 4 == 0 && p.t.v_stride % 4 == 0 && pc__aligned16(p.t.v);
    uint32_t columns = fours ? dim / 4 : dim;
    for (uint32_t i = threadIdx.x; i < pairs * columns; i += PC__CUDA_KV_THREADS) {
        if (fours)
            put_values<half_page<FORMAT>, 4>(p, first + i / columns, i % columns * 4);
        else
            put_values<half_page<FORMAT>, 1>(p, first + i / columns, i % columns);
    }
}

template <class PAGE> __device__ __forceinline__ void write(const pc__cuda_kv_write &t)
{
    kv_part p(t);
    if (!p.piece.count)
        return;
    if (t.k)
        write_keys<PAGE>(p);
    if (t.v)
        write_values(p, PAGE());
}

} // namespace

KERNEL(pc__cuda_kv_write_f32, pc__cuda_kv_write, (PC__CUDA_KV_THREADS), write<f32_page>(t))
KERNEL(pc__cuda_kv_write_bf16, pc__cuda_kv_write, (PC__CUDA_KV_THREADS),
       write<half_page<pc__bf16>>(t))
KERNEL(pc__cuda_kv_write_f16, pc__cuda_kv_write, (PC__CUDA_KV_THREADS),
       write<half_page<pc__f16>>(t))

extern "C" __global__ void __launch_bounds__(PC__CUDA_ROTATE_THREADS)
    pc__cuda_rotate(PARAM pc__cuda_rotate_task t)
{
    const pc__cuda_angles &a = t.angles;
    uint64_t row = blockIdx.x;
    const float *cosine = a.cosine + row * (a.dims / 2), *sine = a.sine + row * (a.dims / 2),
                *from = t.from + row * t.from_stride;
    float *to = t.to + row * t.to_stride;
    bool fours = turns_fours(a) && t.dim % 4 == 0 && t.from_stride % 4 == 0 && t.to_stride % 4 == 0
                 && pc__aligned16(t.from) && pc__aligned16(t.to);
    uint32_t units = turning_units(a, fours) + (t.dim - a.dims) / (fours ? 4 : 1);
    for (uint32_t i = threadIdx.x; i < t.heads * units; i += PC__CUDA_ROTATE_THREADS) {
        uint32_t at = i / units * t.dim;
        if (fours)
            rotate_fours(t, i % units, cosine, sine, from + at, to + at);
        else
            rotate_one(t, i % units, cosine, sine, from + at, to + at);
    }
}
