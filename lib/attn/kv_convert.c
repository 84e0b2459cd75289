/* Finished runs in another format, and the one format that is written a page at a time.
 *
 * int8: of a page's tokens each channel of K has a scale (a few channels of K are far larger than the others, in every token: KIVI,
 * arXiv 2402.02750, section 3), each token of V has one. Scales are rounded up to bf16, so that 127 steps reach the largest value. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "attn/bf16.h"
#include "attn/kv.h"
#include "base/threads.h"

/* |x|, the largest finite number for an infinite one, 0 for a NaN. Written for loops that become vectors. */
static inline float size_of(float x)
{
    float size = fabsf(x);
    size = size > FLT_MAX ? FLT_MAX : size;
    return size == size ? size : 0.0f;
}

/* x * inverse to the nearest whole number, ties to even: 1.5 * 2^23 moves it into the last places. */
static inline int8_t steps_of(float x, float inverse)
{
    float moved = copysignf(size_of(x), x) * inverse + 0x1.8p23f;
    uint32_t bits;
    memcpy(&bits, &moved, sizeof bits);
    return (int8_t)(uint8_t)bits;
}

/* bf16 bits of a scale by which 127 steps reach `most`; what is smaller than any real state is nothing. */
static uint16_t scale_of(float most, float *inverse)
{
    uint32_t bits;
    uint16_t scale;
    most /= 127.0f;
    memcpy(&bits, &most, sizeof bits);
    scale = most < 0x1p-100f ? 0 : (uint16_t)((bits + 0xffffu) >> 16);
    *inverse = scale ? 1.0f / pc__bf16_to(scale) : 0.0f;
    return scale;
}

/* K of one head: k [tokens], `stride` floats apart. */
static void write_k(int8_t *to, uint16_t *scale, size_t dim, size_t tokens, const float *k, size_t stride)
{
    float most[PC__MAX_HEAD] = {0}, inverse[PC__MAX_HEAD];
    int8_t row[PC__MAX_HEAD + 3] = {0};
    for (size_t t = 0; t < tokens; t++)
        for (size_t d = 0; d < dim; d++) {
            float size = size_of(k[t * stride + d]);
            most[d] = size > most[d] ? size : most[d];
        }
    for (size_t d = 0; d < dim; d++)
        scale[d] = scale_of(most[d], &inverse[d]);
    for (size_t t = 0; t < tokens; t++) {
        for (size_t d = 0; d < dim; d++)
            row[d] = steps_of(k[t * stride + d], inverse[d]);
        for (size_t d = 0; d < dim; d += 4)
            memcpy(to + (d / 4 * PC__PAGE + t) * 4, row + d, 4);
    }
}

static void write_v(int8_t *to, uint16_t *scale, size_t dim, size_t tokens, const float *v, size_t stride)
{
    int8_t row[PC__MAX_HEAD];
    for (size_t t = 0; t < tokens; t++, v += stride) {
        float most = 0.0f, inverse;
        for (size_t d = 0; d < dim; d++) {
            float size = size_of(v[d]);
            most = size > most ? size : most;
        }
        scale[t] = scale_of(most, &inverse);
        for (size_t d = 0; d < dim; d++)
            row[d] = steps_of(v[d], inverse);
        for (size_t d = 0; d < dim; d++)
            to[(t / 4 * dim + d) * 4 + t % 4] = row[d];
    }
}

/* One head: k, v [tokens] of it, `k_stride` and `v_stride` floats apart. */
static void write_head(const pc__kv_shape *shape, uint8_t *page, size_t tokens, const float *k, size_t k_stride, const float *v,
                       size_t v_stride)
{
    size_t k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim;
    uint8_t *block = page + pc__kv_k_bytes(shape);
    memset(page, 0, pc__kv_page_bytes(shape));
    write_k((int8_t *)page, (uint16_t *)(void *)(page + pc__i8_k_scales(k_dim)), k_dim, tokens, k, k_stride);
    write_v((int8_t *)block, (uint16_t *)(void *)(block + pc__i8_v_scales(v_dim)), v_dim, tokens, v, v_stride);
}

void pc__kv_write_i8(const pc__kv_shape *shape, uint8_t *layer, size_t page, size_t tokens, const float *k, const float *v)
{
    size_t heads = (size_t)shape->kv_heads, k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim;
    size_t bytes = pc__kv_page_bytes(shape);
    for (size_t h = 0; h < heads; h++)
        write_head(shape, layer + (page * heads + h) * bytes, tokens, k + h * k_dim, heads * k_dim, v + h * v_dim, heads * v_dim);
}

/* Lanes take pages of layers until none is left. */
typedef struct conversion {
    const pc__kv *from;
    pc__kv *to;
    float *scratch; /* [lanes] K and V of a page of tokens */
    size_t floats, pages;
    atomic_size_t next;
} conversion;

static void convert_page(const conversion *c, int32_t layer, size_t page, float *k)
{
    const pc__kv_shape *shape = &c->from->shape;
    size_t first = page * PC__PAGE, left = c->from->tokens - first, tokens = left < PC__PAGE ? left : PC__PAGE;
    size_t k_row = (size_t)shape->kv_heads * (size_t)shape->k_dim, v_row = (size_t)shape->kv_heads * (size_t)shape->v_dim;
    float *v = k + PC__PAGE * k_row;
    for (size_t t = 0; t < tokens; t++)
        pc__kv_read(c->from, layer, first + t, k + t * k_row, v + t * v_row);
    if (c->to->shape.dtype == PC_DTYPE_I8)
        pc__kv_write_i8(&c->to->shape, c->to->layer[layer], page, tokens, k, v);
    else
        for (size_t t = 0; t < tokens; t++)
            pc__kv_write(c->to, layer, first + t, k + t * k_row, v + t * v_row);
}

static void convert_lane(void *arg, size_t lane)
{
    conversion *c = arg;
    size_t i;
    while ((i = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < c->pages * (size_t)c->from->shape.layers)
        convert_page(c, (int32_t)(i / c->pages), i % c->pages, c->scratch + lane * c->floats);
}

pc_status pc__kv_convert(pc__kv **out, pc_context *context, const pc__kv *kv, uint32_t dtype)
{
    conversion c = {.from = kv, .pages = (kv->tokens + PC__PAGE - 1) / PC__PAGE};
    size_t lanes = context->threads;
    pc_status status;
    if (dtype == kv->shape.dtype)
        return pc__kv_copy(out, kv);
    if ((status = pc__kv_like(out, kv, dtype)) < 0)
        return status;
    c.to = *out;
    c.floats = PC__PAGE * (size_t)kv->shape.kv_heads * (size_t)(kv->shape.k_dim + kv->shape.v_dim);
    lanes = lanes < c.pages * (size_t)kv->shape.layers ? lanes : c.pages * (size_t)kv->shape.layers;
    c.scratch = pc__calloc(&kv->mem, lanes * c.floats, sizeof *c.scratch);
    if (!c.scratch) {
        pc__kv_unref(*out);
        *out = NULL;
        return PC_ERR_NOMEM;
    }
    atomic_init(&c.next, 0);
    pc__parallel(context, lanes, convert_lane, &c);
    pc__free(&kv->mem, c.scratch);
    return PC_OK;
}
