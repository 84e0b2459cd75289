/* Room and memory of the data file. Owns its descriptor, its free space and its mappings. */
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
    pc_status status = pc__map_space_reserve(&data->space, data->mem);
    if (status == PC_OK)
        pc__map_space_claim(&data->space, entry->at, pc__map_extent(entry));
    return status;
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

/* Takes the next gap after *last that is large enough, and within the budget. */
static int take_gap(pc__map_data *data, uint64_t bytes, uint64_t keep_free, pc__map_gap *last,
                    uint64_t *at)
{
    size_t gap;
    int fits = 0;
    pthread_mutex_lock(&data->lock);
    while (!fits && (gap = pc__map_space_find(&data->space, bytes, last)) != SIZE_MAX) {
        *last = data->space.gaps[gap];
        fits = fits_budget(data, gap, bytes, keep_free);
        if (fits)
            *at = pc__map_space_take(&data->space, gap, bytes);
    }
    pthread_mutex_unlock(&data->lock);
    return fits;
}

static pc_status place_in_gap(pc__map_data *data, uint64_t bytes, uint64_t keep_free, uint64_t *at)
{
    pc__map_gap last = {0};
    pc_status status = PC_MISS;
    while (status == PC_MISS && take_gap(data, bytes, keep_free, &last, at))
        status = lock_extent(data, *at, bytes, bytes);
    return status;
}

static pc_status place_at_end(pc__map_data *data, uint64_t bytes, uint64_t keep_free, uint64_t *at)
{
    int fits;
    pthread_mutex_lock(&data->lock);
    fits = fits_budget(data, SIZE_MAX, bytes, keep_free);
    if (fits)
        *at = pc__map_space_append(&data->space, bytes);
    pthread_mutex_unlock(&data->lock);
    return fits ? lock_extent(data, *at, bytes, 0) : PC_MISS;
}

static pc_status place_anywhere(pc__map_data *data, uint64_t bytes, uint64_t keep_free,
                                uint64_t *at)
{
    pc_status status = place_in_gap(data, bytes, keep_free, at);
    return status == PC_MISS ? place_at_end(data, bytes, keep_free, at) : status;
}

pc_status pc__map_data_place(pc__map_data *data, uint64_t bytes, uint64_t keep_free, uint64_t *at)
{
    pc_status status;
    pthread_mutex_lock(&data->lock);
    status = pc__map_space_reserve(&data->space, data->mem);
    pthread_mutex_unlock(&data->lock);
    if (status < 0)
        return status;
    status = place_anywhere(data, bytes, keep_free, at);
    if (status == PC_MISS && data->budget) {
        pc__map_data_punch(data);
        status = place_anywhere(data, bytes, keep_free, at);
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
