/* An allocator that overwrites what it gets back, around another one: with PC_CACHE_ZERO_MEMORY for all
 * memory that states pass through on their way to a record and back. */
#ifndef PC_STORE_WIPING_H
#define PC_STORE_WIPING_H

#include <promptcache.h>

typedef struct pc__wiping {
    pc_allocator mem; /* to be used */
    pc_allocator from;
} pc__wiping;

/* `wiping` must not be moved afterwards. */
void pc__wiping_init(pc__wiping *wiping, const pc_allocator *from);

#endif
