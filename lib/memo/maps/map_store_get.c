/* The maps of a record, from the mapping or unpacked; notes. */
#include <string.h>

#include "base/fail.h"
#include "memo/maps/map_compress.h"
#include "memo/maps/map_store_internal.h"

typedef struct holder {
    pc__map_item *item;
    pc__mapped_data *view;
    uint8_t *unpacked;   /* of a cold record */
    const void *layer[]; /* [layers] */
} holder;

static pc_status unpack(pc__map_store *store, holder *h, const pc__map_layout *layout,
                        const uint8_t *data)
{
    size_t bytes = (size_t)layout->layer_bytes,
           step = (size_t)pc__map_round_up(layout->layer_bytes, PC__MAPS_ALIGN);
    pc__map_compressor *packer = NULL;
    pc_status status = pc__map_compressor_new(&packer, &store->mem, store->options.face.format,
                                              bytes, 1);
    if (status < 0)
        return status;
    h->unpacked = pc__alloc_aligned(&store->mem, step * (size_t)store->options.face.layers,
                                    PC__MAPS_ALIGN);
    if (!h->unpacked)
        status = PC_ERR_NOMEM;
    for (int32_t i = 0; i < store->options.face.layers && status == PC_OK; i++) {
        const uint8_t *sum;
        uint64_t at, packed;
        pc__map_record_row_get(data, i, &at, &packed, &sum);
        status = pc__map_decompress(packer, data + at, (size_t)packed,
                                    h->unpacked + (size_t)i * step);
        h->layer[i] = h->unpacked + (size_t)i * step;
    }
    pc__map_compressor_free(packer);
    return status;
}

static void point(const pc__map_store *store, holder *h, const uint8_t *data)
{
    for (int32_t i = 0; i < store->options.face.layers; i++) {
        const uint8_t *sum;
        uint64_t at, bytes;
        pc__map_record_row_get(data, i, &at, &bytes, &sum);
        h->layer[i] = data + at;
    }
}

static void let_go(pc__map_store *store, holder *h)
{
    if (h->item)
        pc__map_store_unpin(store, h->item, h->view);
    pc__free(&store->mem, h->unpacked);
    pc__free(&store->mem, h);
}

pc_status pc__map_store_borrow(pc__map_store *store, int64_t id, int how, pc__maps *out)
{
    size_t layers = (size_t)store->options.face.layers;
    holder *h = pc__alloc(&store->mem, sizeof *h + layers * sizeof *h->layer);
    pc_status status = PC_ERR_NOMEM;
    *out = (pc__maps){0};
    if (!h)
        return status;
    h->item = NULL;
    h->unpacked = NULL;
    status = pc__map_store_pin(store, id, how | PC__MAP_PIN_LAYERS, &h->item, &h->view);
    if (status == PC_OK) {
        const uint8_t *data =
            h->view->data + h->item->entry.at; /* place, size and flags of an item never change */
        if (h->item->entry.flags & PC__MAPS_COMPRESSED) {
            pc__map_layout layout;
            pc__map_layout_of(&store->options.face, h->item->entry.tokens, h->item->entry.note,
                              &layout);
            status = unpack(store, h, &layout, data);
        } else {
            point(store, h, data);
        }
    }
    if (status == PC_OK) {
        *out = (pc__maps){h->layer, h};
        return PC_OK;
    }
    if (h->item && status == PC_MISS) { /* its checksums are right, but it does not unpack */
        pc__map_log_entry entry = {.id = id, .at = h->item->entry.at};
        let_go(store, h);
        return pc__map_store_damaged(store, &entry, "a packed layer cannot be unpacked");
    }
    let_go(store, h);
    return status;
}

pc_status pc__map_store_get(pc__map_store *store, int64_t id, pc__maps *out)
{
    return pc__map_store_borrow(store, id, PC__MAP_PIN_USE, out);
}

void pc__maps_release(pc__map_store *store, pc__maps *maps)
{
    if (maps->owner)
        let_go(store, maps->owner);
    *maps = (pc__maps){0};
}

/* The note of a pinned record, whole or PC_ERR_FORMAT. */
static pc_status check_note(pc__map_store *store, const pc__map_item *item,
                            const pc__mapped_data *view, const uint8_t **note)
{
    const uint8_t *data = view->data + item->entry.at;
    pc__map_layout layout;
    uint8_t sum[PC__CHECKSUM];
    pc__map_layout_of(&store->options.face, item->entry.tokens, item->entry.note, &layout);
    *note = data + layout.note;
    pc__checksum_of(*note, item->entry.note, sum);
    return memcmp(sum, pc__map_record_metadata_sum(data), sizeof sum) ? PC_ERR_FORMAT : PC_OK;
}

/* The record is let go; a damaged one goes. */
static pc_status end_note(pc__map_store *store, pc__map_item *item, pc__mapped_data *view,
                          pc_status status)
{
    pc__map_log_entry entry = {.id = item->entry.id, .at = item->entry.at};
    pc__map_store_unpin(store, item, view);
    return status == PC_ERR_FORMAT
               ? pc__map_store_damaged(store, &entry, "the checksum of its note is another one")
               : status;
}

pc_status pc__map_store_metadata(pc__map_store *store, int64_t id, void *out, size_t size)
{
    const uint8_t *note;
    pc__map_item *item;
    pc__mapped_data *view;
    pc_status status = pc__map_store_pin(store, id, 0, &item, &view);
    if (status != PC_OK)
        return status;
    if (size > item->entry.note) {
        status = pc__fail(PC_ERR_INVALID, "%s: the note of record %lld has %u bytes, not %zu",
                          store->dir.path, (long long)id, (unsigned)item->entry.note, size);
        return end_note(store, item, view, status);
    }
    status = check_note(store, item, view, &note);
    if (status == PC_OK && size)
        memcpy(out, note, size);
    return end_note(store, item, view, status);
}

pc_status pc__map_store_metadata_copy(pc__map_store *store, int64_t id, int is_use, uint8_t **out,
                                      size_t *size)
{
    const uint8_t *note;
    pc__map_item *item;
    pc__mapped_data *view;
    pc_status status = pc__map_store_pin(store, id, is_use ? PC__MAP_PIN_USE : 0, &item, &view);
    *out = NULL;
    *size = 0;
    if (status != PC_OK)
        return status;
    status = check_note(store, item, view, &note);
    if (status == PC_OK && !(*out = pc__alloc(&store->mem, (size_t)item->entry.note + 1)))
        status = PC_ERR_NOMEM;
    if (status == PC_OK) {
        *size = item->entry.note;
        memcpy(*out, note, *size);
    }
    return end_note(store, item, view, status);
}
