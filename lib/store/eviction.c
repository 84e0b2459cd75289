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

static pc__eviction_siblings *find_siblings(const pc__eviction *ev, const pc__id *id)
{
    return PC__FIND_ID(&ev->sibling_sets, id, pc__eviction_siblings, by_id, id);
}

pc__eviction_item *pc__eviction_find(const pc__eviction *ev, const pc__id *key)
{
    return PC__FIND_ID(&ev->items, key, pc__eviction_item, by_key, key);
}

int pc__eviction_has_content(const pc__eviction *ev, const pc__id *content)
{
    return PC__FIND_ID(&ev->contents, content, pc__eviction_item, by_content, content) != NULL;
}

pc__eviction_item *pc__eviction_next(const pc__eviction *ev, const pc__eviction_item *item)
{
    pc__hash_link *link = pc__hash_table_next(&ev->items, item ? &item->by_key : NULL);
    return link ? PC__AROUND(link, pc__eviction_item, by_key) : NULL;
}

/* ------------------------------------------------------------------ order */

static void add_candidate(pc__eviction *ev, pc__eviction_item *item)
{
    if (item->holds || (item->children && item->children->count))
        return;
    pc__heap_add(&ev->order, &item->place, item->priority, item->score);
    if (item->group && item->group->is_ordered)
        pc__heap_add(&item->group->order, &item->group_place, item->priority, item->score);
}

static void remove_candidate(pc__eviction *ev, pc__eviction_item *item)
{
    pc__heap_remove(&ev->order, &item->place);
    if (item->group)
        pc__heap_remove(&item->group->order, &item->group_place);
}

pc__eviction_item *pc__eviction_candidate(const pc__eviction *ev, const pc__eviction_group *group)
{
    const pc__heap *order = group ? &group->order : &ev->order;
    if (!order->count)
        return NULL;
    return group ? PC__AROUND(order->slots[0].node, pc__eviction_item, group_place)
                 : PC__AROUND(order->slots[0].node, pc__eviction_item, place);
}

pc_status pc__eviction_order_group(pc__eviction *ev, pc__eviction_group *group)
{
    if (group->is_ordered)
        return PC_OK;
    if (pc__heap_reserve(&group->order, &ev->mem, group->items) < 0)
        return PC_ERR_NOMEM;
    group->is_ordered = 1;
    for (size_t i = 0; i < ev->order.count; i++) {
        pc__eviction_item *item = PC__AROUND(ev->order.slots[i].node, pc__eviction_item, place);
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
static void propagate_hold(pc__eviction *ev, pc__eviction_item *item, int held)
{
    for (;;) {
        pc__eviction_siblings *siblings = item->siblings;
        int was_held;
        ev->held_bytes += held ? item->bytes : -item->bytes;
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

void pc__eviction_hold(pc__eviction *ev, pc__eviction_item *item)
{
    int was_held;
    if (!item)
        return;
    was_held = item_is_held(item);
    remove_candidate(ev, item);
    item->holds++;
    if (!was_held)
        propagate_hold(ev, item, 1);
}

void pc__eviction_unhold(pc__eviction *ev, pc__eviction_item *item)
{
    if (!item)
        return;
    item->holds--;
    if (!item_is_held(item))
        propagate_hold(ev, item, 0);
    add_candidate(ev, item);
}

/* ------------------------------------------------------------------ score */

/* Without a budget: of the bytes that are here. */
static double half_lives(const pc__eviction *ev, uint64_t bytes)
{
    uint64_t all = ev->budget ? ev->budget : ev->bytes;
    return pc__lrfu_half_lives(bytes, all ? all : 1);
}

static pc__eviction_history *history_set(const pc__eviction *ev, uint64_t hash)
{
    return &ev->history[(hash & (ev->history_sets - 1)) * HISTORY_WAYS];
}

/* Replaces the least used of its set. */
static void remember_uses(pc__eviction *ev, uint64_t hash, double log_uses)
{
    pc__eviction_history *set = ev->history_sets ? history_set(ev, hash) : NULL, *least = set;
    if (!set)
        return;
    for (size_t i = 1; i < HISTORY_WAYS; i++)
        if (set[i].log_uses < least->log_uses)
            least = &set[i];
    if (log_uses > least->log_uses)
        *least = (pc__eviction_history){hash, log_uses};
}

/* Takes what is remembered; -INFINITY: nothing is. */
static double recall_uses(pc__eviction *ev, uint64_t hash)
{
    pc__eviction_history *set = ev->history_sets ? history_set(ev, hash) : NULL;
    for (size_t i = 0; set && i < HISTORY_WAYS; i++)
        if (set[i].hash == hash && set[i].log_uses > (double)-INFINITY) {
            double log_uses = set[i].log_uses;
            set[i].log_uses = (double)-INFINITY;
            return log_uses;
        }
    return (double)-INFINITY;
}

/* Grows with the items. Without memory it remembers fewer. */
static void grow_history(pc__eviction *ev)
{
    pc__eviction old = *ev;
    size_t sets = old.history_sets ? old.history_sets * 2 : 16;
    if (ev->items.count * HISTORY_TIMES <= old.history_sets * HISTORY_WAYS)
        return;
    ev->history = pc__alloc_aligned(&ev->mem, sets * HISTORY_WAYS * sizeof *ev->history, 64);
    if (!ev->history) {
        ev->history = old.history;
        return;
    }
    ev->history_sets = sets;
    for (size_t i = 0; i < sets * HISTORY_WAYS; i++)
        ev->history[i] = (pc__eviction_history){0, (double)-INFINITY};
    for (size_t i = 0; i < old.history_sets * HISTORY_WAYS; i++)
        remember_uses(ev, old.history[i].hash, old.history[i].log_uses);
    pc__free(&ev->mem, old.history);
}

static void set_first_score(pc__eviction *ev, pc__eviction_item *item)
{
    double cost = item->cost > LEAST_COST ? item->cost : LEAST_COST;
    double history = recall_uses(ev, pc__id_hash(&item->key));
    item->value = pc__lrfu_value(cost, item->bytes ? item->bytes : 1);
    item->log_uses = isinf(history) ? ev->clock + PC__LRFU_FIRST_USE
                                    : pc__lrfu_use(history, ev->clock);
    item->score = item->log_uses + item->value;
    item->uses = 1;
}

static void set_log_uses(pc__eviction *ev, pc__eviction_item *item, double log_uses)
{
    item->log_uses = log_uses;
    item->score = log_uses + item->value;
    if (item->place.place)
        add_candidate(ev, item);
}

void pc__eviction_hit(pc__eviction *ev, pc__eviction_item *item)
{
    item->uses++;
    set_log_uses(ev, item, pc__lrfu_use(item->log_uses, ev->clock));
}

void pc__eviction_restore(pc__eviction *ev, pc__eviction_item *item, double log_uses, uint32_t uses)
{
    ev->clock -= half_lives(ev, item->bytes); /* the item came in then, not now */
    item->uses = uses;
    set_log_uses(ev, item, log_uses);
}

/* ---------------------------------------------------------- coming, going */

/* 1: this parent would close a cycle. Only keys made by hand can. */
static int makes_cycle(const pc__eviction *ev, const pc__eviction_item *item)
{
    const pc__eviction_item *up = item->children ? pc__eviction_find(ev, &item->parent) : NULL;
    if (pc__id_equal(&item->key, &item->parent))
        return 1;
    while (up && up->siblings && up->siblings != item->children)
        up = up->siblings->parent_item;
    return up && up->siblings;
}

static pc__eviction_siblings *join_siblings(pc__eviction *ev, pc__eviction_item *item)
{
    pc__eviction_siblings *f = find_siblings(ev, &item->parent);
    if (!f) {
        if (pc__hash_table_reserve(&ev->sibling_sets, &ev->mem) < 0
            || !(f = pc__calloc(&ev->mem, 1, sizeof *f)))
            return NULL;
        f->id = item->parent;
        f->parent_item = pc__eviction_find(ev, &item->parent);
        if (f->parent_item)
            f->parent_item->children = f;
        pc__hash_table_add(&ev->sibling_sets, &f->by_id, pc__id_hash(&f->id));
    }
    f->members++;
    return f;
}

static void leave_siblings(pc__eviction *ev, pc__eviction_siblings *f)
{
    if (--f->members)
        return;
    if (f->parent_item)
        f->parent_item->children = NULL;
    pc__hash_table_remove(&ev->sibling_sets, &f->by_id);
    pc__free(&ev->mem, f);
}

/* A parent is no candidate while it has children. */
static void attach_to_parent(pc__eviction *ev, pc__eviction_item *item)
{
    if (!item->siblings)
        return;
    item->siblings->count++;
    if (item->siblings->parent_item)
        remove_candidate(ev, item->siblings->parent_item);
}

static void detach_from_parent(pc__eviction *ev, pc__eviction_item *item)
{
    if (item->siblings && !--item->siblings->count && item->siblings->parent_item)
        add_candidate(ev, item->siblings->parent_item);
}

pc_status pc__eviction_add(pc__eviction *ev, pc__eviction_item *item)
{
    size_t in_group = item->group && item->group->is_ordered ? item->group->items + 1 : 0;
    item->siblings = NULL;
    item->children = find_siblings(ev, &item->key);
    if (pc__hash_table_reserve(&ev->items, &ev->mem) < 0
        || (item->has_content && pc__hash_table_reserve(&ev->contents, &ev->mem) < 0)
        || pc__heap_reserve(&ev->order, &ev->mem, ev->items.count + 1) < 0
        || (in_group && pc__heap_reserve(&item->group->order, &ev->mem, in_group) < 0))
        return PC_ERR_NOMEM;
    if (item->has_parent && !makes_cycle(ev, item)) {
        item->siblings = join_siblings(ev, item);
        if (!item->siblings)
            return PC_ERR_NOMEM;
    }
    if (item->children)
        item->children->parent_item = item;
    pc__hash_table_add(&ev->items, &item->by_key, pc__id_hash(&item->key));
    if (item->has_content)
        pc__hash_table_add(&ev->contents, &item->by_content, pc__id_hash(&item->content));
    ev->bytes += item->bytes;
    if (item->group) {
        item->group->items++;
        item->group->bytes += item->bytes;
    }
    grow_history(ev);
    ev->clock += half_lives(ev, item->bytes);
    set_first_score(ev, item);
    attach_to_parent(ev, item);
    if (item_is_held(item))
        propagate_hold(ev, item, 1);
    add_candidate(ev, item);
    return PC_OK;
}

/* Drops an item that is no candidate and is detached from its parent. */
static void forget_item(pc__eviction *ev, pc__eviction_item *item)
{
    pc__hash_table_remove(&ev->items, &item->by_key);
    if (item->has_content)
        pc__hash_table_remove(&ev->contents, &item->by_content);
    if (item->children)
        item->children->parent_item = NULL;
    if (item->siblings)
        leave_siblings(ev, item->siblings);
    ev->bytes -= item->bytes;
    if (item->group) {
        item->group->items--;
        item->group->bytes -= item->bytes;
    }
}

void pc__eviction_remove(pc__eviction *ev, pc__eviction_item *item)
{
    remove_candidate(ev, item);
    if (item_is_held(item))
        propagate_hold(ev, item, 0);
    detach_from_parent(ev, item);
    forget_item(ev, item);
}

void pc__eviction_pick(pc__eviction *ev, pc__eviction_item *item)
{
    remove_candidate(ev, item);
    detach_from_parent(ev, item);
}

void pc__eviction_put_back(pc__eviction *ev, pc__eviction_item **picked)
{
    for (; *picked; *picked = (*picked)->next_picked) {
        attach_to_parent(ev, *picked);
        add_candidate(ev, *picked);
    }
}

void pc__eviction_evict(pc__eviction *ev, pc__eviction_item *item)
{
    remember_uses(ev, item->by_key.hash, item->log_uses);
    forget_item(ev, item);
}

void pc__eviction_free(pc__eviction *ev)
{
    for (pc__hash_link *l = pc__hash_table_next(&ev->sibling_sets, NULL), *next; l; l = next) {
        next = pc__hash_table_next(&ev->sibling_sets, l);
        pc__free(&ev->mem, PC__AROUND(l, pc__eviction_siblings, by_id));
    }
    pc__hash_table_free(&ev->sibling_sets, &ev->mem);
    pc__hash_table_free(&ev->items, &ev->mem);
    pc__hash_table_free(&ev->contents, &ev->mem);
    pc__heap_free(&ev->order, &ev->mem);
    pc__free(&ev->mem, ev->history);
}
