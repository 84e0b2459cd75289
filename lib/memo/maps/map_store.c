#include "memo/maps/map_store.h"

#include <unistd.h>

#include "base/fail.h"
#include "memo/maps/map_store_internal.h"

void pc__map_store_free(pc__map_store *store)
{
    pc_allocator mem;
    if (!store)
        return;
    mem = store->mem;
    if (store->view && !store->options.read_only) {
        if (store->unsaved || store->log.is_suspect)
            (void)pc__map_store_save_log(store); /* it loses uses only: records that were reported
                                           are in the log that is there */
        if (store->options.relaxed)
            (void)pc__map_store_sync(store);
    }
    for (size_t i = 0; i < store->slot_count; i++)
        pc__free(&mem, store->slots[i].item);
    pc__free(&mem, store->slots);
    pc__heap_free(&store->order, &mem);
    pc__map_space_free(&store->room, &mem);
    pc__mapped_data_unref(store->view, &mem);
    pc__map_log_close(&store->log);
    if (store->data_fd >= 0)
        close(store->data_fd);
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    pc__dir_close(&store->dir, &mem);
    pthread_mutex_destroy(&store->work);
    pthread_mutex_destroy(&store->guard);
    pc__free(&mem, store);
}

size_t pc__map_store_count(const pc__map_store *store)
{
    pthread_mutex_t *guard = (pthread_mutex_t *)(uintptr_t)&store->guard;
    size_t count;
    pthread_mutex_lock(guard);
    count = store->slot_live;
    pthread_mutex_unlock(guard);
    return count;
}

pc_status pc__map_store_each(pc__map_store *store,
                             int (*visit)(void *user, const pc__map_record *record), void *user)
{
    pc__map_record record = {.id = -1};
    for (;;) {
        pc__map_item *item;
        pthread_mutex_lock(&store->guard);
        item = pc__map_table_next(store, record.id);
        if (item)
            record = (pc__map_record){.id = item->entry.id,
                                      .tokens_id = item->entry.tokens_id,
                                      .tokens = item->entry.tokens,
                                      .metadata_size = item->entry.metadata,
                                      .bytes = item->entry.bytes,
                                      .used = item->gets};
        pthread_mutex_unlock(&store->guard);
        if (!item || visit(user, &record))
            return PC_OK;
    }
}

pc_status pc__map_store_remove(pc__map_store *store, int64_t id)
{
    pc_status status;
    if (store->options.read_only)
        return pc__fail(PC_ERR_STATE, "%s: opened to be read only", store->dir.path);
    pthread_mutex_lock(&store->work);
    status = pc__map_store_drop(store, id, PC__MAPS_BY_HAND);
    pthread_mutex_unlock(&store->work);
    return status;
}

pc_status pc__map_store_sync(pc__map_store *store)
{
    pc_status status = PC_OK;
    if (store->options.read_only)
        return PC_OK;
    if (fdatasync(store->data_fd)) /* adding goes on meanwhile */
        return pc__dir_fault(&store->dir, PC__MAPS_DATA);
    pthread_mutex_lock(&store->work);
    if (store->log.is_suspect)
        status = pc__map_store_save_log(store);
    if (status == PC_OK)
        status = pc__map_log_sync(&store->log, &store->dir);
    pthread_mutex_unlock(&store->work);
    return status;
}

void pc__map_store_get_stats(pc__map_store *store, pc__map_store_stats *out)
{
    pthread_mutex_lock(&store->guard);
    *out = store->counts;
    out->live = store->slot_live;
    out->bytes = pc__map_data_occupied(store);
    out->budget_bytes = store->options.budget_bytes;
    pthread_mutex_unlock(&store->guard);
}
