/* A hash table of structs that contain their link. Once there is room for one more, adding
 * allocates nothing; removing never fails. The caller compares keys. */
#ifndef PC_BASE_HASH_TABLE_H
#define PC_BASE_HASH_TABLE_H

#include "base/digest.h"

typedef struct pc__hash_link {
    struct pc__hash_link *next; /* of the same bucket */
    uint64_t hash;
} pc__hash_link;

typedef struct pc__hash_table { /* zero-initialised: empty */
    pc__hash_link **buckets;    /* [size], a power of two */
    size_t size, count;
} pc__hash_table;

/* The struct around a member. */
#define PC__AROUND(member_pointer, type, member) \
    ((type *)(void *)((char *)(member_pointer)-offsetof(type, member)))

/* Makes room for one more. Only the first call can fail; later ones may leave buckets long. */
pc_status pc__hash_table_reserve(pc__hash_table *table, const pc_allocator *mem);
void pc__hash_table_add(pc__hash_table *table, pc__hash_link *link, uint64_t hash);
void pc__hash_table_remove(pc__hash_table *table, pc__hash_link *link);
/* The first with this hash; the next one with the same hash. NULL: there is none. The caller
 * compares. */
pc__hash_link *pc__hash_table_find(const pc__hash_table *table, uint64_t hash);
pc__hash_link *pc__hash_table_find_next(const pc__hash_link *link);
/* The struct of `type` that is linked by its member `link` and has this id in its member
 * `id_member`; NULL: there is none. */
#define PC__FIND_ID(table, id, type, link, id_member) \
    ((type *)pc__hash_table_find_id(table, id, offsetof(type, link), offsetof(type, id_member)))
void *pc__hash_table_find_id(const pc__hash_table *table, const pc__id *id, size_t link_at,
                             size_t id_at);
/* All of them; NULL starts. Nothing may be added meanwhile. A link may be removed once the next one
 * is known. */
pc__hash_link *pc__hash_table_next(const pc__hash_table *table, const pc__hash_link *link);
void pc__hash_table_free(pc__hash_table *table, const pc_allocator *mem); /* not its contents */

/* An application may make its keys by hand, so a few bytes of a key need not be uniform. */
uint64_t pc__id_hash(const pc__id *id);
uint64_t pc__u64_hash(uint64_t value);

#endif
