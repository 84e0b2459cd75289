/* The ids of an index's vectors: an array of ids by position, and a hash table from ids to
 * positions. Not base/hash_table.h: positions are integers that move, and a slot costs 8 bytes. */
#ifndef PC_MEMO_ID_MAP_H
#define PC_MEMO_ID_MAP_H

#include "base/mem.h"

#define PC__NO_POSITION SIZE_MAX

typedef struct pc__id_map { /* zero-initialise, but for mem */
    const pc_allocator *mem;
    int64_t *ids; /* [count]; -1: removed */
    size_t count, capacity;
    size_t living; /* positions that are not removed */
    size_t *slots; /* open addressing: position + 1; 0: empty. A power of two, at most half full */
    size_t slot_count;
} pc__id_map;

void pc__id_map_free(pc__id_map *id_map);
/* Makes room, so that `more` calls of pc__id_map_add cannot fail. */
pc_status pc__id_map_reserve(pc__id_map *id_map, size_t more);
void pc__id_map_add(pc__id_map *id_map, int64_t id); /* at the end; -1: removed from the start */
size_t pc__id_map_find(const pc__id_map *id_map, int64_t id); /* PC__NO_POSITION */
void pc__id_map_vacate(pc__id_map *id_map, size_t position);
/* Moves the last position, which is not removed, into the removed `hole`; or drops it, if it is the
 * hole. */
void pc__id_map_fill(pc__id_map *id_map, size_t hole);

#endif
