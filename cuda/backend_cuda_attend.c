/* Attention: a plan as tables of the device, and launches of kernels over them. For each wave of a
 * plan there is a kernel for each format of its runs, then the merge. What a launch needs beside
 * the tables lies in scratch memory of the stream. */
#include "cuda/backend_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "attn/plan_view.h"
#include "base/mem.h"

/* ------------------------------------------------------------------ kernels */

#define DECLARE(format, k, v) void pc__cuda_attend_##format##_##k##_##v(const pc__cuda_attend);
PC__CUDA_SHAPES(DECLARE, f32)
PC__CUDA_SHAPES(DECLARE, bf16)
PC__CUDA_SHAPES(DECLARE, f16)
PC__CUDA_SHAPES(DECLARE, i8)
#undef DECLARE
void pc__cuda_attend_naive(const pc__cuda_attend);

/* By number; those of shapes get their shared memory when they are prepared. */
static const pc__cuda_kernel kernels[PC__CUDA_ATTEND_KERNELS] = {
#define SHAPE(format, k, v) \
    PC__CUDA_KERNEL(pc__cuda_attend_##format##_##k##_##v, pc__cuda_attend, PC__CUDA_BLOCK, 0),
    PC__CUDA_SHAPES(SHAPE, f32) PC__CUDA_SHAPES(SHAPE, bf16) PC__CUDA_SHAPES(SHAPE, f16)
        PC__CUDA_SHAPES(SHAPE, i8)
#undef SHAPE
            PC__CUDA_KERNEL(pc__cuda_attend_naive, pc__cuda_attend, PC__CUDA_BLOCK,
                            PC__CUDA_NAIVE_SHARED),
};

/* As PC__CUDA_SHAPES orders them. */
static const uint32_t shapes[][2] = {
#define SHAPE(unused, k, v) {k, v},
    PC__CUDA_SHAPES(SHAPE, )
#undef SHAPE
};

static pc_status prepare(pc__cuda_ready *ready, const pc__cuda_backend *backend, size_t number)
{
    pc__cuda_kernel kernel = kernels[number];
    const uint32_t *shape = shapes[number % PC__CUDA_ATTEND_SHAPES];
    if (number < PC__CUDA_ATTEND_NAIVE)
        kernel.shared_bytes = pc__cuda_attend_shared((uint32_t)number / PC__CUDA_ATTEND_SHAPES,
                                                     shape[0], shape[1]);
    ready->kernel = kernel;
    return pc__cuda_kernel_prepare(&kernel, backend->device, &ready->blocks_at_once);
}

static pc_status ready_kernel(const pc__cuda_ready **out, pc__cuda_backend *backend, size_t number)
{
    pc__cuda_ready *ready = &backend->attention[number];
    *out = ready;
    pthread_mutex_lock(&backend->lock);
    pc_status status = ready->blocks_at_once ? PC_OK : prepare(ready, backend, number);
    pthread_mutex_unlock(&backend->lock);
    return status;
}

/* pc__cuda_attend_<format>_<k_dim>_<v_dim>, or pc__cuda_attend_naive if there is none. */
static pc_status attend_kernel(const pc__cuda_ready **out, pc__cuda_backend *backend,
                               uint32_t format, const pc__kv_shape *shape)
{
    uint32_t k = (uint32_t)shape->k_dim, v = (uint32_t)shape->v_dim;
    size_t i = 0;
    if (!pc__cuda_has_shape(k, v))
        return ready_kernel(out, backend, PC__CUDA_ATTEND_NAIVE);
    while (shapes[i][0] != k || shapes[i][1] != v)
        i++;
    return ready_kernel(out, backend, format * PC__CUDA_ATTEND_SHAPES + i);
}

/* ------------------------------------------------------------------ visitors */

/* Streams that work in queues of the application, one queue after the other
 * (pc__cuda_stream_visit). A plan of pc_attend has one from its first call on. Its scratch memory
 * holds the plan's tables, so that freeing a plan needs no wait: whoever uses the memory next works
 * behind it. Those that have no plan are a list, the one that was put back first in front. */
enum { KEPT = 8 }; /* a visitor has pinned memory, which takes long to get */

static pc__cuda_stream *take_out(pc__cuda_backend *backend, pc__cuda_stream **link)
{
    pc__cuda_stream *visitor = *link;
    if (visitor) {
        *link = visitor->next;
        visitor->next = NULL;
        backend->visitor_count--;
    }
    return visitor;
}

/* If all are at work elsewhere, and enough are there, any one does: its new work begins behind the
 * old. A link to NULL: none. */
static pc__cuda_stream **choose(pc__cuda_backend *backend, cudaStream_t queue)
{
    pc__cuda_stream **link = &backend->visitors;
    while (*link && (*link)->visited != queue)
        link = &(*link)->next;
    if (*link)
        return link;
    for (link = &backend->visitors; *link && !pc__cuda_stream_rests(*link);)
        link = &(*link)->next;
    return *link || backend->visitor_count < KEPT ? link : &backend->visitors;
}

/* One that worked in `queue` last, else one whose work is done, else a new one. */
static pc_status take_visitor(pc__cuda_stream **out, pc__cuda_backend *backend, cudaStream_t queue)
{
    pthread_mutex_lock(&backend->lock);
    *out = take_out(backend, choose(backend, queue));
    pthread_mutex_unlock(&backend->lock);
    return *out ? PC_OK : pc__cuda_stream_new(out, backend->pool);
}

/* Its work may still be queued. */
static void put_visitor(pc__cuda_backend *backend, pc__cuda_stream *visitor)
{
    pc__cuda_kept_drop(visitor);
    pthread_mutex_lock(&backend->lock);
    int kept = backend->visitor_count < KEPT || !pc__cuda_stream_rests(visitor);
    if (kept) {
        pc__cuda_stream **link = &backend->visitors;
        while (*link)
            link = &(*link)->next;
        *link = visitor;
        backend->visitor_count++;
    }
    pthread_mutex_unlock(&backend->lock);
    if (!kept)
        pc__cuda_stream_free(visitor);
}

void pc__cuda_visitors_free(pc__cuda_backend *backend)
{
    for (pc__cuda_stream *visitor; (visitor = take_out(backend, &backend->visitors));)
        pc__cuda_stream_free(visitor);
}

/* ------------------------------------------------------------------ runs */

/* A section of 512 tokens. A row writes and reads a state of 8 * (v_dim + 1) bytes a section and
 * head. 128 rows that share 2048 tokens and have 128 of their own, 52 heads of 128 dimensions in
 * fp16: 34 MB of states beside 491 MB of K and V; with sections of 256 they would be 62 MB. In
 * return a row alone would have work for twice as many blocks: one with 2048 keys and 8 K/V heads
 * has 32 items of 256 KiB, with 256 tokens 64 of half that, 2 or 3 us less a layer if a block reads
 * 50 to 60 GB/s, which nobody has measured. With 16384 keys its items are as many as the blocks
 * that 132 multiprocessors hold.
 *
 * Not a size of each row, such as 256 up to 4096 keys and 1024 beyond: sections are what rows
 * share, so that rows of both kinds would read and compute a common prefix twice. Not one of each
 * run: the bits of a row would depend on what was appended after it.
 *
 * A call has all rows of a section, so that tiles of the plan have no limit. */
const pc__plan_limits pc__cuda_plan_limits = {
    .section = 512, .tile_rows = 1u << 30, .state_floats = (size_t)1 << 25, .chained = 0};

_Static_assert((int)PC__CUDA_PAGE == PC__PAGE, "pages differ");
_Static_assert(512 <= (int)PC__CUDA_SECTION_PAGES * PC__PAGE, "a section is more than a call");

enum { FORMATS = 4 };

/* A run that some row of the plan sees. */
typedef struct pc__cuda_plan_run {
    const pc__kv *kv;
    size_t tokens;           /* when the tables were made */
    size_t first_page;       /* in the table of pages */
    size_t relative_at;      /* while the tables are made: where the positions begin */
    const int64_t *relative; /* of the device; NULL: 0, 1, 2 … */
} pc__cuda_plan_run;

/* Calls of a wave with one format: one launch. */
typedef struct pc__cuda_plan_batch {
    uint32_t format;
    size_t first_call, calls;
    size_t first_tile, tiles;
} pc__cuda_plan_batch;

typedef struct pc__cuda_plan_wave {
    size_t first_batch, batches;
    size_t first_merged, merged; /* rows that pc__cuda_merge_states writes */
    size_t slots;                /* states that are merged */
} pc__cuda_plan_wave;

/* A plan as tables of the device (kernels/attend.h). They are made and uploaded when the plan is
 * first used, serve all layers, and go with the plan. A plan over runs of the application (views,
 * attn/kv.h) has a visitor, in whose memory the tables lie, and gets its pages anew in each call.
 */
typedef struct pc__cuda_plan {
    pc__cuda_backend *backend;
    pc_allocator mem;
    pc__cuda_stream *visitor; /* NULL: the runs are the library's */
    void *memory;             /* of the device: the tables */
    const uint64_t *pages;    /* NULL: of each call */
    uint64_t *call_pages;     /* [page_count] for that, of the host */
    size_t page_count;
    const pc__cuda_pair *pairs;
    const pc__cuda_call *calls;
    const pc__cuda_tile *tiles;
    const pc__cuda_merge_row *merged;
    uint32_t *claimed;       /* [batches] 0 between launches */
    pc__cuda_plan_run *runs; /* by address of kv */
    size_t run_count;
    pc__cuda_plan_batch *batches;
    size_t batch_count;
    pc__cuda_plan_wave *waves; /* as many as the plan has */
    size_t most_slots;         /* of a wave */
} pc__cuda_plan;

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const pc__cuda_plan_run *)a)->kv,
              y = (uintptr_t)((const pc__cuda_plan_run *)b)->kv;
    return (x > y) - (x < y);
}

/* NULL: no row sees the run. */
static const pc__cuda_plan_run *run_of(const pc__cuda_plan *made, const pc__kv *kv)
{
    pc__cuda_plan_run wanted = {.kv = kv};
    return made->run_count
               ? bsearch(&wanted, made->runs, made->run_count, sizeof wanted, by_address)
               : NULL;
}

static pc_status find_runs(pc__cuda_plan *made, const pc__row_plan *plan)
{
    size_t count = 0;
    made->runs = pc__calloc(&made->mem, plan->call_count, sizeof *made->runs);
    if (!made->runs)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < plan->call_count; i++)
        if (!i || plan->calls[i].kv != plan->calls[i - 1].kv)
            made->runs[count++].kv = plan->calls[i].kv;
    if (count)
        qsort(made->runs, count, sizeof *made->runs, by_address);
    for (size_t i = 0; i < count; i++)
        if (!made->run_count || made->runs[i].kv != made->runs[made->run_count - 1].kv)
            made->runs[made->run_count++].kv = made->runs[i].kv;
    for (size_t i = 0; i < made->run_count; i++)
        made->runs[i].tokens = made->runs[i].kv->tokens;
    return PC_OK;
}

static pc_status check_first_pages(const pc__cuda_plan *made, const pc__cuda_device *device)
{
    for (size_t i = 0; i < made->run_count; i++)
        if (made->runs[i].tokens)
            PC__TRY_RETURN(pc__cuda_check_entered(device, pc__kv_page_at(made->runs[i].kv, 0),
                                                  "a page of K and V"));
    return PC_OK;
}

/* Of runs of the application, in each call: their first pages. */
static pc_status check_runs(const pc__cuda_plan *made, const pc__cuda_device *device)
{
    pc_status status;
    if (!made->visitor)
        return PC_OK;
    PC__CUDA_ON(device, status, check_first_pages(made, device));
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

static size_t pages_of(const pc__cuda_plan_run *run)
{
    return (run->tokens + PC__PAGE - 1) / PC__PAGE;
}

/* ------------------------------------------------------------------ tables */

typedef struct table_maker {
    const pc__row_plan *plan;
    pc__cuda_plan *made;
    pc__cuda_tables tables;
    size_t pages_at, pairs_at, calls_at, tiles_at, merged_at, claimed_at;
    size_t calls, tiles, merged; /* so far */
    uint32_t *slot_of;           /* [slots of the largest wave] where a state of the wave goes */
} table_maker;

static uint32_t format_of(const pc__plan_call *call)
{
    return pc__cuda_format_of(call->kv->shape.dtype);
}

static size_t count_tiles(const pc__row_plan *plan)
{
    size_t tiles = 0;
    for (size_t i = 0; i < plan->call_count; i++) {
        size_t most = pc__cuda_tile_vectors(format_of(&plan->calls[i]),
                                            (uint32_t)plan->shape.v_dim);
        tiles += (plan->calls[i].slots * plan->group + most - 1) / most;
    }
    return tiles;
}

static pc_status lay_out(table_maker *m)
{
    pc__cuda_plan *made = m->made;
    size_t vectors = m->plan->pair_count * m->plan->group;
    for (size_t i = 0; i < made->run_count; i++) {
        pc__cuda_plan_run *run = &made->runs[i];
        run->first_page = made->page_count;
        made->page_count += pages_of(run);
        if (run->kv->relative)
            run->relative_at = pc__cuda_tables_add(&m->tables, run->tokens, sizeof(int64_t));
    }
    m->pages_at = pc__cuda_tables_add(&m->tables, made->visitor ? 0 : made->page_count,
                                      sizeof(uint64_t));
    m->pairs_at = pc__cuda_tables_add(&m->tables, m->plan->pair_count, sizeof(pc__cuda_pair));
    m->calls_at = pc__cuda_tables_add(&m->tables, m->plan->call_count, sizeof(pc__cuda_call));
    m->tiles_at = pc__cuda_tables_add(&m->tables, count_tiles(m->plan), sizeof(pc__cuda_tile));
    m->merged_at = pc__cuda_tables_add(&m->tables, m->plan->rows, sizeof(pc__cuda_merge_row));
    m->claimed_at = pc__cuda_tables_add(&m->tables, FORMATS * m->plan->wave_count,
                                        sizeof(uint32_t));
    if (made->page_count > UINT32_MAX || vectors > UINT32_MAX)
        return pc__fail(PC_ERR_LIMIT, "attention: %zu query vectors over %zu pages are too many",
                        vectors, made->page_count);
    return PC_OK;
}

static void list_pages(const pc__cuda_plan *made, uint64_t *pages)
{
    for (size_t i = 0; i < made->run_count; i++) {
        const pc__cuda_plan_run *run = &made->runs[i];
        for (size_t p = 0; p < pages_of(run); p++)
            pages[run->first_page + p] = (uint64_t)(uintptr_t)pc__kv_page_at(run->kv, p);
    }
}

static void fill_runs(table_maker *m)
{
    if (!m->made->visitor)
        list_pages(m->made, pc__cuda_tables_host(&m->tables, m->pages_at));
    for (size_t i = 0; i < m->made->run_count; i++) {
        pc__cuda_plan_run *run = &m->made->runs[i];
        if (!run->kv->relative)
            continue;
        memcpy(pc__cuda_tables_host(&m->tables, run->relative_at), run->kv->relative,
               run->tokens * sizeof *run->relative);
        run->relative = pc__cuda_tables_device(&m->tables, run->relative_at);
    }
}

/* Gives slots to the states of rows that have several; a row's are neighbours. All rows but those
 * with one state are merged. */
static void number_slots(table_maker *m, const pc__plan_wave *wave, pc__cuda_plan_wave *to)
{
    const pc__row_plan *plan = m->plan;
    pc__cuda_merge_row *merged = pc__cuda_tables_host(&m->tables, m->merged_at);
    to->first_merged = m->merged;
    for (size_t row = wave->first_row; row < wave->first_row + wave->rows; row++) {
        const uint32_t *state = plan->slots + plan->slot_first[row];
        size_t count = plan->slot_first[row + 1] - plan->slot_first[row];
        if (count == 1) {
            m->slot_of[state[0]] = PC__CUDA_DIRECT;
            continue;
        }
        merged[m->merged++] = (pc__cuda_merge_row){(uint32_t)row, (uint32_t)to->slots,
                                                   (uint32_t)count};
        for (size_t i = 0; i < count; i++)
            m->slot_of[state[i]] = (uint32_t)to->slots++;
    }
    to->merged = m->merged - to->first_merged;
    if (to->slots > m->made->most_slots)
        m->made->most_slots = to->slots;
}

static void add_call(table_maker *m, const pc__plan_call *call)
{
    const pc__row_plan *plan = m->plan;
    const pc__cuda_plan_run *run = run_of(m->made, call->kv);
    pc__cuda_pair *pairs = pc__cuda_tables_host(&m->tables, m->pairs_at);
    pc__cuda_call *calls = pc__cuda_tables_host(&m->tables, m->calls_at);
    uint32_t section = plan->limits.section, end = 0,
             begin = plan->pairs[call->first].lo / section * section;
    for (size_t i = call->first; i < call->first + call->slots; i++) {
        const pc__plan_pair *pair = &plan->pairs[i];
        end = pair->hi > end ? pair->hi : end;
        pairs[i] = (pc__cuda_pair){.distance = pair->distance - (run->relative ? 0 : begin),
                                   .row = pair->row,
                                   .lo = pair->lo - begin,
                                   .hi = pair->hi - begin,
                                   .angle = pair->angle,
                                   .slot = m->slot_of[pair->slot]};
    }
    calls[m->calls++] = (pc__cuda_call){
        .layer_stride = pc__kv_layer_stride(call->kv),
        .relative = run->relative ? (uint64_t)(uintptr_t)(run->relative + begin) : 0,
        .first_page = (uint32_t)(run->first_page + begin / PC__PAGE),
        .pages = (end - begin + PC__PAGE - 1) / PC__PAGE,
        .first_pair = (uint32_t)call->first,
        .pairs = call->slots};
}

static void add_batch(table_maker *m, const pc__plan_wave *wave, uint32_t format)
{
    const pc__row_plan *plan = m->plan;
    pc__cuda_plan_batch batch = {format, m->calls, 0, m->tiles, 0};
    for (size_t t = wave->first_tile; t < wave->first_tile + wave->tiles; t++) {
        const pc__plan_tile *tile = &plan->tiles[t];
        for (size_t c = tile->first; c < tile->first + tile->calls; c++)
            if (format_of(&plan->calls[c]) == format)
                add_call(m, &plan->calls[c]);
    }
    if (!(batch.calls = m->calls - batch.first_call))
        return;
    batch.tiles = pc__cuda_make_tiles(
        (pc__cuda_call *)pc__cuda_tables_host(&m->tables, m->calls_at) + batch.first_call,
        batch.calls, (uint32_t)plan->group, format, (uint32_t)plan->shape.v_dim,
        (pc__cuda_tile *)pc__cuda_tables_host(&m->tables, m->tiles_at) + m->tiles);
    m->tiles += batch.tiles;
    m->made->batches[m->made->batch_count++] = batch;
}

static void fill(table_maker *m)
{
    pc__cuda_plan *made = m->made;
    fill_runs(m);
    for (size_t w = 0; w < m->plan->wave_count; w++) {
        pc__cuda_plan_wave *wave = &made->waves[w];
        wave->first_batch = made->batch_count;
        number_slots(m, &m->plan->waves[w], wave);
        for (uint32_t format = 0; format < FORMATS; format++)
            add_batch(m, &m->plan->waves[w], format);
        wave->batches = made->batch_count - wave->first_batch;
    }
    if (!made->visitor)
        made->pages = pc__cuda_tables_device(&m->tables, m->pages_at);
    made->pairs = pc__cuda_tables_device(&m->tables, m->pairs_at);
    made->calls = pc__cuda_tables_device(&m->tables, m->calls_at);
    made->tiles = pc__cuda_tables_device(&m->tables, m->tiles_at);
    made->merged = pc__cuda_tables_device(&m->tables, m->merged_at);
    made->claimed = pc__cuda_tables_device(&m->tables, m->claimed_at);
}

/* Memory of the device for as long as the plan: the visitor's is used again behind its work. */
static pc_status take_memory(const pc__cuda_plan *made, size_t bytes, void **out)
{
    return made->visitor ? pc__cuda_scratch_take(made->visitor, bytes, out)
                         : pc__cuda_pool_take(made->backend->pool, bytes, out);
}

static void give_memory(const pc__cuda_plan *made, void *memory)
{
    if (made->visitor)
        pc__cuda_scratch_give(made->visitor, memory);
    else
        pc__cuda_pool_give(made->backend->pool, memory);
}

static pc_status make_tables(pc__cuda_plan *made, pc__cuda_stream *stream, const pc__row_plan *plan)
{
    table_maker m = {.plan = plan, .made = made};
    pc_status status;
    PC__TRY_RETURN(find_runs(made, plan));
    PC__TRY_RETURN(check_runs(made, stream->device));
    PC__TRY_RETURN(lay_out(&m));
    made->waves = pc__calloc(&made->mem, plan->wave_count, sizeof *made->waves);
    made->batches = pc__calloc(&made->mem, FORMATS * plan->wave_count, sizeof *made->batches);
    m.slot_of = pc__calloc(&made->mem, plan->most_states, sizeof *m.slot_of);
    if (made->visitor)
        made->call_pages = pc__calloc(&made->mem, made->page_count, sizeof *made->call_pages);
    status = made->waves && made->batches && m.slot_of && (made->call_pages || !made->visitor)
                 ? PC_OK
                 : PC_ERR_NOMEM;
    if (status >= 0)
        status = take_memory(made, m.tables.bytes, &made->memory);
    if (status >= 0)
        status = pc__cuda_tables_begin(&m.tables, &made->mem, made->memory);
    if (status >= 0)
        fill(&m);
    pc__cuda_tables_end(&m.tables, stream);
    pc__free(&made->mem, m.slot_of);
    return status;
}

/* -------------------------------------------------------------------- life */

static void free_tables(pc__cuda_plan *made)
{
    pc_allocator mem = made->mem;
    give_memory(made, made->memory);
    pc__free(&mem, made->call_pages);
    pc__free(&mem, made->runs);
    pc__free(&mem, made->waves);
    pc__free(&mem, made->batches);
    pc__free(&mem, made);
}

static void free_made(void *device)
{
    pc__cuda_backend *backend = ((pc__cuda_plan *)device)->backend;
    pc__cuda_stream *visitor = ((pc__cuda_plan *)device)->visitor;
    free_tables(device);
    if (visitor)
        put_visitor(backend, visitor);
}

/* Forgets the tables of a plan that has some. */
static void drop_tables(pc__row_plan *plan)
{
    free_made(plan->device);
    plan->device = NULL;
    plan->free_device = NULL;
}

/* --------------------------------------------------------------- attention */

typedef struct attention {
    pc__cuda_backend *backend;
    pc__cuda_stream *stream;
    int visits; /* 1: the stream is a visitor */
    pc__row_plan *plan;
    pc__cuda_plan *made;
    pc__cuda_attend task; /* of all launches */
    void *scratch;        /* states, their LSE, pages */
} attention;

/* The tables of the plan, made now or before. All runs that rows see have pages on the device. A
 * visitor goes with them, unless this fails. */
static pc_status take_tables(attention *a)
{
    const pc_allocator *mem = &a->stream->device->mem;
    pc__cuda_plan *made = a->made = a->plan->device;
    pc_status status;
    if (made)
        return check_runs(made, a->stream->device);
    if (!(made = pc__calloc(mem, 1, sizeof *made)))
        return PC_ERR_NOMEM;
    made->backend = a->backend;
    made->mem = *mem;
    made->visitor = a->visits ? a->stream : NULL;
    if ((status = make_tables(made, a->stream, a->plan)) < 0) {
        free_tables(made);
        return status;
    }
    a->plan->device = a->made = made;
    a->plan->free_device = free_made;
    return PC_OK;
}

/* Bytes to the next multiple of 16. */
static size_t whole(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* Takes scratch for the states, and for the pages of a visitor, which may be others in each call.
 */
static pc_status take_scratch(attention *a)
{
    size_t vectors = a->made->most_slots * a->plan->heads,
           values = whole(vectors * (size_t)a->plan->shape.v_dim * sizeof(float)),
           states = values + whole(vectors * sizeof(float)),
           pages = (a->made->visitor ? a->made->page_count : 0) * sizeof(uint64_t);
    PC__TRY_RETURN(pc__cuda_scratch_take(a->stream, states + pages, &a->scratch));
    a->task.state = a->scratch;
    a->task.state_lse = a->task.state + values / sizeof(float);
    a->task.pages = a->made->pages;
    if (pages) {
        void *to = (uint8_t *)a->scratch + states;
        list_pages(a->made, a->made->call_pages);
        pc__cuda_upload(a->stream, to, a->made->call_pages, pages);
        a->task.pages = to;
    }
    return PC_OK;
}

static const void *list_of(const attention *a, const void *list, size_t bytes)
{
    return list ? pc__cuda_kept_list(a->stream, list, bytes) : NULL;
}

/* [row] how far each row lies in its chunk. */
static pc_status list_inside(attention *a, int64_t chunk)
{
    const pc__row_plan *plan = a->plan;
    const pc_allocator *mem = &a->stream->device->mem;
    int64_t *inside = pc__calloc(mem, plan->rows, sizeof *inside);
    if (!inside)
        return PC_ERR_NOMEM;
    for (size_t r = 0; r < plan->rows; r++)
        inside[r] = pc__chunk_inside(plan->positions[r], chunk);
    a->task.inside = list_of(a, inside, plan->rows * sizeof *inside);
    pc__free(mem, inside);
    return PC_OK;
}

static pc_status take_lists(attention *a, const pc__attn_layer *layer)
{
    size_t heads = a->plan->heads * sizeof(float);
    a->task.slopes = list_of(a, layer->slopes, heads);
    a->task.sinks = list_of(a, layer->sinks, heads);
    return layer->chunk > 0 ? list_inside(a, layer->chunk) : PC_OK;
}

static pc_status take_angles(attention *a, const pc__rotation *rope)
{
    const pc__row_plan *plan = a->plan;
    if (rope->dims > plan->shape.k_dim)
        return pc__fail(PC_ERR_INVALID, "attention: %d RoPE dimensions, but heads have %d",
                        rope->dims, plan->shape.k_dim);
    pc__cuda_angles angles = pc__cuda_angles_of(a->stream, plan->context, rope, plan->distances,
                                                plan->distance_count);
    a->task.rope_dims = angles.dims;
    a->task.interleaved = angles.interleaved;
    a->task.cosine = angles.cosine;
    a->task.sine = angles.sine;
    return PC_OK;
}

static pc_status describe_layer(attention *a, const pc__attn_layer *layer)
{
    const pc__row_plan *plan = a->plan;
    pc__cuda_attend *t = &a->task;
    t->pairs = a->made->pairs;
    t->heads = (uint32_t)plan->heads;
    t->kv_heads = (uint32_t)plan->shape.kv_heads;
    t->k_dim = (uint32_t)plan->shape.k_dim;
    t->v_dim = (uint32_t)plan->shape.v_dim;
    t->layer = (uint32_t)layer->layer;
    t->scale = layer->scale;
    t->soft_cap = layer->soft_cap;
    t->window = layer->window;
    t->chunk = layer->chunk;
    PC__TRY_RETURN(take_lists(a, layer));
    return layer->rope ? take_angles(a, layer->rope) : PC_OK;
}

static pc_status run_batch(attention *a, size_t index)
{
    const pc__cuda_plan_batch *batch = &a->made->batches[index];
    const pc__cuda_ready *ready;
    pc__cuda_attend task = a->task;
    PC__TRY_RETURN(attend_kernel(&ready, a->backend, batch->format, &a->plan->shape));
    task.tiles = a->made->tiles + batch->first_tile;
    task.calls = a->made->calls + batch->first_call;
    task.claimed = a->made->claimed + index;
    task.tile_count = (uint32_t)batch->tiles;
    task.format = batch->format;
    size_t items = batch->tiles * task.kv_heads,
           most = (size_t)ready->blocks_at_once
                  * (size_t)a->backend->device->is.multiProcessorCount;
    if (items > UINT32_MAX / 2)
        return pc__fail(PC_ERR_LIMIT, "attention: %zu work items are too many", items);
    pc__cuda_launch(a->stream, &ready->kernel,
                    (pc__cuda_grid){(uint32_t)(items < most ? items : most), 1, 1}, &task);
    return PC_OK;
}

static void merge(const attention *a, const pc__cuda_plan_wave *wave)
{
    size_t heads = wave->merged * a->plan->heads, warps = PC__CUDA_BLOCK / 32;
    pc__cuda_merge task = {.merged = a->made->merged + wave->first_merged,
                           .rows = (uint32_t)wave->merged,
                           .heads = a->task.heads,
                           .v_dim = a->task.v_dim,
                           .sinks = a->task.sinks,
                           .state = a->task.state,
                           .state_lse = a->task.state_lse,
                           .out = a->task.out,
                           .lse = a->task.lse};
    pc__cuda_launch(a->stream, &pc__cuda_kernels.merge_states,
                    (pc__cuda_grid){(uint32_t)((heads + warps - 1) / warps), 1, 1}, &task);
}

static pc_status run_waves(attention *a)
{
    for (size_t w = 0; w < a->plan->wave_count; w++) {
        const pc__cuda_plan_wave *wave = &a->made->waves[w];
        for (size_t b = 0; b < wave->batches; b++)
            PC__TRY_RETURN(run_batch(a, wave->first_batch + b));
        if (wave->merged)
            merge(a, wave);
    }
    return PC_OK;
}

static pc_status queue_attention(attention *a, const pc__attn_layer *layer)
{
    PC__TRY_RETURN(take_tables(a));
    PC__TRY_RETURN(describe_layer(a, layer));
    PC__TRY_RETURN(take_scratch(a));
    pc_status status = run_waves(a);
    pc__cuda_scratch_give(a->stream, a->scratch);
    return status;
}

pc_status pc__cuda_op_attend(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                             const pc__floats *q, pc__floats *out, pc__floats *lse)
{
    attention a = {.backend = pc__cuda_backend_of(stream->backend),
                   .stream = pc__cuda_stream_of(stream),
                   .plan = plan,
                   .task = {.q = (const float *)q, .out = (float *)out, .lse = (float *)lse}};
    return queue_attention(&a, layer);
}

static pc_status check_addresses(const pc__cuda_device *device, const pc__floats *q,
                                 const pc__floats *out, const pc__floats *lse)
{
    PC__TRY_RETURN(pc__cuda_check_pointer(device, q, "q"));
    PC__TRY_RETURN(pc__cuda_check_pointer(device, out, "out"));
    return pc__cuda_check_pointer(device, lse, "lse");
}

/* A visitor stays with the plan that it was taken for. After an error nobody knows what of the
 * tables is on the device: the next call makes them again. */
pc_status pc__cuda_op_attend_queued(pc__backend *backend, const pc__queue *queue,
                                    pc__row_plan *plan, const pc__attn_layer *layer,
                                    const pc__floats *q, pc__floats *out, pc__floats *lse)
{
    const pc__cuda_plan *made = plan->device;
    pc__cuda_backend *b = pc__cuda_backend_of(backend);
    pc__cuda_stream *visitor = made ? made->visitor : NULL;
    PC__TRY_RETURN(check_addresses(b->device, q, out, lse));
    if (!visitor)
        PC__TRY_RETURN(take_visitor(&visitor, b, queue->handle));
    attention a = {.backend = b,
                   .stream = visitor,
                   .visits = 1,
                   .plan = plan,
                   .task = {.q = (const float *)q, .out = (float *)out, .lse = (float *)lse}};
    pc_status status = pc__cuda_stream_visit(visitor, queue->handle);
    if (status >= 0)
        status = pc__cuda_stream_home(visitor, queue_attention(&a, layer), queue->waits);
    if (!plan->device)
        put_visitor(b, visitor);
    else if (status < 0)
        drop_tables(plan);
    return status;
}

/* The thread that waits sleeps. */
static pc_status record_mark(cudaEvent_t *out, cudaStream_t queue)
{
    PC__TRY_RETURN(
        PC__CUDA(cudaEventCreateWithFlags, (out, cudaEventDisableTiming | cudaEventBlockingSync)));
    pc_status status = PC__CUDA(cudaEventRecord, (*out, queue));
    if (status < 0)
        pc__cuda_ignore(cudaEventDestroy(*out));
    return status;
}

/* On this thread; the mark is gone then. */
static pc_status pass_mark(cudaEvent_t event)
{
    pc_status status = PC__CUDA(cudaEventSynchronize, (event));
    pc__cuda_ignore(cudaEventDestroy(event));
    return status;
}

pc_status pc__cuda_op_mark_queue(pc__backend *backend, const pc__queue *queue, void **out)
{
    const pc__cuda_device *device = pc__cuda_backend_of(backend)->device;
    cudaEvent_t event = NULL;
    pc_status status;
    PC__CUDA_ON(device, status,
                record_mark(&event, queue->handle ? queue->handle : cudaStreamLegacy));
    *out = event;
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

pc_status pc__cuda_op_await_mark(pc__backend *backend, void *mark)
{
    const pc__cuda_device *device = pc__cuda_backend_of(backend)->device;
    pc_status status;
    PC__CUDA_ON(device, status, pass_mark(mark));
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

/* ------------------------------------------------------------ one row's map */

static int compare_distance(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The columns of a span, from `weights` on; `keys`: those of all spans. */
static void map_span(const attention *a, const pc__kv_span *span, size_t row, float *weights,
                     size_t keys)
{
    const pc__row_plan *plan = a->plan;
    const pc__cuda_plan_run *run = run_of(a->made, span->kv);
    int64_t distance = plan->positions[row] - span->start;
    const int64_t *at = bsearch(&distance, plan->distances, plan->distance_count, sizeof *at,
                                compare_distance);
    pc__cuda_map_row task = {.layer = a->task,
                             .run = {.layer_stride = pc__kv_layer_stride(span->kv),
                                     .relative = (uint64_t)(uintptr_t)run->relative,
                                     .first_page = (uint32_t)run->first_page},
                             .pair = {.distance = distance,
                                      .row = (uint32_t)row,
                                      .lo = span->lo,
                                      .hi = span->hi,
                                      .angle = (uint32_t)(at - plan->distances)},
                             .tokens = (uint32_t)run->tokens,
                             .weights = weights,
                             .stride = keys};
    task.layer.format = pc__cuda_format_of(span->kv->shape.dtype);
    pc__cuda_launch(
        a->stream, &pc__cuda_kernels.attention_map,
        (pc__cuda_grid){(task.tokens + PC__CUDA_BLOCK - 1) / PC__CUDA_BLOCK, task.layer.heads, 1},
        &task);
}

static pc_status map_row(const attention *a, size_t row, float *prob)
{
    const pc__row_plan *plan = a->plan;
    size_t keys = 0, column = 0;
    void *weights;
    for (size_t i = plan->first[row]; i < plan->first[row + 1]; i++)
        keys += plan->spans[i].kv->tokens;
    size_t bytes = plan->heads * keys * sizeof(float);
    PC__TRY_RETURN(pc__cuda_scratch_take(a->stream, bytes, &weights));
    pc__cuda_zero(a->stream, weights, bytes);
    for (size_t i = plan->first[row]; i < plan->first[row + 1]; i++) {
        const pc__kv_span *span = &plan->spans[i];
        if (span->lo < span->hi)
            map_span(a, span, row, (float *)weights + column, keys);
        column += span->kv->tokens;
    }
    pc__cuda_copy(a->stream, prob, weights, bytes);
    pc__cuda_scratch_give(a->stream, weights);
    return PC_OK;
}

pc_status pc__cuda_op_attention_map(pc__stream *stream, pc__row_plan *plan,
                                    const pc__attn_layer *layer, const pc__floats *q, size_t row,
                                    const pc__floats *lse, float *prob)
{
    attention a = {.backend = pc__cuda_backend_of(stream->backend),
                   .stream = pc__cuda_stream_of(stream),
                   .plan = plan,
                   .task = {.q = (const float *)q, .lse = (float *)(uintptr_t)lse}};
    PC__TRY_RETURN(take_tables(&a));
    PC__TRY_RETURN(describe_layer(&a, layer));
    PC__TRY_RETURN(take_scratch(&a));
    pc_status status = map_row(&a, row, prob);
    pc__cuda_scratch_give(a.stream, a.scratch);
    return status;
}
