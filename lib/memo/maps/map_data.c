/* Room in the data file for what is going to be written. What is looked at by readers of other
 * processes is not touched. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "memo/maps/map_store_internal.h"

uint64_t pc__map_data_occupied(const pc__map_store *store)
{
    return store->log_bytes + PC__MAPS_PAGE + store->room.taken + store->room.on_disk;
}

static int is_within(const pc__map_store *store, size_t gap, uint64_t bytes, uint64_t keep_free)
{
    uint64_t budget = store->options.budget_bytes,
             limit = budget > keep_free ? budget - keep_free : 0;
    int64_t more = pc__map_space_growth(&store->room, gap, bytes) + PC__MAPS_ENTRY;
    return !budget || (int64_t)pc__map_data_occupied(store) + more <= (int64_t)limit;
}

/* A piece that was given out, and locked against readers; else it was given back. PC_MISS: readers
 * have it. PC_ERR_IO: it cannot be locked at all, nor could another one be. */
static pc_status lock_piece(pc__map_store *store, uint64_t at, uint64_t bytes, uint64_t on_disk)
{
    int error = pc__range_lock(store->data_fd, F_WRLCK, at, bytes);
    if (!error)
        return PC_OK;
    pthread_mutex_lock(&store->guard);
    pc__map_space_return(&store->room, at, bytes, on_disk);
    pthread_mutex_unlock(&store->guard);
    return error == EAGAIN ? PC_MISS
                           : pc__fail(PC_ERR_IO, "%s: records cannot be locked: %s",
                                      store->dir.path, strerror(error));
}

/* The next gap after *last that is large enough, and within the budget. */
static int take_gap(pc__map_store *store, uint64_t bytes, uint64_t keep_free, pc__map_gap *last,
                    uint64_t *at)
{
    size_t gap;
    int fits = 0;
    pthread_mutex_lock(&store->guard);
    for (;;) {
        gap = pc__map_space_find(&store->room, bytes, last);
        if (gap == SIZE_MAX)
            break;
        *last = store->room.gaps[gap];
        fits = is_within(store, gap, bytes, keep_free);
        if (!fits)
            continue;
        *at = pc__map_space_take(&store->room, gap, bytes);
        break;
    }
    pthread_mutex_unlock(&store->guard);
    return fits;
}

static pc_status place_in_gap(pc__map_store *store, uint64_t bytes, uint64_t keep_free,
                              uint64_t *at)
{
    pc__map_gap last = {0};
    pc_status status = PC_MISS;
    while (status == PC_MISS && take_gap(store, bytes, keep_free, &last, at))
        status = lock_piece(store, *at, bytes, bytes);
    return status;
}

static pc_status place_at_end(pc__map_store *store, uint64_t bytes, uint64_t keep_free,
                              uint64_t *at)
{
    int fits;
    pthread_mutex_lock(&store->guard);
    fits = is_within(store, SIZE_MAX, bytes, keep_free);
    if (fits)
        *at = pc__map_space_append(&store->room, bytes);
    pthread_mutex_unlock(&store->guard);
    return fits ? lock_piece(store, *at, bytes, 0) : PC_MISS;
}

static pc_status place_anywhere(pc__map_store *store, uint64_t bytes, uint64_t keep_free,
                                uint64_t *at)
{
    pc_status status = place_in_gap(store, bytes, keep_free, at);
    return status == PC_MISS ? place_at_end(store, bytes, keep_free, at) : status;
}

/* The first gap from *from on that may take room on the disk, as a piece. */
static int take_solid(pc__map_store *store, uint64_t from, pc__map_gap *out)
{
    int found = 0;
    pthread_mutex_lock(&store->guard);
    for (size_t i = 0; i < store->room.count && !found; i++)
        if (store->room.gaps[i].at >= from && store->room.gaps[i].on_disk) {
            *out = store->room.gaps[i];
            pc__map_space_take(&store->room, i, out->bytes);
            found = 1;
        }
    pthread_mutex_unlock(&store->guard);
    return found;
}

static int punch(pc__map_store *store, const pc__map_gap *gap)
{
    int punched = 0;
    if (!pc__range_lock(store->data_fd, F_WRLCK, gap->at, gap->bytes)) {
        punched = !fallocate(store->data_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                             (off_t)gap->at, (off_t)gap->bytes);
        if (!punched && (errno == EOPNOTSUPP || errno == ENOSYS))
            store->no_holes = 1;
        (void)pc__range_lock(store->data_fd, F_UNLCK, gap->at, gap->bytes);
    }
    return punched;
}

void pc__map_data_punch(pc__map_store *store)
{
    pc__map_gap gap = {0};
    while (!store->no_holes && take_solid(store, gap.at + gap.bytes, &gap)) {
        int punched = punch(store, &gap);
        pthread_mutex_lock(&store->guard);
        pc__map_space_return(&store->room, gap.at, gap.bytes, punched ? 0 : gap.on_disk);
        pthread_mutex_unlock(&store->guard);
    }
}

/* Readers that have a part of it in use keep the file as long as it is. */
void pc__map_data_truncate(pc__map_store *store)
{
    struct stat st;
    uint64_t end;
    pthread_mutex_lock(&store->guard);
    end = pc__map_space_used_end(&store->room);
    pthread_mutex_unlock(&store->guard);
    if (fstat(store->data_fd, &st) || (uint64_t)st.st_size <= end
        || pc__range_lock(store->data_fd, F_WRLCK, end, 0))
        return;
    if (!ftruncate(store->data_fd, (off_t)end)) {
        pthread_mutex_lock(&store->guard);
        pc__map_space_truncate(&store->room, end);
        pthread_mutex_unlock(&store->guard);
    }
    (void)pc__range_lock(store->data_fd, F_UNLCK, end, 0);
}

pc_status pc__map_data_place(pc__map_store *store, uint64_t bytes, uint64_t keep_free, uint64_t *at)
{
    pc_status status;
    pthread_mutex_lock(&store->guard);
    status = pc__map_space_reserve(&store->room, &store->mem);
    pthread_mutex_unlock(&store->guard);
    if (status < 0)
        return status;
    status = place_anywhere(store, bytes, keep_free, at);
    if (status == PC_MISS && store->options.budget_bytes) {
        pc__map_data_punch(store);
        status = place_anywhere(store, bytes, keep_free, at);
    }
    if (status != PC_OK)
        return status;
    pthread_mutex_lock(&store->guard);
    status = pc__mapped_data_cover(&store->view, &store->mem, store->data_fd, *at + bytes, 1,
                                   store->dir.path);
    pthread_mutex_unlock(&store->guard);
    if (status < 0) {
        pc__map_data_unlock(store, *at, bytes);
        pc__map_data_free(store, *at, bytes);
    }
    return status;
}

void pc__map_data_unlock(pc__map_store *store, uint64_t at, uint64_t bytes)
{
    (void)pc__range_lock(store->data_fd, F_UNLCK, at, bytes);
}

void pc__map_data_free(pc__map_store *store, uint64_t at, uint64_t bytes)
{
    pthread_mutex_lock(&store->guard);
    pc__map_space_return(&store->room, at, bytes, bytes);
    pthread_mutex_unlock(&store->guard);
}
