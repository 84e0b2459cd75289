/* A hash table of things that carry their own link: adding allocates nothing once there is room for
 * one more, removing never fails. */
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

/* Makes room for one more. Only the first call can fail: later the buckets just get longer. */
pc_status pc__hash_table_reserve(pc__hash_table *table, const pc_allocator *mem);
void pc__hash_table_add(pc__hash_table *table, pc__hash_link *link, uint64_t hash);
void pc__hash_table_remove(pc__hash_table *table, pc__hash_link *link);
/* The first with this hash, and the others after it; NULL: no more. The caller compares. */
pc__hash_link *pc__hash_table_find(const pc__hash_table *table, uint64_t hash);
pc__hash_link *pc__hash_table_find_next(const pc__hash_link *link);
/* Iterates over all links, from NULL; nothing may be added meanwhile. A link may be removed after
 * the next one was asked for. */
pc__hash_link *pc__hash_table_next(const pc__hash_table *table, const pc__hash_link *link);
void pc__hash_table_free(pc__hash_table *table,
                         const pc_allocator *mem); /* not the structs in it */

/* Hashes all bytes: an application may choose keys by hand, whose first bytes are not uniform. */
uint64_t pc__id_hash(const pc__id *id);
uint64_t pc__u64_hash(uint64_t value);

#endif
