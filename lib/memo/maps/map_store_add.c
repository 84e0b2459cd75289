/* Adding records: finding room, evicting others for it, writing, and entering into the log. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/hash_table.h"
#include "base/lrfu.h"
#include "memo/maps/map_store_internal.h"

typedef struct victims {
    const pc_allocator *mem;
    int64_t *ids; /* [count] that were evicted */
    size_t count, capacity;
    pc__map_item **in_use; /* [in_use_count] by readers of other processes */
    size_t in_use_count, in_use_capacity;
} victims;

/* The item with the lowest score that no reader uses. Those that one uses leave the order until
 * make_record_room ends. NULL: there is none, or v->in_use is full. Under `work`. */
static pc__map_item *pick_victim(pc__map_store *store, victims *v)
{
    pc__heap *order = &store->table.order;
    pc__map_item *item = NULL;
    pthread_mutex_lock(&store->guard);
    while (!item && order->count && v->in_use_count < v->in_use_capacity) {
        pc__heap_node *node = order->slots[0].node;
        item = PC__AROUND(node, pc__map_item, node);
        if (!pc__range_is_locked(store->data.fd, item->entry.at, pc__map_extent(&item->entry)))
            break;
        pc__heap_remove(order, node);
        v->in_use[v->in_use_count++] = item;
        item = NULL;
    }
    pthread_mutex_unlock(&store->guard);
    return item;
}

static pc_status evict_one(pc__map_store *store, victims *v)
{
    pc__map_item *item;
    int64_t id;
    pc_status status;
    PC__TRY_RETURN(pc__grow(v->mem, (void **)&v->ids, &v->capacity, v->count + 1, sizeof *v->ids));
    do {
        PC__TRY_RETURN(pc__grow(v->mem, (void **)&v->in_use, &v->in_use_capacity,
                                v->in_use_count + 1, sizeof *v->in_use));
        item = pick_victim(store, v);
    } while (!item && v->in_use_count == v->in_use_capacity);
    if (!item)
        return PC_MISS;
    id = item->entry.id;
    status = pc__map_store_drop(store, id, PC__MAPS_EVICTED);
    if (status == PC_OK)
        v->ids[v->count++] = id;
    return status;
}

/* Under `work`. Without a budget nothing is evicted: PC_MISS means that a reader locks all that
 * lies behind the end. */
static pc_status make_record_room(pc__map_store *store, uint64_t bytes, victims *v, uint64_t *at)
{
    pc_status status = store->log.is_suspect ? pc__map_store_save_log(store) : PC_OK;
    while (status == PC_OK
           && (status = pc__map_data_place(&store->data, bytes, pc__map_store_spare(store), at))
                  == PC_MISS) {
        status = store->options.budget_bytes ? evict_one(store, v) : PC_MISS;
        if (status == PC_MISS) {
            pc__fail(PC_ERR_LIMIT, "%s: all that could be evicted is in use", store->dir.path);
            status = PC_AGAIN;
        }
    }
    pthread_mutex_lock(&store->guard);
    for (size_t i = 0; i < v->in_use_count; i++)
        pc__map_table_offer(&store->table, v->in_use[i]);
    pthread_mutex_unlock(&store->guard);
    return status;
}

/* Brings in so many bytes: time of the eviction score passes. */
static void pass_time(pc__map_store *store, uint64_t bytes)
{
    uint64_t budget = store->options.budget_bytes ? store->options.budget_bytes
                                                  : pc__map_data_taken(&store->data) + bytes;
    store->table.clock += pc__lrfu_half_lives(bytes, budget);
}

static pc_status place_record(pc__map_store *store, uint64_t bytes, victims *v,
                              pc__map_log_entry *entry)
{
    pc_status status;
    pthread_mutex_lock(&store->work);
    status = make_record_room(store, bytes, v, &entry->at);
    if (status == PC_OK && store->next_id > PC__MAPS_MOST_ID) { /* changed under `work` only */
        pc__map_data_unlock(&store->data, entry->at, bytes);
        pc__map_data_free(&store->data, entry->at, bytes);
        status = pc__fail(PC_ERR_LIMIT, "%s: no id is left", store->dir.path);
    }
    if (status == PC_OK) {
        pthread_mutex_lock(&store->guard);
        entry->id = store->next_id++;
        pass_time(store, bytes);
        entry->log_uses = store->table.clock + PC__LRFU_FIRST_USE;
        entry->clock = store->table.clock;
        pthread_mutex_unlock(&store->guard);
    }
    pthread_mutex_unlock(&store->work);
    return status;
}

static pc_status check_record(const pc__map_store *store, const pc__map_log_entry *entry,
                              const void *metadata, const void *const *maps, pc__map_layout *layout)
{
    uint64_t budget = store->options.budget_bytes, extent;
    if (store->options.read_only)
        return pc__fail(PC_ERR_STATE, "%s: opened read-only", store->dir.path);
    if (!maps || (entry->metadata && !metadata) || !entry->tokens)
        return pc__fail(PC_ERR_INVALID, "%s: %s", store->dir.path,
                        !maps           ? "maps is NULL"
                        : entry->tokens ? "metadata is NULL"
                                        : "a record of no tokens");
    for (int32_t i = 0; i < store->options.signature.layers; i++)
        if (!maps[i])
            return pc__fail(PC_ERR_INVALID, "%s: the map of layer %d is NULL", store->dir.path,
                            (int)i);
    if (!pc__map_layout_of(&store->options.signature, entry->tokens, entry->metadata, layout))
        return pc__fail(PC_ERR_LIMIT,
                        "%s: maps of %u tokens with %u bytes of metadata are too large",
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

pc_status pc__map_store_add(pc__map_store *store, const pc__id *tokens_id, uint32_t tokens,
                            const void *metadata, size_t metadata_size, const void *const *maps,
                            int64_t *id, void (*evicted)(void *user, int64_t id), void *user)
{
    pc__map_layout layout = {0};
    pc__map_record_parts parts = {&layout, store->options.signature.layers, metadata, maps, NULL};
    victims v = {.mem = &store->mem};
    pc__map_item *item = pc__calloc(&store->mem, 1, sizeof *item);
    uint64_t extent;
    pc_status status;
    *id = -1;
    if (!item)
        return PC_ERR_NOMEM;
    item->entry = (pc__map_log_entry){
        .kind = PC__MAPS_STORED,
        .tokens = tokens,
        .metadata = metadata_size < UINT32_MAX ? (uint32_t)metadata_size : UINT32_MAX,
        .tokens_id = *tokens_id};
    status = check_record(store, &item->entry, metadata, maps, &layout);
    extent = pc__map_round_up(layout.bytes, PC__MAPS_PAGE);
    if (status == PC_OK)
        status = place_record(store, extent, &v, &item->entry);
    if (status == PC_OK) {
        item->last = pc__now();
        item->entry.used = pc__now_date();
        *id = item->entry.id;
        status = pc__map_store_write(store, item, &parts, extent, NULL);
    }
    if (status != PC_OK) {
        pc__free(&store->mem, item);
        *id = -1;
    }
    for (size_t i = 0; i < v.count && evicted; i++)
        evicted(user, v.ids[i]);
    pc__free(&store->mem, v.ids);
    pc__free(&store->mem, v.in_use);
    return status;
}
