/* Changes of what the log of a map store says. */
#include <string.h>

#include "base/file.h"
#include "memo/maps/map_store_internal.h"

#define IDLE_ENTRIES                                                                             \
    1024 /* of what is gone, beyond as many as there are records, before the log is written anew \
          */

static void fill(const pc__map_store *store, uint8_t *data)
{
    pc__map_log_header header = {
        .signature = store->options.signature, .next = store->next, .generation = store->generation + 1};
    memcpy(header.nonce, store->nonce, sizeof header.nonce);
    pc__map_log_header_put(&header, data);
    data += PC__MAPS_LOG_HEADER;
    for (size_t i = 0; i < store->slot_count; i++)
        if (store->slots[i].item) {
            pc__map_log_entry entry = store->slots[i].item->entry;
            entry.clock = store->clock;
            pc__map_log_entry_put(&entry, data);
            data += PC__MAPS_ENTRY;
        }
}

/* So that a log that is cut later does not pass for a shorter one. Nothing is lost where it fails:
 * an older mark says less. */
static void mark(const pc__map_store *store)
{
    const pc__map_log_mark now = {store->generation, store->log.entries};
    uint8_t raw[PC__MAPS_MARK];
    pc__map_log_mark_put(&now, raw);
    if (now.generation)
        (void)pc__write_at(store->data_fd, raw, sizeof raw, PC__MAPS_MARK_AT);
}

pc_status pc__map_store_save_log(pc__map_store *store)
{
    pc_status status;
    uint64_t unsaved;
    size_t size;
    uint8_t *data;
    pthread_mutex_lock(&store->guard);
    size = PC__MAPS_LOG_HEADER + store->slot_live * PC__MAPS_ENTRY;
    unsaved = store->unsaved;
    data = pc__alloc(&store->mem, size);
    if (data)
        fill(store, data);
    pthread_mutex_unlock(&store->guard);
    if (!data)
        return PC_ERR_NOMEM;
    status = pc__map_log_replace(&store->log, &store->dir, data, size);
    pc__free(&store->mem, data);
    if (status < 0)
        return status;
    store->generation++;
    mark(store);
    pthread_mutex_lock(&store->guard);
    store->unsaved -= unsaved;
    store->log_bytes = size;
    pthread_mutex_unlock(&store->guard);
    return PC_OK;
}

pc_status pc__map_store_append(pc__map_store *store, const pc__map_log_entry *entry)
{
    size_t live;
    pc_status status = PC_OK;
    pthread_mutex_lock(&store->guard);
    live = store->slot_live;
    pthread_mutex_unlock(&store->guard);
    if (store->log.is_suspect || store->log.entries > 2 * live + IDLE_ENTRIES)
        status = pc__map_store_save_log(store);
    if (status < 0 && store->log.is_suspect)
        return status;
    status = pc__map_log_add(&store->log, &store->dir, entry,
                             entry->kind == PC__MAPS_STORED && !store->options.relaxed);
    if (status >= 0)
        mark(store);
    pthread_mutex_lock(&store->guard);
    store->log_bytes = store->log.end;
    pthread_mutex_unlock(&store->guard);
    return status;
}

pc_status pc__map_store_drop(pc__map_store *store, int64_t id, pc__map_removal why)
{
    pc__map_log_entry entry = {.kind = PC__MAPS_REMOVED, .flags = (uint32_t)why, .id = id};
    pc_status status = PC_OK;
    pc__map_item *item;
    pthread_mutex_lock(&store->guard);
    item = pc__map_table_find(store, id);
    pthread_mutex_unlock(&store->guard);
    if (!item)
        return PC_MISS;
    if (!store->options.read_only)
        status = pc__map_store_append(store, &entry);
    if (status < 0
        && why != PC__MAPS_DAMAGED) /* what is damaged is not given out, whatever the log says */
        return status;
    pthread_mutex_lock(&store->guard);
    pc__map_table_remove(store, item, why); /* nobody else takes out while `work` is held */
    pthread_mutex_unlock(&store->guard);
    return status;
}
