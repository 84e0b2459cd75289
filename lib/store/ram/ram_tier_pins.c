/* Pins of the RAM tier: found by entry and owner, by owner, by entry, and by their end. */
#include <math.h>

#include "base/mem.h"
#include "store/ram/ram_tier_internal.h"

typedef struct owner {
    pc__hash_link by_id;
    uint64_t id;
    pc__pin *pins;
} owner;

struct pc__pin {
    pc__hash_link by_pair;
    pc__heap_node end;
    pc__ram_entry *entry;
    owner *owner;
    size_t count;                    /* of the library's pins; else 1 */
    pc__pin *next, **at;             /* of the entry */
    pc__pin *next_owned, **at_owned; /* of the owner */
};

static uint64_t pair_hash(const pc__ram_entry *e, uint64_t owner_id)
{
    return pc__u64_hash((uint64_t)(uintptr_t)e ^ pc__u64_hash(owner_id));
}

static pc__pin *find_pin(const pc__ram_tier *t, const pc__ram_entry *e, uint64_t owner_id)
{
    for (pc__hash_link *l = pc__hash_table_find(&t->pins.pairs, pair_hash(e, owner_id)); l;
         l = pc__hash_table_find_next(l)) {
        pc__pin *pin = PC__AROUND(l, pc__pin, by_pair);
        if (pin->entry == e && pin->owner->id == owner_id)
            return pin;
    }
    return NULL;
}

static owner *find_owner(const pc__ram_tier *t, uint64_t id)
{
    for (pc__hash_link *l = pc__hash_table_find(&t->pins.owners, pc__u64_hash(id)); l;
         l = pc__hash_table_find_next(l))
        if (PC__AROUND(l, owner, by_id)->id == id)
            return PC__AROUND(l, owner, by_id);
    return NULL;
}

static owner *add_owner(pc__ram_tier *t, uint64_t id)
{
    owner *o;
    if (pc__hash_table_reserve(&t->pins.owners, &t->mem) < 0
        || !(o = pc__calloc(&t->mem, 1, sizeof *o)))
        return NULL;
    o->id = id;
    pc__hash_table_add(&t->pins.owners, &o->by_id, pc__u64_hash(id));
    return o;
}

static void drop_owner(pc__ram_tier *t, owner *o)
{
    if (!o || o->pins)
        return;
    pc__hash_table_remove(&t->pins.owners, &o->by_id);
    pc__free(&t->mem, o);
}

static pc__pin *add_pin(pc__ram_tier *t, pc__ram_entry *e, owner *o)
{
    pc__pin *pin;
    if (pc__hash_table_reserve(&t->pins.pairs, &t->mem) < 0
        || pc__heap_reserve(&t->pins.ends, &t->mem, t->pins.pairs.count + 1) < 0
        || !(pin = pc__calloc(&t->mem, 1, sizeof *pin)))
        return NULL;
    pin->entry = e;
    pin->owner = o;
    pc__hash_table_add(&t->pins.pairs, &pin->by_pair, pair_hash(e, o->id));
    pin->next = e->pins;
    pin->at = &e->pins;
    pin->next_owned = o->pins;
    pin->at_owned = &o->pins;
    if (pin->next)
        pin->next->at = &pin->next;
    if (pin->next_owned)
        pin->next_owned->at_owned = &pin->next_owned;
    e->pins = o->pins = pin;
    if (!pin->next) {
        t->pins.bytes += e->item.bytes;
        pc__eviction_hold(&t->eviction, &e->item);
    }
    return pin;
}

static void remove_pin(pc__ram_tier *t, pc__pin *pin)
{
    pc__ram_entry *e = pin->entry;
    *pin->at = pin->next;
    *pin->at_owned = pin->next_owned;
    if (pin->next)
        pin->next->at = pin->at;
    if (pin->next_owned)
        pin->next_owned->at_owned = pin->at_owned;
    pc__hash_table_remove(&t->pins.pairs, &pin->by_pair);
    pc__heap_remove(&t->pins.ends, &pin->end);
    drop_owner(t, pin->owner);
    pc__free(&t->mem, pin);
    if (!e->pins) {
        t->pins.bytes -= e->item.bytes;
        pc__eviction_unhold(&t->eviction, &e->item);
        if (e->ttl > 0)
            pc__heap_add(&t->expiries, &e->expiry, 0, e->expires);
    }
}

pc_status pc__pins_set(pc__ram_tier *t, pc__ram_entry *e, uint64_t owner_id, double until)
{
    pc__pin *pin = find_pin(t, e, owner_id);
    owner *o = NULL;
    if (!pin) {
        o = find_owner(t, owner_id);
        o = o ? o : add_owner(t, owner_id);
        pin = o ? add_pin(t, e, o) : NULL;
    }
    if (!pin) {
        drop_owner(t, o);
        return PC_ERR_NOMEM;
    }
    pin->count += owner_id == PC__PIN_INTERNAL || !pin->count;
    if (isinf(until))
        pc__heap_remove(&t->pins.ends, &pin->end);
    else
        pc__heap_add(&t->pins.ends, &pin->end, 0, until);
    return PC_OK;
}

pc_status pc__pins_remove(pc__ram_tier *t, pc__ram_entry *e, uint64_t owner_id)
{
    pc__pin *pin = find_pin(t, e, owner_id);
    if (!pin)
        return PC_MISS;
    if (!--pin->count)
        remove_pin(t, pin);
    return PC_OK;
}

void pc__pins_remove_owner(pc__ram_tier *t, uint64_t owner_id)
{
    owner *o = find_owner(t, owner_id);
    for (pc__pin *pin = o ? o->pins : NULL, *next; pin; pin = next) {
        next = pin->next_owned; /* the owner is freed with its last pin */
        remove_pin(t, pin);
    }
}

void pc__pins_expire(pc__ram_tier *t, double now)
{
    while (t->pins.ends.count && t->pins.ends.slots[0].key <= now)
        remove_pin(t, PC__AROUND(t->pins.ends.slots[0].node, pc__pin, end));
}

void pc__pins_remove_entry(pc__ram_tier *t, pc__ram_entry *e)
{
    while (e->pins)
        remove_pin(t, e->pins);
}

void pc__pins_free(pc__pins *pins, const pc_allocator *mem)
{
    pc__hash_table_free(&pins->pairs, mem);
    pc__hash_table_free(&pins->owners, mem);
    pc__heap_free(&pins->ends, mem);
}
