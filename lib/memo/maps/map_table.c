/* What a store knows of its records: found by id, in the order in which they would be given up. */
#include <fcntl.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "memo/maps/map_store_internal.h"

#define HALF_LIFE 0.3 /* of the budget */

static size_t place_of(const pc__map_store *store,
                       int64_t id) /* the first slot with this id or a larger one */
{
    size_t low = 0, high = store->slot_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (store->slots[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

pc__map_item *pc__map_table_find(const pc__map_store *store, int64_t id)
{
    size_t at = place_of(store, id);
    return at < store->slot_count && store->slots[at].id == id ? store->slots[at].item : NULL;
}

pc__map_item *pc__map_table_next(const pc__map_store *store, int64_t id)
{
    for (size_t at = place_of(store, id + 1); at < store->slot_count; at++)
        if (store->slots[at].item)
            return store->slots[at].item;
    return NULL;
}

pc_status pc__map_table_reserve(pc__map_store *store, size_t more)
{
    pc_status status = pc__grow(&store->mem, (void **)&store->slots, &store->slot_capacity,
                                store->slot_count + more, sizeof *store->slots);
    /* those that are held are not in the order, but come back */
    return status < 0 ? status
                      : pc__heap_reserve(&store->order, &store->mem, store->slot_live + more);
}

static double worth_of(const pc__map_item *item)
{
    return item->entry.log_uses + 0.25 * log2((double)item->entry.tokens / (double)item->entry.bytes);
}

void pc__map_table_offer(pc__map_store *store, pc__map_item *item)
{
    if (!item->holds && !item->is_gone && !store->options.read_only)
        pc__heap_add(&store->order, &item->place, 0, worth_of(item));
}

static void free_item(pc__map_store *store, pc__map_item *item)
{
    if (!store->options.read_only)
        pc__map_space_return(&store->room, item->entry.at, pc__map_extent(&item->entry),
                             pc__map_extent(&item->entry));
    pc__free(&store->mem, item);
}

static void leave(pc__map_store *store, pc__map_item *item)
{
    item->is_gone = 1;
    pc__heap_remove(&store->order, &item->place);
    if (!item->holds)
        free_item(store, item);
}

static void sweep(pc__map_store *store)
{
    size_t kept = 0;
    if (store->slot_count < 2 * store->slot_live + 64)
        return;
    for (size_t i = 0; i < store->slot_count; i++)
        if (store->slots[i].item)
            store->slots[kept++] = store->slots[i];
    store->slot_count = kept;
}

void pc__map_table_put(pc__map_store *store, pc__map_item *item)
{
    size_t at = place_of(store, item->entry.id);
    int there = at < store->slot_count && store->slots[at].id == item->entry.id;
    if (there && store->slots[at].item) {
        leave(store, store->slots[at].item);
        store->slot_live--;
    }
    if (!there) {
        memmove(store->slots + at + 1, store->slots + at,
                (store->slot_count - at) * sizeof *store->slots);
        store->slot_count++;
    }
    store->slots[at] = (pc__map_slot){item->entry.id, item};
    store->slot_live++;
    pc__map_table_offer(store, item);
}

void pc__map_table_remove(pc__map_store *store, pc__map_item *item, pc__map_removal why)
{
    size_t at = place_of(store, item->entry.id);
    store->slots[at].item = NULL;
    store->slot_live--;
    *(why == PC__MAPS_EVICTED   ? &store->counts.evicted
      : why == PC__MAPS_DAMAGED ? &store->counts.damaged
                                : &store->counts.removed) += 1;
    leave(store, item);
    sweep(store);
}

void pc__map_table_hold(pc__map_store *store, pc__map_item *item)
{
    item->holds++;
    pc__heap_remove(&store->order, &item->place);
}

void pc__map_table_release(pc__map_store *store, pc__map_item *item)
{
    if (--item->holds)
        return;
    if (store->options.read_only) /* another process may have its room from here on */
        (void)pc__range_lock(store->data_fd, F_UNLCK, item->entry.at, pc__map_extent(&item->entry));
    if (item->is_gone)
        free_item(store, item);
    else
        pc__map_table_offer(store, item);
}

void pc__map_table_hit(pc__map_store *store, pc__map_item *item)
{
    double high = fmax(item->entry.log_uses, store->clock), low = fmin(item->entry.log_uses, store->clock);
    item->entry.log_uses = high + log2(1 + exp2(low - high));
    item->entry.used = pc__now_date();
    item->last = pc__now();
    item->gets++;
    store->unsaved++;
}

void pc__map_table_age(pc__map_store *store, uint64_t bytes)
{
    uint64_t measure = store->options.budget_bytes ? store->options.budget_bytes
                                                   : store->room.taken + bytes;
    store->clock += (double)bytes / (HALF_LIFE * (double)measure);
}
