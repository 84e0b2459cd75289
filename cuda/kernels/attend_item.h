// What the attention kernels of all formats share: the claim of work items, the vectors of a tile
// with what they see, their rotated queries, and where results go.
#ifndef PC_CUDA_KERNELS_ATTEND_ITEM_H
#define PC_CUDA_KERNELS_ATTEND_ITEM_H

#include "attend.h"
#include "faults.h"
#include "gpu.h"

enum { TILE = 64, WARPS = PC__CUDA_BLOCK / 32 };
#define LOG2_E 1.44269504088896340736f
#define LN_2 0.69314718055994530942f

// The first bytes of shared memory: the item of the block.
struct attend_header {
    uint64_t page[PC__CUDA_SECTION_PAGES]; // address of each page of the K/V head in the layer
    int64_t distance[TILE];
    uint32_t lo[TILE], hi[TILE]; // the tokens of the section that a vector sees in the layer
    uint32_t row[TILE], angle[TILE], slot[TILE], head[TILE];
    float top[WARPS][16], sum[WARPS][16]; // maxima and sums of warps that share vectors
    uint32_t need[2], whole[2]; // by half tiles: pages that a vector sees; that all see whole
    uint32_t vectors;           // of the item
    uint32_t next;              // item of the block
    const int64_t *relative;    // as in pc__cuda_call
};
static_assert(sizeof(attend_header) <= PC__CUDA_HEADER, "the header is too large");

// Two and four neighbouring floats, with one access.
static __device__ __forceinline__ float2 load_two(const float *at)
{
    uint2 w = load8(at);
    return make_float2(__uint_as_float(w.x), __uint_as_float(w.y));
}

static __device__ __forceinline__ float4 load_floats(const float *at)
{
    uint4 w = load16(at);
    return make_float4(__uint_as_float(w.x), __uint_as_float(w.y), __uint_as_float(w.z),
                       __uint_as_float(w.w));
}

static __device__ __forceinline__ void store_floats(float *to, float a, float b, float c, float d)
{
    store16(to, make_uint4(__float_as_uint(a), __float_as_uint(b), __float_as_uint(c),
                           __float_as_uint(d)));
}

// A work item, the same in all threads.
struct attend_item {
    const pc__cuda_call *call;
    uint32_t kv_head, first_vector, vectors;
};

static __device__ attend_item item_of(const pc__cuda_attend &t, uint32_t index, uint32_t most)
{
    pc__cuda_tile tile = t.tiles[index % t.tile_count];
    const pc__cuda_call *call = t.calls + tile.call;
    uint32_t left = call->pairs * (t.heads / t.kv_heads) - tile.first_vector;
    return {call, index / t.tile_count, tile.first_vector, left < most ? left : most};
}

// The first token in [lo, hi) whose position is above `outside`.
static __device__ uint32_t first_above(const pc__cuda_call *call, int64_t outside, uint32_t lo,
                                       uint32_t hi)
{
    const int64_t *relative = (const int64_t *)call->relative;
    if (!relative)
        return outside < (int64_t)lo ? lo : outside < (int64_t)hi ? (uint32_t)outside + 1 : hi;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (relative[middle] > outside)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

// Pages [from, to) as bits.
static __device__ uint32_t bits_of(uint32_t from, uint32_t to)
{
    return from < to ? ~0u >> (32 - (to - from)) << from : 0;
}

// Narrows [lo, hi) to what the layer's window and chunks show. The search stands once in the code,
// so that the kernels stay as small as without chunks.
static __device__ void narrow(const pc__cuda_attend &t, const pc__cuda_call *call,
                              const pc__cuda_pair &pair, uint32_t *lo, uint32_t *hi)
{
    int64_t before = pair.distance - t.window - FAULT(WRONG_WINDOW), last = 0;
    if (t.inside) {
        // the last position before the chunk
        int64_t other = pair.distance - t.inside[pair.row] - 1 - FAULT(WRONG_CHUNK);
        before = t.window > 0 && before > other ? before : other;
        last = other + t.chunk;
    }
#pragma unroll 1
    for (uint32_t end = 0, ends = t.inside ? 2 : t.window > 0; end < ends; end++) {
        uint32_t at = first_above(call, end ? last : before, *lo, *hi);
        *lo = end ? *lo : at;
        *hi = end ? at : *hi;
    }
}

// Vector `i` of the item: its ranges go to the header, its pages to need and whole.
static __device__ void load_vector(const pc__cuda_attend &t, const attend_item &item, uint32_t i,
                                   attend_header *h, uint32_t *need, uint32_t *whole)
{
    uint32_t group = t.heads / t.kv_heads, vector = item.first_vector + i;
    const pc__cuda_pair *pair = t.pairs + item.call->first_pair + vector / group;
    uint32_t lo = pair->lo, hi = pair->hi;
    int64_t distance = pair->distance;
    narrow(t, item.call, *pair, &lo, &hi);
    h->lo[i] = lo;
    h->hi[i] = hi;
    h->distance[i] = distance;
    h->row[i] = pair->row;
    h->angle[i] = pair->angle;
    h->slot[i] = pair->slot;
    h->head[i] = item.kv_head * group + vector % group;
    *need = lo < hi ? bits_of(lo / PC__CUDA_PAGE, (hi + PC__CUDA_PAGE - 1) / PC__CUDA_PAGE) : 0;
    *whole = lo < hi ? bits_of((lo + PC__CUDA_PAGE - 1) / PC__CUDA_PAGE, hi / PC__CUDA_PAGE) : 0;
}

// Fills the header; ends with a barrier.
static __device__ void load_item(const pc__cuda_attend &t, const attend_item &item,
                                 uint32_t page_bytes, attend_header *h)
{
    uint32_t i = threadIdx.x, need = 0, whole = ~0u;
    if (i < TILE) {
        if (i < item.vectors)
            load_vector(t, item, i, h, &need, &whole);
        else
            h->lo[i] = h->hi[i] = 0;
        for (int distance = 1; distance < 32; distance *= 2) {
            need |= __shfl_xor_sync(~0u, need, distance);
            whole &= __shfl_xor_sync(~0u, whole, distance);
        }
        if (i % 32 == 0) {
            h->need[i / 32] = need;
            h->whole[i / 32] = whole;
        }
    } else if (i - TILE < item.call->pages) { // at most so many as threads are left
        h->page[i - TILE] = t.pages[item.call->first_page + i - TILE]
                            + t.layer * item.call->layer_stride
                            + (uint64_t)item.kv_head * page_bytes;
    }
    if (i == PC__CUDA_BLOCK - 1) {
        h->vectors = item.vectors;
        h->relative = (const int64_t *)item.call->relative;
    }
    __syncthreads();
}

// The query of one vector, before it is rotated; q NULL: there is none.
struct query_row {
    const float *q, *cosine, *sine;
};

static __device__ query_row query_of(const pc__cuda_attend &t, const attend_header *h,
                                     uint32_t vector, uint32_t vectors)
{
    if (vector >= vectors)
        return {NULL, NULL, NULL};
    size_t angle = (size_t)h->angle[vector] * (t.rope_dims / 2);
    return {t.q + ((size_t)h->row[vector] * t.heads + h->head[vector]) * t.k_dim, t.cosine + angle,
            t.sine + angle};
}

// How queries rotate.
struct query_rope {
    uint32_t dims, interleaved;
    float scale;
};

static __device__ __forceinline__ query_rope rope_of(const pc__cuda_attend &t)
{
    return {t.rope_dims, t.interleaved, t.scale};
}

// One dimension of a query that rotates, scaled; pairs are (d, d + half).
static __device__ __forceinline__ float rotated_one(const query_row &row, float scale,
                                                    uint32_t half, uint32_t d)
{
    uint32_t i = d < half ? d : d - half;
    float low = row.q[i] * scale, high = row.q[i + half] * scale, c = row.cosine[i],
          s = row.sine[i];
    return d < half ? low * c - high * s : low * s + high * c;
}

// Dimensions d and d + 1 of a query, scaled and rotated; d is even.
static __device__ __forceinline__ float2 rotated(const query_rope &rope, const query_row &row,
                                                 uint32_t d)
{
    uint32_t half = rope.dims / 2;
    if (!row.q)
        return make_float2(0, 0);
    if (half % 2 && d < rope.dims && !rope.interleaved) // they may belong to different halves
        return make_float2(rotated_one(row, rope.scale, half, d),
                           rotated_one(row, rope.scale, half, d + 1));
    float2 x = load_two(row.q + d);
    x = make_float2(x.x * rope.scale, x.y * rope.scale);
    if (d >= rope.dims)
        return x;
    if (rope.interleaved) {
        float c = row.cosine[d / 2], s = row.sine[d / 2];
        return make_float2(x.x * c - x.y * s, x.x * s + x.y * c);
    }
    bool low = d < half;
    uint32_t i = low ? d : d - half;
    float2 y = load_two(row.q + (low ? d + half : i)), c = load_two(row.cosine + i),
           s = load_two(row.sine + i);
    y = make_float2(y.x * rope.scale, y.y * rope.scale);
    return low ? make_float2(x.x * c.x - y.x * s.x, x.y * c.y - y.y * s.y)
               : make_float2(y.x * s.x + x.x * c.x, y.y * s.y + x.y * c.y);
}

// Where the result of a vector goes.
struct attend_target {
    float *values, *lse; // lse NULL: nobody wants it
    float sink;          // -INFINITY: none
};

static __device__ attend_target target_of(const pc__cuda_attend &t, const attend_header *h,
                                          uint32_t vector)
{
    uint32_t slot = h->slot[vector], head = h->head[vector];
    if (slot != PC__CUDA_DIRECT) {
        size_t at = (size_t)slot * t.heads + head;
        return {t.state + at * t.v_dim, t.state_lse + at, -INFINITY};
    }
    size_t at = (size_t)h->row[vector] * t.heads + head;
    return {t.out + at * t.v_dim, t.lse ? t.lse + at : NULL, t.sinks ? t.sinks[head] : -INFINITY};
}

// Claims an item; only one thread calls it. A block ends with a claim that gets no item, so there
// are as many claims as items and blocks: nobody claims after the last one, which leaves 0 for the
// next launch.
static __device__ uint32_t claim_item(const pc__cuda_attend &t)
{
    uint32_t last = t.tile_count * t.kv_heads + (FAULT(EARLY_ZERO) ? 0 : gridDim.x - 1), item;
    if (FAULT(LOST_CLAIM)) {
        item = *t.claimed;
        *t.claimed = item + 1;
    } else {
        item = add_relaxed(t.claimed, 1);
    }
    if (item == last && !FAULT(NO_ZERO))
        store_relaxed(t.claimed, 0);
    return item;
}

// Begins item `index`, if there is one: claims the item after it and fills the header; `most`:
// vectors of a tile. All threads are done with the item before.
static __device__ bool begin_item(const pc__cuda_attend &t, uint32_t index, uint32_t most,
                                  uint32_t page_bytes, attend_header *h)
{
    uint32_t claimed = 0;
    if (index >= t.tile_count * t.kv_heads)
        return false;
    if (!threadIdx.x)
        claimed = claim_item(t);
    load_item(t, item_of(t, index, most), page_bytes, h);
    if (!threadIdx.x) // all threads have read the item before
        h->next = claimed;
    return true;
}

// Ends an item: all threads are done with it, and learn the next one, which begin_item claimed.
static __device__ uint32_t next_item(const attend_header *h)
{
    if (!FAULT(NO_CLAIM_BARRIER))
        __syncthreads();
    return h->next;
}

// The first item of the block. All are claimed, also by blocks that begin late.
static __device__ uint32_t first_item(const pc__cuda_attend &t, attend_header *h)
{
    if (!threadIdx.x)
        h->next = claim_item(t);
    return next_item(h);
}

#endif
