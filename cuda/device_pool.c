/* A pool takes and gives in the order of a stream of its own, in which nothing else runs: a part is
 * there when that stream is done, which is at once. Some small parts that come back are kept as
 * they are: each pass takes the same ones again, and needs no call of the runtime for them. */
#include "cuda/device_pool.h"

#include <pthread.h>

#include "base/hash_table.h"
#include "base/mem.h"

enum { FOR_OTHERS = 1 << 30, IDLE_PARTS = 16, IDLE_BYTES = 16 << 20 /* of a part, at most */ };

typedef struct pool_part {
    pc__hash_link link; /* of given parts */
    void *address;
    size_t bytes;
} pool_part;

struct pc__cuda_pool {
    const pc__cuda_device *device;
    pthread_mutex_t lock; /* of the next three */
    pc__hash_table given;
    pool_part *idle[IDLE_PARTS]; /* the one that came back first in front */
    size_t idle_count;
    cudaMemPool_t memory;
    cudaStream_t order;
    size_t limit;
    pc__cuda_spare_fn spare; /* or NULL */
    void *user;
};

/* ------------------------------------------------------------------ idle parts */

static uint64_t hash_of(const void *address)
{
    return pc__u64_hash((uint64_t)(uintptr_t)address);
}

static pool_part *remove_idle(pc__cuda_pool *pool, size_t index)
{
    pool_part *part = pool->idle[index];
    pool->idle_count--;
    for (; index < pool->idle_count; index++)
        pool->idle[index] = pool->idle[index + 1];
    return part;
}

/* An idle part of exactly this size, so that nobody holds more than he needs; NULL: none. */
static pool_part *find_idle(pc__cuda_pool *pool, size_t bytes)
{
    for (size_t i = pool->idle_count; i-- > 0;)
        if (pool->idle[i]->bytes == bytes)
            return remove_idle(pool, i);
    return NULL;
}

/* On the device. */
static void free_part(const pc__cuda_pool *pool, pool_part *part)
{
    pc__cuda_ignore(cudaFreeAsync(part->address, pool->order));
    pc__free(&pool->device->mem, part);
}

static int drop_idle(pc__cuda_pool *pool)
{
    int any = pool->idle_count > 0;
    while (pool->idle_count)
        free_part(pool, remove_idle(pool, 0));
    return any;
}

static pool_part *find_given(const pc__cuda_pool *pool, const void *address)
{
    pc__hash_link *link = pc__hash_table_find(&pool->given, hash_of(address));
    while (link && PC__AROUND(link, pool_part, link)->address != address)
        link = pc__hash_table_find_next(link);
    return link ? PC__AROUND(link, pool_part, link) : NULL;
}

/* -------------------------------------------------------------- taking and giving */

static pc_status take_new(const pc__cuda_pool *pool, size_t bytes, void **out)
{
    PC__TRY_RETURN(
        PC__CUDA(cudaMallocFromPoolAsync, (out, bytes ? bytes : 1, pool->memory, pool->order)));
    pc_status status = PC__CUDA(cudaStreamSynchronize, (pool->order));
    if (status < 0) {
        pc__cuda_ignore(cudaFreeAsync(*out, pool->order));
        *out = NULL;
    }
    return status;
}

static pc_status take_part(pc__cuda_pool *pool, size_t bytes, pool_part **out)
{
    if ((*out = find_idle(pool, bytes)))
        return PC_OK;
    pool_part *part = *out = pc__calloc(&pool->device->mem, 1, sizeof *part);
    if (!part)
        return PC_ERR_NOMEM;
    part->bytes = bytes;
    pc_status status = take_new(pool, bytes, &part->address);
    if (status == PC_ERR_NOMEM && drop_idle(pool))
        status = take_new(pool, bytes, &part->address);
    if (status < 0)
        pc__free(&pool->device->mem, part);
    return status;
}

static pc_status take(pc__cuda_pool *pool, size_t bytes, void **out)
{
    pool_part *part;
    PC__TRY_RETURN(pc__hash_table_reserve(&pool->given, &pool->device->mem));
    PC__TRY_RETURN(take_part(pool, bytes, &part));
    pc__hash_table_add(&pool->given, &part->link, hash_of(part->address));
    *out = part->address;
    return PC_OK;
}

static pc_status take_locked(pc__cuda_pool *pool, size_t bytes, void **out)
{
    pthread_mutex_lock(&pool->lock);
    pc_status status = take(pool, bytes, out);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

void pc__cuda_pool_set_spare(pc__cuda_pool *pool, pc__cuda_spare_fn spare, void *user)
{
    pool->spare = spare;
    pool->user = user;
}

static pc_status take_or_spare(pc__cuda_pool *pool, size_t bytes, void **out)
{
    pc_status status;
    do
        PC__CUDA_ON(pool->device, status, take_locked(pool, bytes, out));
    while (status == PC_ERR_NOMEM && pool->spare && pool->spare(pool->user, bytes));
    return status;
}

pc_status pc__cuda_pool_take(pc__cuda_pool *pool, size_t bytes, void **out)
{
    pc_status status;
    *out = NULL;
    if (bytes > pool->limit)
        status = pc__fail(PC_ERR_NOMEM, "the limit is %zu bytes", pool->limit);
    else
        status = take_or_spare(pool, bytes, out);
    if (status < 0) {
        pc__fail_in(status, "%zu bytes of device memory", bytes);
        pc__cuda_fail_in(pool->device, status);
    }
    return status;
}

/* On the device, locked. */
static void give(pc__cuda_pool *pool, pool_part *part)
{
    pc__hash_table_remove(&pool->given, &part->link);
    if (part->bytes > IDLE_BYTES) {
        free_part(pool, part);
        return;
    }
    if (pool->idle_count == IDLE_PARTS)
        free_part(pool, remove_idle(pool, 0));
    pool->idle[pool->idle_count++] = part;
}

/* Also where the context is lost: its memory is, too, and what describes it must go. */
void pc__cuda_pool_give(pc__cuda_pool *pool, void *address)
{
    int before;
    if (!address)
        return;
    int selected = pc__cuda_select(&before, pool->device) == PC_OK;
    pthread_mutex_lock(&pool->lock);
    pool_part *part = find_given(pool, address);
    if (part)
        give(pool, part);
    pthread_mutex_unlock(&pool->lock);
    if (selected)
        pc__cuda_restore(before, pool->device);
}

const pc__cuda_device *pc__cuda_pool_device(const pc__cuda_pool *pool)
{
    return pool->device;
}

static pc_status find_limit(pc__cuda_pool *pool)
{
    size_t unused = 0, total = 0;
    PC__TRY_RETURN(PC__CUDA(cudaMemGetInfo, (&unused, &total)));
    if (!pool->limit)
        pool->limit = unused / 2 > FOR_OTHERS ? unused - FOR_OTHERS : unused / 2;
    if (pool->limit > total)
        pool->limit = total;
    return PC_OK;
}

/* What comes back stays with the pool. */
static pc_status open_pool(pc__cuda_pool *pool)
{
    uint64_t all = UINT64_MAX;
    PC__TRY_RETURN(find_limit(pool));
    struct cudaMemPoolProps props = {
        .allocType = cudaMemAllocationTypePinned,
        .location = {.type = cudaMemLocationTypeDevice, .id = pool->device->number},
        .maxSize = pool->limit};
    PC__TRY_RETURN(PC__CUDA(cudaStreamCreateWithFlags, (&pool->order, cudaStreamNonBlocking)));
    PC__TRY_RETURN(PC__CUDA(cudaMemPoolCreate, (&pool->memory, &props)));
    return PC__CUDA(cudaMemPoolSetAttribute, (pool->memory, cudaMemPoolAttrReleaseThreshold, &all));
}

pc_status pc__cuda_pool_new(pc__cuda_pool **out, const pc__cuda_device *device, size_t limit)
{
    pc__cuda_pool *pool = *out = pc__calloc(&device->mem, 1, sizeof *pool);
    pc_status status;
    if (!pool)
        return PC_ERR_NOMEM;
    pool->device = device;
    pool->limit = limit;
    pthread_mutex_init(&pool->lock, NULL);
    PC__CUDA_ON(device, status, open_pool(pool));
    if (status < 0) {
        pc__cuda_fail_in(device, status);
        pc__cuda_pool_free(pool);
        *out = NULL;
    }
    return status;
}

void pc__cuda_pool_free(pc__cuda_pool *pool)
{
    pc__cuda_caller before;
    if (!pool)
        return;
    int entered = pc__cuda_enter(&before, pool->device) == PC_OK;
    drop_idle(pool);
    if (pool->memory)
        pc__cuda_ignore(cudaMemPoolDestroy(pool->memory));
    if (pool->order)
        pc__cuda_ignore(cudaStreamDestroy(pool->order));
    if (entered)
        pc__cuda_leave(&before);
    pthread_mutex_destroy(&pool->lock);
    pc__hash_table_free(&pool->given, &pool->device->mem);
    pc__free(&pool->device->mem, pool);
}
