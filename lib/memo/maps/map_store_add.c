/* Adding records, and making room for them. */
#include "base/clock.h"
#include "base/fail.h"
#include "memo/maps/map_store_internal.h"

typedef struct victims {
    const pc_allocator *mem;
    int64_t *ids; /* [count] */
    size_t count, capacity;
    pc__map_item **kept; /* [kept_count] that readers of other processes have in use */
    size_t kept_count, kept_capacity;
} victims;

/* The least worth, out of the order if its room would not come back. NULL: there is none. Under
 * work. */
static pc__map_item *least(pc__map_store *store, victims *v)
{
    pc__map_item *item = NULL;
    pthread_mutex_lock(&store->guard);
    while (!item && store->order.count && v->kept_count < v->kept_capacity) {
        pc__heap_node *node = store->order.slots[0].node;
        item = (pc__map_item *)(void *)((char *)node - offsetof(pc__map_item, place));
        if (!pc__range_is_locked(store->data_fd, item->entry.at, pc__map_extent(&item->entry)))
            break;
        pc__heap_remove(&store->order, node);
        v->kept[v->kept_count++] = item;
        item = NULL;
    }
    pthread_mutex_unlock(&store->guard);
    return item;
}

static pc_status evict_least(pc__map_store *store, victims *v)
{
    pc__map_item *item;
    int64_t id;
    pc_status status = pc__grow(v->mem, (void **)&v->ids, &v->capacity, v->count + 1,
                                sizeof *v->ids);
    do {
        if (status < 0
            || (status = pc__grow(v->mem, (void **)&v->kept, &v->kept_capacity, v->kept_count + 1,
                                  sizeof *v->kept))
                   < 0)
            return status;
        item = least(store, v);
    } while (!item && v->kept_count == v->kept_capacity);
    if (!item)
        return PC_MISS;
    id = item->entry.id;
    status = pc__map_store_drop(store, id, PC__MAPS_EVICTED);
    if (status == PC_OK)
        v->ids[v->count++] = id;
    return status;
}

/* Under work. */
static pc_status make_room(pc__map_store *store, uint64_t bytes, victims *v, uint64_t *at)
{
    pc_status status = store->log.is_suspect ? pc__map_store_save_log(store) : PC_OK;
    while (status == PC_OK
           && (status = pc__map_data_place(store, bytes, pc__map_store_spare(store), at))
                  == PC_MISS) {
        status = store->options.budget_bytes
                     ? evict_least(store, v)
                     : PC_MISS; /* without a budget nothing has to go: somebody holds what lies
                                   beyond the end */
        if (status == PC_MISS) {
            pc__fail(PC_ERR_LIMIT, "%s: all that could make room is in use", store->dir.path);
            status = PC_AGAIN;
        }
    }
    pthread_mutex_lock(&store->guard);
    for (size_t i = 0; i < v->kept_count; i++)
        pc__map_table_offer(store, v->kept[i]);
    pthread_mutex_unlock(&store->guard);
    return status;
}

static pc_status begin(pc__map_store *store, uint64_t bytes, victims *v, pc__map_log_entry *entry)
{
    pc_status status;
    pthread_mutex_lock(&store->work);
    status = make_room(store, bytes, v, &entry->at);
    if (status == PC_OK && store->next > PC__MAPS_MOST_ID) { /* `next` is changed under work only */
        pc__map_data_unlock(store, entry->at, bytes);
        pc__map_data_free(store, entry->at, bytes);
        status = pc__fail(PC_ERR_LIMIT, "%s: all ids were given out", store->dir.path);
    }
    if (status == PC_OK) {
        pthread_mutex_lock(&store->guard);
        entry->id = store->next++;
        pc__map_table_age(store, bytes);
        entry->log_uses = store->clock - 1;
        entry->clock = store->clock;
        pthread_mutex_unlock(&store->guard);
    }
    pthread_mutex_unlock(&store->work);
    return status;
}

pc_status pc__map_store_commit(pc__map_store *store, pc__map_item *item, int is_new)
{
    pc_status status;
    pthread_mutex_lock(&store->guard);
    status = pc__map_table_reserve(store, 1);
    pthread_mutex_unlock(&store->guard);
    if (status >= 0)
        status = pc__map_store_append(store, &item->entry);
    if (status < 0)
        return status;
    pthread_mutex_lock(&store->guard);
    pc__map_table_put(store, item);
    store->counts.stored += is_new ? 1 : 0;
    pthread_mutex_unlock(&store->guard);
    return PC_OK;
}

static pc_status check(const pc__map_store *store, const pc__map_log_entry *entry, const void *metadata,
                       const void *const *maps, pc__map_layout *layout)
{
    uint64_t budget = store->options.budget_bytes, extent;
    if (store->options.read_only)
        return pc__fail(PC_ERR_STATE, "%s: opened to be read only", store->dir.path);
    if (!maps || (entry->metadata && !metadata) || !entry->tokens)
        return pc__fail(PC_ERR_INVALID, "%s: %s", store->dir.path,
                        !maps           ? "maps is NULL"
                        : entry->tokens ? "note is NULL"
                                        : "a record of no tokens");
    for (int32_t i = 0; i < store->options.signature.layers; i++)
        if (!maps[i])
            return pc__fail(PC_ERR_INVALID, "%s: the map of layer %d is NULL", store->dir.path,
                            (int)i);
    if (!pc__map_layout_of(&store->options.signature, entry->tokens, entry->metadata, layout))
        return pc__fail(PC_ERR_LIMIT, "%s: maps of %u tokens with a note of %u bytes are too large",
                        store->dir.path, (unsigned)entry->tokens, (unsigned)entry->metadata);
    extent = pc__map_round_up(layout->bytes, PC__MAPS_PAGE);
    if (budget
        && extent + PC__MAPS_PAGE + PC__MAPS_LOG_HEADER + 2 * PC__MAPS_ENTRY
                   + pc__map_store_spare(store)
               > budget)
        return pc__fail(PC_ERR_LIMIT,
                        "%s: a record of %llu bytes is larger than the budget of %llu",
                        store->dir.path, (unsigned long long)extent, (unsigned long long)budget);
    return PC_OK;
}

static pc_status add(pc__map_store *store, pc__map_item *item, const pc__map_layout *layout,
                     const void *metadata, const void *const *maps, victims *v, int64_t *id)
{
    uint64_t extent = pc__map_round_up(layout->bytes, PC__MAPS_PAGE);
    pc_status status = begin(store, extent, v, &item->entry);
    if (status != PC_OK)
        return status;
    *id = item->entry.id;
    status = pc__map_data_write(store, &item->entry, layout, metadata, maps, NULL);
    pc__map_data_unlock(store, item->entry.at, extent);
    if (status == PC_OK) {
        item->last = pc__now();
        item->entry.used = pc__now_date();
        pthread_mutex_lock(&store->work);
        status = pc__map_store_commit(store, item, 1);
        pthread_mutex_unlock(&store->work);
    }
    if (status < 0) {
        pc__map_data_free(store, item->entry.at, extent);
        *id = -1;
    }
    return status;
}

pc_status pc__map_store_add(pc__map_store *store, const pc__id *tokens_id, uint32_t tokens,
                            const void *metadata, size_t metadata_size, const void *const *maps,
                            int64_t *id, void (*evicted)(void *user, int64_t id), void *user)
{
    pc__map_layout layout;
    victims v = {.mem = &store->mem};
    pc__map_item *item = pc__calloc(&store->mem, 1, sizeof *item);
    pc_status status = PC_ERR_NOMEM;
    *id = -1;
    if (!item)
        return status;
    item->entry = (pc__map_log_entry){.kind = PC__MAPS_STORED,
                                      .tokens = tokens,
                                      .metadata = metadata_size < UINT32_MAX ? (uint32_t)metadata_size
                                                                     : UINT32_MAX,
                                      .tokens_id = *tokens_id};
    status = check(store, &item->entry, metadata, maps, &layout);
    if (status == PC_OK)
        status = add(store, item, &layout, metadata, maps, &v, id);
    if (status != PC_OK)
        pc__free(&store->mem, item);
    for (size_t i = 0; i < v.count && evicted; i++)
        evicted(user, v.ids[i]);
    pc__free(&store->mem, v.ids);
    pc__free(&store->mem, v.kept);
    return status;
}
