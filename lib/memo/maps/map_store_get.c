/* Reading records: a record is held, checked at its first use, and lent out as mapped memory, or as
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
    const uint8_t *want;
    uint8_t sum[PC__CHECKSUM];
    uint64_t at, bytes;
    pc__map_record_row_get(data, layer, &at, &bytes, &want);
    if (!is_all_zero(data + *end, at - *end)) /* every bit of a record is checked */
        return "the bytes between its layers are not 0";
    pc__checksum_of(data + at, (size_t)bytes, sum);
    *end = at + bytes;
    return memcmp(sum, want, sizeof sum) ? "the checksum of a layer is wrong" : NULL;
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

typedef struct record_pin {
    pc__map_item *item;
    pc__mapped_data *view;
    pc__map_log_entry entry;
    int is_checked;
} record_pin;

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
static pc_status hold_record(pc__map_store *store, int64_t id, int how, record_pin *out)
{
    pc_status status = PC_OK;
    int error = 0;
    *out = (record_pin){0};
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
        out->is_checked = out->item->is_checked;
    }
    pthread_mutex_unlock(&store->guard);
    return status;
}

void pc__map_store_unpin(pc__map_store *store, pc__map_item *item, pc__mapped_data *view)
{
    pthread_mutex_lock(&store->guard);
    release_item(store, item);
    pthread_mutex_unlock(&store->guard);
    pc__map_data_release(&store->data, view);
}

/* PC_OK: *what is NULL, or what is wrong with the record. PC_ERR_IO: that cannot be found out. */
static pc_status check_pinned(pc__map_store *store, const record_pin *p,
                              const pc__map_layout *layout, int how, const char **what)
{
    const uint8_t *data = p->view->data + p->entry.at;
    struct stat st;
    if (fstat(store->data.fd, &st))
        return pc__dir_fault(&store->dir, PC__MAPS_DATA);
    *what = (uint64_t)st.st_size < p->entry.at + p->entry.bytes
                ? "the file ends before it"
                : pc__map_record_check(data, &p->entry, layout, store->options.signature.layers);
    if (*what || !(how & PC__MAP_PIN_LAYERS))
        return PC_OK;
    *what = check_record_layers(store, &p->entry, layout, data);
    if (!*what) {
        pthread_mutex_lock(&store->guard);
        p->item->is_checked = 1;
        pthread_mutex_unlock(&store->guard);
    }
    return PC_OK;
}

pc_status pc__map_store_pin(pc__map_store *store, int64_t id, int how, pc__map_item **item,
                            pc__mapped_data **view)
{
    record_pin p;
    pc__map_layout layout;
    const char *what = NULL;
    pc_status status = hold_record(store, id, how, &p);
    if (status != PC_OK)
        return status == PC_MISS && p.item ? drop_removed(store, id) : status;
    pc__map_layout_of(&store->options.signature, p.entry.tokens, p.entry.metadata, &layout);
    if (store->options.read_only && was_removed(store, &p.entry, p.view->data + p.entry.at)) {
        pc__map_store_unpin(store, p.item, p.view);
        return drop_removed(store, id);
    }
    if (!p.is_checked)
        status = check_pinned(store, &p, &layout, how, &what);
    if (status < 0 || what) {
        pc__map_store_unpin(store, p.item, p.view);
        return status < 0 ? status : drop_damaged(store, &p.entry, what);
    }
    *item = p.item;
    *view = p.view;
    return PC_OK;
}

/* ------------------------------------------------------------------ maps */

typedef struct map_loan { /* pc__maps.owner */
    pc__map_item *item;
    pc__mapped_data *view;
    uint8_t *decompressed;
    const void *layer[]; /* [layers] */
} map_loan;

static pc_status decompress_layers(pc__map_store *store, map_loan *loan,
                                   const pc__map_layout *layout, const uint8_t *data)
{
    const pc__map_signature *signature = &store->options.signature;
    size_t bytes = (size_t)layout->layer_bytes,
           stride = (size_t)pc__map_round_up(layout->layer_bytes, PC__MAPS_ALIGN);
    pc__map_compressor *compressor = NULL;
    pc_status status = pc__map_compressor_new(&compressor, &store->mem, signature->format, bytes,
                                              1);
    if (status < 0)
        return status;
    loan->decompressed = pc__alloc_aligned(&store->mem, stride * (size_t)signature->layers,
                                           PC__MAPS_ALIGN);
    if (!loan->decompressed)
        status = PC_ERR_NOMEM;
    for (int32_t i = 0; i < signature->layers && status == PC_OK; i++) {
        const uint8_t *sum;
        uint64_t at, compressed;
        pc__map_record_row_get(data, i, &at, &compressed, &sum);
        loan->layer[i] = loan->decompressed + (size_t)i * stride;
        status = pc__map_decompress(compressor, data + at, (size_t)compressed,
                                    loan->decompressed + (size_t)i * stride);
    }
    pc__map_compressor_free(compressor);
    return status;
}

static void point_to_layers(const pc__map_store *store, map_loan *loan, const uint8_t *data)
{
    for (int32_t i = 0; i < store->options.signature.layers; i++) {
        const uint8_t *sum;
        uint64_t at, bytes;
        pc__map_record_row_get(data, i, &at, &bytes, &sum);
        loan->layer[i] = data + at;
    }
}

static void end_loan(pc__map_store *store, map_loan *loan)
{
    if (loan->item)
        pc__map_store_unpin(store, loan->item, loan->view);
    pc__free(&store->mem, loan->decompressed);
    pc__free(&store->mem, loan);
}

static pc_status fill_loan(pc__map_store *store, map_loan *loan)
{
    const pc__map_log_entry *entry = &loan->item->entry; /* where it lies never changes */
    const uint8_t *data = loan->view->data + entry->at;
    pc__map_layout layout;
    if (!(entry->flags & PC__MAPS_COMPRESSED)) {
        point_to_layers(store, loan, data);
        return PC_OK;
    }
    pc__map_layout_of(&store->options.signature, entry->tokens, entry->metadata, &layout);
    return decompress_layers(store, loan, &layout, data);
}

pc_status pc__map_store_borrow(pc__map_store *store, int64_t id, int how, pc__maps *out)
{
    size_t layers = (size_t)store->options.signature.layers;
    map_loan *loan = pc__alloc(&store->mem, sizeof *loan + layers * sizeof *loan->layer);
    pc_status status = PC_ERR_NOMEM;
    *out = (pc__maps){0};
    if (!loan)
        return status;
    loan->item = NULL;
    loan->decompressed = NULL;
    status = pc__map_store_pin(store, id, how | PC__MAP_PIN_LAYERS, &loan->item, &loan->view);
    if (status == PC_OK)
        status = fill_loan(store, loan);
    if (status == PC_OK) {
        *out = (pc__maps){loan->layer, loan};
        return PC_OK;
    }
    if (loan->item && status == PC_MISS) { /* checksums are right, but it does not decompress */
        pc__map_log_entry entry = {.id = id, .at = loan->item->entry.at};
        end_loan(store, loan);
        return drop_damaged(store, &entry, "a compressed layer cannot be decompressed");
    }
    end_loan(store, loan);
    return status;
}

pc_status pc__map_store_get(pc__map_store *store, int64_t id, pc__maps *out)
{
    return pc__map_store_borrow(store, id, PC__MAP_PIN_USE, out);
}

void pc__maps_release(pc__map_store *store, pc__maps *maps)
{
    if (maps->owner)
        end_loan(store, maps->owner);
    *maps = (pc__maps){0};
}

/* ------------------------------------------------------------------ metadata */

/* The metadata of a pinned record. PC_ERR_FORMAT: its checksum is wrong. */
static pc_status check_metadata(pc__map_store *store, const pc__map_item *item,
                                const pc__mapped_data *view, const uint8_t **metadata)
{
    const uint8_t *data = view->data + item->entry.at;
    pc__map_layout layout;
    uint8_t sum[PC__CHECKSUM];
    pc__map_layout_of(&store->options.signature, item->entry.tokens, item->entry.metadata, &layout);
    *metadata = data + layout.metadata;
    pc__checksum_of(*metadata, item->entry.metadata, sum);
    return memcmp(sum, pc__map_record_metadata_sum(data), sizeof sum) ? PC_ERR_FORMAT : PC_OK;
}

/* Unpins the record, and removes it if it is damaged. */
static pc_status end_metadata(pc__map_store *store, pc__map_item *item, pc__mapped_data *view,
                              pc_status status)
{
    pc__map_log_entry entry = {.id = item->entry.id, .at = item->entry.at};
    pc__map_store_unpin(store, item, view);
    return status == PC_ERR_FORMAT
               ? drop_damaged(store, &entry, "the checksum of its metadata is wrong")
               : status;
}

pc_status pc__map_store_metadata(pc__map_store *store, int64_t id, void *out, size_t size)
{
    const uint8_t *metadata;
    pc__map_item *item;
    pc__mapped_data *view;
    pc_status status = pc__map_store_pin(store, id, 0, &item, &view);
    if (status != PC_OK)
        return status;
    if (size > item->entry.metadata) {
        status = pc__fail(PC_ERR_INVALID, "%s: the metadata of record %lld has %u bytes, not %zu",
                          store->dir.path, (long long)id, (unsigned)item->entry.metadata, size);
        return end_metadata(store, item, view, status);
    }
    status = check_metadata(store, item, view, &metadata);
    if (status == PC_OK && size)
        memcpy(out, metadata, size);
    return end_metadata(store, item, view, status);
}

pc_status pc__map_store_metadata_copy(pc__map_store *store, int64_t id, int is_use, uint8_t **out,
                                      size_t *size)
{
    const uint8_t *metadata;
    pc__map_item *item;
    pc__mapped_data *view;
    pc_status status = pc__map_store_pin(store, id, is_use ? PC__MAP_PIN_USE : 0, &item, &view);
    *out = NULL;
    *size = 0;
    if (status != PC_OK)
        return status;
    status = check_metadata(store, item, view, &metadata);
    if (status == PC_OK && !(*out = pc__alloc(&store->mem, (size_t)item->entry.metadata + 1)))
        status = PC_ERR_NOMEM;
    if (status == PC_OK) {
        *size = item->entry.metadata;
        memcpy(*out, metadata, *size);
    }
    return end_metadata(store, item, view, status);
}
