/* A hash table of things that carry their own link: adding allocates nothing once there is room for
 * one more, removing never fails. */
#ifndef PC_STORE_TABLE_H
#define PC_STORE_TABLE_H

#include "base/digest.h"

typedef struct pc__link {
    struct pc__link *next; /* of the same bucket */
    uint64_t hash;
} pc__link;

typedef struct pc__table { /* zero-initialised: empty */
    pc__link **buckets;    /* [size], a power of two */
    size_t size, count;
} pc__table;

/* The thing around a member. */
#define PC__AROUND(member_pointer, type, member) \
    ((type *)(void *)((char *)(member_pointer)-offsetof(type, member)))

/* Room for one more. Only the first can fail: later on, longer buckets are no error. */
pc_status pc__table_reserve(pc__table *table, const pc_allocator *mem);
void pc__table_add(pc__table *table, pc__link *link, uint64_t hash);
void pc__table_remove(pc__table *table, pc__link *link);
/* The first with this hash, and the others after it; NULL: no more. The caller compares. */
pc__link *pc__table_find(const pc__table *table, uint64_t hash);
pc__link *pc__table_again(const pc__link *link);
/* All of them: NULL starts; not while something is added. What was given may be removed once the
 * next one is known. */
pc__link *pc__table_next(const pc__table *table, const pc__link *link);
void pc__table_free(pc__table *table, const pc_allocator *mem); /* not what is in it */

/* A host may name its segments by hand, so that a few bytes of a key need not be uniform. */
uint64_t pc__id_hash(const pc__id *id);
uint64_t pc__u64_hash(uint64_t value);

#endif
