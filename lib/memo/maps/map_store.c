/* The store as a whole: closing, listing, removing, statistics; and changes of what its log says,
 * which go to the log first and then to the table. */
#include "memo/maps/map_store.h"

#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "memo/maps/map_store_internal.h"

/* The log is written anew when it has this many outdated entries more than there are records. */
enum { OUTDATED_ENTRIES = 1024 };

/* ------------------------------------------------------------------ the log */

static void fill_log(const pc__map_store *store, uint8_t *data)
{
    const pc__map_table *table = &store->table;
    pc__map_log_header header = {.signature = store->options.signature,
                                 .next_id = store->next_id,
                                 .generation = store->generation + 1};
    memcpy(header.nonce, store->data.nonce, sizeof header.nonce);
    pc__map_log_header_put(&header, data);
    data += PC__MAPS_LOG_HEADER;
    for (size_t i = 0; i < table->count; i++)
        if (table->slots[i].item) {
            pc__map_log_entry entry = table->slots[i].item->entry;
            entry.clock = table->clock;
            pc__map_log_entry_put(&entry, data);
            data += PC__MAPS_ENTRY;
        }
}

/* Counts the log's entries in the data file, so that a log that is cut later does not pass for a
 * shorter one. A failure loses nothing: the old mark counts fewer. */
static void write_mark(const pc__map_store *store)
{
    const pc__map_log_mark now = {store->generation, store->log.entries};
    uint8_t raw[PC__MAPS_MARK];
    pc__map_log_mark_put(&now, raw);
    if (now.generation)
        (void)pc__write_at(store->data.fd, raw, sizeof raw, PC__MAPS_MARK_AT);
}

pc_status pc__map_store_save_log(pc__map_store *store)
{
    pc_status status;
    uint64_t unsaved;
    size_t size;
    uint8_t *data;
    pthread_mutex_lock(&store->guard);
    size = PC__MAPS_LOG_HEADER + store->table.live * PC__MAPS_ENTRY;
    unsaved = store->table.unsaved;
    data = pc__alloc(&store->mem, size);
    if (data)
        fill_log(store, data);
    pthread_mutex_unlock(&store->guard);
    if (!data)
        return PC_ERR_NOMEM;
    status = pc__map_log_replace(&store->log, &store->dir, data, size);
    pc__free(&store->mem, data);
    if (status < 0)
        return status;
    store->generation++;
    write_mark(store);
    pthread_mutex_lock(&store->guard);
    store->table.unsaved -= unsaved;
    pthread_mutex_unlock(&store->guard);
    pc__map_data_count_log(&store->data, size);
    return PC_OK;
}

static pc_status append_entry(pc__map_store *store, const pc__map_log_entry *entry)
{
    size_t live;
    pc_status status = PC_OK;
    pthread_mutex_lock(&store->guard);
    live = store->table.live;
    pthread_mutex_unlock(&store->guard);
    if (store->log.is_suspect || store->log.entries > 2 * live + OUTDATED_ENTRIES)
        status = pc__map_store_save_log(store);
    if (status < 0 && store->log.is_suspect)
        return status;
    status = pc__map_log_add(&store->log, &store->dir, entry,
                             entry->kind == PC__MAPS_STORED && !store->options.relaxed);
    if (status >= 0)
        write_mark(store);
    pc__map_data_count_log(&store->data, store->log.end);
    return status;
}

/* ------------------------------------------------------------------ records */

void pc__map_store_free_item(pc__map_store *store, pc__map_item *item)
{
    if (!store->options.read_only)
        pc__map_data_free(&store->data, item->entry.at, pc__map_extent(&item->entry));
    pc__free(&store->mem, item);
}

/* Enters a record that was written into log and table. */
static pc_status commit_record(pc__map_store *store, pc__map_item *item, const pc__map_item *old)
{
    pc__map_item *replaced;
    pc_status status;
    pthread_mutex_lock(&store->guard);
    status = old && old->is_gone ? PC_MISS : pc__map_table_reserve(&store->table, 1);
    if (old) {
        item->entry.log_uses = old->entry.log_uses;
        item->entry.used = old->entry.used;
        item->entry.clock = store->table.clock;
        item->last = old->last;
        item->gets = old->gets;
    }
    pthread_mutex_unlock(&store->guard);
    if (status == PC_OK)
        status = append_entry(store, &item->entry);
    if (status != PC_OK)
        return status;
    pthread_mutex_lock(&store->guard);
    replaced = pc__map_table_put(&store->table, item);
    if (replaced && !replaced->holds)
        pc__map_store_free_item(store, replaced);
    store->counts.stored += !old;
    pthread_mutex_unlock(&store->guard);
    return PC_OK;
}

pc_status pc__map_store_write(pc__map_store *store, pc__map_item *item,
                              const pc__map_record_parts *parts, uint64_t extent,
                              const pc__map_item *old)
{
    pc_status status = pc__map_data_write(&store->data, &item->entry, parts,
                                          !store->options.relaxed);
    pc__map_data_unlock(&store->data, item->entry.at, extent);
    if (status == PC_OK) {
        pthread_mutex_lock(&store->work);
        status = commit_record(store, item, old);
        pthread_mutex_unlock(&store->work);
    }
    if (status != PC_OK)
        pc__map_data_free(&store->data, item->entry.at, extent);
    return status;
}

static void take_out_item(pc__map_store *store, pc__map_item *item, pc__map_removal why)
{
    *(why == PC__MAPS_EVICTED   ? &store->counts.evicted
      : why == PC__MAPS_DAMAGED ? &store->counts.damaged
                                : &store->counts.removed) += 1;
    pc__map_table_remove(&store->table, item);
    if (!item->holds)
        pc__map_store_free_item(store, item);
}

pc_status pc__map_store_drop(pc__map_store *store, int64_t id, pc__map_removal why)
{
    pc__map_log_entry entry = {.kind = PC__MAPS_REMOVED, .flags = (uint32_t)why, .id = id};
    pc_status status = PC_OK;
    pc__map_item *item;
    pthread_mutex_lock(&store->guard);
    item = pc__map_table_find(&store->table, id);
    pthread_mutex_unlock(&store->guard);
    if (!item)
        return PC_MISS;
    if (!store->options.read_only)
        status = append_entry(store, &entry);
    if (status < 0 && why != PC__MAPS_DAMAGED) /* a damaged record goes, whatever the log says */
        return status;
    pthread_mutex_lock(&store->guard);
    take_out_item(store, item, why); /* still there: only a holder of `work` takes items out */
    pthread_mutex_unlock(&store->guard);
    return status;
}

/* ------------------------------------------------------------------ calls */

void pc__map_store_free(pc__map_store *store)
{
    pc_allocator mem;
    int is_own;
    if (!store)
        return;
    mem = store->mem;
    is_own = pc__is_own_process(store->process);
    if (store->is_open && !store->options.read_only && is_own) {
        if (store->table.unsaved || store->log.is_suspect)
            (void)pc__map_store_save_log(store); /* the old log lacks only uses */
        if (store->options.relaxed)
            (void)pc__map_store_sync(store);
    }
    pc__map_table_free(&store->table);
    pc__map_data_close(&store->data);
    pc__map_log_close(&store->log);
    if (store->lock_fd >= 0) {
        if (is_own) /* children after fork() share the lock, and may live on */
            flock(store->lock_fd, LOCK_UN);
        close(store->lock_fd);
    }
    pc__dir_close(&store->dir, &mem);
    pthread_mutex_destroy(&store->work);
    pthread_mutex_destroy(&store->guard);
    pc__free(&mem, store);
}

void pc__map_store_each(pc__map_store *store,
                        int (*visit)(void *user, const pc__map_record *record), void *user)
{
    pc__map_record record = {.id = -1};
    const pc__map_item *item;
    do {
        pthread_mutex_lock(&store->guard);
        item = pc__map_table_next(&store->table, record.id);
        if (item)
            record = (pc__map_record){.id = item->entry.id,
                                      .tokens_id = item->entry.tokens_id,
                                      .tokens = item->entry.tokens,
                                      .metadata_size = item->entry.metadata,
                                      .bytes = item->entry.bytes,
                                      .used = item->gets};
        pthread_mutex_unlock(&store->guard);
    } while (item && !visit(user, &record));
}

pc_status pc__map_store_remove(pc__map_store *store, int64_t id)
{
    pc_status status;
    if (store->options.read_only)
        return pc__fail(PC_ERR_STATE, "%s: opened read-only", store->dir.path);
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
    if (fdatasync(store->data.fd)) /* adding goes on meanwhile */
        return pc__dir_fault(&store->dir, PC__MAPS_DATA);
    pthread_mutex_lock(&store->work);
    if (store->log.is_suspect)
        status = pc__map_store_save_log(store);
    if (status == PC_OK)
        status = pc__map_log_sync(&store->log, &store->dir);
    pthread_mutex_unlock(&store->work);
    return status;
}

void pc__map_store_get_stats(pc__map_store *store, pc_memo_stats *out)
{
    pthread_mutex_lock(&store->guard);
    *out = store->counts;
    out->live = store->table.live;
    out->bytes = pc__map_data_occupied(&store->data);
    out->budget_bytes = store->options.budget_bytes;
    pthread_mutex_unlock(&store->guard);
}
