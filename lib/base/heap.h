/* A heap of structs that carry their own node; the least by (rank, key) is first. Any of them can
 * be removed or moved in O(log n), without a search. */
#ifndef PC_BASE_HEAP_H
#define PC_BASE_HEAP_H

#include <promptcache.h>

typedef struct pc__heap_node { /* zero-initialised: in no heap */
    size_t place;              /* position + 1 */
} pc__heap_node;

typedef struct pc__heap_slot { /* the compared numbers side by side, for the cache */
    double key;
    int64_t rank;
    pc__heap_node *node;
} pc__heap_slot;

typedef struct pc__heap { /* zero-initialised: empty */
    pc__heap_slot *slots; /* [count] */
    size_t count, capacity;
} pc__heap;

/* Adding up to `count` cannot fail then. */
pc_status pc__heap_reserve(pc__heap *heap, const pc_allocator *mem, size_t count);
/* Adds the node, or moves it if it is there. */
void pc__heap_add(pc__heap *heap, pc__heap_node *node, int64_t rank, double key);
void pc__heap_remove(pc__heap *heap, pc__heap_node *node); /* does nothing if it is not there */
void pc__heap_free(pc__heap *heap, const pc_allocator *mem);

#endif
