/* The cache for runtimes that keep their own states: keys, put and get of raw states
 * (store/raw_states.h). */
#ifndef PC_STORE_APPLICATION_STATES_H
#define PC_STORE_APPLICATION_STATES_H

#include "store/cache.h"
#include "store/raw_states.h"

/* PC_ERR_MISMATCH: a segment that goes by the key is not what is expected. */
pc_status pc__segment_matches(const pc_segment *segment, const pc__image *want);

#endif
