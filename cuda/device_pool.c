/* The pool: blocks of the runtime, each a chain of parts; free parts also stand in lists by the
 * power of two of their size; given parts in a table by their address. All this lies in memory of
 * the CPU. */
#include "cuda/device_pool.h"

#include <pthread.h>
#include <string.h>

#include "base/hash_table.h"
#include "base/mem.h"

enum { BINS = 48, OWN_BLOCK_STEP = 2 << 20 };

typedef struct pool_part pool_part;
struct pool_part {
    pc__hash_link link; /* of given parts */
    uint8_t *address;
    size_t bytes;
    pool_part *before, *after;  /* neighbours in the block; both NULL: the part is a block */
    pool_part *previous, *next; /* free parts of the same bin */
    int given;
};

struct pc__cuda_pool {
    const pc__cuda_device *device;
    pthread_mutex_t lock;
    pc__hash_table given;
    pool_part *bins[BINS];
    pc__cuda_pool_sizes sizes;
    size_t block;     /* bytes of a block that holds several parts */
    size_t own_block; /* a part's own block is a multiple of this */
};

static uint64_t hash_of(const void *address)
{
    return pc__u64_hash((uint64_t)(uintptr_t)address);
}

static size_t round_up(size_t bytes, size_t step)
{
    return (bytes + step - 1) / step * step;
}

/* Bin b has parts of 512 * 2^b bytes and more, below twice that. */
static int bin_of(size_t bytes)
{
    int bin = 63 - __builtin_clzll(bytes / PC__CUDA_ALIGNMENT);
    return bin < BINS ? bin : BINS - 1;
}

static void add_free(pc__cuda_pool *pool, pool_part *part)
{
    pool_part **bin = &pool->bins[bin_of(part->bytes)];
    part->given = 0;
    part->previous = NULL;
    part->next = *bin;
    if (*bin)
        (*bin)->previous = part;
    *bin = part;
}

static void remove_free(pc__cuda_pool *pool, pool_part *part)
{
    if (part->previous)
        part->previous->next = part->next;
    else
        pool->bins[bin_of(part->bytes)] = part->next;
    if (part->next)
        part->next->previous = part->previous;
}

/* The smallest free part that is large enough. */
static pool_part *find_free(const pc__cuda_pool *pool, size_t bytes)
{
    pool_part *best = NULL;
    for (int bin = bin_of(bytes); bin < BINS && !best; bin++)
        for (pool_part *part = pool->bins[bin]; part; part = part->next)
            if (part->bytes >= bytes && (!best || part->bytes < best->bytes))
                best = part;
    return best;
}

/* Gives the block back whose only part this is. */
static void free_block(pc__cuda_pool *pool, pool_part *part)
{
    pool->sizes.held -= part->bytes;
    cudaFree(part->address);
    pc__free(&pool->device->mem, part);
}

static void trim(pc__cuda_pool *pool)
{
    for (int bin = 0; bin < BINS; bin++)
        for (pool_part *part = pool->bins[bin], *next; part; part = next) {
            next = part->next;
            if (!part->before && !part->after) {
                remove_free(pool, part);
                free_block(pool, part);
            }
        }
}

/* What the runtime says when it has none left, or the pool when its limit is reached. */
static pc_status ask_runtime(const pc__cuda_pool *pool, size_t bytes, uint8_t **out)
{
    if (bytes > pool->sizes.limit - pool->sizes.held)
        return pc__fail(PC_ERR_NOMEM, "%zu bytes of at most %zu are taken", pool->sizes.held,
                        pool->sizes.limit);
    void *memory = NULL;
    PC__TRY_RETURN(PC__CUDA(cudaMalloc, (&memory, bytes)));
    *out = memory;
    return PC_OK;
}

/* A block for a part of `bytes`. If there is no memory for a large one, it is as small as it can
 * be. */
static pc_status new_block(pc__cuda_pool *pool, size_t bytes, pool_part *part)
{
    size_t exact = round_up(bytes, pool->own_block);
    part->bytes = bytes > pool->block / 2 ? exact : pool->block;
    pc_status status = ask_runtime(pool, part->bytes, &part->address);
    if (status == PC_ERR_NOMEM) {
        trim(pool);
        status = ask_runtime(pool, part->bytes, &part->address);
    }
    if (status == PC_ERR_NOMEM && part->bytes > exact) {
        part->bytes = exact;
        status = ask_runtime(pool, part->bytes, &part->address);
    }
    if (status == PC_OK)
        pool->sizes.held += part->bytes;
    return status;
}

static pc_status add_block(pc__cuda_pool *pool, size_t bytes, pool_part **out)
{
    pool_part *part = pc__calloc(&pool->device->mem, 1, sizeof *part);
    if (!part)
        return PC_ERR_NOMEM;
    pc_status status = new_block(pool, bytes, part);
    if (status < 0)
        pc__free(&pool->device->mem, part);
    *out = status < 0 ? NULL : part;
    return status;
}

/* Cuts what `part` has beyond `bytes` off; without memory for that, the part stays larger. */
static void split(pc__cuda_pool *pool, pool_part *part, size_t bytes)
{
    if (part->bytes == bytes)
        return;
    pool_part *rest = pc__calloc(&pool->device->mem, 1, sizeof *rest);
    if (!rest)
        return;
    rest->address = part->address + bytes;
    rest->bytes = part->bytes - bytes;
    rest->before = part;
    rest->after = part->after;
    if (rest->after)
        rest->after->before = rest;
    part->after = rest;
    part->bytes = bytes;
    add_free(pool, rest);
}

static pc_status take(pc__cuda_pool *pool, size_t bytes, void **out)
{
    PC__TRY_RETURN(pc__hash_table_reserve(&pool->given, &pool->device->mem));
    pool_part *part = find_free(pool, bytes);
    if (part)
        remove_free(pool, part);
    else
        PC__TRY_RETURN(add_block(pool, bytes, &part));
    split(pool, part, bytes);
    part->given = 1;
    pool->sizes.given += part->bytes;
    pc__hash_table_add(&pool->given, &part->link, hash_of(part->address));
    *out = part->address;
    return PC_OK;
}

/* A limit that can never hold the part is not tried. */
static pc_status take_locked(pc__cuda_pool *pool, size_t bytes, void **out)
{
    if (bytes > pool->sizes.limit)
        return pc__fail(PC_ERR_NOMEM, "the limit is %zu bytes", pool->sizes.limit);
    pc_status status;
    pthread_mutex_lock(&pool->lock);
    PC__CUDA_ON(pool->device, status,
                take(pool, round_up(bytes ? bytes : 1, PC__CUDA_ALIGNMENT), out));
    pthread_mutex_unlock(&pool->lock);
    return status;
}

pc_status pc__cuda_pool_take(pc__cuda_pool *pool, size_t bytes, void **out)
{
    *out = NULL;
    pc_status status = take_locked(pool, bytes, out);
    if (status < 0) {
        pc__fail_in(status, "%zu bytes of device memory", bytes);
        pc__cuda_fail_in(pool->device, status);
    }
    return status;
}

static pool_part *find_given(const pc__cuda_pool *pool, const void *address)
{
    pc__hash_link *link = pc__hash_table_find(&pool->given, hash_of(address));
    while (link && PC__AROUND(link, pool_part, link)->address != address)
        link = pc__hash_table_find_next(link);
    return link ? PC__AROUND(link, pool_part, link) : NULL;
}

/* Appends the part behind to this one. */
static void join(pc__cuda_pool *pool, pool_part *part, pool_part *behind)
{
    part->bytes += behind->bytes;
    part->after = behind->after;
    if (part->after)
        part->after->before = part;
    pc__free(&pool->device->mem, behind);
}

static void give(pc__cuda_pool *pool, pool_part *part)
{
    pc__hash_table_remove(&pool->given, &part->link);
    pool->sizes.given -= part->bytes;
    if (part->after && !part->after->given) {
        remove_free(pool, part->after);
        join(pool, part, part->after);
    }
    if (part->before && !part->before->given) {
        pool_part *before = part->before;
        remove_free(pool, before);
        join(pool, before, part);
        part = before;
    }
    add_free(pool, part);
}

void pc__cuda_pool_give(pc__cuda_pool *pool, void *address)
{
    if (!address)
        return;
    pthread_mutex_lock(&pool->lock);
    pool_part *part = find_given(pool, address);
    if (part)
        give(pool, part);
    pthread_mutex_unlock(&pool->lock);
}

/* Also where the context is lost: its memory is, too, and what describes it must go. */
void pc__cuda_pool_trim(pc__cuda_pool *pool)
{
    pc__cuda_caller before;
    int entered = pc__cuda_enter(&before, pool->device) == PC_OK;
    pthread_mutex_lock(&pool->lock);
    trim(pool);
    pthread_mutex_unlock(&pool->lock);
    if (entered)
        pc__cuda_leave(&before);
}

pc__cuda_pool_sizes pc__cuda_pool_look(pc__cuda_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pc__cuda_pool_sizes sizes = pool->sizes;
    pthread_mutex_unlock(&pool->lock);
    return sizes;
}

const pc__cuda_device *pc__cuda_pool_device(const pc__cuda_pool *pool)
{
    return pool->device;
}

pc_status pc__cuda_pool_new(pc__cuda_pool **out, const pc__cuda_device *device, size_t limit,
                            size_t block)
{
    pc__cuda_pool *pool = *out = pc__calloc(&device->mem, 1, sizeof *pool);
    if (!pool)
        return PC_ERR_NOMEM;
    pool->device = device;
    pool->sizes.limit = limit && limit < device->is.totalGlobalMem ? limit
                                                                   : device->is.totalGlobalMem;
    pool->block = block ? round_up(block, PC__CUDA_ALIGNMENT) : PC__CUDA_BLOCK_BYTES;
    pool->own_block = block == 1 ? PC__CUDA_ALIGNMENT : OWN_BLOCK_STEP;
    pthread_mutex_init(&pool->lock, NULL);
    return PC_OK;
}

void pc__cuda_pool_free(pc__cuda_pool *pool)
{
    if (!pool)
        return;
    pc__cuda_pool_trim(pool);
    pthread_mutex_destroy(&pool->lock);
    pc__hash_table_free(&pool->given, &pool->device->mem);
    pc__free(&pool->device->mem, pool);
}
