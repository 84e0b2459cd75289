/* Which id lies where: an array of ids by place, and a hash table back. Place numbers are those of
 * the vectors of an index. */
#ifndef PC_MEMO_PLACES_H
#define PC_MEMO_PLACES_H

#include "base/mem.h"

#define PC__NO_POSITION SIZE_MAX

typedef struct pc__id_map { /* zero-initialise, but for mem */
    const pc_allocator *mem;
    int64_t *ids; /* [count]; -1: vacated */
    size_t count, capacity;
    size_t living; /* places that are somebody's */
    size_t *slots; /* open addressing: place + 1, 0: empty. A power of two, at most half full */
    size_t slot_count;
} pc__id_map;

void pc__id_map_free(pc__id_map *id_map);
/* Room for `more` places: pc__id_map_add cannot fail for so many. */
pc_status pc__id_map_reserve(pc__id_map *id_map, size_t more);
void pc__id_map_add(pc__id_map *id_map, int64_t id); /* at the end; id -1: vacated from the start */
size_t pc__id_map_find(const pc__id_map *id_map, int64_t id); /* PC__NO_POSITION */
void pc__id_map_vacate(pc__id_map *id_map, size_t position);
/* The last place, somebody's, moves to the vacated `hole`; or goes, if it is the hole. */
void pc__id_map_fill(pc__id_map *id_map, size_t hole);

#endif
