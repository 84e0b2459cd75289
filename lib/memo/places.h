/* Which id lies where: an array of ids by place, and a hash table back. Place numbers are those of
 * the vectors of an index. */
#ifndef PC_MEMO_PLACES_H
#define PC_MEMO_PLACES_H

#include "base/mem.h"

#define PC__NO_PLACE SIZE_MAX

typedef struct pc__places { /* zero-initialise, but for mem */
    const pc_allocator *mem;
    int64_t *ids; /* [count]; -1: vacated */
    size_t count, capacity;
    size_t living; /* places that are somebody's */
    size_t *slots; /* open addressing: place + 1, 0: empty. A power of two, at most half full */
    size_t slot_count;
} pc__places;

void pc__places_free(pc__places *places);
/* Room for `more` places: pc__places_add cannot fail for so many. */
pc_status pc__places_reserve(pc__places *places, size_t more);
void pc__places_add(pc__places *places, int64_t id); /* at the end; id -1: vacated from the start */
size_t pc__places_find(const pc__places *places, int64_t id); /* PC__NO_PLACE */
void pc__places_vacate(pc__places *places, size_t place);
/* The last place, somebody's, moves to the vacated `hole`; or goes, if it is the hole. */
void pc__places_fill(pc__places *places, size_t hole);

#endif
