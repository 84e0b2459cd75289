/* Reading records: a record is held, checked at its first use, and borrowed as mapped memory, or as
 * a decompressed copy. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fail.h"
#include "memo/maps/map_compress.h"
#include "memo/maps/map_store_internal.h"

/* ------------------------------------------------------------------ damage */

static int is_all_zero(const uint8_t *data, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        if (data[i])
            return 0;
    return 1;
}

static const char *check_layer(const uint8_t *data, int32_t layer, uint64_t *end)
{
    pc__map_row row = pc__map_row_get(data, layer);
    uint8_t sum[PC__CHECKSUM];
    if (!is_all_zero(data + *end, row.at - *end)) /* every bit of a record is checked */
        return "the bytes between its layers are not 0";
    pc__checksum_of(data + row.at, (size_t)row.bytes, sum);
    *end = row.at + row.bytes;
    return memcmp(sum, row.sum, sizeof sum) ? "the checksum of a layer is wrong" : NULL;
}

/* NULL, or what is wrong. */
static const char *check_record_layers(const pc__map_store *store, const pc__map_log_entry *e,
                                       const pc__map_layout *layout, const uint8_t *data)
{
    uint64_t end = layout->metadata + e->metadata;
    const char *what = is_all_zero(data + layout->header, layout->metadata - layout->header)
                           ? NULL
                           : "the bytes before its metadata are not 0";
    for (int32_t i = 0; i < store->options.signature.layers && !what; i++)
        what = check_layer(data, i, &end);
    return what;
}

/* The writer may have removed the record and reused its room: then another header stands there, or
 * the file ends before it. */
static int was_removed(const pc__map_store *store, const pc__map_log_entry *e, const uint8_t *data)
{
    struct stat st;
    if (!fstat(store->data.fd, &st) && (uint64_t)st.st_size >= e->at + e->bytes
        && !memcmp(data + PC__MAPS_HEADER_SUM, e->sum, PC__CHECKSUM))
        return 0;
    return !pc__map_log_holds(&store->dir, &store->mem, &store->options.signature, e);
}

/* Removes a damaged record, unless it was moved meanwhile. PC_ERR_FORMAT with a text. */
static pc_status drop_damaged(pc__map_store *store, const pc__map_log_entry *e, const char *what)
{
    pc__map_item *item;
    pthread_mutex_lock(&store->work);
    pthread_mutex_lock(&store->guard);
    item = pc__map_table_find(&store->table, e->id);
    if (item && item->entry.at != e->at)
        item = NULL;
    pthread_mutex_unlock(&store->guard);
    if (item)
        pc__map_store_drop(store, e->id, PC__MAPS_DAMAGED);
    pthread_mutex_unlock(&store->work);
    return pc__fail(PC_ERR_FORMAT, "%s/%s: record %lld at %llu: %s", store->dir.path, PC__MAPS_DATA,
                    (long long)e->id, (unsigned long long)e->at, what);
}

static pc_status drop_removed(pc__map_store *store, int64_t id)
{
    pthread_mutex_lock(&store->work);
    pc__map_store_drop(store, id, PC__MAPS_BY_HAND);
    pthread_mutex_unlock(&store->work);
    return PC_MISS;
}

/* ------------------------------------------------------------------ holding */

/* Under `guard`. */
static void release_item(pc__map_store *store, pc__map_item *item)
{
    const pc__map_log_entry *entry = &item->entry;
    if (!pc__map_table_release(&store->table, item))
        return;
    if (store->options.read_only) /* the writer may reuse its room from here on */
        pc__map_data_unlock(&store->data, entry->at, pc__map_extent(entry));
    if (item->is_gone)
        pc__map_store_free_item(store, item);
}

/* The errno of locking a record against the writer, which only readers have to do. */
static int hold_item(pc__map_store *store, pc__map_item *item, int how)
{
    int error = 0;
    pc__map_table_hold(&store->table, item);
    if (store->options.read_only && item->holds == 1)
        error = pc__range_lock(store->data.fd, F_RDLCK, item->entry.at,
                               pc__map_extent(&item->entry));
    if (error)
        release_item(store, item);
    else if (how & PC__MAP_PIN_USE)
        pc__map_table_hit(&store->table, item);
    return error;
}

/* PC_MISS with an item: the writer writes to its room. */
static pc_status hold_record(pc__map_store *store, int64_t id, int how, pc__map_pin *out,
                             int *is_checked)
{
    pc_status status = PC_OK;
    int error = 0;
    *out = (pc__map_pin){0};
    pthread_mutex_lock(&store->guard);
    out->item = pc__map_table_find(&store->table, id);
    if (out->item)
        error = hold_item(store, out->item, how);
    if (!out->item || error == EAGAIN) {
        status = PC_MISS;
    } else if (error) {
        errno = error;
        status = pc__dir_fault(&store->dir, PC__MAPS_DATA);
    } else {
        out->view = pc__map_data_hold(&store->data);
        out->entry = out->item->entry;
        out->data = out->view->data + out->entry.at;
        *is_checked = out->item->is_checked;
        pc__map_layout_of(&store->options.signature, out->entry.tokens, out->entry.metadata,
                          &out->layout);
    }
    pthread_mutex_unlock(&store->guard);
    return status;
}

void pc__map_store_unpin(pc__map_store *store, const pc__map_pin *pin)
{
    pthread_mutex_lock(&store->guard);
    release_item(store, pin->item);
    pthread_mutex_unlock(&store->guard);
    pc__map_data_release(&store->data, pin->view);
}

/* Unpins a damaged record and removes it. */
static pc_status end_damaged(pc__map_store *store, const pc__map_pin *pin, const char *what)
{
    pc__map_store_unpin(store, pin);
    return drop_damaged(store, &pin->entry, what);
}

/* PC_OK: *what is NULL, or what is wrong with the record. PC_ERR_IO: that cannot be found out. */
static pc_status check_pinned(pc__map_store *store, const pc__map_pin *p, int how,
                              const char **what)
{
    struct stat st;
    if (fstat(store->data.fd, &st))
        return pc__dir_fault(&store->dir, PC__MAPS_DATA);
    *what = (uint64_t)st.st_size < p->entry.at + p->entry.bytes
                ? "the file ends before it"
                : pc__map_record_check(p->data, &p->entry, &p->layout,
                                       store->options.signature.layers);
    if (*what || !(how & PC__MAP_PIN_LAYERS))
        return PC_OK;
    *what = check_record_layers(store, &p->entry, &p->layout, p->data);
    if (!*what) {
        pthread_mutex_lock(&store->guard);
        p->item->is_checked = 1;
        pthread_mutex_unlock(&store->guard);
    }
    return PC_OK;
}

pc_status pc__map_store_pin(pc__map_store *store, int64_t id, int how, pc__map_pin *out)
{
    const char *what = NULL;
    int is_checked = 0;
    pc_status status = hold_record(store, id, how, out, &is_checked);
    if (status != PC_OK)
        return status == PC_MISS && out->item ? drop_removed(store, id) : status;
    if (store->options.read_only && was_removed(store, &out->entry, out->data)) {
        pc__map_store_unpin(store, out);
        return drop_removed(store, id);
    }
    if (!is_checked)
        status = check_pinned(store, out, how, &what);
    if (what)
        return end_damaged(store, out, what);
    if (status < 0)
        pc__map_store_unpin(store, out);
    return status;
}

/* ------------------------------------------------------------------ maps */

typedef struct map_loan { /* pc__maps.owner */
    pc__map_pin pin;
    uint8_t *decompressed;
    const void *layer[]; /* [layers] */
} map_loan;

static pc_status decompress_layers(pc__map_store *store, map_loan *loan)
{
    const pc__map_signature *signature = &store->options.signature;
    size_t bytes = (size_t)loan->pin.layout.layer_bytes,
           stride = (size_t)pc__map_round_up(bytes, PC__MAPS_ALIGN);
    pc__map_compressor *compressor;
    pc_status status = PC_OK;
    PC__TRY_RETURN(pc__map_compressor_new(&compressor, &store->mem, signature->format, bytes, 1));
    loan->decompressed = pc__alloc_aligned(&store->mem, stride * (size_t)signature->layers,
                                           PC__MAPS_ALIGN);
    if (!loan->decompressed)
        status = PC_ERR_NOMEM;
    for (int32_t i = 0; i < signature->layers && status == PC_OK; i++) {
        pc__map_row row = pc__map_row_get(loan->pin.data, i);
        uint8_t *layer = loan->decompressed + (size_t)i * stride;
        loan->layer[i] = layer;
        status = pc__map_decompress(compressor, loan->pin.data + row.at, (size_t)row.bytes, layer);
    }
    pc__map_compressor_free(compressor);
    return status;
}

void pc__maps_release(pc__map_store *store, pc__maps *maps)
{
    map_loan *loan = maps->owner;
    if (loan) {
        pc__map_store_unpin(store, &loan->pin);
        pc__free(&store->mem, loan->decompressed);
        pc__free(&store->mem, loan);
    }
    *maps = (pc__maps){0};
}

pc_status pc__map_store_borrow(pc__map_store *store, int64_t id, int how, pc__maps *out)
{
    int32_t layers = store->options.signature.layers;
    map_loan *loan = pc__alloc(&store->mem, sizeof *loan + (size_t)layers * sizeof *loan->layer);
    pc__map_log_entry entry;
    pc_status status;
    *out = (pc__maps){0};
    if (!loan)
        return PC_ERR_NOMEM;
    status = pc__map_store_pin(store, id, how | PC__MAP_PIN_LAYERS, &loan->pin);
    if (status != PC_OK) {
        pc__free(&store->mem, loan);
        return status;
    }
    *out = (pc__maps){loan->layer, loan};
    loan->decompressed = NULL;
    entry = loan->pin.entry;
    if (entry.flags & PC__MAPS_COMPRESSED)
        status = decompress_layers(store, loan);
    else
        for (int32_t i = 0; i < layers; i++)
            loan->layer[i] = loan->pin.data + pc__map_row_get(loan->pin.data, i).at;
    if (status != PC_OK)
        pc__maps_release(store, out);
    if (status == PC_MISS) /* checksums are right, but it does not decompress */
        status = drop_damaged(store, &entry, "a compressed layer cannot be decompressed");
    return status;
}

pc_status pc__map_store_get(pc__map_store *store, int64_t id, pc__maps *out)
{
    return pc__map_store_borrow(store, id, PC__MAP_PIN_USE, out);
}

/* ------------------------------------------------------------------ metadata */

/* Pins a record and checks its metadata. */
static pc_status pin_metadata(pc__map_store *store, int64_t id, int how, pc__map_pin *pin,
                              const uint8_t **metadata)
{
    uint8_t sum[PC__CHECKSUM];
    pc_status status = pc__map_store_pin(store, id, how, pin);
    if (status != PC_OK)
        return status;
    *metadata = pin->data + pin->layout.metadata;
    pc__checksum_of(*metadata, pin->entry.metadata, sum);
    if (memcmp(sum, pc__map_record_metadata_sum(pin->data), sizeof sum))
        return end_damaged(store, pin, "the checksum of its metadata is wrong");
    return PC_OK;
}

pc_status pc__map_store_metadata(pc__map_store *store, int64_t id, void *out, size_t size)
{
    const uint8_t *metadata;
    pc__map_pin pin;
    pc_status status = pin_metadata(store, id, 0, &pin, &metadata);
    if (status != PC_OK)
        return status;
    if (size > pin.entry.metadata)
        status = pc__fail(PC_ERR_INVALID, "%s: the metadata of record %lld has %u bytes, not %zu",
                          store->dir.path, (long long)id, (unsigned)pin.entry.metadata, size);
    else if (size)
        memcpy(out, metadata, size);
    pc__map_store_unpin(store, &pin);
    return status;
}

pc_status pc__map_store_metadata_copy(pc__map_store *store, int64_t id, int is_use, uint8_t **out,
                                      size_t *size)
{
    const uint8_t *metadata;
    pc__map_pin pin;
    pc_status status = pin_metadata(store, id, is_use ? PC__MAP_PIN_USE : 0, &pin, &metadata);
    *out = NULL;
    *size = 0;
    if (status != PC_OK)
        return status;
    *out = pc__alloc(&store->mem, (size_t)pin.entry.metadata + 1);
    if (*out) {
        *size = pin.entry.metadata;
        memcpy(*out, metadata, *size);
    }
    pc__map_store_unpin(store, &pin);
    return *out ? PC_OK : PC_ERR_NOMEM;
}
