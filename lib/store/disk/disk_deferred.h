/* The tier DISK of a cache that was made while the folder's disk had no room for the folder: it
 * stands in the place of the tier, fails what it is asked for, and tries again to open the folder
 * when it is asked, or swept, at most once a second. From then on it passes everything on. So a
 * full disk costs the tier, not the cache, and what it costs is counted like any other failure of a
 * tier. */
#ifndef PC_STORE_DISK_DEFERRED_H
#define PC_STORE_DISK_DEFERRED_H

#include "store/tier.h"

/* Whether pc__tier_disk_new has just failed for want of room on the disk. */
int pc__disk_was_full(pc_status status);
/* Right after it has; the error text is kept to be told. */
pc_status pc__tier_disk_deferred_new(pc__tier **out, const pc__tier_common *common,
                                     const char *path);

#endif
