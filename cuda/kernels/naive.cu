// Attention of any shape and format in plain loops: the reference on the device, and what shapes
// without kernels of their own take. It has the semantics of attend.h. And the attention map of one
// row (attn/plan_map.c), for inspection.
#include "attend.h"
#include "gpu.h"

// A page's values as fp32. `page`: its first byte; `k_dim`, `v_dim` of any size up to 1024.
struct naive_page {
    const uint8_t *k, *v;
    uint32_t format, k_dim, v_dim;
};

static __device__ float number_at(const uint8_t *block, size_t i, uint32_t format)
{
    if (format == PC__CUDA_F32)
        return ((const float *)block)[i];
    if (format == PC__CUDA_I8)
        return (float)((const int8_t *)block)[i];
    uint16_t bits = ((const uint16_t *)block)[i];
    return format == PC__CUDA_BF16 ? float_of_bf16(bits) : float_of_f16(bits);
}

// How many neighbouring values share a word of 4 bytes.
static __device__ uint32_t pack_of(uint32_t format)
{
    return 4 / pc__cuda_value_bytes(format);
}

static __device__ float key_at(const naive_page &p, uint32_t d, uint32_t token)
{
    uint32_t pack = pack_of(p.format), dims = (p.k_dim + pack - 1) / pack * pack;
    float x = number_at(p.k, ((size_t)(d / pack) * PC__CUDA_PAGE + token) * pack + d % pack,
                        p.format);
    return p.format == PC__CUDA_I8
               ? x * float_of_bf16(((const uint16_t *)(p.k + dims * PC__CUDA_PAGE))[d])
               : x;
}

static __device__ float value_at(const naive_page &p, uint32_t token, uint32_t d)
{
    uint32_t pack = pack_of(p.format);
    float x = number_at(p.v, ((size_t)(token / pack) * p.v_dim + d) * pack + token % pack,
                        p.format);
    return p.format == PC__CUDA_I8
               ? x * float_of_bf16(((const uint16_t *)(p.v + p.v_dim * PC__CUDA_PAGE))[token])
               : x;
}

// The rotation of queries: as in pc__cuda_attend.
struct naive_rope {
    uint32_t dims, interleaved;
    const float *cosine, *sine; // of the angle
};

static __device__ float turned(const naive_rope &rope, const float *q, float scale, uint32_t d)
{
    uint32_t half = rope.dims / 2, other, i;
    if (d >= rope.dims)
        return q[d] * scale;
    other = rope.interleaved ? d ^ 1 : d < half ? d + half : d - half;
    i = rope.interleaved ? d / 2 : d % half;
    float x = q[d] * scale, y = q[other] * scale;
    return other > d ? x * rope.cosine[i] - y * rope.sine[i]
                     : y * rope.sine[i] + x * rope.cosine[i];
}

// One vector of a call: what the kernels call a tile of one.
struct naive_vector {
    const pc__cuda_call *call;
    const pc__cuda_pair *pair;
    uint32_t kv_head, head;
};

// The rotated query of a vector, in shared memory.
static __device__ void load_query(const pc__cuda_attend &t, const naive_vector &v, float *q)
{
    size_t angle = (size_t)v.pair->angle * (t.rope_dims / 2);
    naive_rope rope = {t.rope_dims, t.interleaved, t.cosine + angle, t.sine + angle};
    const float *from = t.q + ((size_t)v.pair->row * t.heads + v.head) * t.k_dim;
    __syncthreads();
    for (uint32_t d = threadIdx.x; d < t.k_dim; d += PC__CUDA_BLOCK)
        q[d] = turned(rope, from, t.scale, d);
    __syncthreads();
}

// The sum of the first `count` threads' values, in all threads.
static __device__ float sum_of_first(uint32_t count, float x, float *room)
{
    float sum = 0;
    __syncthreads();
    room[threadIdx.x] = x;
    __syncthreads();
    for (uint32_t i = 0; i < count; i++)
        sum += room[i];
    return sum;
}

static __device__ float capped(float s, float cap)
{
    return cap != 0 ? cap * tanhf(s / cap) : s;
}

static __device__ int64_t distance_of(const naive_vector &v, uint32_t token)
{
    const int64_t *relative = (const int64_t *)v.call->relative;
    return v.pair->distance - (relative ? relative[token] : token);
}

static __device__ naive_page page_of(const pc__cuda_attend &t, const naive_vector &v,
                                     uint32_t token)
{
    uint32_t bytes = pc__cuda_page_bytes(t.format, t.k_dim, t.v_dim);
    const uint8_t *k = (const uint8_t *)(t.pages[v.call->first_page + token / PC__CUDA_PAGE]
                                         + t.layer * v.call->layer_stride
                                         + (uint64_t)v.kv_head * bytes);
    return {k, k + pc__cuda_v_offset(t.format, t.k_dim), t.format, t.k_dim, t.v_dim};
}

// The score of a token that the vector sees; -inf: it does not. `q`: rotated, in shared memory.
static __device__ float naive_score(const pc__cuda_attend &t, const naive_vector &v, const float *q,
                                    uint32_t token)
{
    float s = 0;
    int64_t distance = distance_of(v, token);
    if (t.window > 0 && distance >= t.window)
        return -INFINITY;
    if (t.inside) {
        int64_t inside = t.inside[v.pair->row];
        if (distance > inside || distance <= inside - t.chunk)
            return -INFINITY;
    }
    naive_page page = page_of(t, v, token);
    for (uint32_t d = 0; d < t.k_dim; d++)
        s = fmaf(q[d], key_at(page, d, token % PC__CUDA_PAGE), s);
    s = capped(s, t.soft_cap);
    return t.slopes ? s - t.slopes[v.head] * (float)distance : s;
}

// Stores the values of a vector, a thread some dimensions; `scores` in shared memory.
static __device__ void naive_values(const pc__cuda_attend &t, const naive_vector &v,
                                    const float *scores, float lse, float *out)
{
    for (uint32_t d = threadIdx.x; d < t.v_dim; d += PC__CUDA_BLOCK) {
        float sum = 0;
        for (uint32_t token = v.pair->lo; token < v.pair->hi; token++)
            if (scores[token] > -INFINITY)
                sum = fmaf(expf(scores[token] - lse),
                           value_at(page_of(t, v, token), token % PC__CUDA_PAGE, d), sum);
        out[d] = sum;
    }
}

// Shared memory: a query, the scores of a call, and room for a sum.
enum { NAIVE_TOKENS = PC__CUDA_SECTION_PAGES * PC__CUDA_PAGE };

static __device__ void naive_pair(const pc__cuda_attend &t, const naive_vector &v, float *q)
{
    float *scores = q + PC__CUDA_MAX_HEAD, *room = scores + NAIVE_TOKENS, most = -INFINITY, sum = 0;
    load_query(t, v, q);
    for (uint32_t i = v.pair->lo + threadIdx.x; i < v.pair->hi; i += PC__CUDA_BLOCK)
        scores[i] = naive_score(t, v, q, i);
    __syncthreads();
    for (uint32_t i = v.pair->lo; i < v.pair->hi; i++)
        most = fmaxf(most, scores[i]);
    for (uint32_t i = v.pair->lo + threadIdx.x; i < v.pair->hi && most > -INFINITY;
         i += PC__CUDA_BLOCK)
        sum += expf(scores[i] - most);
    sum = sum_of_first(min(v.pair->hi - v.pair->lo, (uint32_t)PC__CUDA_BLOCK), sum, room);
    bool direct = v.pair->slot == PC__CUDA_DIRECT;
    size_t at = (size_t)(direct ? v.pair->row : v.pair->slot) * t.heads + v.head;
    float lse = sum > 0 ? most + logf(sum) : -INFINITY,
          sink = direct && t.sinks ? t.sinks[v.head] : -INFINITY, top = fmaxf(lse, sink);
    if (sink > -INFINITY)
        lse = top + logf(expf(lse - top) + expf(sink - top));
    naive_values(t, v, scores, lse, (direct ? t.out : t.state) + at * t.v_dim);
    if (!threadIdx.x && (!direct || t.lse))
        (direct ? t.lse : t.state_lse)[at] = lse;
}

// One launch of any number of blocks: tile after tile, K/V head after K/V head. `claimed` is not
// used.
extern "C" __global__ void __launch_bounds__(PC__CUDA_BLOCK, 2)
    pc__cuda_attend_naive(PARAM struct pc__cuda_attend t)
{
    uint32_t group = t.heads / t.kv_heads, most = pc__cuda_tile_vectors(t.format, t.v_dim);
    for (uint32_t item = blockIdx.x; item < t.tile_count * t.kv_heads; item += gridDim.x) {
        const pc__cuda_tile *tile = t.tiles + item / t.kv_heads;
        const pc__cuda_call *call = t.calls + tile->call;
        uint32_t kv_head = item % t.kv_heads,
                 end = min(tile->first_vector + most, call->pairs * group);
        for (uint32_t vector = tile->first_vector; vector < end; vector++)
            naive_pair(t,
                       {call, t.pairs + call->first_pair + vector / group, kv_head,
                        kv_head * group + vector % group},
                       (float *)dynamic_shared());
    }
}

// Weights of one row over one run, a block for each 128 tokens and head.
extern "C" __global__ void __launch_bounds__(PC__CUDA_BLOCK)
    pc__cuda_attention_map(PARAM struct pc__cuda_map_row t)
{
    float *q = (float *)dynamic_shared();
    uint32_t head = blockIdx.y, token = blockIdx.x * PC__CUDA_BLOCK + threadIdx.x;
    naive_vector v = {&t.run, &t.pair, head / (t.layer.heads / t.layer.kv_heads), head};
    load_query(t.layer, v, q);
    if (token >= t.tokens)
        return;
    float lse = t.layer.lse[(size_t)t.pair.row * t.layer.heads + head], score = -INFINITY;
    if (token >= t.pair.lo && token < t.pair.hi)
        score = naive_score(t.layer, v, q, token);
    t.weights[(size_t)head * t.stride + token] = score > -INFINITY ? expf(score - lse) : 0;
}
