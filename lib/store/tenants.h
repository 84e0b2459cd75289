/* Shares of tenants, for the tiers RAM, COMPRESSED and DISK: the entries of one salt are a group of
 * store/eviction.h, which may have a limit. A tenant over its limit makes room among its own
 * entries, and then, like everybody, among all entries of the tier.
 *
 * Locks nothing. */
#ifndef PC_STORE_TENANTS_H
#define PC_STORE_TENANTS_H

#include "store/eviction.h"

typedef struct pc__tenant {
    pc__hash_link by_salt;
    pc__id salt;
    uint64_t limit; /* its own; 0: pc__tenants.share holds */
    pc__eviction_group group;
} pc__tenant;

typedef struct pc__tenants { /* zero-initialised: none */
    pc__hash_table by_salt;
    uint64_t share; /* limit of those that have none of their own; 0: none */
} pc__tenants;

/* `percent` of a budget as pc__tenants.share. 0 and 100: no limit. */
uint64_t pc__tenants_share(uint64_t budget, uint32_t percent);
pc__tenant *pc__tenants_find(const pc__tenants *tenants, const pc__id *salt);
pc__tenant *pc__tenants_find_or_add(pc__tenants *tenants, const pc_allocator *mem,
                                    const pc__id *salt); /* NULL: no memory */
/* If it has no limit of its own and no entries. NULL does nothing. Call it after each removal of an
 * entry, and after a call of the above without a new entry. */
void pc__tenants_drop_if_unused(pc__tenants *tenants, const pc_allocator *mem, pc__tenant *tenant);
/* Sets its own limit; 0: none. */
pc_status pc__tenants_set_limit(pc__tenants *tenants, const pc_allocator *mem, const pc__id *salt,
                                uint64_t limit);
/* Gives own limits to tenants of another tier; those without memory are left. */
void pc__tenants_move_limits(pc__tenants *to, const pc_allocator *mem, pc__tenants *from);
/* Bytes over its limit; NULL: 0. */
uint64_t pc__tenants_excess(const pc__tenants *tenants, const pc__tenant *tenant);
/* One that is over its limit; NULL: none is. */
pc__tenant *pc__tenants_over(const pc__tenants *tenants);
void pc__tenants_free(pc__tenants *tenants, const pc_allocator *mem); /* when no entry is left */

/* Room that somebody wants. */
typedef struct pc__room {
    pc__tenant *tenant; /* NULL: nobody's */
    uint64_t need;
    uint64_t used, budget; /* bytes of the tier */
    uint64_t writing;      /* the tenant's bytes beside its entries */
    uint64_t least_limit;  /* the tenant's limit is not less */
    int32_t priority;      /* nothing of a higher one goes */
    /* entries that were picked already */
    uint64_t picked, picked_own;
} pc__room;

/* The entry that goes next. NULL: *reason says why there is none (PC_REASON_QUOTA or
 * PC_REASON_NO_ROOM), or PC_REASON_NONE: there is room. */
pc__eviction_item *pc__tenants_next(const pc__tenants *tenants, pc__eviction *eviction,
                                    const pc__room *room, uint32_t *reason);
/* Picks all entries that must go (pc__eviction_pick), into *picked by next_picked. Not
 * PC_REASON_NONE: none is picked. */
uint32_t pc__tenants_make_room(const pc__tenants *tenants, pc__eviction *eviction, pc__room *room,
                               pc__eviction_item **picked);
/* Picks entries of a tenant, if there is one, until it is within its limit, as far as possible. */
void pc__tenants_shrink(const pc__tenants *tenants, pc__eviction *eviction, const pc__id *salt,
                        pc__eviction_item **picked);

#endif
