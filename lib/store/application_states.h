/* The cache for applications that keep their own states: keys, put and get of raw states
 * (store/raw_states.h). */
#ifndef PC_STORE_APPLICATION_STATES_H
#define PC_STORE_APPLICATION_STATES_H

#include "store/cache.h"
#include "store/raw_states.h"

/* PC_ERR_MISMATCH: the segment under this key is not what the application expects. */
pc_status pc__segment_matches(const pc_segment *segment, const pc__image *want);

#endif
