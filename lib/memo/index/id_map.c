/* Ids of an index by position, and back. */
#include "memo/index/id_map.h"

#include "base/fail.h"

/* Ids often count up, so the upper bits of a product are mixed in (Fibonacci hashing). */
static size_t home_slot(const pc__id_map *id_map, int64_t id)
{
    uint64_t mixed = (uint64_t)id * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed >> 32 ^ mixed) & (id_map->slot_count - 1);
}

static void insert_position(pc__id_map *id_map, size_t position)
{
    size_t slot = home_slot(id_map, id_map->ids[position]);
    while (id_map->slots[slot])
        slot = (slot + 1) & (id_map->slot_count - 1);
    id_map->slots[slot] = position + 1;
}

/* The slot of an id, or the empty slot that ends the search. */
static size_t find_slot(const pc__id_map *id_map, int64_t id)
{
    size_t slot = home_slot(id_map, id);
    while (id_map->slots[slot] && id_map->ids[id_map->slots[slot] - 1] != id)
        slot = (slot + 1) & (id_map->slot_count - 1);
    return slot;
}

/* Empties a slot, and moves back those that it had displaced, so that no search ends too early. */
static void empty_slot(pc__id_map *id_map, size_t slot)
{
    size_t last = id_map->slot_count - 1, next = slot;
    while (id_map->slots[next = (next + 1) & last]) {
        size_t wanted = home_slot(id_map, id_map->ids[id_map->slots[next] - 1]);
        if (((next - wanted) & last) >= ((next - slot) & last)) {
            id_map->slots[slot] = id_map->slots[next];
            slot = next;
        }
    }
    id_map->slots[slot] = 0;
}

void pc__id_map_free(pc__id_map *id_map)
{
    pc__free(id_map->mem, id_map->ids);
    pc__free(id_map->mem, id_map->slots);
    *id_map = (pc__id_map){.mem = id_map->mem};
}

pc_status pc__id_map_reserve(pc__id_map *id_map, size_t more)
{
    size_t need = id_map->count + more, slots = id_map->slot_count ? id_map->slot_count : 16;
    PC__TRY_RETURN(
        pc__grow(id_map->mem, (void **)&id_map->ids, &id_map->capacity, need, sizeof *id_map->ids));
    while (slots / 2 < need)
        slots *= 2;
    if (slots == id_map->slot_count)
        return PC_OK;
    size_t *fresh = pc__calloc(id_map->mem, slots, sizeof *fresh);
    if (!fresh)
        return PC_ERR_NOMEM;
    pc__free(id_map->mem, id_map->slots);
    id_map->slots = fresh;
    id_map->slot_count = slots;
    for (size_t i = 0; i < id_map->count; i++)
        if (id_map->ids[i] >= 0)
            insert_position(id_map, i);
    return PC_OK;
}

void pc__id_map_add(pc__id_map *id_map, int64_t id)
{
    id_map->ids[id_map->count++] = id;
    if (id < 0)
        return;
    insert_position(id_map, id_map->count - 1);
    id_map->living++;
}

size_t pc__id_map_find(const pc__id_map *id_map, int64_t id)
{
    if (!id_map->slot_count || id < 0)
        return PC__NO_POSITION;
    size_t slot = find_slot(id_map, id);
    return id_map->slots[slot] ? id_map->slots[slot] - 1 : PC__NO_POSITION;
}

void pc__id_map_vacate(pc__id_map *id_map, size_t position)
{
    empty_slot(id_map, find_slot(id_map, id_map->ids[position]));
    id_map->ids[position] = -1;
    id_map->living--;
}

void pc__id_map_fill(pc__id_map *id_map, size_t hole)
{
    size_t last = id_map->count - 1;
    if (hole != last) {
        id_map->slots[find_slot(id_map, id_map->ids[last])] = hole + 1;
        id_map->ids[hole] = id_map->ids[last];
    }
    id_map->count--;
}
