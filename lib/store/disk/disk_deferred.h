/* The DISK tier of a cache whose disk had no room for the folder when the cache was opened. It
 * fails every call and tries to open the folder at most once a second, when it is asked or swept.
 * Once the folder is open it passes every call on. So a full disk costs the tier and not the cache,
 * and it is counted like any other failure of a tier. */
#ifndef PC_STORE_DISK_DEFERRED_H
#define PC_STORE_DISK_DEFERRED_H

#include "store/tier.h"

/* 1: pc__tier_disk_new has just failed because the disk is full. */
int pc__disk_was_full(pc_status status);
/* Right after that failure: the error text is kept, to be reported. */
pc_status pc__tier_disk_deferred_new(pc__tier **out, const pc__tier_common *common,
                                     const char *path);

#endif
