/* Records in use: what is held stays where it is until it is let go, and is whole. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fail.h"
#include "memo/maps/map_store_internal.h"

/* ------------------------------------------------------------------ damage */

static int is_zero(const uint8_t *data, uint64_t size)
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
    if (!is_zero(data + *end, at - *end)) /* so that there is no bit that nobody looks at */
        return "something lies between its layers";
    pc__checksum_of(data + at, (size_t)bytes, sum);
    *end = at + bytes;
    return memcmp(sum, want, sizeof sum) ? "the checksum of a layer is another one" : NULL;
}

/* NULL, or what is wrong. */
static const char *check_layers(const pc__map_store *store, const pc__map_log_entry *e,
                                const pc__map_layout *layout, const uint8_t *data)
{
    uint64_t end = layout->note + e->note;
    const char *what = is_zero(data + layout->header, layout->note - layout->header)
                           ? NULL
                           : "something lies before its note";
    for (int32_t i = 0; i < store->options.face.layers && !what; i++)
        what = check_layer(data, i, &end);
    return what;
}

/* Another process may have given the record up, and its room to others; then something else stands
 * where its header was, or the file ends before. */
static int was_given_up(const pc__map_store *store, const pc__map_log_entry *e, const uint8_t *data)
{
    struct stat st;
    if (!fstat(store->data_fd, &st) && (uint64_t)st.st_size >= e->at + e->bytes
        && !memcmp(data + PC__MAPS_HEADER_SUM, e->sum, PC__CHECKSUM))
        return 0;
    return !pc__map_log_holds(&store->dir, &store->mem, &store->options.face, e);
}

pc_status pc__map_store_damaged(pc__map_store *store, const pc__map_log_entry *e, const char *what)
{
    pc__map_item *item;
    pthread_mutex_lock(&store->work);
    pthread_mutex_lock(&store->guard);
    item = pc__map_table_find(store, e->id);
    if (item && item->entry.at != e->at) /* it was moved meanwhile */
        item = NULL;
    pthread_mutex_unlock(&store->guard);
    if (item)
        pc__map_store_drop(store, e->id, PC__MAPS_DAMAGED);
    pthread_mutex_unlock(&store->work);
    return pc__fail(PC_ERR_FORMAT, "%s/%s: record %lld at %llu: %s", store->dir.path, PC__MAPS_DATA,
                    (long long)e->id, (unsigned long long)e->at, what);
}

static pc_status given_up(pc__map_store *store, int64_t id)
{
    pthread_mutex_lock(&store->work);
    pc__map_store_drop(store, id, PC__MAPS_BY_HAND);
    pthread_mutex_unlock(&store->work);
    return PC_MISS;
}

/* ------------------------------------------------------------------ holding */

typedef struct pin {
    pc__map_item *item;
    pc__mapped_data *view;
    pc__map_log_entry entry;
    int is_checked;
} pin;

/* PC_MISS with an item: another process writes to its room. */
static pc_status hold(pc__map_store *store, int64_t id, int how, pin *out)
{
    pc_status status = PC_OK;
    int error = 0;
    *out = (pin){0};
    pthread_mutex_lock(&store->guard);
    out->item = pc__map_table_find(store, id);
    if (out->item) {
        pc__map_table_hold(store, out->item);
        if (store->options.read_only && out->item->holds == 1)
            error = pc__range_lock(store->data_fd, F_RDLCK, out->item->entry.at,
                                   pc__map_extent(&out->item->entry));
        if (error)
            pc__map_table_release(store, out->item);
        else if (how & PC__MAP_PIN_USE)
            pc__map_table_hit(store, out->item);
    }
    if (!out->item || error == EAGAIN) {
        status = PC_MISS;
    } else if (error) {
        errno = error;
        status = pc__dir_fault(&store->dir, PC__MAPS_DATA);
    } else {
        out->view = pc__mapped_data_ref(store->view);
        out->entry = out->item->entry;
        out->is_checked = out->item->is_checked;
    }
    pthread_mutex_unlock(&store->guard);
    return status;
}

void pc__map_store_unpin(pc__map_store *store, pc__map_item *item, pc__mapped_data *view)
{
    pthread_mutex_lock(&store->guard);
    pc__map_table_release(store, item);
    pc__mapped_data_unref(view, &store->mem);
    pthread_mutex_unlock(&store->guard);
}

/* PC_OK, and *what is NULL, or what is wrong with it. PC_ERR_IO: it cannot be known. */
static pc_status check(pc__map_store *store, const pin *p, const pc__map_layout *layout, int how,
                       const char **what)
{
    const uint8_t *data = p->view->data + p->entry.at;
    struct stat st;
    if (fstat(store->data_fd, &st))
        return pc__dir_fault(&store->dir, PC__MAPS_DATA);
    *what = (uint64_t)st.st_size < p->entry.at + p->entry.bytes
                ? "the file ends before it"
                : pc__map_record_check(data, &p->entry, layout, store->options.face.layers);
    if (*what || !(how & PC__MAP_PIN_LAYERS))
        return PC_OK;
    *what = check_layers(store, &p->entry, layout, data);
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
    pin p;
    pc__map_layout layout;
    const char *what = NULL;
    pc_status status = hold(store, id, how, &p);
    if (status != PC_OK)
        return status == PC_MISS && p.item ? given_up(store, id) : status;
    pc__map_layout_of(&store->options.face, p.entry.tokens, p.entry.note, &layout);
    if (store->options.read_only && was_given_up(store, &p.entry, p.view->data + p.entry.at)) {
        pc__map_store_unpin(store, p.item, p.view);
        return given_up(store, id);
    }
    if (!p.is_checked)
        status = check(store, &p, &layout, how, &what);
    if (status < 0 || what) {
        pc__map_store_unpin(store, p.item, p.view);
        return status < 0 ? status : pc__map_store_damaged(store, &p.entry, what);
    }
    *item = p.item;
    *view = p.view;
    return PC_OK;
}
