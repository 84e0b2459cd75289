/* Writing a record into its extent. The header goes first, so that a reader of the record that was
 * there sees at once that it is gone. Zeros fill up the last page: no old header in it can pass for
 * a record. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "memo/maps/map_data.h"

#define WRITE_AT_ONCE (UINT64_C(1) << 20) /* records up to this size */

typedef struct record_write {
    int fd;
    const pc__map_log_entry *entry;
    const pc__map_record_parts *parts;
    uint8_t *head; /* up to the first layer; of a small record all of it */
} record_write;

static uint64_t layer_size(const record_write *w, int32_t layer)
{
    return w->parts->sizes ? w->parts->sizes[layer] : w->parts->layout->layer_bytes;
}

/* Writes the rows of the table; returns the bytes of the record. */
static uint64_t fill_table(const record_write *w)
{
    uint64_t at = w->parts->layout->layers, end = at;
    for (int32_t i = 0; i < w->parts->layers; i++) {
        uint8_t sum[PC__CHECKSUM];
        pc__checksum_of(w->parts->maps[i], (size_t)layer_size(w, i), sum);
        pc__map_record_row_put(w->head, i, at, layer_size(w, i), sum);
        end = at + layer_size(w, i);
        at = pc__map_round_up(end, PC__MAPS_ALIGN);
    }
    return end;
}

static int write_small(const record_write *w)
{
    uint64_t at = w->parts->layout->layers;
    for (int32_t i = 0; i < w->parts->layers; i++) {
        memcpy(w->head + at, w->parts->maps[i], (size_t)layer_size(w, i));
        at = pc__map_round_up(at + layer_size(w, i), PC__MAPS_ALIGN);
    }
    return pc__write_at(w->fd, w->head, (size_t)pc__map_extent(w->entry), w->entry->at);
}

static int write_large(const record_write *w)
{
    static const uint8_t zeros[PC__MAPS_PAGE];
    uint64_t at = w->parts->layout->layers, start = w->entry->at;
    int error = pc__write_at(w->fd, w->head, (size_t)at, start);
    for (int32_t i = 0; i < w->parts->layers && !error; i++) {
        uint64_t end = at + layer_size(w, i),
                 next = pc__map_round_up(end,
                                         end == w->entry->bytes ? PC__MAPS_PAGE : PC__MAPS_ALIGN);
        error = pc__write_at(w->fd, w->parts->maps[i], (size_t)layer_size(w, i), start + at);
        if (!error && next > end)
            error = pc__write_at(w->fd, zeros, (size_t)(next - end), start + end);
        at = next;
    }
    return error;
}

pc_status pc__map_data_write(pc__map_data *data, pc__map_log_entry *entry,
                             const pc__map_record_parts *parts, int sync)
{
    const pc__map_layout *layout = parts->layout;
    record_write w = {data->fd, entry, parts, NULL};
    /* Compressed layers lie in one piece of memory already: no need to copy them. */
    int is_small = !parts->sizes && layout->bytes <= WRITE_AT_ONCE, error;
    uint8_t metadata_sum[PC__CHECKSUM];
    w.head = pc__calloc(
        data->mem, 1,
        (size_t)(is_small ? pc__map_round_up(layout->bytes, PC__MAPS_PAGE) : layout->layers));
    if (!w.head)
        return PC_ERR_NOMEM;
    if (entry->metadata)
        memcpy(w.head + layout->metadata, parts->metadata, entry->metadata);
    pc__checksum_of(parts->metadata, entry->metadata, metadata_sum);
    entry->bytes = fill_table(&w);
    pc__map_record_put(w.head, entry, layout, parts->layers, data->nonce, metadata_sum);
    error = is_small ? write_small(&w) : write_large(&w);
    pc__free(data->mem, w.head);
    if (!error && sync && fdatasync(data->fd))
        error = errno;
    if (!error)
        return PC_OK;
    errno = error;
    return pc__dir_fault(data->dir, PC__MAPS_DATA);
}
