/* pc_pages_bytes, pc_pages_write and pc_pages_read: packed runs of an application in host memory.
 */
#include "attn/pages.h"

#include <string.h>

#include "attn/half.h"
#include "attn/kernels.h"
#include "attn/kv_page.h"
#include "base/options.h"

pc_status pc__attend_shape_read(const pc_attend_shape *from, pc_attend_shape *to, pc__kv_shape *kv)
{
    PC__TRY_RETURN(pc__options_read(to, sizeof *to, PC__V1_SIZE(pc_attend_shape, reserved), from,
                                    "pc_attend_shape"));
    if (to->reserved)
        return pc__fail(PC_ERR_INVALID, "pc_attend_shape: reserved is %u, it must be zero",
                        to->reserved);
    if (!from || to->kv_heads < 1 || to->heads < 1 || to->heads % to->kv_heads || to->k_dim < 1
        || to->k_dim > PC__MAX_HEAD || to->v_dim < 1 || to->v_dim > PC__MAX_HEAD
        || to->heads > 1 << 20)
        return pc__fail(PC_ERR_INVALID,
                        "pc_attend_shape: %d heads over %d K/V heads of %d and %d dimensions",
                        to->heads, to->kv_heads, to->k_dim, to->v_dim);
    PC__TRY_RETURN(pc__check_kv_dtype("pc_attend_shape", "dtype", to->dtype));
    if (!pc__kv_dtype_known(to->dtype))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_attend_shape: K and V of dtype %u (F32, BF16, F16 and I8 are read)",
                        to->dtype);
    *kv = (pc__kv_shape){1, to->kv_heads, to->k_dim, to->v_dim, to->dtype, 0};
    return PC_OK;
}

size_t pc__dtype_bytes(uint32_t dtype)
{
    return dtype == PC_DTYPE_F32 ? 4 : dtype == PC_DTYPE_I8 ? 1 : 2;
}

pc_status pc__kv_order_read(pc__kv_order *out, const char *what, uint32_t layout, size_t tokens,
                            size_t heads, size_t dim, pc__kv_order given, size_t *extent)
{
    size_t by_tokens, by_heads;
    out->token = given.token ? given.token : layout == PC_KV_HND ? dim : heads * dim;
    out->head = given.head ? given.head : dim;
    if (!given.head && layout == PC_KV_HND
        && __builtin_mul_overflow(tokens, out->token, &out->head))
        out->head = SIZE_MAX;
    if (__builtin_mul_overflow(tokens - 1, out->token, &by_tokens)
        || __builtin_mul_overflow(heads - 1, out->head, &by_heads)
        || __builtin_add_overflow(by_tokens, by_heads, extent)
        || __builtin_add_overflow(*extent, dim, extent) || *extent > PTRDIFF_MAX / 4)
        return pc__fail(PC_ERR_INVALID,
                        "%s: %zu tokens %zu elements apart, of %zu heads %zu elements apart: no "
                        "memory holds so many",
                        what, tokens, out->token, heads, out->head);
    return PC_OK;
}

size_t pc_pages_bytes(const pc_attend_shape *shape, size_t tokens)
{
    pc_attend_shape read;
    pc__kv_shape kv;
    size_t page;
    if (pc__attend_shape_read(shape, &read, &kv) < 0)
        return 0;
    page = pc__kv_layer_page_bytes(&kv);
    return tokens > SIZE_MAX / page - 1 ? 0 : (tokens + PC__PAGE - 1) / PC__PAGE * page;
}

/* What pc_pages_args says, checked. */
typedef struct pages_call {
    const char *name; /* of the call, for error texts */
    pc_pages_args args;
    pc__kv_shape shape;
    pc__kv_order k, v;
} pages_call;

static pc_status read_orders(pages_call *c)
{
    const pc_pages_args *a = &c->args;
    size_t heads = (size_t)c->shape.kv_heads, extent;
    PC__TRY_RETURN(pc__kv_order_read(&c->k, c->name, a->layout, a->count, heads,
                                     (size_t)c->shape.k_dim,
                                     (pc__kv_order){a->k_token_stride, a->k_head_stride}, &extent));
    return pc__kv_order_read(&c->v, c->name, a->layout, a->count, heads, (size_t)c->shape.v_dim,
                             (pc__kv_order){a->v_token_stride, a->v_head_stride}, &extent);
}

static pc_status check_room(const pages_call *c, const pc_attend_shape *shape)
{
    const pc_pages_args *a = &c->args;
    size_t end;
    if ((uintptr_t)a->pages % 64)
        return pc__fail(PC_ERR_INVALID, "%s: pages are not 64-byte aligned", c->name);
    if (__builtin_add_overflow(a->first, a->count, &end) || !pc_pages_bytes(shape, end))
        return pc__fail(PC_ERR_INVALID, "%s: %zu tokens from token %zu on: no memory holds so many",
                        c->name, a->count, a->first);
    return PC_OK;
}

static pc_status read_pages_args(pages_call *c, const pc_pages_args *args)
{
    pc_attend_shape shape;
    PC__TRY_RETURN(pc__options_read(&c->args, sizeof c->args,
                                    PC__V1_SIZE(pc_pages_args, v_head_stride), args,
                                    "pc_pages_args"));
    PC__TRY_RETURN(pc__attend_shape_read(c->args.shape, &shape, &c->shape));
    PC__TRY_RETURN(pc__check_kv_dtype("pc_pages_args", "dtype", c->args.dtype));
    if (c->args.dtype == PC_DTYPE_I8)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_pages_args: dtype of k and v is I8 (F32, BF16 and F16 are read)");
    if (!c->args.dtype)
        c->args.dtype = PC_DTYPE_F32;
    PC__TRY_RETURN(pc__check_enum("pc_pages_args", "layout", c->args.layout, PC_KV_HND));
    if (!c->args.count)
        return PC_OK;
    if (!c->args.pages)
        return pc__fail(PC_ERR_INVALID, "%s: pages is NULL", c->name);
    PC__TRY_RETURN(check_room(c, &shape));
    return read_orders(c);
}

/* Element `at` of k or v. */
static void *element(const pages_call *c, void *x, size_t at)
{
    return x ? (uint8_t *)x + at * pc__dtype_bytes(c->args.dtype) : NULL;
}

static uint8_t *page_of(const pages_call *c, size_t token, size_t head)
{
    size_t index = token / PC__PAGE * (size_t)c->shape.kv_heads + head;
    return (uint8_t *)c->args.pages + index * pc__kv_page_bytes(&c->shape);
}

static const float *widened(uint32_t dtype, const void *from, size_t count, float *to)
{
    const pc__kernels *kernels = pc__kernels_get();
    if (dtype == PC_DTYPE_F32)
        return from;
    (dtype == PC_DTYPE_BF16 ? kernels->from_bf16 : kernels->from_f16)(from, count, to);
    return to;
}

static void write_token(const pages_call *c, size_t i, size_t head)
{
    const pc_pages_args *a = &c->args;
    size_t k_dim = (size_t)c->shape.k_dim, v_dim = (size_t)c->shape.v_dim;
    float k[PC__MAX_HEAD], v[PC__MAX_HEAD];
    pc__page_write_token(
        &c->shape, page_of(c, a->first + i, head), (a->first + i) % PC__PAGE,
        widened(a->dtype, element(c, a->k, i * c->k.token + head * c->k.head), k_dim, k),
        widened(a->dtype, element(c, a->v, i * c->v.token + head * c->v.head), v_dim, v));
}

/* PC__PAGE tokens from number i on, which are a whole page in its own format. */
static void pack_page(const pages_call *c, size_t i, size_t head)
{
    const pc_pages_args *a = &c->args;
    const uint8_t *k[PC__PAGE], *v[PC__PAGE];
    uint8_t *page = page_of(c, a->first + i, head);
    const pc__pack_task task = {.k = k,
                                .v = v,
                                .k_dim = (size_t)c->shape.k_dim,
                                .v_dim = (size_t)c->shape.v_dim,
                                .k_block = page,
                                .v_block = page + pc__kv_k_bytes(&c->shape)};
    for (size_t t = 0; t < PC__PAGE; t++) {
        k[t] = element(c, a->k, (i + t) * c->k.token + head * c->k.head);
        v[t] = element(c, a->v, (i + t) * c->v.token + head * c->v.head);
    }
    pc__pack_of(pc__kernels_get(), a->dtype)(&task);
}

/* Rows of fp32 and bf16 keep their bits in a page of the same format. Halves may be infinite. */
static int packs_page(const pages_call *c, size_t i)
{
    const pc_pages_args *a = &c->args;
    return a->dtype == c->shape.dtype && a->dtype != PC_DTYPE_F16 && (a->first + i) % PC__PAGE == 0
           && a->count - i >= PC__PAGE;
}

static void write_tokens(const pages_call *c)
{
    for (size_t i = 0, n; i < c->args.count; i += n) {
        int whole = packs_page(c, i);
        n = whole ? PC__PAGE : 1;
        for (size_t h = 0; h < (size_t)c->shape.kv_heads; h++)
            (whole ? pack_page : write_token)(c, i, h);
    }
}

static pc_status write_i8_pages(const pages_call *c)
{
    const pc_pages_args *a = &c->args;
    if (a->first % PC__PAGE)
        return pc__fail(
            PC_ERR_INVALID,
            "pc_pages_write: I8 pages are written whole: token %zu is not the first of a page",
            a->first);
    for (size_t i = 0; i < a->count; i += PC__PAGE)
        for (size_t h = 0; h < (size_t)c->shape.kv_heads; h++) {
            pc__i8_source from = {
                a->dtype,   element(c, a->k, i * c->k.token + h * c->k.head), 1,
                c->k.token, element(c, a->v, i * c->v.token + h * c->v.head), c->v.token};
            pc__page_write_i8(&c->shape, page_of(c, a->first + i, h),
                              a->count - i < PC__PAGE ? a->count - i : PC__PAGE, &from);
        }
    return PC_OK;
}

pc_status pc_pages_write(const pc_pages_args *args)
{
    pages_call c = {.name = "pc_pages_write"};
    PC__TRY_RETURN(read_pages_args(&c, args));
    if (!c.args.count)
        return PC_OK;
    if (!c.args.k || !c.args.v)
        return pc__fail(PC_ERR_INVALID, "pc_pages_write: k or v is NULL");
    if (c.shape.dtype == PC_DTYPE_I8)
        return write_i8_pages(&c);
    write_tokens(&c);
    return PC_OK;
}

static void narrowed(uint32_t dtype, const float *from, size_t count, void *to)
{
    const pc__kernels *kernels = pc__kernels_get();
    if (!to)
        return;
    if (dtype == PC_DTYPE_F32)
        memcpy(to, from, count * sizeof *from);
    else
        (dtype == PC_DTYPE_BF16 ? kernels->to_bf16 : kernels->to_f16)(from, count, to);
}

static void read_token(const pages_call *c, size_t i, size_t head)
{
    const pc_pages_args *a = &c->args;
    float k[PC__MAX_HEAD], v[PC__MAX_HEAD];
    pc__page_read_token(&c->shape, page_of(c, a->first + i, head), (a->first + i) % PC__PAGE, k, v);
    narrowed(a->dtype, k, (size_t)c->shape.k_dim,
             element(c, a->k, i * c->k.token + head * c->k.head));
    narrowed(a->dtype, v, (size_t)c->shape.v_dim,
             element(c, a->v, i * c->v.token + head * c->v.head));
}

pc_status pc_pages_read(const pc_pages_args *args)
{
    pages_call c = {.name = "pc_pages_read"};
    PC__TRY_RETURN(read_pages_args(&c, args));
    if (c.args.count && !c.args.k && !c.args.v)
        return pc__fail(PC_ERR_INVALID, "pc_pages_read: k and v are NULL");
    for (size_t i = 0; i < c.args.count; i++)
        for (size_t h = 0; h < (size_t)c.shape.kv_heads; h++)
            read_token(&c, i, h);
    return PC_OK;
}
