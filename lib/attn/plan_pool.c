/* Packs the pages of a call one after the other. The rows of a page lie far apart, so that no
 * hardware prefetcher follows them. The kernel prefetches those of the next page while it
 * multiplies, and, where it does so for few rows only, packing does half of it. */
#include "attn/plan_pool.h"

#include "attn/pages.h"

typedef struct page_rows {
    pc__kv_pool_rows page[2]; /* of even and of odd pages: this one and the next */
} page_rows;

static size_t rows_bytes(void)
{
    return (sizeof(page_rows) + 63) / 64 * 64;
}

/* fp32 is the largest format that rows are packed to. */
size_t pc__kv_pool_scratch(const pc__kv_shape *shape)
{
    pc__kv_shape packed = *shape;
    packed.dtype = PC_DTYPE_F32;
    return rows_bytes() + pc__kv_page_bytes(&packed);
}

size_t pc__kv_pool_pages(const pc__plan_exec *exec, pc__head_call of, pc__kv_pool_rows *rows,
                         size_t most)
{
    const pc__plan_pair *pair = &exec->plan->pairs[of.call->first];
    size_t first = pair->lo / PC__PAGE, count = (pair->hi - 1) / PC__PAGE - first + 1;
    count = count < most ? count : most;
    for (size_t i = 0; i < count; i++)
        pc__kv_pool_find(of.call->kv, of.head, first + i, pair->lo, pair->hi, &rows[i]);
    return count;
}

/* Cache lines of a row of K or V, whichever is longer. */
static size_t row_lines(const pc__row_plan *plan, const pc__kv_pool *pool)
{
    size_t dims = (size_t)(plan->shape.k_dim > plan->shape.v_dim ? plan->shape.k_dim
                                                                 : plan->shape.v_dim);
    return (dims * pc__dtype_bytes(pool->dtype) + 63) / 64;
}

pc__prefetch_rows pc__kv_pool_prefetch(const pc__plan_exec *exec, const pc__kv_pool_rows *rows,
                                       size_t pages)
{
    if (!pages)
        return (pc__prefetch_rows){NULL, 0, 0, 0};
    return (pc__prefetch_rows){rows->k, 2 * PC__PAGE * pages,
                               row_lines(exec->plan, exec->plan->pooled), 0};
}

static float scale_at(const float *scales, size_t head)
{
    return scales ? scales[head] : 1.0f;
}

/* What is read after page `page` of a call. Returns the number of pages: 0 or 1. */
static size_t find_next(const pc__plan_exec *exec, const pc__loaded_call *call, size_t page,
                        pc__kv_pool_rows *rows)
{
    if (page + 1 < call->to)
        pc__kv_pool_find(call->of.call->kv, call->of.head, page + 1, call->least, call->most, rows);
    else if (call->next.call)
        return pc__kv_pool_pages(exec, call->next, rows, 1);
    else
        return 0;
    return 1;
}

/* Packs one page, and prefetches what `next` holds: all rows, V alone or none. */
static void pack_page(const pc__plan_exec *exec, const pc__loaded_call *call,
                      const pc__kv_pool_rows *own, const uint8_t *const *next_k,
                      const uint8_t *const *next_v, uint8_t *page)
{
    const pc__kv_pool *pool = call->of.call->kv->pool;
    const pc__pack_task task = {.k = own->k,
                                .v = own->v,
                                .k_dim = call->task.k_dim,
                                .v_dim = call->task.v_dim,
                                .k_scale = scale_at(pool->k_scales, call->of.head),
                                .v_scale = scale_at(pool->v_scales, call->of.head),
                                .k_block = page,
                                .v_block = page + call->task.v_offset,
                                .next_k = next_k,
                                .next_v = next_v};
    pc__pack_of(exec->kernels, pool->dtype)(&task);
}

void pc__kv_pool_attend(const pc__plan_exec *exec, const pc__loaded_call *call,
                        const pc__attn_task *task, size_t from, size_t to, uint8_t *scratch)
{
    page_rows *rows = (page_rows *)(void *)scratch;
    pc__attn_task one = *task;
    pc__prefetch_rows lists[2] = {{.count = 0}, {.count = 0}};
    int few = task->rows <= PC__BLOCK_ROWS, idle = 0; /* idle 1: this kernel prefetches no rows */
    one.pages = scratch + rows_bytes();
    one.page_stride = 0; /* every page of the run is this one, at its time */
    one.goes_on = 0;
    one.prefetch_rows = lists;
    if (task->prefetch_rows)
        lists[1] = task->prefetch_rows[1];
    pc__kv_pool_find(call->of.call->kv, call->of.head, from, call->least, call->most,
                     &rows->page[from % 2]);
    for (size_t i = from; i < to; i++) {
        const pc__kv_pool_rows *own = &rows->page[i % 2];
        pc__kv_pool_rows *next = &rows->page[(i + 1) % 2];
        size_t pages = find_next(exec, call, i, next);
        pack_page(exec, call, own, pages && idle ? next->k : NULL,
                  pages && (few || idle) ? next->v : NULL, scratch + rows_bytes());
        lists[0] = pc__kv_pool_prefetch(exec, next, pages);
        if (few)
            lists[0].count /= 2; /* K */
        call->attend(&one, i, i + 1);
        idle = pages && !lists[0].done;
    }
    if (task->prefetch_rows)
        task->prefetch_rows[1] = lists[1];
}
