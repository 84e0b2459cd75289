/* Free room of a data file: an array of gaps, by offset. */
#include "memo/maps/map_space.h"

#include <string.h>

pc_status pc__map_space_reserve(pc__map_space *room, const pc_allocator *mem)
{
    return pc__grow(mem, (void **)&room->gaps, &room->capacity, room->pieces + 8,
                    sizeof *room->gaps);
}

void pc__map_space_free(pc__map_space *room, const pc_allocator *mem)
{
    pc__free(mem, room->gaps);
    *room = (pc__map_space){0};
}

static int comes_after(const pc__map_gap *gap, const pc__map_gap *last)
{
    return gap->bytes > last->bytes || (gap->bytes == last->bytes && gap->at > last->at);
}

size_t pc__map_space_find(const pc__map_space *room, uint64_t bytes, const pc__map_gap *last)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < room->count; i++) {
        const pc__map_gap *gap = &room->gaps[i];
        if (gap->bytes >= bytes && comes_after(gap, last)
            && (best == SIZE_MAX || comes_after(&room->gaps[best], gap)))
            best = i;
    }
    return best;
}

static void remove_gap(pc__map_space *room, size_t index)
{
    room->count--;
    memmove(room->gaps + index, room->gaps + index + 1, (room->count - index) * sizeof *room->gaps);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t pc__map_space_take(pc__map_space *room, size_t index, uint64_t bytes)
{
    pc__map_gap *gap = &room->gaps[index];
    uint64_t at = gap->at, left = gap->bytes - bytes, on_disk = least(gap->on_disk, left);
    room->on_disk -= gap->on_disk - on_disk;
    room->taken += bytes;
    room->pieces++;
    *gap = (pc__map_gap){at + bytes, left, on_disk};
    if (!left)
        remove_gap(room, index);
    return at;
}

uint64_t pc__map_space_append(pc__map_space *room, uint64_t bytes)
{
    uint64_t at = room->end;
    room->taken += bytes;
    room->pieces++;
    room->end += bytes;
    return at;
}

int64_t pc__map_space_growth(const pc__map_space *room, size_t index, uint64_t bytes)
{
    const pc__map_gap *gap;
    if (index == SIZE_MAX)
        return (int64_t)bytes;
    gap = &room->gaps[index];
    return (int64_t)(bytes + least(gap->on_disk, gap->bytes - bytes)) - (int64_t)gap->on_disk;
}

/* The room for it was reserved: there are at most as many gaps as extents, and one. */
static void insert_gap(pc__map_space *room, size_t index, pc__map_gap gap)
{
    memmove(room->gaps + index + 1, room->gaps + index, (room->count - index) * sizeof *room->gaps);
    room->gaps[index] = gap;
    room->count++;
}

static void join_gaps(pc__map_space *room,
                      size_t index) /* joins a gap with the next one, if they touch */
{
    pc__map_gap *gap = &room->gaps[index];
    if (index + 1 >= room->count || gap->at + gap->bytes != gap[1].at)
        return;
    gap->bytes += gap[1].bytes;
    gap->on_disk += gap[1].on_disk;
    remove_gap(room, index + 1);
}

void pc__map_space_return(pc__map_space *room, uint64_t at, uint64_t bytes, uint64_t on_disk)
{
    size_t low = 0, high = room->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (room->gaps[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    room->taken -= bytes;
    room->pieces--;
    room->on_disk += on_disk;
    insert_gap(room, low, (pc__map_gap){at, bytes, on_disk});
    join_gaps(room, low);
    if (low)
        join_gaps(room, low - 1);
}

static pc__map_gap *gap_at_end(const pc__map_space *room)
{
    pc__map_gap *last = room->count ? &room->gaps[room->count - 1] : NULL;
    return last && last->at + last->bytes == room->end ? last : NULL;
}

uint64_t pc__map_space_used_end(const pc__map_space *room)
{
    const pc__map_gap *gap = gap_at_end(room);
    return gap ? gap->at : room->end;
}

void pc__map_space_truncate(pc__map_space *room, uint64_t end)
{
    pc__map_gap *gap = gap_at_end(room);
    uint64_t on_disk;
    if (!gap || end >= room->end)
        return;
    gap->bytes = end - gap->at;
    on_disk = least(gap->on_disk, gap->bytes);
    room->on_disk -= gap->on_disk - on_disk;
    gap->on_disk = on_disk;
    room->end = end;
    if (!gap->bytes)
        room->count--;
}

void pc__map_space_claim(pc__map_space *room, uint64_t at, uint64_t bytes)
{
    if (at > room->end) {
        room->gaps[room->count++] = (pc__map_gap){room->end, at - room->end, at - room->end};
        room->on_disk += at - room->end;
    }
    room->end = at + bytes;
    room->taken += bytes;
    room->pieces++;
}
