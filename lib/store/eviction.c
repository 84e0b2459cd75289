/* LRFU with cost: scores, chains, holds and history (eviction.h). */
#include "store/eviction.h"

#include "base/lrfu.h"
#include "base/mem.h"

#define LEAST_COST 1e-6 /* seconds; also of items without a cost */

enum { HISTORY_WAYS = 4, HISTORY_TIMES = 4 /* times the number of items */ };

struct pc__eviction_siblings {
    pc__hash_link by_id;
    pc__id id;
    pc__eviction_item *parent_item; /* NULL: it is not here */
    size_t members;
    size_t count; /* of them, not picked */
    size_t held;  /* of those, held or the parent of a held one */
};

static pc__eviction_siblings *find_siblings(const pc__eviction *w, const pc__id *id)
{
    for (pc__hash_link *l = pc__hash_table_find(&w->sibling_sets, pc__id_hash(id)); l;
         l = pc__hash_table_find_next(l))
        if (pc__id_equal(&PC__AROUND(l, pc__eviction_siblings, by_id)->id, id))
            return PC__AROUND(l, pc__eviction_siblings, by_id);
    return NULL;
}

pc__eviction_item *pc__eviction_find(const pc__eviction *w, const pc__id *key)
{
    for (pc__hash_link *l = pc__hash_table_find(&w->items, pc__id_hash(key)); l;
         l = pc__hash_table_find_next(l))
        if (pc__id_equal(&PC__AROUND(l, pc__eviction_item, by_key)->key, key))
            return PC__AROUND(l, pc__eviction_item, by_key);
    return NULL;
}

pc__eviction_item *pc__eviction_next(const pc__eviction *w, const pc__eviction_item *item)
{
    pc__hash_link *link = pc__hash_table_next(&w->items, item ? &item->by_key : NULL);
    return link ? PC__AROUND(link, pc__eviction_item, by_key) : NULL;
}

/* ------------------------------------------------------------------ order */

static void add_candidate(pc__eviction *w, pc__eviction_item *item)
{
    if (item->holds || (item->children && item->children->count))
        return;
    pc__heap_add(&w->order, &item->place, item->priority, item->score);
    if (item->group && item->group->is_ordered)
        pc__heap_add(&item->group->order, &item->group_place, item->priority, item->score);
}

static void remove_candidate(pc__eviction *w, pc__eviction_item *item)
{
    pc__heap_remove(&w->order, &item->place);
    if (item->group)
        pc__heap_remove(&item->group->order, &item->group_place);
}

pc__eviction_item *pc__eviction_candidate(const pc__eviction *w, const pc__eviction_group *group)
{
    const pc__heap *order = group ? &group->order : &w->order;
    if (!order->count)
        return NULL;
    return group ? PC__AROUND(order->slots[0].node, pc__eviction_item, group_place)
                 : PC__AROUND(order->slots[0].node, pc__eviction_item, place);
}

pc_status pc__eviction_order_group(pc__eviction *w, pc__eviction_group *group)
{
    if (group->is_ordered)
        return PC_OK;
    if (pc__heap_reserve(&group->order, &w->mem, group->items) < 0)
        return PC_ERR_NOMEM;
    group->is_ordered = 1;
    for (size_t i = 0; i < w->order.count; i++) {
        pc__eviction_item *item = PC__AROUND(w->order.slots[i].node, pc__eviction_item, place);
        if (item->group == group)
            pc__heap_add(&group->order, &item->group_place, item->priority, item->score);
    }
    return PC_OK;
}

/* ------------------------------------------------------------------ holds */

static int item_is_held(const pc__eviction_item *item)
{
    return item->holds || (item->children && item->children->held);
}

/* Tells the parent that an item has become held, or free; goes up the chain as long as that
 * changes. */
static void propagate_hold(pc__eviction *w, pc__eviction_item *item, int held)
{
    for (;;) {
        pc__eviction_siblings *siblings = item->siblings;
        int was_held;
        w->held_bytes += held ? item->bytes : -item->bytes;
        if (item->group)
            item->group->held_bytes += held ? item->bytes : -item->bytes;
        if (!siblings)
            return;
        was_held = siblings->parent_item && item_is_held(siblings->parent_item);
        siblings->held += held ? 1 : (size_t)-1;
        if (!siblings->parent_item || item_is_held(siblings->parent_item) == was_held)
            return;
        item = siblings->parent_item;
    }
}

void pc__eviction_hold(pc__eviction *w, pc__eviction_item *item)
{
    int was_held = item_is_held(item);
    remove_candidate(w, item);
    item->holds++;
    if (!was_held)
        propagate_hold(w, item, 1);
}

void pc__eviction_unhold(pc__eviction *w, pc__eviction_item *item)
{
    item->holds--;
    if (!item_is_held(item))
        propagate_hold(w, item, 0);
    add_candidate(w, item);
}

/* ------------------------------------------------------------------ score */

/* Without a budget: of the bytes that are here. */
static double half_lives(const pc__eviction *w, uint64_t bytes)
{
    uint64_t all = w->budget ? w->budget : w->bytes;
    return pc__lrfu_half_lives(bytes, all ? all : 1);
}

static pc__eviction_history *history_set(const pc__eviction *w, uint64_t hash)
{
    return &w->history[(hash & (w->history_sets - 1)) * HISTORY_WAYS];
}

/* Replaces the coldest of its set. */
static void remember_heat(pc__eviction *w, uint64_t hash, double heat)
{
    pc__eviction_history *set = w->history_sets ? history_set(w, hash) : NULL, *coldest = set;
    if (!set)
        return;
    for (size_t i = 1; i < HISTORY_WAYS; i++)
        if (set[i].heat < coldest->heat)
            coldest = &set[i];
    if (heat > coldest->heat)
        *coldest = (pc__eviction_history){hash, heat};
}

/* Takes the remembered heat; -INFINITY: there is none. */
static double recall_heat(pc__eviction *w, uint64_t hash)
{
    pc__eviction_history *set = w->history_sets ? history_set(w, hash) : NULL;
    for (size_t i = 0; set && i < HISTORY_WAYS; i++)
        if (set[i].hash == hash && set[i].heat > (double)-INFINITY) {
            double heat = set[i].heat;
            set[i].heat = (double)-INFINITY;
            return heat;
        }
    return (double)-INFINITY;
}

/* Grows with the items. Without memory it remembers fewer. */
static void grow_history(pc__eviction *w)
{
    pc__eviction old = *w;
    size_t sets = old.history_sets ? old.history_sets * 2 : 16;
    if (w->items.count * HISTORY_TIMES <= old.history_sets * HISTORY_WAYS)
        return;
    w->history = pc__alloc_aligned(&w->mem, sets * HISTORY_WAYS * sizeof *w->history, 64);
    if (!w->history) {
        w->history = old.history;
        return;
    }
    w->history_sets = sets;
    for (size_t i = 0; i < sets * HISTORY_WAYS; i++)
        w->history[i] = (pc__eviction_history){0, (double)-INFINITY};
    for (size_t i = 0; i < old.history_sets * HISTORY_WAYS; i++)
        remember_heat(w, old.history[i].hash, old.history[i].heat);
    pc__free(&w->mem, old.history);
}

static void set_first_score(pc__eviction *w, pc__eviction_item *item)
{
    double cost = item->cost > LEAST_COST ? item->cost : LEAST_COST;
    double history = recall_heat(w, pc__id_hash(&item->key));
    item->value = pc__lrfu_value(cost, item->bytes ? item->bytes : 1);
    item->heat = isinf(history) ? w->clock + PC__LRFU_FIRST_USE : pc__lrfu_use(history, w->clock);
    item->score = item->heat + item->value;
    item->uses = 1;
}

static void set_heat(pc__eviction *w, pc__eviction_item *item, double heat)
{
    item->heat = heat;
    item->score = heat + item->value;
    if (item->place.place)
        add_candidate(w, item);
}

void pc__eviction_hit(pc__eviction *w, pc__eviction_item *item)
{
    item->uses++;
    set_heat(w, item, pc__lrfu_use(item->heat, w->clock));
}

void pc__eviction_restore(pc__eviction *w, pc__eviction_item *item, double heat, uint32_t uses)
{
    w->clock -= half_lives(w, item->bytes); /* the item came in then, not now */
    item->uses = uses;
    set_heat(w, item, heat);
}

/* ---------------------------------------------------------- coming, going */

/* 1: this parent would close a cycle. Only keys made by hand can. */
static int makes_cycle(const pc__eviction *w, const pc__eviction_item *item)
{
    const pc__eviction_item *up = item->children ? pc__eviction_find(w, &item->parent) : NULL;
    if (pc__id_equal(&item->key, &item->parent))
        return 1;
    while (up && up->siblings && up->siblings != item->children)
        up = up->siblings->parent_item;
    return up && up->siblings;
}

static pc__eviction_siblings *join_siblings(pc__eviction *w, pc__eviction_item *item)
{
    pc__eviction_siblings *f = find_siblings(w, &item->parent);
    if (!f) {
        f = pc__hash_table_reserve(&w->sibling_sets, &w->mem) < 0
                ? NULL
                : pc__calloc(&w->mem, 1, sizeof *f);
        if (!f)
            return NULL;
        f->id = item->parent;
        f->parent_item = pc__eviction_find(w, &item->parent);
        if (f->parent_item)
            f->parent_item->children = f;
        pc__hash_table_add(&w->sibling_sets, &f->by_id, pc__id_hash(&f->id));
    }
    f->members++;
    return f;
}

static void leave_siblings(pc__eviction *w, pc__eviction_siblings *f)
{
    if (--f->members)
        return;
    if (f->parent_item)
        f->parent_item->children = NULL;
    pc__hash_table_remove(&w->sibling_sets, &f->by_id);
    pc__free(&w->mem, f);
}

/* A parent is no candidate while it has children. */
static void attach_to_parent(pc__eviction *w, pc__eviction_item *item)
{
    if (!item->siblings)
        return;
    item->siblings->count++;
    if (item->siblings->parent_item)
        remove_candidate(w, item->siblings->parent_item);
}

static void detach_from_parent(pc__eviction *w, pc__eviction_item *item)
{
    if (item->siblings && !--item->siblings->count && item->siblings->parent_item)
        add_candidate(w, item->siblings->parent_item);
}

pc_status pc__eviction_add(pc__eviction *w, pc__eviction_item *item)
{
    size_t in_group = item->group && item->group->is_ordered ? item->group->items + 1 : 0;
    item->siblings = NULL;
    item->children = find_siblings(w, &item->key);
    if (pc__hash_table_reserve(&w->items, &w->mem) < 0
        || pc__heap_reserve(&w->order, &w->mem, w->items.count + 1) < 0
        || (in_group && pc__heap_reserve(&item->group->order, &w->mem, in_group) < 0))
        return PC_ERR_NOMEM;
    if (item->has_parent && !makes_cycle(w, item)) {
        item->siblings = join_siblings(w, item);
        if (!item->siblings)
            return PC_ERR_NOMEM;
    }
    if (item->children)
        item->children->parent_item = item;
    pc__hash_table_add(&w->items, &item->by_key, pc__id_hash(&item->key));
    w->bytes += item->bytes;
    if (item->group) {
        item->group->items++;
        item->group->bytes += item->bytes;
    }
    grow_history(w);
    w->clock += half_lives(w, item->bytes);
    set_first_score(w, item);
    attach_to_parent(w, item);
    if (item_is_held(item))
        propagate_hold(w, item, 1);
    add_candidate(w, item);
    return PC_OK;
}

/* Drops an item that is no candidate and is detached from its parent. */
static void forget_item(pc__eviction *w, pc__eviction_item *item)
{
    pc__hash_table_remove(&w->items, &item->by_key);
    if (item->children)
        item->children->parent_item = NULL;
    if (item->siblings)
        leave_siblings(w, item->siblings);
    w->bytes -= item->bytes;
    if (item->group) {
        item->group->items--;
        item->group->bytes -= item->bytes;
    }
}

void pc__eviction_remove(pc__eviction *w, pc__eviction_item *item)
{
    remove_candidate(w, item);
    if (item_is_held(item))
        propagate_hold(w, item, 0);
    detach_from_parent(w, item);
    forget_item(w, item);
}

void pc__eviction_pick(pc__eviction *w, pc__eviction_item *item)
{
    remove_candidate(w, item);
    detach_from_parent(w, item);
}

void pc__eviction_put_back(pc__eviction *w, pc__eviction_item *item)
{
    attach_to_parent(w, item);
    add_candidate(w, item);
}

void pc__eviction_evict(pc__eviction *w, pc__eviction_item *item)
{
    remember_heat(w, item->by_key.hash, item->heat);
    forget_item(w, item);
}

void pc__eviction_free(pc__eviction *w)
{
    for (pc__hash_link *l = pc__hash_table_next(&w->sibling_sets, NULL), *next; l; l = next) {
        next = pc__hash_table_next(&w->sibling_sets, l);
        pc__free(&w->mem, PC__AROUND(l, pc__eviction_siblings, by_id));
    }
    pc__hash_table_free(&w->sibling_sets, &w->mem);
    pc__hash_table_free(&w->items, &w->mem);
    pc__heap_free(&w->order, &w->mem);
    pc__free(&w->mem, w->history);
}
