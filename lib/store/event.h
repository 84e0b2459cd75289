/* Events and reasons, common to all tiers. */
#ifndef PC_STORE_EVENT_H
#define PC_STORE_EVENT_H

#include "base/digest.h"

pc_event pc__event(uint32_t tier, uint32_t kind, uint32_t reason, const pc__id *key, uint64_t bytes,
                   size_t tokens, double seconds);
/* PC_REASON_… of a record whose reading ended with this status. */
uint32_t pc__reason_of(pc_status status);

#endif
