/* The built-in exact index: vectors in blocks of 32, number by number, so that a register holds one
 * number of 16 vectors and no sum runs across registers. A search reads the blocks once for all of
 * its queries: a few blocks that stay in the second-level cache, all queries over them, the next
 * few. A removed vector's place is taken by the last one. */
#include <string.h>

#include "memo/index/index_ops.h"
#include "memo/index/nearest.h"
#include "memo/index/scan_kernels.h"

enum {
    GROUP = 16,
    CACHED_BYTES = 256 << 10
}; /* queries of one call of the kernel; blocks that all groups go over before the next */

typedef struct scan {
    pc__index_impl side;
    const pc__scan_kernels *kernels;
    float **blocks; /* [blocks needed by places.count]; behind the last vector: zeros */
    size_t block_count, block_capacity;
} scan;

static float *number(const scan *s, size_t place, size_t d)
{
    return s->blocks[place / PC__SCAN_BLOCK] + d * PC__SCAN_BLOCK + place % PC__SCAN_BLOCK;
}

static void scan_free(pc__index_impl *side)
{
    scan *s = (scan *)(void *)side;
    const pc_allocator *mem = side->places.mem;
    for (size_t i = 0; i < s->block_count; i++)
        pc__free(mem, s->blocks[i]);
    pc__free(mem, s->blocks);
    pc__id_map_free(&side->places);
    pc__free(mem, s);
}

static pc_status scan_new(pc__index_impl **out, const pc_allocator *mem,
                          const pc__index_options *options)
{
    scan *s = pc__calloc(mem, 1, sizeof *s);
    if (!s)
        return PC_ERR_NOMEM;
    s->side.places.mem = mem;
    s->side.options = *options;
    s->kernels = pc__scan_kernels_get();
    *out = &s->side;
    return PC_OK;
}

static size_t blocks_of(size_t vectors)
{
    return (vectors + PC__SCAN_BLOCK - 1) / PC__SCAN_BLOCK;
}

/* Frees blocks that hold no vector. */
static void trim(scan *s)
{
    while (s->block_count > blocks_of(s->side.places.count))
        pc__free(s->side.places.mem, s->blocks[--s->block_count]);
}

static pc_status make_room(scan *s, size_t more)
{
    const pc_allocator *mem = s->side.places.mem;
    size_t need = blocks_of(s->side.places.count + more),
           bytes = s->side.options.dim * PC__SCAN_BLOCK * sizeof(float);
    pc_status status = pc__id_map_reserve(&s->side.places, more);
    if (status >= 0)
        status = pc__grow(mem, (void **)&s->blocks, &s->block_capacity, need, sizeof *s->blocks);
    while (status >= 0 && s->block_count < need) {
        float *block = pc__alloc_aligned(mem, bytes, 64);
        if (!block)
            status = PC_ERR_NOMEM;
        else
            s->blocks[s->block_count++] = memset(block, 0, bytes);
    }
    return status;
}

static pc_status scan_add(pc__index_impl *side, size_t count, const float *vectors,
                          const int64_t *ids)
{
    scan *s = (scan *)(void *)side;
    size_t dim = side->options.dim;
    pc_status status = make_room(s, count);
    if (status < 0) {
        trim(s);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t d = 0; d < dim; d++)
            *number(s, side->places.count, d) = vectors[i * dim + d];
        pc__id_map_add(&side->places, ids[i]);
    }
    return PC_OK;
}

static void scan_remove(pc__index_impl *side, size_t place)
{
    scan *s = (scan *)(void *)side;
    size_t last = side->places.count - 1;
    for (size_t d = 0; d < side->options.dim; d++) {
        *number(s, place, d) = *number(s, last, d);
        *number(s, last, d) = 0.0f;
    }
    pc__id_map_vacate(&side->places, place);
    pc__id_map_fill(&side->places, place);
    trim(s);
}

/* One group of queries over one block. */
static void look(const scan *s, size_t block, size_t count, const float *queries, size_t k,
                 float *distances, int64_t *ids)
{
    float limit[GROUP], apart[GROUP * PC__SCAN_BLOCK];
    uint32_t hits[GROUP];
    size_t left = s->side.places.count - block * PC__SCAN_BLOCK;
    uint32_t there = left < PC__SCAN_BLOCK ? (UINT32_C(1) << left) - 1 : UINT32_MAX;
    for (size_t q = 0; q < count; q++)
        limit[q] = distances[q * k];
    s->kernels->block(s->blocks[block], s->side.options.dim, queries, count, limit, apart, hits);
    for (size_t q = 0; q < count; q++)
        for (uint32_t hit = hits[q] & there; hit; hit &= hit - 1) {
            size_t lane = (size_t)__builtin_ctz(hit);
            pc__nearest_offer(distances + q * k, ids + q * k, k, apart[q * PC__SCAN_BLOCK + lane],
                              s->side.places.ids[block * PC__SCAN_BLOCK + lane]);
        }
}

static pc_status scan_search(const pc__index_impl *side, size_t queries, const float *vectors,
                             size_t k, float *distances, int64_t *ids)
{
    const scan *s = (const scan *)(const void *)side;
    size_t dim = side->options.dim, chunk = CACHED_BYTES / (dim * PC__SCAN_BLOCK * sizeof(float));
    chunk = chunk ? chunk : 1;
    for (size_t q = 0; q < queries; q++)
        pc__nearest_start(distances + q * k, ids + q * k, k);
    for (size_t first = 0; first < s->block_count; first += chunk) {
        size_t end = first + chunk < s->block_count ? first + chunk : s->block_count;
        for (size_t q = 0; q < queries; q += GROUP)
            for (size_t b = first; b < end; b++)
                look(s, b, queries - q < GROUP ? queries - q : GROUP, vectors + q * dim, k,
                     distances + q * k, ids + q * k);
    }
    for (size_t q = 0; q < queries; q++)
        pc__nearest_sort(distances + q * k, ids + q * k, k);
    return PC_OK;
}

static void scan_rows(const pc__index_impl *side, float *out)
{
    const scan *s = (const scan *)(const void *)side;
    for (size_t i = 0; i < side->places.count; i++)
        for (size_t d = 0; d < side->options.dim; d++)
            out[i * side->options.dim + d] = *number(s, i, d);
}

const pc__index_ops pc__index_scan_ops = {.name = "scan",
                                          .new_side = scan_new,
                                          .free_side = scan_free,
                                          .add = scan_add,
                                          .remove = scan_remove,
                                          .search = scan_search,
                                          .rows = scan_rows};
