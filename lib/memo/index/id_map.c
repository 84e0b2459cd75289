#include "memo/index/id_map.h"

#include <string.h>

/* Ids often count up: a multiplicative hash, of which the upper bits are used (Fibonacci hashing).
 */
static size_t home(const pc__id_map *places, int64_t id)
{
    uint64_t mixed = (uint64_t)id * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed >> 32 ^ mixed) & (places->slot_count - 1);
}

static void enter(pc__id_map *places, size_t place)
{
    size_t slot = home(places, places->ids[place]);
    while (places->slots[slot])
        slot = (slot + 1) & (places->slot_count - 1);
    places->slots[slot] = place + 1;
}

/* The slot of an id that is there or of the empty one that ends the search. */
static size_t slot_of(const pc__id_map *places, int64_t id)
{
    size_t slot = home(places, id);
    while (places->slots[slot] && places->ids[places->slots[slot] - 1] != id)
        slot = (slot + 1) & (places->slot_count - 1);
    return slot;
}

/* Empties a slot; what had to step aside for it moves back, so that no search ends too early. */
static void leave(pc__id_map *places, size_t slot)
{
    size_t last = places->slot_count - 1, next = slot;
    while (places->slots[next = (next + 1) & last]) {
        size_t wanted = home(places, places->ids[places->slots[next] - 1]);
        if (((next - wanted) & last) >= ((next - slot) & last)) {
            places->slots[slot] = places->slots[next];
            slot = next;
        }
    }
    places->slots[slot] = 0;
}

void pc__id_map_free(pc__id_map *places)
{
    pc__free(places->mem, places->ids);
    pc__free(places->mem, places->slots);
    places->ids = NULL;
    places->slots = NULL;
    places->count = places->capacity = places->living = places->slot_count = 0;
}

pc_status pc__id_map_reserve(pc__id_map *places, size_t more)
{
    size_t need = places->count + more, slots = places->slot_count ? places->slot_count : 16;
    pc_status status = pc__grow(places->mem, (void **)&places->ids, &places->capacity, need,
                                sizeof *places->ids);
    if (status < 0)
        return status;
    while (slots / 2 < need)
        slots *= 2;
    if (slots == places->slot_count)
        return PC_OK;
    size_t *fresh = pc__calloc(places->mem, slots, sizeof *fresh);
    if (!fresh)
        return PC_ERR_NOMEM;
    pc__free(places->mem, places->slots);
    places->slots = fresh;
    places->slot_count = slots;
    for (size_t i = 0; i < places->count; i++)
        if (places->ids[i] >= 0)
            enter(places, i);
    return PC_OK;
}

void pc__id_map_add(pc__id_map *places, int64_t id)
{
    places->ids[places->count++] = id;
    if (id < 0)
        return;
    enter(places, places->count - 1);
    places->living++;
}

size_t pc__id_map_find(const pc__id_map *places, int64_t id)
{
    if (!places->slot_count || id < 0)
        return PC__NO_POSITION;
    size_t slot = slot_of(places, id);
    return places->slots[slot] ? places->slots[slot] - 1 : PC__NO_POSITION;
}

void pc__id_map_vacate(pc__id_map *places, size_t place)
{
    leave(places, slot_of(places, places->ids[place]));
    places->ids[place] = -1;
    places->living--;
}

void pc__id_map_fill(pc__id_map *places, size_t hole)
{
    size_t last = places->count - 1;
    if (hole != last) {
        places->slots[slot_of(places, places->ids[last])] = hole + 1;
        places->ids[hole] = places->ids[last];
    }
    places->count--;
}
