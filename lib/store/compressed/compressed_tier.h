/* The COMPRESSED tier: records in memory, usually compressed (store/tier.h). */
#ifndef PC_STORE_COMPRESSED_TIER_H
#define PC_STORE_COMPRESSED_TIER_H

#include "store/tier.h"

pc_status pc__tier_compressed_new(pc__tier **out, const pc__tier_common *common);

#endif
