/* A record's bytes into their place. The header goes first: who had the record that was there sees
 * that it is gone before anything else of it changes. Zeros fill up the last page: of records whose
 * headers lay in its pages, nothing is left that could pass for one. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "memo/maps/map_store_internal.h"

#define SMALL (UINT64_C(1) << 20) /* records up to this size are written at once */

typedef struct write_job {
    pc__map_store *store;
    const pc__map_log_entry *entry;
    const pc__map_layout *layout;
    const void *const *maps;
    const uint64_t *sizes;
    uint8_t *head; /* up to the first layer; of a small record all of it */
} write_job;

static uint64_t size_of(const write_job *job, int32_t layer)
{
    return job->sizes ? job->sizes[layer] : job->layout->layer_bytes;
}

/* Rows of the table; returns the bytes of the record. */
static uint64_t fill_table(const write_job *job)
{
    uint64_t at = job->layout->layers, end = at;
    for (int32_t i = 0; i < job->store->options.face.layers; i++) {
        uint8_t sum[PC__CHECKSUM];
        pc__checksum_of(job->maps[i], (size_t)size_of(job, i), sum);
        pc__map_record_row_put(job->head, i, at, size_of(job, i), sum);
        end = at + size_of(job, i);
        at = pc__map_round_up(end, PC__MAPS_ALIGN);
    }
    return end;
}

static int write_small(const write_job *job)
{
    uint64_t at = job->layout->layers;
    for (int32_t i = 0; i < job->store->options.face.layers; i++) {
        memcpy(job->head + at, job->maps[i], (size_t)size_of(job, i));
        at = pc__map_round_up(at + size_of(job, i), PC__MAPS_ALIGN);
    }
    return pc__write_at(job->store->data_fd, job->head, (size_t)pc__map_extent(job->entry),
                        job->entry->at);
}

static int write_large(const write_job *job)
{
    static const uint8_t zeros[PC__MAPS_PAGE];
    int fd = job->store->data_fd, error;
    uint64_t at = job->layout->layers;
    error = pc__write_at(fd, job->head, (size_t)at, job->entry->at);
    for (int32_t i = 0; i < job->store->options.face.layers && !error; i++) {
        uint64_t end = at + size_of(job, i),
                 next = pc__map_round_up(end,
                                         end == job->entry->bytes ? PC__MAPS_PAGE : PC__MAPS_ALIGN);
        error = pc__write_at(fd, job->maps[i], (size_t)size_of(job, i), job->entry->at + at);
        if (!error && next > end)
            error = pc__write_at(fd, zeros, (size_t)(next - end), job->entry->at + end);
        at = next;
    }
    return error;
}

pc_status pc__map_data_write(pc__map_store *store, pc__map_log_entry *entry,
                             const pc__map_layout *layout, const void *note,
                             const void *const *maps, const uint64_t *sizes)
{
    write_job job = {store, entry, layout, maps, sizes, NULL};
    uint64_t most = sizes ? layout->layers
                          : layout->bytes; /* what is packed was put together once already */
    int is_small = !sizes && most <= SMALL, error;
    uint8_t note_sum[PC__CHECKSUM];
    job.head = pc__calloc(
        &store->mem, 1,
        (size_t)(is_small ? pc__map_round_up(most, PC__MAPS_PAGE) : layout->layers));
    if (!job.head)
        return PC_ERR_NOMEM;
    if (entry->note)
        memcpy(job.head + layout->note, note, entry->note);
    pc__checksum_of(note, entry->note, note_sum);
    entry->bytes = fill_table(&job);
    pc__map_record_put(job.head, entry, layout, store->options.face.layers, store->nonce, note_sum);
    error = is_small ? write_small(&job) : write_large(&job);
    pc__free(&store->mem, job.head);
    if (!error && !store->options.relaxed && fdatasync(store->data_fd))
        error = errno;
    if (!error)
        return PC_OK;
    errno = error;
    return pc__dir_fault(&store->dir, PC__MAPS_DATA);
}
