/* An allocator around another one that zeroes memory before it frees it. With PC_CACHE_ZERO_MEMORY
 * all memory that states pass through on their way to and from records comes from it. */
#ifndef PC_STORE_ZEROING_H
#define PC_STORE_ZEROING_H

#include <promptcache.h>

typedef struct pc__zeroing {
    pc_allocator mem; /* to be used */
    pc_allocator from;
} pc__zeroing;

/* `zeroing` must not be moved afterwards. */
void pc__zeroing_init(pc__zeroing *zeroing, const pc_allocator *from);

#endif
