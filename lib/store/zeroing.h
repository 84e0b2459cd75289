/* An allocator that overwrites what it gets back, around another one: with PC_CACHE_ZERO_MEMORY for
 * all memory that states pass through on their way to a record and back. */
#ifndef PC_STORE_ZEROING_H
#define PC_STORE_ZEROING_H

#include <promptcache.h>

typedef struct pc__zeroing {
    pc_allocator mem; /* to be used */
    pc_allocator from;
} pc__zeroing;

/* `wiping` must not be moved afterwards. */
void pc__zeroing_init(pc__zeroing *zeroing, const pc_allocator *from);

#endif
