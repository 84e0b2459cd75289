/* Free room of a data file: an array of gaps, by offset. */
#include "memo/maps/map_space.h"

#include <string.h>

pc_status pc__map_space_reserve(pc__map_space *space, const pc_allocator *mem)
{
    return pc__grow(mem, (void **)&space->gaps, &space->capacity, space->pieces + 8,
                    sizeof *space->gaps);
}

void pc__map_space_free(pc__map_space *space, const pc_allocator *mem)
{
    pc__free(mem, space->gaps);
    *space = (pc__map_space){0};
}

static int comes_after(const pc__map_gap *gap, const pc__map_gap *last)
{
    return gap->bytes > last->bytes || (gap->bytes == last->bytes && gap->at > last->at);
}

size_t pc__map_space_find(const pc__map_space *space, uint64_t bytes, const pc__map_gap *last)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < space->count; i++) {
        const pc__map_gap *gap = &space->gaps[i];
        if (gap->bytes >= bytes && comes_after(gap, last)
            && (best == SIZE_MAX || comes_after(&space->gaps[best], gap)))
            best = i;
    }
    return best;
}

static void remove_gap(pc__map_space *space, size_t index)
{
    space->count--;
    memmove(space->gaps + index, space->gaps + index + 1,
            (space->count - index) * sizeof *space->gaps);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t pc__map_space_take(pc__map_space *space, size_t index, uint64_t bytes)
{
    uint64_t at = space->end, left, on_disk;
    space->taken += bytes;
    space->pieces++;
    if (index == SIZE_MAX) {
        space->end += bytes;
        return at;
    }
    pc__map_gap *gap = &space->gaps[index];
    at = gap->at;
    left = gap->bytes - bytes;
    on_disk = smaller(gap->on_disk, left);
    space->on_disk -= gap->on_disk - on_disk;
    *gap = (pc__map_gap){at + bytes, left, on_disk};
    if (!left)
        remove_gap(space, index);
    return at;
}

int64_t pc__map_space_growth(const pc__map_space *space, size_t index, uint64_t bytes)
{
    if (index == SIZE_MAX)
        return (int64_t)bytes;
    const pc__map_gap *gap = &space->gaps[index];
    return (int64_t)(bytes + smaller(gap->on_disk, gap->bytes - bytes)) - (int64_t)gap->on_disk;
}

/* Memory for it is reserved: there is at most one gap more than extents. */
static void insert_gap(pc__map_space *space, size_t index, pc__map_gap gap)
{
    memmove(space->gaps + index + 1, space->gaps + index,
            (space->count - index) * sizeof *space->gaps);
    space->gaps[index] = gap;
    space->count++;
}

/* Joins a gap with the next one, if they touch. */
static void join_gaps(pc__map_space *space, size_t index)
{
    pc__map_gap *gap = &space->gaps[index];
    if (index + 1 >= space->count || gap->at + gap->bytes != gap[1].at)
        return;
    gap->bytes += gap[1].bytes;
    gap->on_disk += gap[1].on_disk;
    remove_gap(space, index + 1);
}

void pc__map_space_return(pc__map_space *space, uint64_t at, uint64_t bytes, uint64_t on_disk)
{
    size_t low = 0, high = space->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (space->gaps[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    space->taken -= bytes;
    space->pieces--;
    space->on_disk += on_disk;
    insert_gap(space, low, (pc__map_gap){at, bytes, on_disk});
    join_gaps(space, low);
    if (low)
        join_gaps(space, low - 1);
}

static pc__map_gap *gap_at_end(const pc__map_space *space)
{
    pc__map_gap *last = space->count ? &space->gaps[space->count - 1] : NULL;
    return last && last->at + last->bytes == space->end ? last : NULL;
}

uint64_t pc__map_space_used_end(const pc__map_space *space)
{
    const pc__map_gap *gap = gap_at_end(space);
    return gap ? gap->at : space->end;
}

void pc__map_space_truncate(pc__map_space *space, uint64_t end)
{
    pc__map_gap *gap = gap_at_end(space);
    uint64_t on_disk;
    if (!gap || end >= space->end)
        return;
    gap->bytes = end - gap->at;
    on_disk = smaller(gap->on_disk, gap->bytes);
    space->on_disk -= gap->on_disk - on_disk;
    gap->on_disk = on_disk;
    space->end = end;
    if (!gap->bytes)
        space->count--;
}

void pc__map_space_claim(pc__map_space *space, uint64_t at, uint64_t bytes)
{
    if (at > space->end) {
        space->gaps[space->count++] = (pc__map_gap){space->end, at - space->end, at - space->end};
        space->on_disk += at - space->end;
    }
    space->end = at + bytes;
    space->taken += bytes;
    space->pieces++;
}
