/* Records of a map store in memory: an array sorted by id, and a heap for eviction. */
#include "memo/maps/map_table.h"

#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/lrfu.h"

void pc__map_table_free(pc__map_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        pc__free(table->mem, table->slots[i].item);
    pc__free(table->mem, table->slots);
    pc__heap_free(&table->order, table->mem);
}

/* The first slot with this id or a larger one. */
static size_t slot_of(const pc__map_table *table, int64_t id)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table->slots[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

pc__map_item *pc__map_table_find(const pc__map_table *table, int64_t id)
{
    size_t at = slot_of(table, id);
    return at < table->count && table->slots[at].id == id ? table->slots[at].item : NULL;
}

pc__map_item *pc__map_table_next(const pc__map_table *table, int64_t id)
{
    for (size_t at = slot_of(table, id + 1); at < table->count; at++)
        if (table->slots[at].item)
            return table->slots[at].item;
    return NULL;
}

pc_status pc__map_table_reserve(pc__map_table *table, size_t more)
{
    PC__TRY_RETURN(pc__grow(table->mem, (void **)&table->slots, &table->capacity,
                            table->count + more, sizeof *table->slots));
    /* Held items are not in the heap, but come back. */
    return pc__heap_reserve(&table->order, table->mem, table->live + more);
}

void pc__map_table_offer(pc__map_table *table, pc__map_item *item)
{
    const pc__map_log_entry *entry = &item->entry;
    if (!item->holds && !item->is_gone && !table->never_evicts)
        pc__heap_add(&table->order, &item->node, 0,
                     entry->log_uses + pc__lrfu_value((double)entry->tokens, entry->bytes));
}

static void take_out(pc__map_table *table, pc__map_item *item)
{
    item->is_gone = 1;
    pc__heap_remove(&table->order, &item->node);
    table->live--;
}

static void drop_empty_slots(pc__map_table *table)
{
    size_t kept = 0;
    if (table->count < 2 * table->live + 64)
        return;
    for (size_t i = 0; i < table->count; i++)
        if (table->slots[i].item)
            table->slots[kept++] = table->slots[i];
    table->count = kept;
}

pc__map_item *pc__map_table_put(pc__map_table *table, pc__map_item *item)
{
    size_t at = slot_of(table, item->entry.id);
    int is_there = at < table->count && table->slots[at].id == item->entry.id;
    pc__map_item *replaced = is_there ? table->slots[at].item : NULL;
    if (replaced)
        take_out(table, replaced);
    if (!is_there) {
        memmove(table->slots + at + 1, table->slots + at,
                (table->count - at) * sizeof *table->slots);
        table->count++;
    }
    table->slots[at] = (pc__map_slot){item->entry.id, item};
    table->live++;
    pc__map_table_offer(table, item);
    return replaced;
}

void pc__map_table_remove(pc__map_table *table, pc__map_item *item)
{
    table->slots[slot_of(table, item->entry.id)].item = NULL;
    take_out(table, item);
    drop_empty_slots(table);
}

void pc__map_table_hold(pc__map_table *table, pc__map_item *item)
{
    item->holds++;
    pc__heap_remove(&table->order, &item->node);
}

int pc__map_table_release(pc__map_table *table, pc__map_item *item)
{
    if (--item->holds)
        return 0;
    pc__map_table_offer(table, item);
    return 1;
}

void pc__map_table_hit(pc__map_table *table, pc__map_item *item)
{
    item->entry.log_uses = pc__lrfu_use(item->entry.log_uses, table->clock);
    item->entry.used = pc__now_date();
    item->last = pc__now();
    item->gets++;
    table->unsaved++;
}
