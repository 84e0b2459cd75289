/* Makes and reports events, names reasons of statuses, counts outcomes (event.h). */
#include "store/event.h"

#include <promptcache/cache.h>
#include <string.h>

pc_event pc__tell_event(uint32_t tier, uint32_t kind, uint32_t reason, const pc__id *key,
                        uint64_t bytes, size_t tokens, double seconds)
{
    pc_event event = {.struct_size = sizeof event,
                      .kind = kind,
                      .tier = tier,
                      .reason = reason,
                      .bytes = bytes,
                      .seconds = seconds};
    event.tokens = tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
    memcpy(event.key, key->bytes, sizeof event.key);
    return event;
}

void pc__event_report(pc_event_fn receiver, void *user, uint32_t tier, uint32_t kind,
                      uint32_t reason, const pc__id *key, uint64_t bytes, size_t tokens,
                      double seconds)
{
    pc_event event;
    if (!receiver)
        return;
    event = pc__tell_event(tier, kind, reason, key, bytes, tokens, seconds);
    receiver(user, &event);
}

void pc__count_put(pc_tier_stats *counts, pc_status status, uint32_t reason)
{
    counts->offered++;
    if (status < 0)
        counts->failed++;
    else if (status != PC_OK)
        ++*(reason == PC_REASON_NONE ? &counts->known : &counts->refused);
}

void pc__count_read(pc_tier_stats *counts, pc_status status, uint64_t bytes, double seconds)
{
    counts->lookups++;
    ++*(status >= 0 ? &counts->hits : &counts->load_failed);
    counts->bytes_read += bytes;
    counts->seconds_read += seconds;
}

uint32_t pc__reason_of(pc_status status)
{
    switch (status) {
    case PC_ERR_FORMAT:
        return PC_REASON_DAMAGED;
    case PC_ERR_MISMATCH:
    case PC_ERR_UNSUPPORTED:
        return PC_REASON_FOREIGN;
    default:
        return PC_REASON_IO;
    }
}
