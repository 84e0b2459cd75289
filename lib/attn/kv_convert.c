/* Converts finished runs to another format. */
#include "attn/kv_device.h"
#include "attn/kv_page.h"
#include "base/threads.h"

/* Threads take pages of layers until none is left. */
typedef struct kv_conversion {
    const pc__kv *from;
    pc__kv *to;
    float *scratch; /* [threads] K and V of one page of one head */
    size_t floats, pages;
    atomic_size_t next;
} kv_conversion;

static void convert_page(const kv_conversion *c, int32_t layer, size_t page, float *k)
{
    const pc__kv_shape *from = &c->from->shape, *to = &c->to->shape;
    size_t first = page * PC__PAGE, left = c->from->tokens - first,
           tokens = left < PC__PAGE ? left : PC__PAGE;
    size_t heads = (size_t)from->kv_heads, from_bytes = pc__kv_page_bytes(from),
           to_bytes = pc__kv_page_bytes(to);
    float *v = k + PC__PAGE * (size_t)from->k_dim;
    for (size_t i = page * heads; i < (page + 1) * heads; i++) {
        pc__page_read(from, c->from->layer[layer] + i * from_bytes, k, v);
        pc__page_write(to, c->to->layer[layer] + i * to_bytes, tokens, k, v);
    }
}

static void convert_pages(void *arg, size_t thread)
{
    kv_conversion *c = arg;
    size_t i;
    while ((i = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed))
           < c->pages * (size_t)c->from->shape.layers)
        convert_page(c, (int32_t)(i / c->pages), i % c->pages, c->scratch + thread * c->floats);
}

static pc_status convert_on_host(pc__kv **out, pc_context *context, const pc__kv *kv,
                                 uint32_t dtype)
{
    kv_conversion c = {.from = kv, .pages = (kv->tokens + PC__PAGE - 1) / PC__PAGE};
    size_t threads = context->threads;
    PC__TRY_RETURN(pc__kv_like(out, kv, dtype));
    c.to = *out;
    c.floats = pc__page_floats(&kv->shape);
    threads = threads < c.pages * (size_t)kv->shape.layers ? threads
                                                           : c.pages * (size_t)kv->shape.layers;
    c.scratch = pc__calloc(&kv->mem, threads * c.floats, sizeof *c.scratch);
    if (!c.scratch) {
        pc__kv_unref(*out);
        *out = NULL;
        return PC_ERR_NOMEM;
    }
    atomic_init(&c.next, 0);
    pc__parallel(context, threads, convert_pages, &c);
    pc__free(&kv->mem, c.scratch);
    return PC_OK;
}

pc_status pc__kv_convert(pc__kv **out, pc_context *context, const pc__kv *kv, uint32_t dtype)
{
    pc__kv *host;
    if (dtype == kv->shape.dtype)
        return pc__kv_copy(out, kv);
    PC__TRY_RETURN(pc__kv_to_host(&host, kv));
    pc_status status = convert_on_host(out, context, host, dtype);
    pc__kv_unref(host);
    return status;
}
