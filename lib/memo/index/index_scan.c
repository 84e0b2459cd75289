/* The built-in exact index. Vectors lie in blocks of 32, element by element, so that one register
 * holds one element of 16 vectors. A search goes over a few blocks that fit into the second-level
 * cache with all queries, then over the next few. The last vector takes the place of a removed one.
 */
#include <string.h>

#include "base/fail.h"
#include "memo/index/index_ops.h"
#include "memo/index/nearest.h"
#include "memo/index/scan_kernels.h"

enum {
    GROUP = 16,
    CACHED_BYTES = 256 << 10
}; /* queries of one call of the kernel; bytes of blocks that all queries read in turn */

typedef struct scan_index {
    pc__index_impl impl;
    const pc__scan_kernels *kernels;
    float **blocks; /* [block_count]; zeros behind the last vector */
    size_t block_count, block_capacity;
} scan_index;

static float *element(const scan_index *s, size_t position, size_t d)
{
    return s->blocks[position / PC__SCAN_BLOCK] + d * PC__SCAN_BLOCK + position % PC__SCAN_BLOCK;
}

static void scan_free(pc__index_impl *impl)
{
    scan_index *s = (scan_index *)(void *)impl;
    const pc_allocator *mem = impl->id_map.mem;
    for (size_t i = 0; i < s->block_count; i++)
        pc__free(mem, s->blocks[i]);
    pc__free(mem, s->blocks);
    pc__id_map_free(&impl->id_map);
    pc__free(mem, s);
}

static pc_status scan_new(pc__index_impl **out, const pc_allocator *mem,
                          const pc__index_options *options)
{
    scan_index *s = pc__calloc(mem, 1, sizeof *s);
    if (!s)
        return PC_ERR_NOMEM;
    s->impl.id_map.mem = mem;
    s->impl.options = *options;
    s->kernels = pc__scan_kernels_get();
    *out = &s->impl;
    return PC_OK;
}

static size_t blocks_needed(size_t vectors)
{
    return (vectors + PC__SCAN_BLOCK - 1) / PC__SCAN_BLOCK;
}

static void free_unused_blocks(scan_index *s)
{
    while (s->block_count > blocks_needed(s->impl.id_map.count))
        pc__free(s->impl.id_map.mem, s->blocks[--s->block_count]);
}

static pc_status reserve_blocks(scan_index *s, size_t more)
{
    const pc_allocator *mem = s->impl.id_map.mem;
    size_t need = blocks_needed(s->impl.id_map.count + more),
           bytes = s->impl.options.dim * PC__SCAN_BLOCK * sizeof(float);
    PC__TRY_RETURN(pc__id_map_reserve(&s->impl.id_map, more));
    PC__TRY_RETURN(pc__grow(mem, (void **)&s->blocks, &s->block_capacity, need, sizeof *s->blocks));
    for (; s->block_count < need; s->block_count++) {
        float *block = pc__alloc_aligned(mem, bytes, 64);
        if (!block)
            return PC_ERR_NOMEM;
        s->blocks[s->block_count] = memset(block, 0, bytes);
    }
    return PC_OK;
}

static pc_status scan_add(pc__index_impl *impl, size_t count, const float *vectors,
                          const int64_t *ids)
{
    scan_index *s = (scan_index *)(void *)impl;
    size_t dim = impl->options.dim;
    pc_status status = reserve_blocks(s, count);
    if (status < 0) {
        free_unused_blocks(s);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t d = 0; d < dim; d++)
            *element(s, impl->id_map.count, d) = vectors[i * dim + d];
        pc__id_map_add(&impl->id_map, ids[i]);
    }
    return PC_OK;
}

static void scan_remove(pc__index_impl *impl, size_t position)
{
    scan_index *s = (scan_index *)(void *)impl;
    size_t last = impl->id_map.count - 1;
    for (size_t d = 0; d < impl->options.dim; d++) {
        *element(s, position, d) = *element(s, last, d);
        *element(s, last, d) = 0.0f;
    }
    pc__id_map_vacate(&impl->id_map, position);
    pc__id_map_fill(&impl->id_map, position);
    free_unused_blocks(s);
}

/* Compares one group of queries with one block. */
static void scan_block(const scan_index *s, size_t block, size_t count, const float *queries,
                       size_t k, float *distances, int64_t *ids)
{
    float limit[GROUP], block_distances[GROUP * PC__SCAN_BLOCK];
    uint32_t hits[GROUP];
    size_t left = s->impl.id_map.count - block * PC__SCAN_BLOCK;
    uint32_t there = left < PC__SCAN_BLOCK ? (UINT32_C(1) << left) - 1 : UINT32_MAX;
    for (size_t q = 0; q < count; q++)
        limit[q] = distances[q * k];
    s->kernels->block(s->blocks[block], s->impl.options.dim, queries, count, limit, block_distances,
                      hits);
    for (size_t q = 0; q < count; q++)
        for (uint32_t hit = hits[q] & there; hit; hit &= hit - 1) {
            size_t lane = (size_t)__builtin_ctz(hit);
            pc__nearest_offer(distances + q * k, ids + q * k, k,
                              block_distances[q * PC__SCAN_BLOCK + lane],
                              s->impl.id_map.ids[block * PC__SCAN_BLOCK + lane]);
        }
}

static pc_status scan_search(const pc__index_impl *impl, size_t queries, const float *vectors,
                             size_t k, float *distances, int64_t *ids)
{
    const scan_index *s = (const scan_index *)(const void *)impl;
    size_t dim = impl->options.dim, chunk = CACHED_BYTES / (dim * PC__SCAN_BLOCK * sizeof(float));
    chunk = chunk ? chunk : 1;
    for (size_t q = 0; q < queries; q++)
        pc__nearest_start(distances + q * k, ids + q * k, k);
    for (size_t first = 0; first < s->block_count; first += chunk) {
        size_t end = first + chunk < s->block_count ? first + chunk : s->block_count;
        for (size_t q = 0; q < queries; q += GROUP)
            for (size_t b = first; b < end; b++)
                scan_block(s, b, queries - q < GROUP ? queries - q : GROUP, vectors + q * dim, k,
                           distances + q * k, ids + q * k);
    }
    for (size_t q = 0; q < queries; q++)
        pc__nearest_sort(distances + q * k, ids + q * k, k);
    return PC_OK;
}

static void scan_copy_vectors(const pc__index_impl *impl, float *out)
{
    const scan_index *s = (const scan_index *)(const void *)impl;
    for (size_t i = 0; i < impl->id_map.count; i++)
        for (size_t d = 0; d < impl->options.dim; d++)
            out[i * impl->options.dim + d] = *element(s, i, d);
}

const pc__index_ops pc__index_scan_ops = {.create = scan_new,
                                          .destroy = scan_free,
                                          .add = scan_add,
                                          .remove = scan_remove,
                                          .search = scan_search,
                                          .copy_vectors = scan_copy_vectors};
