/* Makes the tables of a plan: sizes first, then one part of device memory, then the contents. */
#include "cuda/backend_cuda_plan.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/attend_tiles.h"
#include "cuda/backend_cuda.h"
#include "cuda/device_tables.h"

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

uint32_t pc__cuda_format_of(uint32_t dtype)
{
    return dtype == PC_DTYPE_F32    ? PC__CUDA_F32
           : dtype == PC_DTYPE_BF16 ? PC__CUDA_BF16
           : dtype == PC_DTYPE_F16  ? PC__CUDA_F16
                                    : PC__CUDA_I8;
}

/* ------------------------------------------------------------------- runs */

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const pc__cuda_plan_run *)a)->kv,
              y = (uintptr_t)((const pc__cuda_plan_run *)b)->kv;
    return (x > y) - (x < y);
}

const pc__cuda_plan_run *pc__cuda_plan_run_of(const pc__cuda_plan *made, const pc__kv *kv)
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

const uint64_t *pc__cuda_plan_pages(pc__cuda_plan *made)
{
    list_pages(made, made->call_pages);
    return made->call_pages;
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
    const pc__cuda_plan_run *run = pc__cuda_plan_run_of(m->made, call->kv);
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
    return made->visitor ? pc__cuda_scratch_take(made->visitor->stream, bytes, out)
                         : pc__cuda_pool_take(made->pool, bytes, out);
}

static void give_memory(const pc__cuda_plan *made, void *memory)
{
    if (made->visitor)
        pc__cuda_scratch_give(made->visitor->stream, memory);
    else
        pc__cuda_pool_give(made->pool, memory);
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
    pc__cuda_visitor *visitor = ((pc__cuda_plan *)device)->visitor;
    free_tables(device);
    pc__cuda_visitor_put(visitor);
}

void pc__cuda_plan_drop(pc__row_plan *plan)
{
    free_made(plan->device);
    plan->device = NULL;
    plan->free_device = NULL;
}

pc_status pc__cuda_plan_of(pc__cuda_plan **out, pc__cuda_stream *stream, pc__row_plan *plan,
                           pc__cuda_visitor *visitor)
{
    const pc_allocator *mem = &stream->device->mem;
    pc__cuda_plan *made = *out = plan->device;
    pc_status status;
    if (made)
        return check_runs(made, stream->device);
    if (!(made = pc__calloc(mem, 1, sizeof *made)))
        return PC_ERR_NOMEM;
    made->mem = *mem;
    made->pool = stream->pool;
    made->visitor = visitor;
    if ((status = make_tables(made, stream, plan)) < 0) {
        free_tables(made);
        return status;
    }
    plan->device = *out = made;
    plan->free_device = free_made;
    return PC_OK;
}
