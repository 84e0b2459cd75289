/* The pool of a caller: its shape, its pages of a layer, and where the rows of a run lie. */
#include "attn/kv_pool.h"

#include "attn/pages.h"
#include "base/options.h"

typedef struct page_strides {
    size_t page;
    pc__kv_order order;
} page_strides;

/* K or V. `gap`: elements of the other one that stand between two pages. */
static pc_status read_part(const pc_pool *pool, const char *what, size_t heads, size_t dim,
                           size_t gap, page_strides given, pc__kv_pool_part *out)
{
    size_t bytes = pc__dtype_bytes(pool->dtype), extent, pages;
    pc__kv_order order;
    PC__TRY_RETURN(pc__kv_order_read(&order, what, pool->layout, pool->page_tokens, heads, dim,
                                     given.order, &extent));
    if (!given.page)
        given.page = heads * pool->page_tokens * dim + gap;
    if (__builtin_mul_overflow(pool->page_count - 1, given.page, &pages)
        || __builtin_add_overflow(pages, extent, &pages) || pages > PTRDIFF_MAX / 4)
        return pc__fail(PC_ERR_INVALID, "%s: %zu pages %zu elements apart: no memory holds so many",
                        what, pool->page_count, given.page);
    *out = (pc__kv_pool_part){NULL, given.page * bytes, order.token * bytes, order.head * bytes};
    return PC_OK;
}

static pc_status read_strides(pc__kv_pool *out, const pc_pool *pool, const pc_attend_shape *shape)
{
    size_t heads = (size_t)shape->kv_heads, tokens = heads * pool->page_tokens,
           k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim;
    PC__TRY_RETURN(read_part(
        pool, "pc_pool: K", heads, k_dim, pool->joined ? tokens * v_dim : 0,
        (page_strides){pool->k_page_stride, {pool->k_token_stride, pool->k_head_stride}}, &out->k));
    PC__TRY_RETURN(read_part(
        pool, "pc_pool: V", heads, v_dim, pool->joined ? tokens * k_dim : 0,
        (page_strides){pool->v_page_stride, {pool->v_token_stride, pool->v_head_stride}}, &out->v));
    out->behind = pool->joined ? tokens * k_dim * pc__dtype_bytes(pool->dtype) : 0;
    return PC_OK;
}

pc_status pc__kv_pool_read(pc__kv_pool *out, const pc_pool *pool, const pc_attend_shape *shape)
{
    pc_pool read;
    PC__TRY_RETURN(
        pc__options_read(&read, sizeof read, PC__V1_SIZE(pc_pool, v_head_stride), pool, "pc_pool"));
    PC__TRY_RETURN(pc__check_enum("pc_pool", "layout", read.layout, PC_KV_HND));
    PC__TRY_RETURN(pc__check_enum("pc_pool", "joined", read.joined, 1));
    PC__TRY_RETURN(pc__check_kv_dtype("pc_pool", "dtype", read.dtype));
    if (read.page_tokens != 16 && read.page_tokens != 32 && read.page_tokens != 64
        && read.page_tokens != 128)
        return pc__fail(PC_ERR_INVALID, "pc_pool: page_tokens is %u, not 16, 32, 64 or 128",
                        read.page_tokens);
    if (!read.page_count)
        return pc__fail(PC_ERR_INVALID, "pc_pool: page_count is 0");
    read.dtype = read.dtype ? read.dtype : shape->dtype;
    *out = (pc__kv_pool){
        .page_tokens = read.page_tokens, .dtype = read.dtype, .page_count = read.page_count};
    return read_strides(out, &read, shape);
}

pc_status pc__kv_pool_check_table(const pc__kv_pool *pool, const int32_t *table, size_t run,
                                  uint32_t lo, uint32_t hi)
{
    for (size_t i = lo / pool->page_tokens; lo < hi && i <= (hi - 1) / pool->page_tokens; i++)
        if (table[i] < 0 || (size_t)table[i] >= pool->page_count)
            return pc__fail(PC_ERR_INVALID,
                            "pc_plan_new: run %zu: pages[%zu] is %d, but the pool has %zu pages",
                            run, i, table[i], pool->page_count);
    return PC_OK;
}

static pc_status check_scales(const char *name, const pc__kv_pool *pool, const float *scales)
{
    if (scales && pool->dtype != PC_DTYPE_I8)
        return pc__fail(PC_ERR_INVALID, "pc_attend: %s is given, but the pool is not I8", name);
    return PC_OK;
}

pc_status pc__kv_pool_set(pc__kv_pool *pool, const pc_attend_args *args)
{
    const uint8_t *k = args->pool_k, *v = args->pool_v;
    if (k && !v && pool->behind)
        v = k + pool->behind;
    if (!k || !v)
        return pc__fail(PC_ERR_INVALID, "pc_attend: %s is NULL, but rows hold runs in a pool",
                        k ? "pool_v" : "pool_k");
    if ((uintptr_t)k % pc__dtype_bytes(pool->dtype) || (uintptr_t)v % pc__dtype_bytes(pool->dtype))
        return pc__fail(PC_ERR_INVALID,
                        "pc_attend: pool_k or pool_v is not aligned to its elements");
    PC__TRY_RETURN(check_scales("k_scales", pool, args->k_scales));
    PC__TRY_RETURN(check_scales("v_scales", pool, args->v_scales));
    pool->k.at = k;
    pool->v.at = v;
    pool->k_scales = args->k_scales;
    pool->v_scales = args->v_scales;
    return PC_OK;
}

static const _Alignas(64) uint8_t zeros[PC__MAX_HEAD * sizeof(float)];

/* Rows of `count` tokens that lie in one page. */
static void find_rows(const pc__kv_pool_part *part, size_t page, size_t token, size_t head,
                      size_t count, const uint8_t **rows)
{
    const uint8_t *at = part->at + page * part->page + token * part->token + head * part->head;
    for (size_t i = 0; i < count; i++)
        rows[i] = at + i * part->token;
}

void pc__kv_pool_find(const pc__kv *kv, size_t head, size_t page, uint32_t least, uint32_t most,
                      pc__kv_pool_rows *rows)
{
    const pc__kv_pool *pool = kv->pool;
    size_t begin = page * PC__PAGE, end = begin + PC__PAGE, from = least > begin ? least : begin,
           to = most < end ? most : end, count;
    for (size_t t = begin; t < end; t++)
        if (t < from || t >= to)
            rows->k[t - begin] = rows->v[t - begin] = zeros;
    for (size_t t = from; t < to; t += count) {
        size_t inside = t % pool->page_tokens, in_page = (size_t)kv->table[t / pool->page_tokens];
        count = pool->page_tokens - inside < to - t ? pool->page_tokens - inside : to - t;
        find_rows(&pool->k, in_page, inside, head, count, rows->k + (t - begin));
        find_rows(&pool->v, in_page, inside, head, count, rows->v + (t - begin));
    }
}
