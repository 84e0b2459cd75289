/* Makes events, and reasons of statuses (event.h). */
#include "store/event.h"

#include <string.h>

pc_event pc__event(uint32_t tier, uint32_t kind, uint32_t reason, const pc__id *key, uint64_t bytes,
                   size_t tokens, double seconds)
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
