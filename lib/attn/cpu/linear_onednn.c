/* Linear layers by oneDNN, a plug-in module: the weights are split into slices of PC__SLICE output
 * features, reordered once to oneDNN's format; inputs and outputs are padded with zeros to whole
 * tiles. A work item is one slice times a group of row tiles. oneDNN runs in one thread; the
 * threads are the context's. */
#include <stdio.h>
#include <string.h>

#include "attn/cpu/linear_internal.h"
#include "attn/cpu/tiles_onednn.h"
#include "attn/kernels.h"
#include "base/threads.h"
#include "base/work.h"

/* Rows of an item: their inputs stay in the cache of a core, their slice is read once. */
enum { GROUP_ROWS = 256 };

typedef struct slices {
    pc__tiles tiles;
    size_t count, bytes;
    uint8_t *weights;
    dnnl_memory_t *memory; /* [count] on the weights; only read while running */
} slices;

static int uses_amx(void)
{
    const unsigned need = dnnl_cpu_isa_avx512_core_amx;
    return ((unsigned)dnnl_get_effective_cpu_isa() & need) == need;
}

static void name_class(char *name, size_t size)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(name, size, "+dnn%d.%d.%d-%x", v->major, v->minor, v->patch,
             (unsigned)dnnl_get_effective_cpu_isa());
}

typedef struct slice_packing {
    const pc__linear *linear;
    const slices *to;
    const pc__weight_source *source;
    uint8_t *scratch; /* [threads][thread_bytes]: source rows, plain slice, oneDNN's memory */
    size_t thread_bytes;
    atomic_size_t next;
    atomic_int failure; /* the first error, a dnnl_status_t */
} slice_packing;

static void plain_slice(const pc__linear *linear, const pc__tiles *tiles, const float *rows,
                        size_t count, uint8_t *plain)
{
    size_t line = tiles->inputs * tiles->element;
    memset(plain, 0, PC__SLICE * line);
    for (size_t n = 0; n < count; n++)
        if (linear->compute == PC_DTYPE_F32)
            memcpy(plain + n * line, rows + n * linear->in, linear->in * sizeof *rows);
        else
            pc__kernels_get()->to_bf16(rows + n * linear->in, linear->in,
                                       (uint16_t *)(void *)(plain + n * line));
}

static void pack_slices(void *arg, size_t index)
{
    slice_packing *p = arg;
    const pc__linear *linear = p->linear;
    const pc__tiles *tiles = &p->to->tiles;
    uint8_t *at = p->scratch + index * p->thread_bytes;
    float *rows = pc__carve(&at, PC__SLICE * linear->in * sizeof *rows);
    uint8_t *plain = pc__carve(&at, PC__SLICE * tiles->inputs * tiles->element);
    int before = pc__onednn_enter();
    size_t i;
    while (!atomic_load(&p->failure) && (i = atomic_fetch_add(&p->next, 1)) < p->to->count) {
        size_t first = i * PC__SLICE, left = linear->out - first,
               count = left < PC__SLICE ? left : PC__SLICE;
        p->source->rows(p->source->user, first, count, rows);
        plain_slice(linear, tiles, rows, count, plain);
        dnnl_status_t failure = pc__tiles_reorder(tiles, plain, p->to->memory[i], at);
        if (failure)
            atomic_store(&p->failure, (int)failure);
    }
    pc__onednn_leave(before);
}

static pc_status pack_weights(const pc__linear *linear, const slices *to,
                              const pc__weight_source *source)
{
    slice_packing p = {.linear = linear, .to = to, .source = source};
    const pc_allocator *mem = &linear->context->mem;
    size_t line = linear->in * sizeof(float) + to->tiles.inputs * to->tiles.element,
           threads = linear->context->threads;
    p.thread_bytes = (PC__SLICE * line + to->tiles.scratch_bytes + 2 * 63) / 64 * 64 + 64;
    p.scratch = pc__alloc_aligned(mem, threads * p.thread_bytes, 64);
    if (!p.scratch)
        return PC_ERR_NOMEM;
    pc__parallel(linear->context, threads, pack_slices, &p);
    pc__free(mem, p.scratch);
    int failure = atomic_load(&p.failure);
    return failure ? pc__onednn_fail((dnnl_status_t)failure, "packing weights") : PC_OK;
}

static pc_status make_slices(slices *s, const pc_allocator *mem)
{
    size_t bytes;
    s->bytes = (dnnl_memory_desc_get_size(&s->tiles.packed) + 63) / 64 * 64;
    s->memory = pc__calloc(mem, s->count, sizeof *s->memory);
    if (!s->memory)
        return PC_ERR_NOMEM;
    if (__builtin_mul_overflow(s->count, s->bytes, &bytes))
        return pc__fail(PC_ERR_NOMEM, "out of memory (%zu slices of %zu bytes)", s->count,
                        s->bytes);
    if (!(s->weights = pc__alloc_aligned(mem, bytes, 64)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < s->count; i++) {
        dnnl_status_t failure = dnnl_memory_create(&s->memory[i], &s->tiles.packed, s->tiles.engine,
                                                   s->weights + i * s->bytes);
        if (failure)
            return pc__onednn_fail(failure, "describing weights");
    }
    return PC_OK;
}

static pc_status make_sliced(pc__linear *linear, const pc__weight_source *source)
{
    const pc_allocator *mem = &linear->context->mem;
    slices *s = pc__calloc(mem, 1, sizeof *s);
    if (!(linear->packed = s))
        return PC_ERR_NOMEM;
    PC__TRY_RETURN(pc__tiles_make(&s->tiles, mem, linear->compute, linear->in));
    s->count = (linear->out + PC__SLICE - 1) / PC__SLICE;
    PC__TRY_RETURN(make_slices(s, mem));
    return pack_weights(linear, s, source);
}

static void drop_slices(pc__linear *linear)
{
    const pc_allocator *mem = &linear->context->mem;
    slices *s = linear->packed;
    if (!s)
        return;
    for (size_t i = 0; s->memory && i < s->count; i++)
        dnnl_memory_destroy(s->memory[i]);
    pc__tiles_drop(&s->tiles);
    pc__free(mem, s->memory);
    pc__free(mem, s->weights);
    pc__free(mem, s);
}

static size_t slices_bytes(const pc__linear *linear)
{
    const slices *s = linear->packed;
    return s->count * s->bytes;
}

/* The rows are split into `whole` tiles of the largest size and at most one of size `last`. */
typedef struct tiled_product {
    const pc__linear *linear;
    const slices *w;
    size_t rows, whole, last, tiles, groups;
    uint8_t *x;       /* [padded rows][inputs] */
    uint8_t *scratch; /* [threads][thread_bytes]: y of a tile, oneDNN's scratch memory */
    size_t thread_bytes;
    float *y;
    atomic_size_t next;
    atomic_int failure; /* the first error, a dnnl_status_t */
} tiled_product;

static size_t most_rows(const slices *w)
{
    return w->tiles.rows[w->tiles.count - 1];
}

static void split_rows(tiled_product *p)
{
    size_t most = most_rows(p->w), rest = p->rows % most, group = GROUP_ROWS / most;
    p->whole = p->rows / most;
    while (rest && p->w->tiles.rows[p->last] < rest)
        p->last++;
    p->tiles = p->whole + (rest ? 1 : 0);
    p->groups = (p->tiles + group - 1) / group;
}

/* Copies the result of a tile for `count` rows to its place, with the bias. */
static void put_tile(const tiled_product *p, const float *from, size_t tile_rows, size_t row,
                     size_t count, size_t feature)
{
    const pc__linear *linear = p->linear;
    size_t left = linear->out - feature, width = left < PC__SLICE ? left : PC__SLICE;
    int transposed = p->w->tiles.transposed;
    size_t down = transposed ? 1 : PC__SLICE, along = transposed ? tile_rows : 1;
    for (size_t r = 0; r < count; r++) {
        float *to = p->y + (row + r) * linear->out + feature;
        for (size_t n = 0; n < width; n++)
            to[n] = from[r * down + n * along];
        for (size_t n = 0; linear->bias && n < width; n++)
            to[n] += linear->bias[feature + n];
    }
}

static dnnl_status_t run_item(const tiled_product *p, const pc__tile_exec *exec, const float *tile,
                              size_t index)
{
    size_t slice = index / p->groups, most = most_rows(p->w), group = GROUP_ROWS / most;
    size_t first = index % p->groups * group,
           end = first + group < p->tiles ? first + group : p->tiles;
    for (size_t t = first; t < end; t++) {
        const pc__tile_exec *at = &exec[t < p->whole ? 0 : 1];
        size_t row = t * most, rows = p->w->tiles.rows[at->tile], left = p->rows - row;
        dnnl_status_t failure = pc__tile_exec_multiply(
            at, p->x + row * p->w->tiles.inputs * p->w->tiles.element, p->w->memory[slice]);
        if (failure)
            return failure;
        put_tile(p, tile, rows, row, left < rows ? left : rows, slice * PC__SLICE);
    }
    return dnnl_success;
}

static void run_items(void *arg, size_t index)
{
    tiled_product *p = arg;
    const pc__tiles *tiles = &p->w->tiles;
    uint8_t *at = p->scratch + index * p->thread_bytes;
    float *tile = pc__carve(&at, most_rows(p->w) * PC__SLICE * sizeof *tile);
    pc__tile_exec exec[2] = {{0}, {0}}; /* of the largest tiles, and of the last */
    int before = pc__onednn_enter();
    dnnl_status_t failure = dnnl_success;
    size_t i;
    if (p->whole)
        failure = pc__tile_exec_open(&exec[0], tiles, tiles->count - 1, tile, at);
    if (!failure && p->tiles > p->whole)
        failure = pc__tile_exec_open(&exec[1], tiles, p->last, tile, at);
    while (!failure && !atomic_load(&p->failure)
           && (i = atomic_fetch_add(&p->next, 1)) < p->w->count * p->groups)
        failure = run_item(p, exec, tile, i);
    if (failure)
        atomic_store(&p->failure, (int)failure);
    pc__tile_exec_close(&exec[0]);
    pc__tile_exec_close(&exec[1]);
    pc__onednn_leave(before);
}

static pc_status run_slices(const pc__linear_job *job)
{
    const pc__linear *linear = job->linear;
    const slices *w = linear->packed;
    tiled_product p = {.linear = linear, .w = w, .rows = job->count, .y = job->y};
    size_t line = w->tiles.inputs * w->tiles.element, threads = linear->context->threads, padded;
    uint8_t *at;
    split_rows(&p);
    padded = p.whole * most_rows(w) + (p.tiles > p.whole ? w->tiles.rows[p.last] : 0);
    if (threads > w->count * p.groups)
        threads = w->count * p.groups;
    p.thread_bytes = most_rows(w) * PC__SLICE * sizeof(float)
                     + (w->tiles.scratch_bytes + 63) / 64 * 64;
    at = pc__work_take(linear->context, padded * line + threads * p.thread_bytes);
    if (!at)
        return PC_ERR_NOMEM;
    p.x = at;
    p.scratch = at + padded * line;
    pc__linear_round(job, job->first, job->count, padded, w->tiles.inputs, p.x);
    pc__parallel(linear->context, threads, run_items, &p);
    pc__work_give(linear->context, at);
    int failure = atomic_load(&p.failure);
    return failure ? pc__onednn_fail((dnnl_status_t)failure, "multiplying") : PC_OK;
}

static pc_status start(const pc__module_host *host, const void **table)
{
    static const pc__linear_ops ops = {
        .make = make_sliced, .drop = drop_slices, .bytes = slices_bytes, .run = run_slices};
    static const pc__onednn functions = {&ops, uses_amx, name_class};
    pc__module_join(host);
    *table = &functions;
    return PC_OK;
}

PC__MODULE(onednn) = {pc__module_version, pc__module_build, start};
