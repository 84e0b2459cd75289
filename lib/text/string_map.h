/* A map from byte strings to numbers and one from pairs of numbers, with open addressing: filled
 * once, then read by any thread. */
#ifndef PC_TEXT_STRING_MAP_H
#define PC_TEXT_STRING_MAP_H

#include "base/context.h"

typedef struct pc__string_map {
    const pc_allocator *mem;
    struct pc__string_map_slot *slots;
    size_t mask, count;
} pc__string_map;

typedef struct pc__string_map_slot {
    const char *key; /* borrowed; NULL: free */
    uint32_t size;
    int32_t value;
} pc__string_map_slot;

pc_status pc__string_map_new(pc__string_map *map, const pc_allocator *mem, size_t expected);
/* Keeps the first value of a key. The key must outlive the map. */
pc_status pc__string_map_add(pc__string_map *map, const char *key, size_t size, int32_t value);
int32_t pc__string_map_get(const pc__string_map *map, const char *key,
                           size_t size); /* -1: not there */
/* The value of the longest key that `text` begins with, among values that `accept` returns 1 for
 * (NULL: all); -1: none. Linear in `size`. */
int32_t pc__string_map_longest(const pc__string_map *map, const char *text, size_t size,
                               int (*accept)(const void *user, int32_t value), const void *user);
void pc__string_map_free(pc__string_map *map);

typedef struct pc__pair_map_slot {
    int32_t left, right; /* left -1: free */
    int32_t rank, merged;
} pc__pair_map_slot;

typedef struct pc__pair_map {
    const pc_allocator *mem;
    pc__pair_map_slot *slots;
    size_t mask, count;
} pc__pair_map;

pc_status pc__pair_map_new(pc__pair_map *map, const pc_allocator *mem, size_t expected);
/* within `expected` */
void pc__pair_map_add(pc__pair_map *map, int32_t left, int32_t right, int32_t rank, int32_t merged);
/* NULL: not there */
const pc__pair_map_slot *pc__pair_map_get(const pc__pair_map *map, int32_t left, int32_t right);
void pc__pair_map_free(pc__pair_map *map);

#endif
