/* Room and memory of the data file, and writing a record into its room. Owns the file's descriptor,
 * its free space and its mappings. */
#include "memo/maps/map_data.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"

#define LEAST_SPARE (UINT64_C(1) << 30) /* addresses of a mapping with room to grow */
#define VIEW_STEP (UINT64_C(1) << 16)
#define WRITE_AT_ONCE (UINT64_C(1) << 20) /* records up to this size */

void pc__map_data_init(pc__map_data *data, const pc_allocator *mem, const pc__dir *dir,
                       uint64_t budget)
{
    *data = (pc__map_data){.mem = mem, .dir = dir, .budget = budget, .fd = -1};
    data->space.end = PC__MAPS_PAGE;
    pthread_mutex_init(&data->lock, NULL);
}

/* ------------------------------------------------------------------ locks of the file */

int pc__range_lock(int fd, int type, uint64_t at, uint64_t bytes)
{
    struct flock range = {
        .l_type = (short)type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = (off_t)bytes};
    while (fcntl(fd, F_OFD_SETLK, &range))
        if (errno != EINTR)
            return errno == EACCES ? EAGAIN : errno;
    return 0;
}

int pc__range_is_locked(int fd, uint64_t at, uint64_t bytes)
{
    struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = (off_t)bytes};
    return fcntl(fd, F_OFD_GETLK, &range) || range.l_type != F_UNLCK;
}

/* ------------------------------------------------------------------ mappings */

static void unref_view(pc__map_data *data, pc__mapped_data *view)
{
    if (!view || --view->holds)
        return;
    munmap((void *)(uintptr_t)view->data, (size_t)view->bytes);
    pc__free(data->mem, view);
}

void pc__map_data_close(pc__map_data *data)
{
    pc__map_space_free(&data->space, data->mem);
    unref_view(data, data->view);
    if (data->fd >= 0)
        close(data->fd);
    pthread_mutex_destroy(&data->lock);
}

static void *map_data_file(int fd, uint64_t bytes)
{
    return bytes > SIZE_MAX ? MAP_FAILED : mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
}

static pc_status new_view(pc__map_data *data, uint64_t end, int spare)
{
    uint64_t exact = pc__map_round_up(end, VIEW_STEP),
             bytes = 2 * exact < LEAST_SPARE ? LEAST_SPARE : 2 * exact;
    pc__mapped_data *view = pc__alloc(data->mem, sizeof *view);
    void *memory = MAP_FAILED;
    if (!view)
        return PC_ERR_NOMEM;
    if (spare)
        memory = map_data_file(data->fd, bytes);
    if (memory == MAP_FAILED) { /* not wanted, or the process has too few addresses */
        bytes = exact;
        memory = map_data_file(data->fd, bytes);
    }
    if (memory == MAP_FAILED) {
        pc__free(data->mem, view);
        return pc__fail(errno == ENOMEM ? PC_ERR_NOMEM : PC_ERR_IO, "%s: cannot map %llu bytes: %s",
                        data->dir->path, (unsigned long long)bytes, strerror(errno));
    }
    *view = (pc__mapped_data){memory, bytes, 1};
    unref_view(data, data->view);
    data->view = view;
    return PC_OK;
}

pc_status pc__map_data_cover(pc__map_data *data, uint64_t end, int spare)
{
    pc_status status = PC_OK;
    pthread_mutex_lock(&data->lock);
    if (!data->view || data->view->bytes < end)
        status = new_view(data, end, spare);
    pthread_mutex_unlock(&data->lock);
    return status;
}

pc__mapped_data *pc__map_data_hold(pc__map_data *data)
{
    pc__mapped_data *view;
    pthread_mutex_lock(&data->lock);
    view = data->view;
    view->holds++;
    pthread_mutex_unlock(&data->lock);
    return view;
}

void pc__map_data_release(pc__map_data *data, pc__mapped_data *view)
{
    pthread_mutex_lock(&data->lock);
    unref_view(data, view);
    pthread_mutex_unlock(&data->lock);
}

/* ------------------------------------------------------------------ room */

pc_status pc__map_data_claim(pc__map_data *data, const pc__map_log_entry *entry)
{
    PC__TRY_RETURN(pc__map_space_reserve(&data->space, data->mem));
    pc__map_space_claim(&data->space, entry->at, pc__map_extent(entry));
    return PC_OK;
}

static uint64_t occupied(const pc__map_data *data)
{
    return data->log_bytes + PC__MAPS_PAGE + data->space.taken + data->space.on_disk;
}

uint64_t pc__map_data_occupied(pc__map_data *data)
{
    uint64_t bytes;
    pthread_mutex_lock(&data->lock);
    bytes = occupied(data);
    pthread_mutex_unlock(&data->lock);
    return bytes;
}

uint64_t pc__map_data_taken(pc__map_data *data)
{
    uint64_t bytes;
    pthread_mutex_lock(&data->lock);
    bytes = data->space.taken;
    pthread_mutex_unlock(&data->lock);
    return bytes;
}

void pc__map_data_count_log(pc__map_data *data, uint64_t bytes)
{
    pthread_mutex_lock(&data->lock);
    data->log_bytes = bytes;
    pthread_mutex_unlock(&data->lock);
}

static int fits_budget(const pc__map_data *data, size_t gap, uint64_t bytes, uint64_t keep_free)
{
    uint64_t limit = data->budget > keep_free ? data->budget - keep_free : 0;
    int64_t more = pc__map_space_growth(&data->space, gap, bytes) + PC__MAPS_ENTRY;
    return !data->budget || (int64_t)occupied(data) + more <= (int64_t)limit;
}

static void return_extent(pc__map_data *data, uint64_t at, uint64_t bytes, uint64_t on_disk)
{
    pthread_mutex_lock(&data->lock);
    pc__map_space_return(&data->space, at, bytes, on_disk);
    pthread_mutex_unlock(&data->lock);
}

void pc__map_data_free(pc__map_data *data, uint64_t at, uint64_t bytes)
{
    return_extent(data, at, bytes, bytes);
}

void pc__map_data_unlock(pc__map_data *data, uint64_t at, uint64_t bytes)
{
    (void)pc__range_lock(data->fd, F_UNLCK, at, bytes);
}

/* Locks an extent that was taken; returns it where that fails. PC_MISS: readers use it. PC_ERR_IO:
 * the file cannot be locked at all. */
static pc_status lock_extent(pc__map_data *data, uint64_t at, uint64_t bytes, uint64_t on_disk)
{
    int error = pc__range_lock(data->fd, F_WRLCK, at, bytes);
    if (!error)
        return PC_OK;
    return_extent(data, at, bytes, on_disk);
    return error == EAGAIN ? PC_MISS
                           : pc__fail(PC_ERR_IO, "%s: records cannot be locked: %s",
                                      data->dir->path, strerror(error));
}

/* Takes room in the smallest gap that readers do not use, or at the end of the file, within the
 * budget. */
static pc_status place_once(pc__map_data *data, uint64_t bytes, uint64_t keep_free, uint64_t *at)
{
    pc__map_gap last = {0};
    pc_status status = PC_MISS;
    size_t gap = 0;
    while (status == PC_MISS && gap != SIZE_MAX) {
        int fits;
        pthread_mutex_lock(&data->lock);
        gap = pc__map_space_find(&data->space, bytes, &last);
        fits = fits_budget(data, gap, bytes, keep_free);
        if (gap != SIZE_MAX)
            last = data->space.gaps[gap];
        if (fits)
            *at = pc__map_space_take(&data->space, gap, bytes);
        pthread_mutex_unlock(&data->lock);
        if (fits)
            status = lock_extent(data, *at, bytes, gap == SIZE_MAX ? 0 : bytes);
    }
    return status;
}

pc_status pc__map_data_place(pc__map_data *data, uint64_t bytes, uint64_t keep_free, uint64_t *at)
{
    pc_status status;
    pthread_mutex_lock(&data->lock);
    status = pc__map_space_reserve(&data->space, data->mem);
    pthread_mutex_unlock(&data->lock);
    if (status < 0)
        return status;
    status = place_once(data, bytes, keep_free, at);
    if (status == PC_MISS && data->budget) {
        pc__map_data_punch(data);
        status = place_once(data, bytes, keep_free, at);
    }
    if (status != PC_OK)
        return status;
    status = pc__map_data_cover(data, *at + bytes, 1);
    if (status < 0) {
        pc__map_data_unlock(data, *at, bytes);
        pc__map_data_free(data, *at, bytes);
    }
    return status;
}

/* Takes the first gap from `from` on that may occupy the disk. */
static int take_gap_on_disk(pc__map_data *data, uint64_t from, pc__map_gap *out)
{
    int found = 0;
    pthread_mutex_lock(&data->lock);
    for (size_t i = 0; i < data->space.count && !found; i++)
        if (data->space.gaps[i].at >= from && data->space.gaps[i].on_disk) {
            *out = data->space.gaps[i];
            pc__map_space_take(&data->space, i, out->bytes);
            found = 1;
        }
    pthread_mutex_unlock(&data->lock);
    return found;
}

static int punch_gap(pc__map_data *data, const pc__map_gap *gap)
{
    int punched = 0;
    if (!pc__range_lock(data->fd, F_WRLCK, gap->at, gap->bytes)) {
        punched = !fallocate(data->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)gap->at,
                             (off_t)gap->bytes);
        if (!punched && (errno == EOPNOTSUPP || errno == ENOSYS))
            data->no_holes = 1;
        pc__map_data_unlock(data, gap->at, gap->bytes);
    }
    return punched;
}

void pc__map_data_punch(pc__map_data *data)
{
    pc__map_gap gap = {0};
    while (!data->no_holes && take_gap_on_disk(data, gap.at + gap.bytes, &gap)) {
        int punched = punch_gap(data, &gap);
        return_extent(data, gap.at, gap.bytes, punched ? 0 : gap.on_disk);
    }
}

void pc__map_data_truncate(pc__map_data *data)
{
    struct stat st;
    uint64_t end;
    pthread_mutex_lock(&data->lock);
    end = pc__map_space_used_end(&data->space);
    pthread_mutex_unlock(&data->lock);
    if (fstat(data->fd, &st) || (uint64_t)st.st_size <= end
        || pc__range_lock(data->fd, F_WRLCK, end, 0))
        return;
    if (!ftruncate(data->fd, (off_t)end)) {
        pthread_mutex_lock(&data->lock);
        pc__map_space_truncate(&data->space, end);
        pthread_mutex_unlock(&data->lock);
    }
    pc__map_data_unlock(data, end, 0);
}

/* ------------------------------------------------------------------ writing a record
 * The header goes first, so that a reader of the record that was there sees at once that it is
 * gone. Zeros fill up the last page: no old header in it can pass for a record. */

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
        pc__map_row row = {at, layer_size(w, i), {0}};
        pc__checksum_of(w->parts->maps[i], (size_t)row.bytes, row.sum);
        pc__map_row_put(w->head, i, &row);
        end = at + row.bytes;
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
