/* Tidying, which the application calls when it has time: compresses cold records, decompresses
 * those that are used again, gives free room back to the system, and writes the log anew. */
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "memo/maps/map_compress.h"
#include "memo/maps/map_store_internal.h"

typedef struct rewrite { /* one record in its other form */
    pc__map_store *store;
    pc__map_pin old;
    pc__map_item *item; /* the new one; NULL: it is the table's */
    pc__bytes bytes;    /* compressed layers, one after the other */
    uint64_t *sizes;    /* [layers]; NULL: not compressed */
    const void **maps;  /* [layers] */
} rewrite;

static int32_t layers_of(const pc__map_store *store)
{
    return store->options.signature.layers;
}

/* Finds the next record whose form does not fit its use: cold and not compressed, or compressed and
 * used. *id: where to begin, and the record. */
static int next_unfit(pc__map_store *store, int64_t *id)
{
    double now = pc__now();
    int found = 0;
    pc__map_item *it;
    pthread_mutex_lock(&store->guard);
    while (!found && (it = pc__map_table_next(&store->table, *id))) {
        int is_cold = now - it->last >= store->options.cold_seconds,
            is_compressed = (it->entry.flags & PC__MAPS_COMPRESSED) != 0;
        *id = it->entry.id;
        found = !it->is_incompressible && (is_cold ? !is_compressed : is_compressed && it->gets);
    }
    pthread_mutex_unlock(&store->guard);
    return found;
}

static pc_status compress_layers(rewrite *r)
{
    const pc__map_store *store = r->store;
    pc__map_compressor *compressor;
    size_t at = 0;
    pc_status status = pc__map_compressor_new(&compressor, &store->mem,
                                              store->options.signature.format,
                                              (size_t)r->old.layout.layer_bytes, 0);
    r->sizes = pc__calloc(&store->mem, (size_t)layers_of(store), sizeof *r->sizes);
    if (!r->sizes)
        status = PC_ERR_NOMEM;
    for (int32_t i = 0; i < layers_of(store) && status >= 0; i++) {
        at = r->bytes.size;
        status = pc__map_compress(compressor, r->old.data + pc__map_row_get(r->old.data, i).at,
                                  &r->bytes);
        r->sizes[i] = r->bytes.size - at;
    }
    at = 0;
    for (int32_t i = 0; i < layers_of(store) && status >= 0; at += (size_t)r->sizes[i++])
        r->maps[i] = r->bytes.data + at;
    pc__map_compressor_free(compressor);
    return status;
}

/* Bytes of the extent of the new form. */
static uint64_t new_extent(const rewrite *r)
{
    uint64_t bytes = r->old.layout.layers;
    if (!r->sizes)
        return pc__map_round_up(r->old.layout.bytes, PC__MAPS_PAGE);
    for (int32_t i = 0; i < layers_of(r->store); i++)
        bytes = pc__map_round_up(bytes, PC__MAPS_ALIGN) + r->sizes[i];
    return pc__map_round_up(bytes, PC__MAPS_PAGE);
}

/* PC_MISS: there is no room, or the record is gone by now. */
static pc_status store_rewritten(rewrite *r, uint64_t extent)
{
    pc__map_store *store = r->store;
    pc__map_record_parts parts = {&r->old.layout, layers_of(store),
                                  r->old.data + r->old.layout.metadata, r->maps, r->sizes};
    uint64_t keep_free = r->sizes ? 0 : pc__map_store_spare(store);
    pc_status status;
    pthread_mutex_lock(&store->work);
    status = store->log.is_suspect ? pc__map_store_save_log(store) : PC_OK;
    if (status == PC_OK)
        status = pc__map_data_place(&store->data, extent, keep_free, &r->item->entry.at);
    pthread_mutex_unlock(&store->work);
    if (status != PC_OK)
        return status;
    status = pc__map_store_write(store, r->item, &parts, extent, r->old.item);
    if (status == PC_OK)
        r->item = NULL;
    return status;
}

static pc_status change_form(rewrite *r)
{
    pc__map_store *store = r->store;
    const pc__map_log_entry *old = &r->old.entry;
    int was_compressed = (old->flags & PC__MAPS_COMPRESSED) != 0;
    pc__maps maps = {0};
    uint64_t extent;
    pc_status status;
    if (!was_compressed)
        status = compress_layers(r);
    else if ((status = pc__map_store_borrow(store, old->id, 0, &maps)) == PC_OK)
        memcpy(r->maps, maps.layer, (size_t)layers_of(store) * sizeof *r->maps);
    extent = status == PC_OK ? new_extent(r) : 0;
    if (status == PC_OK && !was_compressed && extent >= pc__map_extent(old)) {
        pthread_mutex_lock(&store->guard);
        r->old.item->is_incompressible = 1;
        pthread_mutex_unlock(&store->guard);
    } else if (status == PC_OK) {
        status = store_rewritten(r, extent);
    }
    pc__maps_release(store, &maps);
    return status;
}

static pc_status rewrite_record(pc__map_store *store, int64_t id)
{
    rewrite r = {.store = store, .bytes = {.mem = &store->mem}};
    pc_status status = pc__map_store_pin(store, id, PC__MAP_PIN_LAYERS, &r.old);
    if (status != PC_OK)
        return status;
    const pc__map_log_entry *old = &r.old.entry;
    r.maps = pc__calloc(&store->mem, (size_t)layers_of(store), sizeof *r.maps);
    r.item = pc__calloc(&store->mem, 1, sizeof *r.item);
    if (r.maps && r.item) {
        r.item->entry = (pc__map_log_entry){.kind = PC__MAPS_STORED,
                                            .flags = old->flags ^ PC__MAPS_COMPRESSED,
                                            .id = id,
                                            .tokens = old->tokens,
                                            .metadata = old->metadata,
                                            .tokens_id = old->tokens_id};
        status = change_form(&r);
    } else {
        status = PC_ERR_NOMEM;
    }
    pc__map_store_unpin(store, &r.old);
    pc__free(&store->mem, r.item);
    pc__free(&store->mem, r.maps);
    pc__free(&store->mem, r.sizes);
    pc__bytes_free(&r.bytes);
    return status;
}

pc_status pc__map_store_tidy(pc__map_store *store)
{
    pc_status status = PC_OK;
    int64_t id = -1;
    int is_outdated;
    if (store->options.read_only)
        return pc__fail(PC_ERR_STATE, "%s: opened read-only", store->dir.path);
    while (store->options.cold_seconds > 0 && status >= 0 && next_unfit(store, &id)) {
        status = rewrite_record(store, id);
        if (status == PC_ERR_FORMAT) /* it was damaged, and is removed by now */
            status = PC_OK;
    }
    pthread_mutex_lock(&store->work);
    pc__map_data_punch(&store->data);
    pc__map_data_truncate(&store->data);
    pthread_mutex_lock(&store->guard);
    is_outdated = store->table.unsaved || store->log.is_suspect
                  || store->log.entries > store->table.live;
    pthread_mutex_unlock(&store->guard);
    if (status >= 0 && is_outdated)
        status = pc__map_store_save_log(store);
    pthread_mutex_unlock(&store->work);
    return status < 0 ? status : PC_OK;
}
