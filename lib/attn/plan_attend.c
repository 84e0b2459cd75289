/* Runs a plan: every thread takes work items (tile, K/V head) until the wave has none left; then
 * the states of the wave's rows are merged.
 *
 * Calls of many rows wait for arithmetic, calls of few rows for memory. Tiles are sorted by their
 * number of keys, so heavy ones stand in front and light ones at the back. A thread with a heavy
 * tile claims light items from the back, lets the heavy call prefetch their pages while it
 * multiplies, and then computes them out of its cache. So both kinds of work go on at once. */
#include <math.h>
#include <string.h>

#include "attn/plan_exec.h"
#include "attn/plan_latent.h"
#include "attn/plan_pool.h"
#include "base/threads.h"
#include "base/work.h"

/* Light work that is claimed at once: its pages fit the second-level cache beside a heavy call. */
enum { LIGHT_ITEMS = 8, LEAST_PAGES = 4, MOST_PAGES = 12 };

typedef struct light_work {
    size_t item[LIGHT_ITEMS], items;
    const uint8_t *page[MOST_PAGES];
    size_t pages;
    pc__kv_pool_rows *rows; /* [MOST_PAGES] pages that lie in a pool; NULL: they are not found */
    size_t row_pages;
    pc__head_call pool; /* the first call that reads a pool */
} light_work;

typedef struct thread_scratch {
    pc__call_tables heavy, light;
    pc__state *states;            /* [most_slots + 1] */
    uint8_t *latent;              /* of latent runs (plan_latent.h), or NULL */
    uint8_t *pool;                /* of runs in a pool (plan_pool.h), or NULL */
    pc__kv_pool_rows *pool_light; /* [MOST_PAGES] likewise */
    float *out;                   /* [v_dim] a result before it is rounded */
} thread_scratch;

/* Bytes of the tables of `rows` query vectors, each array on cache lines of its own. */
static size_t tables_bytes(const pc__row_plan *plan, size_t rows)
{
    size_t k = (size_t)plan->shape.k_dim;
    return rows * (k * 4 + (k + 1) * 2 + 4 + 4 + 4 + 8) + 7 * 64;
}

static size_t latent_bytes(const pc__row_plan *plan)
{
    return plan->shape.latent ? pc__latent_scratch(&plan->shape) + 64 : 0;
}

static size_t pool_bytes(const pc__row_plan *plan)
{
    return plan->pooled
               ? pc__kv_pool_scratch(&plan->shape) + MOST_PAGES * sizeof(pc__kv_pool_rows) + 128
               : 0;
}

static size_t thread_bytes(const pc__row_plan *plan)
{
    return tables_bytes(plan, plan->widest_call * plan->group) + tables_bytes(plan, PC__LIGHT_ROWS)
           + (plan->most_slots + 1) * sizeof(pc__state) + 64 + latent_bytes(plan) + pool_bytes(plan)
           + (size_t)plan->shape.v_dim * sizeof(float) + 64;
}

static void *take_once(const pc__row_plan *plan, void *block, size_t bytes)
{
    return block ? block : pc__work_take(plan->context, bytes + 64);
}

/* The states and the scratch memory of the threads. Plans of other devices never need them. */
static pc_status take_scratch(pc__row_plan *plan)
{
    size_t vectors = plan->most_states * plan->heads;
    plan->threads = plan->context->threads;
    plan->thread_bytes = (thread_bytes(plan) + 63) / 64 * 64;
    plan->scratch = take_once(plan, plan->scratch, plan->threads * plan->thread_bytes);
    plan->acc = take_once(plan, plan->acc, vectors * (size_t)plan->shape.v_dim * sizeof(float));
    plan->m = take_once(plan, plan->m, vectors * sizeof(float));
    plan->l = take_once(plan, plan->l, vectors * sizeof(float));
    return plan->scratch && plan->acc && plan->m && plan->l ? PC_OK : PC_ERR_NOMEM;
}

static pc__call_tables tables_of(const pc__row_plan *plan, uint8_t **at, size_t rows)
{
    size_t k = (size_t)plan->shape.k_dim;
    pc__call_tables t = {0};
    t.q = pc__carve(at, rows * k * 4);
    t.slope = pc__carve(at, rows * 4);
    t.q16 = pc__carve(at, rows * (k + k % 2) * 2);
    t.lo = pc__carve(at, rows * 4);
    t.hi = pc__carve(at, rows * 4);
    t.distance = pc__carve(at, rows * 8);
    return t;
}

static thread_scratch scratch_of(const pc__row_plan *plan, size_t index)
{
    uint8_t *at = plan->scratch + index * plan->thread_bytes;
    thread_scratch s;
    s.heavy = tables_of(plan, &at, plan->widest_call * plan->group);
    s.light = tables_of(plan, &at, PC__LIGHT_ROWS);
    s.states = pc__carve(&at, (plan->most_slots + 1) * sizeof *s.states);
    s.latent = plan->shape.latent ? pc__carve(&at, latent_bytes(plan)) : NULL;
    s.pool = plan->pooled ? pc__carve(&at, pc__kv_pool_scratch(&plan->shape)) : NULL;
    s.pool_light = plan->pooled ? pc__carve(&at, MOST_PAGES * sizeof *s.pool_light) : NULL;
    s.out = pc__carve(&at, (size_t)plan->shape.v_dim * sizeof *s.out);
    return s;
}

static const pc__plan_tile *tile_of(const pc__plan_exec *exec, size_t item, size_t *head)
{
    *head = exec->first_head + item % exec->heads;
    return &exec->plan->tiles[exec->wave->first_tile + item / exec->heads];
}

static size_t rows_of(const pc__plan_exec *exec, const pc__plan_tile *tile)
{
    return tile->widest * exec->plan->group;
}

static void add_page(light_work *b, const uint8_t *page)
{
    if (b->pages < MOST_PAGES)
        b->page[b->pages++] = page;
}

/* Adds all pages of a call, or only its first page. */
static void add_call(const pc__plan_exec *exec, light_work *b, const pc__plan_call *call,
                     size_t head, int all)
{
    size_t count, stride;
    const uint8_t *page = pc__call_pages(exec, call, head, &count, &stride);
    for (size_t i = 0; i < (all || count < 1 ? count : 1); i++)
        add_page(b, page + i * stride);
    if (!call->kv->pool)
        return;
    if (!b->pool.call)
        b->pool = (pc__head_call){call, head};
    b->row_pages += pc__kv_pool_pages(exec, (pc__head_call){call, head}, b->rows + b->row_pages,
                                      b->rows ? MOST_PAGES - b->row_pages : 0);
}

/* Adds all pages of an item, or only the first page of its first call. */
static void add_pages(const pc__plan_exec *exec, light_work *b, size_t item, int all)
{
    size_t head;
    const pc__plan_tile *tile = tile_of(exec, item, &head);
    for (size_t c = tile->first; c < tile->first + (all ? tile->calls : 1); c++)
        add_call(exec, b, &exec->plan->calls[c], head, all);
}

static size_t items_of(const pc__plan_exec *exec)
{
    return exec->wave->tiles * exec->heads;
}

/* Claims the next item from the front; 0: none is left. */
static int claim(pc__plan_exec *exec, size_t *item)
{
    uint64_t ends = atomic_load_explicit(&exec->ends, memory_order_relaxed);
    do {
        *item = (uint32_t)ends;
        if (*item + (ends >> 32) >= items_of(exec))
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&exec->ends, &ends, ends + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return 1;
}

/* Claims the next item from the back if it is light; 0: none is left, or it is not. */
static int claim_light(pc__plan_exec *exec, size_t *item)
{
    uint64_t ends = atomic_load_explicit(&exec->ends, memory_order_relaxed);
    size_t items = items_of(exec), head;
    do {
        if ((uint32_t)ends + (ends >> 32) >= items)
            return 0;
        *item = items - 1 - (size_t)(ends >> 32);
        if (rows_of(exec, tile_of(exec, *item, &head)) > PC__LIGHT_ROWS)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&exec->ends, &ends, ends + (UINT64_C(1) << 32),
                                                    memory_order_relaxed, memory_order_relaxed));
    return 1;
}

/* Claims light items until they have about `pages` pages. */
static void claim_light_work(pc__plan_exec *exec, light_work *b, pc__kv_pool_rows *rows,
                             size_t pages)
{
    pages = pages < LEAST_PAGES ? LEAST_PAGES : pages > MOST_PAGES - 2 ? MOST_PAGES - 2 : pages;
    b->items = b->pages = b->row_pages = 0;
    b->rows = rows;
    b->pool = (pc__head_call){NULL, 0};
    while (b->items < LIGHT_ITEMS && b->pages + b->row_pages < pages
           && claim_light(exec, &b->item[b->items]))
        add_pages(exec, b, b->item[b->items++], 1);
}

/* Pages [from, to) of a call; `task` is that of the call, but for what it prefetches. */
static void attend_pages(const pc__plan_exec *exec, const pc__loaded_call *call,
                         const pc__attn_task *task, size_t from, size_t to, const thread_scratch *s)
{
    if (call->of.call->kv->pool)
        pc__kv_pool_attend(exec, call, task, from, to, s->pool);
    else if (s->latent)
        pc__latent_attend(call->shape, call->attend, task, from, to, s->latent);
    else
        call->attend(task, from, to);
}

/* A call of many rows, in slices of its pages. After each slice, the light work whose pages the
 * slice has prefetched. */
static void attend_heavy(pc__plan_exec *exec, pc__loaded_call *call, thread_scratch *s);

/* `next_work`: what the thread is likely to read after this item. */
static void attend_item(pc__plan_exec *exec, size_t item, const light_work *next_work,
                        thread_scratch *s, pc__call_tables *tables)
{
    size_t head;
    const pc__plan_tile *tile = tile_of(exec, item, &head);
    pc__clear_states(exec, tile, head);
    tables->rotated = tables->rounded = 0;
    for (size_t c = tile->first; c < tile->first + tile->calls; c++) {
        const pc__plan_call *of = &exec->plan->calls[c];
        pc__loaded_call call = pc__load_call(exec, of, head, tables);
        light_work next = {.rows = NULL};
        if (c + 1 < tile->first + tile->calls)
            add_call(exec, &next, of + 1, head, 0);
        else if (next_work)
            next = *next_work;
        call.task.prefetch_pages = next.page;
        call.task.prefetch_count = next.pages;
        call.next = next.pool;
        if (call.task.rows >= PC__HEAVY_ROWS)
            attend_heavy(exec, &call, s);
        else if (call.from < call.to)
            attend_pages(exec, &call, &call.task, call.from, call.to, s);
    }
}

static void attend_heavy(pc__plan_exec *exec, pc__loaded_call *call, thread_scratch *s)
{
    /* half pages that are prefetched per page, beside the next page of the run itself */
    size_t halves = (call->task.rows + PC__BLOCK_ROWS - 1) / PC__BLOCK_ROWS - 2;
    pc__attn_task task = call->task;
    light_work light;
    while (call->from < call->to) {
        size_t left = call->to - call->from, slice = left;
        claim_light_work(exec, &light, s->pool_light, halves / 2);
        pc__prefetch_rows lists[2] = {{.count = 0},
                                      pc__kv_pool_prefetch(exec, light.rows, light.row_pages)};
        task.prefetch_rows = light.row_pages ? lists : NULL;
        if (light.items) {
            slice = (2 * (light.pages + light.row_pages) + halves - 1) / halves;
            slice = slice < left ? slice : left;
            task.prefetch_pages = light.page;
            task.prefetch_count = light.pages;
        } else {
            task.prefetch_pages = call->task.prefetch_pages;
            task.prefetch_count = call->task.prefetch_count;
        }
        task.goes_on = slice < left;
        attend_pages(exec, call, &task, call->from, call->from + slice, s);
        for (size_t i = 0; i < light.items; i++)
            attend_item(exec, light.item[i], NULL, s, &s->light);
        call->from += slice;
    }
}

static void attend_thread(void *arg, size_t index)
{
    pc__plan_exec *exec = arg;
    thread_scratch s = scratch_of(exec->plan, index);
    size_t item;
    while (claim(exec, &item)) {
        light_work next = {.rows = NULL};
        size_t guess = item + exec->plan->threads; /* other threads claim in the same order */
        if (guess < items_of(exec))
            add_pages(exec, &next, guess, 0);
        attend_item(exec, item, &next, &s, &s.heavy);
    }
}

/* Where the result of vector `vector` is computed: in its place, unless it is rounded then. */
static float *result_at(const pc__plan_exec *r, const thread_scratch *s, size_t vector)
{
    int rounds = r->layer->out_dtype == PC_DTYPE_BF16 || r->layer->out_dtype == PC_DTYPE_F16;
    return rounds ? s->out : (float *)r->out + vector * (size_t)r->plan->shape.v_dim;
}

static void round_result(const pc__plan_exec *r, const float *from, size_t vector)
{
    size_t v = (size_t)r->plan->shape.v_dim;
    if (r->layer->out_dtype == PC_DTYPE_BF16)
        r->kernels->to_bf16(from, v, (uint16_t *)r->out + vector * v);
    else if (r->layer->out_dtype == PC_DTYPE_F16)
        r->kernels->to_f16(from, v, (uint16_t *)r->out + vector * v);
}

static void merge_row(const pc__plan_exec *r, const thread_scratch *s, size_t row)
{
    const pc__row_plan *plan = r->plan;
    size_t v = (size_t)plan->shape.v_dim, g = plan->group, first = plan->slot_first[row],
           n = plan->slot_first[row + 1] - first, skipped = r->first_head * g, heads = r->heads * g;
    float lse;
    for (size_t h = skipped; h < skipped + heads; h++) {
        size_t vector = row * heads + h - skipped;
        for (size_t i = 0; i < n; i++) {
            size_t at = pc__state_at(r, h / g, plan->slots[first + i]) + h % g;
            s->states[i] = (pc__state){plan->acc + at * v, plan->m[at], plan->l[at]};
        }
        if (r->layer->sinks)
            s->states[n] = (pc__state){NULL, r->layer->sinks[h], 1.0f};
        float *out = result_at(r, s, vector);
        pc__merge_parts(n + (r->layer->sinks != NULL), s->states, v, out, &lse);
        round_result(r, out, vector);
        if (r->lse)
            r->lse[vector] = lse;
    }
}

static void merge_thread(void *arg, size_t index)
{
    pc__plan_exec *r = arg;
    thread_scratch s = scratch_of(r->plan, index);
    size_t i;
    while ((i = atomic_fetch_add_explicit(&r->rows_claimed, 8, memory_order_relaxed))
           < r->wave->rows)
        for (size_t row = i; row < i + 8 && row < r->wave->rows; row++)
            merge_row(r, &s, r->wave->first_row + row);
}

/* The angles of a RoPE object for every distance of the plan; computed when first used. */
static pc_status find_angles(pc__row_plan *plan, const pc__rotation *rope,
                             const pc__plan_angles **out)
{
    size_t half = (size_t)rope->dims / 2, n = plan->distance_count * half;
    pc__plan_angles *a = plan->angles;
    while (a && a->rope != rope)
        a = a->next;
    if (!a) {
        if (!(a = pc__alloc(&plan->context->mem, sizeof *a + 2 * n * sizeof(float))))
            return PC_ERR_NOMEM;
        *a = (pc__plan_angles){rope, (float *)(a + 1), (float *)(a + 1) + n, plan->angles};
        for (size_t i = 0; i < plan->distance_count; i++)
            pc__rope_angles(rope, plan->distances[i], a->cosine + i * half, a->sine + i * half);
        plan->angles = a;
    }
    *out = a;
    return PC_OK;
}

pc_status pc__plan_attend(pc__row_plan *plan, const pc__attn_layer *layer, const void *q, void *out,
                          float *lse)
{
    int32_t heads = layer->kv_heads ? layer->kv_heads : plan->shape.kv_heads;
    pc__plan_exec r = {.plan = plan,
                       .layer = layer,
                       .kernels = pc__kernels_get(),
                       .q = q,
                       .out = out,
                       .lse = lse,
                       .first_head = (size_t)layer->first_kv_head,
                       .heads = (size_t)heads};
    if (layer->rope && layer->rope->dims > plan->shape.k_dim)
        return pc__fail(PC_ERR_INVALID, "attention: %d RoPE dimensions, but heads have %d",
                        layer->rope->dims, plan->shape.k_dim);
    if (layer->rope) {
        PC__TRY_RETURN(find_angles(plan, layer->rope, &r.angles));
    }
    PC__TRY_RETURN(take_scratch(plan));
    for (size_t w = 0; w < plan->wave_count; w++) {
        size_t items;
        r.wave = &plan->waves[w];
        items = items_of(&r);
        atomic_store(&r.ends, 0);
        atomic_store(&r.rows_claimed, 0);
        pc__parallel(plan->context, items < plan->threads ? items : plan->threads, attend_thread,
                     &r);
        pc__parallel(plan->context, plan->threads, merge_thread, &r);
    }
    return PC_OK;
}
