/* What all kinds of index share: checks of arguments, locks, and rebuilding while searches go on.
 */
#include "memo/index/index_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memo/index/nearest.h"

enum { MOST_DIM = 4096, MOST_LINKS = 256, MOST_EFFORT = 1 << 16 };
#define MOST_VALUE 1e16f /* the sum of squared differences stays finite */

/* NULL: *reason says why there is none. */
static const pc__index_ops *faiss_ops(const char **reason)
{
#ifdef PC_HAVE_FAISS
    return pc__index_faiss(reason);
#else
    *reason = "this library was built without it (CMake option PC_WITH_FAISS)";
    return NULL;
#endif
}

int pc__index_has_faiss(void)
{
    const char *reason;
    return faiss_ops(&reason) != NULL;
}

static pc_status check_index_options(const pc__index_options *o)
{
    if (!o->dim || o->dim > MOST_DIM)
        return pc__fail(PC_ERR_INVALID, "index: dimension %u is not in 1 to %d", o->dim, MOST_DIM);
    if (o->hnsw_links < 0 || o->hnsw_links == 1 || o->hnsw_links > MOST_LINKS)
        return pc__fail(PC_ERR_INVALID, "index: %d links are not in 2 to %d", (int)o->hnsw_links,
                        MOST_LINKS);
    const char *reason;
    const int32_t rest[] = {o->hnsw_build, o->hnsw_search, o->ivf_lists, o->ivf_probes};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (rest[i] < 0 || rest[i] > MOST_EFFORT)
            return pc__fail(PC_ERR_INVALID, "index: option %d is not in 0 to %d", (int)rest[i],
                            MOST_EFFORT);
    if ((unsigned)o->kind > PC__INDEX_FAISS_IVF)
        return pc__fail(PC_ERR_INVALID, "index: no such kind: %d", (int)o->kind);
    if (o->kind != PC__INDEX_SCAN && !faiss_ops(&reason))
        return pc__fail(PC_ERR_UNSUPPORTED, "index: no FAISS: %s", reason);
    return PC_OK;
}

static void init_index_locks(pc__index *index)
{
    pthread_rwlockattr_t attributes;
    pthread_mutex_init(&index->writers, NULL);
    pthread_rwlockattr_init(&attributes);
#ifdef __GLIBC__ /* else steady searches starve adding */
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    pthread_rwlock_init(&index->lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

pc_status pc__index_new(pc__index **out, const pc_allocator *mem, const pc__index_options *options)
{
    pc__index *index;
    pc_status status;
    const char *reason;
    *out = NULL;
    PC__TRY_RETURN(check_index_options(options));
    index = pc__calloc(mem, 1, sizeof *index);
    if (!index)
        return PC_ERR_NOMEM;
    index->mem = mem;
    index->kind = options->kind;
    index->ops = options->kind == PC__INDEX_SCAN ? &pc__index_scan_ops : faiss_ops(&reason);
    status = index->ops->create(&index->impl, mem, options);
    if (status < 0) {
        pc__free(mem, index);
        return status;
    }
    init_index_locks(index);
    *out = index;
    return PC_OK;
}

void pc__index_free(pc__index *index)
{
    if (!index)
        return;
    index->ops->destroy(index->impl);
    pthread_rwlock_destroy(&index->lock);
    pthread_mutex_destroy(&index->writers);
    pc__free(index->mem, index);
}

/* Locking does not change what the index holds. */
static pthread_rwlock_t *index_lock(const pc__index *index)
{
    return (pthread_rwlock_t *)&index->lock;
}

pc_status pc__index_check_vectors(const pc__index *index, size_t count, const float *vectors)
{
    size_t numbers = index->impl->options.dim;
    if (count > SIZE_MAX / sizeof(float) / numbers)
        return pc__fail(PC_ERR_INVALID, "index: %zu vectors", count);
    numbers *= count;
    for (size_t i = 0; i < numbers; i++)
        if (!(fabsf(vectors[i]) <= MOST_VALUE))
            return pc__fail(PC_ERR_INVALID,
                            "index: number %zu of a vector is not finite, or beyond 1e16",
                            i % index->impl->options.dim);
    return PC_OK;
}

static int ids_ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Checks that ids are new and unique. */
pc_status pc__index_check_ids(const pc__index *index, size_t count, const int64_t *ids)
{
    int ascending = 1;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0)
            return pc__fail(PC_ERR_INVALID, "index: id %lld is negative", (long long)ids[i]);
        if (pc__id_map_find(&index->impl->id_map, ids[i]) != PC__NO_POSITION)
            return pc__fail(PC_ERR_INVALID, "index: id %lld is there already", (long long)ids[i]);
        ascending &= !i || ids[i] > ids[i - 1];
    }
    if (ascending)
        return PC_OK;
    int64_t *sorted = pc__alloc(index->mem, count * sizeof *sorted);
    if (!sorted)
        return PC_ERR_NOMEM;
    memcpy(sorted, ids, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, ids_ascending);
    pc_status status = PC_OK;
    for (size_t i = 1; i < count && status >= 0; i++)
        if (sorted[i] == sorted[i - 1])
            status = pc__fail(PC_ERR_INVALID, "index: id %lld comes twice", (long long)sorted[i]);
    pc__free(index->mem, sorted);
    return status;
}

/* Under the writers' lock. Without memory for a new one, the old one stays in use. */
static void rebuild_if_stale(pc__index *index)
{
    pc__index_impl *fresh, *old = index->impl;
    if (!index->ops->needs_rebuild || !index->ops->needs_rebuild(old)
        || index->ops->rebuild(old, &fresh) < 0)
        return;
    pthread_rwlock_wrlock(&index->lock);
    index->impl = fresh;
    pthread_rwlock_unlock(&index->lock);
    index->ops->destroy(old);
}

pc_status pc__index_add(pc__index *index, size_t count, const float *vectors, const int64_t *ids)
{
    pc_status status;
    if (!count)
        return PC_OK;
    pthread_mutex_lock(&index->writers);
    PC__TRY(pc__index_check_vectors(index, count, vectors), done);
    PC__TRY(pc__index_check_ids(index, count, ids), done);
    pthread_rwlock_wrlock(&index->lock);
    status = index->ops->add(index->impl, count, vectors, ids);
    pthread_rwlock_unlock(&index->lock);
    if (status >= 0)
        rebuild_if_stale(index);
done:
    pthread_mutex_unlock(&index->writers);
    return status;
}

pc_status pc__index_remove(pc__index *index, int64_t id)
{
    pthread_mutex_lock(&index->writers);
    size_t position = pc__id_map_find(&index->impl->id_map, id);
    if (position != PC__NO_POSITION) {
        pthread_rwlock_wrlock(&index->lock);
        index->ops->remove(index->impl, position);
        pthread_rwlock_unlock(&index->lock);
        rebuild_if_stale(index);
    }
    pthread_mutex_unlock(&index->writers);
    return position != PC__NO_POSITION ? PC_OK : PC_MISS;
}

size_t pc__index_count(const pc__index *index)
{
    pthread_rwlock_rdlock(index_lock(index));
    size_t count = index->impl->id_map.living;
    pthread_rwlock_unlock(index_lock(index));
    return count;
}

int pc__index_has(const pc__index *index, int64_t id)
{
    pthread_rwlock_rdlock(index_lock(index));
    int has = pc__id_map_find(&index->impl->id_map, id) != PC__NO_POSITION;
    pthread_rwlock_unlock(index_lock(index));
    return has;
}

pc__index_kind pc__index_kind_of(const pc__index *index)
{
    return index->kind;
}

pc_status pc__index_search(const pc__index *index, size_t queries, const float *vectors, size_t k,
                           float *distances, int64_t *ids)
{
    if (!queries || !k)
        return PC_OK;
    pthread_rwlock_rdlock(index_lock(index));
    pc_status status = pc__index_check_vectors(index, queries, vectors);
    if (status >= 0)
        status = index->ops->search(index->impl, queries, vectors, k, distances, ids);
    pthread_rwlock_unlock(index_lock(index));
    for (size_t q = 0; q < queries && status >= 0; q++)
        pc__nearest_roots(distances + q * k, ids + q * k, k);
    return status;
}
