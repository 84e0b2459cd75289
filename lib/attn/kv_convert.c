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

static float bounded(float x)
{
    if (isnan(x))
        return 0.0f;
    return fminf(fmaxf(x, -FLT_MAX), FLT_MAX);
}

/* bf16 bits of a scale by which 127 steps reach `most`; what is smaller than any real state is nothing. */
static uint16_t scale_of(float most)
{
    uint32_t bits;
    most /= 127.0f;
    if (most < 0x1p-100f)
        return 0;
    memcpy(&bits, &most, sizeof bits);
    return (uint16_t)((bits + 0xffffu) >> 16);
}

/* `count` values, `from` floats apart and `to` bytes apart, on the grid of the scale that suits them. */
static uint16_t quantise(const float *x, size_t count, size_t from, int8_t *out, size_t to)
{
    float most = 0.0f, inverse;
    uint16_t scale;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(bounded(x[i * from])));
    scale = scale_of(most);
    inverse = scale ? 1.0f / pc__bf16_to(scale) : 0.0f;
    for (size_t i = 0; i < count; i++)
        out[i * to] = (int8_t)lrintf(bounded(x[i * from]) * inverse);
    return scale;
}

/* One head: k, v [tokens] of it, `k_stride` and `v_stride` floats apart. */
static void write_head(const pc__kv_shape *shape, uint8_t *page, size_t tokens, const float *k, size_t k_stride, const float *v,
                       size_t v_stride)
{
    size_t k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim;
    uint8_t *block = page + pc__kv_k_bytes(shape);
    uint16_t *k_scale = (uint16_t *)(void *)(page + pc__i8_k_scales(k_dim));
    uint16_t *v_scale = (uint16_t *)(void *)(block + pc__i8_v_scales(v_dim));
    memset(page, 0, pc__kv_page_bytes(shape));
    for (size_t d = 0; d < k_dim; d++)
        k_scale[d] = quantise(k + d, tokens, k_stride, (int8_t *)page + d / 4 * 4 * PC__PAGE + d % 4, 4);
    for (size_t t = 0; t < tokens; t++)
        v_scale[t] = quantise(v + t * v_stride, v_dim, 1, (int8_t *)block + t / 4 * 4 * v_dim + t % 4, 4);
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
