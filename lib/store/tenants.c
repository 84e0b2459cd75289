/* Tenants of a tier: their limits, and whose entries make room (tenants.h). */
#include "store/tenants.h"

#include "base/mem.h"
#include "store/event.h"

uint64_t pc__tenants_share(uint64_t budget, uint32_t percent)
{
    uint64_t share = budget / 100 * percent + budget % 100 * percent / 100;
    if (!percent || percent >= 100)
        return 0;
    return share ? share : 1;
}

pc__tenant *pc__tenants_find(const pc__tenants *ts, const pc__id *salt)
{
    return PC__FIND_ID(&ts->by_salt, salt, pc__tenant, by_salt, salt);
}

pc__tenant *pc__tenants_find_or_add(pc__tenants *ts, const pc_allocator *mem, const pc__id *salt)
{
    pc__tenant *tenant = pc__tenants_find(ts, salt);
    if (tenant)
        return tenant;
    if (pc__hash_table_reserve(&ts->by_salt, mem) < 0
        || !(tenant = pc__calloc(mem, 1, sizeof *tenant)))
        return NULL;
    tenant->salt = *salt;
    pc__hash_table_add(&ts->by_salt, &tenant->by_salt, pc__id_hash(salt));
    return tenant;
}

void pc__tenants_drop_if_unused(pc__tenants *ts, const pc_allocator *mem, pc__tenant *tenant)
{
    if (!tenant || tenant->limit || tenant->group.items)
        return;
    pc__hash_table_remove(&ts->by_salt, &tenant->by_salt);
    pc__heap_free(&tenant->group.order, mem);
    pc__free(mem, tenant);
}

pc_status pc__tenants_set_limit(pc__tenants *ts, const pc_allocator *mem, const pc__id *salt,
                                uint64_t limit)
{
    pc__tenant *tenant = limit ? pc__tenants_find_or_add(ts, mem, salt)
                               : pc__tenants_find(ts, salt);
    if (limit && !tenant)
        return PC_ERR_NOMEM;
    if (tenant)
        tenant->limit = limit;
    pc__tenants_drop_if_unused(ts, mem, tenant);
    return PC_OK;
}

void pc__tenants_move_limits(pc__tenants *to, const pc_allocator *mem, pc__tenants *from)
{
    for (pc__hash_link *link = pc__hash_table_next(&from->by_salt, NULL), *next; link;
         link = next) {
        pc__tenant *tenant = PC__AROUND(link, pc__tenant, by_salt);
        next = pc__hash_table_next(&from->by_salt, link);
        if (pc__tenants_set_limit(to, mem, &tenant->salt, tenant->limit) == PC_OK)
            pc__tenants_set_limit(from, mem, &tenant->salt, 0);
    }
}

void pc__tenants_free(pc__tenants *ts, const pc_allocator *mem)
{
    for (pc__hash_link *link = pc__hash_table_next(&ts->by_salt, NULL), *next; link; link = next) {
        pc__tenant *tenant = PC__AROUND(link, pc__tenant, by_salt);
        next = pc__hash_table_next(&ts->by_salt, link);
        tenant->limit = 0;
        pc__tenants_drop_if_unused(ts, mem, tenant);
    }
    pc__hash_table_free(&ts->by_salt, mem);
}

/* ------------------------------------------------------------------ limits */

static uint64_t limit_of(const pc__tenants *ts, const pc__tenant *tenant)
{
    if (!tenant)
        return 0;
    return tenant->limit ? tenant->limit : ts->share;
}

static uint64_t excess_over(uint64_t have, uint64_t need, uint64_t limit)
{
    uint64_t sum = have + need < have ? UINT64_MAX : have + need;
    return sum > limit ? sum - limit : 0;
}

uint64_t pc__tenants_excess(const pc__tenants *ts, const pc__tenant *tenant)
{
    uint64_t limit = limit_of(ts, tenant);
    return limit ? excess_over(tenant->group.bytes, 0, limit) : 0;
}

pc__tenant *pc__tenants_over(const pc__tenants *ts)
{
    for (pc__hash_link *link = pc__hash_table_next(&ts->by_salt, NULL); link;
         link = pc__hash_table_next(&ts->by_salt, link)) {
        pc__tenant *tenant = PC__AROUND(link, pc__tenant, by_salt);
        if (pc__tenants_excess(ts, tenant))
            return tenant;
    }
    return NULL;
}

/* -------------------------------------------------------------------- room */

/* The tenant's bytes over its limit once it has what it wants; *limit gets the limit, 0: none. */
static uint64_t own_excess(const pc__tenants *ts, const pc__room *room, uint64_t *limit)
{
    *limit = limit_of(ts, room->tenant);
    if (!*limit)
        return 0;
    if (*limit < room->least_limit)
        *limit = room->least_limit;
    return excess_over(room->tenant->group.bytes + room->writing - room->picked_own, room->need,
                       *limit);
}

/* The first of the tenant's entries, in whose order all of them are from now on. */
static pc__eviction_item *own_candidate(pc__eviction *ev, pc__tenant *tenant)
{
    if (pc__eviction_order_group(ev, &tenant->group) < 0)
        return NULL;
    return pc__eviction_candidate(ev, &tenant->group);
}

pc__eviction_item *pc__tenants_next(const pc__tenants *ts, pc__eviction *ev, const pc__room *room,
                                    uint32_t *reason)
{
    pc__eviction_item *item = NULL;
    uint64_t limit, excess = own_excess(ts, room, &limit);
    if (excess) {
        const pc__eviction_group *own = &room->tenant->group;
        *reason = PC_REASON_QUOTA;
        if (room->need <= limit && excess <= own->bytes - own->held_bytes - room->picked_own)
            item = own_candidate(ev, room->tenant);
    } else {
        excess = excess_over(room->used - room->picked, room->need, room->budget);
        *reason = excess ? PC_REASON_NO_ROOM : PC_REASON_NONE;
        if (excess && room->need <= room->budget
            && excess <= ev->bytes - ev->held_bytes - room->picked)
            item = pc__eviction_candidate(ev, NULL);
    }
    if (!item || item->priority > room->priority)
        return NULL;
    *reason = PC_REASON_NONE;
    return item;
}

static void pick_item(pc__eviction *ev, pc__room *room, pc__eviction_item *item,
                      pc__eviction_item **picked)
{
    pc__eviction_pick(ev, item);
    room->picked += item->bytes;
    if (room->tenant && item->group == &room->tenant->group)
        room->picked_own += item->bytes;
    item->next_picked = *picked;
    *picked = item;
}

uint32_t pc__tenants_make_room(const pc__tenants *ts, pc__eviction *ev, pc__room *room,
                               pc__eviction_item **picked)
{
    pc__eviction_item *item;
    uint32_t reason;
    *picked = NULL;
    while ((item = pc__tenants_next(ts, ev, room, &reason)) != NULL)
        pick_item(ev, room, item, picked);
    if (reason)
        pc__eviction_put_back(ev, picked);
    return reason;
}

void pc__tenants_shrink(const pc__tenants *ts, pc__eviction *ev, const pc__id *salt,
                        pc__eviction_item **picked)
{
    pc__tenant *tenant = pc__tenants_find(ts, salt);
    pc__room room = {.tenant = tenant, .budget = UINT64_MAX, .priority = INT32_MAX};
    pc__eviction_item *item;
    uint64_t excess = pc__tenants_excess(ts, tenant);
    *picked = NULL;
    while (room.picked < excess && (item = own_candidate(ev, tenant)) != NULL)
        pick_item(ev, &room, item, picked);
}
