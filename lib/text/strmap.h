/* A map from byte strings to numbers, and one from pairs of numbers: open addressing, filled once,
 * then read by any thread. */
#ifndef PC_TEXT_STRMAP_H
#define PC_TEXT_STRMAP_H

#include "base/context.h"

typedef struct pc__strmap {
    const pc_allocator *mem;
    struct pc__strmap_slot *slots;
    size_t mask, count;
} pc__strmap;

typedef struct pc__strmap_slot {
    const char *key; /* borrowed; NULL: free */
    uint32_t size;
    int32_t value;
} pc__strmap_slot;

pc_status pc__strmap_new(pc__strmap *map, const pc_allocator *mem, size_t expected);
/* Keeps the first value of a key. The key must outlive the map. */
pc_status pc__strmap_add(pc__strmap *map, const char *key, size_t size, int32_t value);
int32_t pc__strmap_get(const pc__strmap *map, const char *key, size_t size); /* -1: not there */
/* The value of the longest key that `text` starts with, of those that `accept` returns 1 for; -1:
 * none. Time linear in `size`. */
int32_t pc__strmap_longest(const pc__strmap *map, const char *text, size_t size,
                           int (*accept)(const void *user, int32_t value), const void *user);
void pc__strmap_free(pc__strmap *map);

typedef struct pc__pairmap_slot {
    int32_t left, right; /* left -1: free */
    int32_t rank, merged;
} pc__pairmap_slot;

typedef struct pc__pairmap {
    const pc_allocator *mem;
    pc__pairmap_slot *slots;
    size_t mask, count;
} pc__pairmap;

pc_status pc__pairmap_new(pc__pairmap *map, const pc_allocator *mem, size_t expected);
/* within `expected` */
void pc__pairmap_add(pc__pairmap *map, int32_t left, int32_t right, int32_t rank, int32_t merged);
/* NULL: not there */
const pc__pairmap_slot *pc__pairmap_get(const pc__pairmap *map, int32_t left, int32_t right);
void pc__pairmap_free(pc__pairmap *map);

#endif
