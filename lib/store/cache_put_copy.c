/* Puts a copy of states. Room is made for it before it is copied. */
#include "store/cache_internal.h"

#include <string.h>

#include "store/raw_states.h"

static const uint32_t BELOW_RAM = 1u << PC_TIER_COMPRESSED | 1u << PC_TIER_DISK
                                  | 1u << PC_TIER_REMOTE;

static pc_status copy_and_put(pc_cache *cache, const pc__entry_desc *desc, const pc__image *image,
                              uint32_t *reason)
{
    pc_segment *copy;
    pc_status status = pc__raw_copy(&copy, cache->context, image);
    if (status < 0) {
        if (desc->reserved)
            pc__ram_tier_unreserve(cache->ram, desc->reserved);
        return status;
    }
    if (cache->flags & PC_CACHE_ZERO_MEMORY)
        atomic_store_explicit(&copy->zero_memory, 1, memory_order_relaxed);
    status = pc__cache_put_entry(cache, desc, image, copy, NULL, reason);
    pc__segment_unref(copy);
    return status;
}

/* Whether a copy may wait for the lower tiers, outside RAM. */
static int has_room_outside(pc_cache *cache, uint64_t bytes, uint32_t wait)
{
    while (atomic_load(&cache->outside) + bytes > cache->room_outside)
        if (!wait || bytes > cache->room_outside || !pc__io_await_write(cache->io))
            return 0;
    return 1;
}

pc_status pc__cache_put_entry_copy(pc_cache *cache, const pc__entry_desc *desc,
                                   const pc__image *image, uint32_t *reason)
{
    uint64_t bytes = pc__raw_copy_bytes(image);
    pc__entry_desc n = *desc;
    int in_ram = pc__tiers_have(desc->tiers, PC_TIER_RAM);
    pc_status status;
    *reason = PC_REASON_NONE;
    PC__TRY_RETURN(pc__cache_check(cache, "a request"));
    if (in_ram && pc__ram_tier_has(cache->ram, &desc->key))
        return PC_EXISTS;
    if (in_ram) {
        n.reserved = pc__ram_tier_entry_bytes(bytes, image->tokens);
        status = pc__ram_tier_reserve(cache->ram, desc, n.reserved, 0, reason);
        if (status != PC_MISS)
            return status < 0 ? status : copy_and_put(cache, &n, image, reason);
        n.reserved = 0;
        n.tiers = desc->tiers ? desc->tiers & BELOW_RAM : BELOW_RAM;
    }
    if (!cache->has_lower || !n.tiers || !has_room_outside(cache, bytes, desc->wait_for_room)) {
        *reason = *reason ? *reason : PC_REASON_NO_ROOM;
        return PC_MISS;
    }
    status = copy_and_put(cache, &n, image, reason);
    return in_ram && status == PC_OK ? PC_MISS : status;
}
