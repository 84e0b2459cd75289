/* What is done when there is time: cold records are packed, those that are used again unpacked,
 * room of what is gone is given back, the log is written anew. */
#include "base/clock.h"
#include "base/fail.h"
#include "memo/maps/map_compress.h"
#include "memo/maps/map_store_internal.h"

typedef struct rewrite {
    pc__map_store *store;
    pc__map_item *old, *item; /* the new one */
    pc__mapped_data *view;
    pc__map_layout layout;
    pc__bytes bytes;   /* layers, packed or not, one after the other */
    uint64_t *sizes;   /* [layers]; NULL: not packed */
    const void **maps; /* [layers] */
} rewrite;

/* Whether a record's form fits its use. *id: the first after it whose does not. */
static int next_unfit(pc__map_store *store, int64_t *id)
{
    double now = pc__now();
    int found = 0;
    pthread_mutex_lock(&store->guard);
    for (pc__map_item *it = pc__map_table_next(store, *id); it && !found;
         it = pc__map_table_next(store, *id)) {
        int is_cold = now - it->last >= store->options.cold_seconds,
            is_packed = (it->entry.flags & PC__MAPS_COMPRESSED) != 0;
        *id = it->entry.id;
        found = !it->is_unpackable && (is_cold ? !is_packed : is_packed && it->gets);
    }
    pthread_mutex_unlock(&store->guard);
    return found;
}

static pc_status pack(rewrite *r, const uint8_t *data)
{
    const pc__map_store *store = r->store;
    pc__map_compressor *packer;
    size_t at = 0;
    pc_status status = pc__map_compressor_new(&packer, &store->mem, store->options.signature.format,
                                              (size_t)r->layout.layer_bytes, 0);
    r->sizes = pc__calloc(&store->mem, (size_t)store->options.signature.layers, sizeof *r->sizes);
    if (!r->sizes)
        status = PC_ERR_NOMEM;
    for (int32_t i = 0; i < store->options.signature.layers && status >= 0; i++) {
        const uint8_t *sum;
        uint64_t from, bytes;
        pc__map_record_row_get(data, i, &from, &bytes, &sum);
        at = r->bytes.size;
        status = pc__map_compress(packer, data + from, &r->bytes);
        r->sizes[i] = r->bytes.size - at;
    }
    at = 0;
    for (int32_t i = 0; i < store->options.signature.layers && status >= 0; at += (size_t)r->sizes[i++])
        r->maps[i] = r->bytes.data + at;
    pc__map_compressor_free(packer);
    return status;
}

/* Bytes that the new form takes in the file. */
static uint64_t extent_of(const rewrite *r)
{
    uint64_t bytes = r->layout.layers;
    if (!r->sizes)
        return pc__map_round_up(r->layout.bytes, PC__MAPS_PAGE);
    for (int32_t i = 0; i < r->store->options.signature.layers; i++)
        bytes = pc__map_round_up(bytes, PC__MAPS_ALIGN) + r->sizes[i];
    return pc__map_round_up(bytes, PC__MAPS_PAGE);
}

/* The new form takes the old one's place. PC_MISS: there is no room, or the record is gone by now.
 */
static pc_status put(rewrite *r, const uint8_t *metadata, uint64_t extent)
{
    pc__map_store *store = r->store;
    uint64_t keep_free = r->sizes ? 0 : pc__map_store_spare(store);
    pc_status status;
    pthread_mutex_lock(&store->work);
    status = store->log.is_suspect ? pc__map_store_save_log(store) : PC_OK;
    if (status == PC_OK)
        status = pc__map_data_place(store, extent, keep_free, &r->item->entry.at);
    pthread_mutex_unlock(&store->work);
    if (status != PC_OK)
        return status;
    status = pc__map_data_write(store, &r->item->entry, &r->layout, metadata, r->maps, r->sizes);
    pc__map_data_unlock(store, r->item->entry.at, extent);
    pthread_mutex_lock(&store->work);
    pthread_mutex_lock(&store->guard);
    if (r->old->is_gone && status == PC_OK)
        status = PC_MISS;
    r->item->entry.log_uses = r->old->entry.log_uses;
    r->item->entry.used = r->old->entry.used;
    r->item->entry.clock = store->clock;
    r->item->last = r->old->last;
    r->item->gets = r->old->gets;
    pthread_mutex_unlock(&store->guard);
    if (status == PC_OK)
        status = pc__map_store_commit(store, r->item, 0);
    pthread_mutex_unlock(&store->work);
    if (status == PC_OK)
        r->item = NULL; /* it is the table's */
    else
        pc__map_data_free(store, r->item->entry.at, extent);
    return status;
}

static pc_status change_form(rewrite *r)
{
    pc__map_store *store = r->store;
    const uint8_t *data = r->view->data + r->old->entry.at;
    int is_packed = (r->old->entry.flags & PC__MAPS_COMPRESSED) != 0;
    pc__maps maps = {0};
    uint64_t extent;
    pc_status status = PC_OK;
    if (is_packed)
        status = pc__map_store_borrow(store, r->old->entry.id, 0, &maps);
    else
        status = pack(r, data);
    for (int32_t i = 0; i < store->options.signature.layers && is_packed && status == PC_OK; i++)
        r->maps[i] = maps.layer[i];
    extent = status == PC_OK ? extent_of(r) : 0;
    if (status == PC_OK && !is_packed && extent >= pc__map_extent(&r->old->entry)) {
        pthread_mutex_lock(&store->guard);
        r->old->is_unpackable = 1; /* it would take as many pages */
        pthread_mutex_unlock(&store->guard);
    } else if (status == PC_OK) {
        status = put(r, data + r->layout.metadata, extent);
    }
    pc__maps_release(store, &maps);
    return status;
}

static pc_status rewrite_one(pc__map_store *store, int64_t id)
{
    rewrite r = {.store = store, .bytes = {.mem = &store->mem}};
    pc_status status = pc__map_store_pin(store, id, PC__MAP_PIN_LAYERS, &r.old, &r.view);
    if (status != PC_OK)
        return status;
    pc__map_layout_of(&store->options.signature, r.old->entry.tokens, r.old->entry.metadata, &r.layout);
    r.maps = pc__calloc(&store->mem, (size_t)store->options.signature.layers, sizeof *r.maps);
    r.item = pc__calloc(&store->mem, 1, sizeof *r.item);
    if (r.maps && r.item) {
        r.item->entry = (pc__map_log_entry){.kind = PC__MAPS_STORED,
                                            .flags = r.old->entry.flags ^ PC__MAPS_COMPRESSED,
                                            .id = id,
                                            .tokens = r.old->entry.tokens,
                                            .metadata = r.old->entry.metadata,
                                            .tokens_id = r.old->entry.tokens_id};
        status = change_form(&r);
    } else {
        status = PC_ERR_NOMEM;
    }
    pc__map_store_unpin(store, r.old, r.view);
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
    int is_old;
    if (store->options.read_only)
        return pc__fail(PC_ERR_STATE, "%s: opened to be read only", store->dir.path);
    while (store->options.cold_seconds > 0 && status >= 0 && next_unfit(store, &id)) {
        status = rewrite_one(store, id);
        if (status == PC_ERR_FORMAT) /* it was damaged, and is gone */
            status = PC_OK;
    }
    pthread_mutex_lock(&store->work);
    pc__map_data_punch(store);
    pc__map_data_truncate(store);
    pthread_mutex_lock(&store->guard);
    is_old = store->unsaved || store->log.is_suspect || store->log.entries > store->slot_live;
    pthread_mutex_unlock(&store->guard);
    if (status >= 0 && is_old)
        status = pc__map_store_save_log(store);
    pthread_mutex_unlock(&store->work);
    return status < 0 ? status : PC_OK;
}
