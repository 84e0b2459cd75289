/* A presence cache: which entries a server is believed to have, and for a short while which it does
 * not have. It holds at most `most` keys and forgets the least recently set one (LRU). No states,
 * no costs: so no eviction score. Not locked. */
#ifndef PC_STORE_REMOTE_PRESENCE_H
#define PC_STORE_REMOTE_PRESENCE_H

#include "base/hash_table.h"
#include "store/remote/remote_entry.h"

typedef struct pc__remote_present {
    pc__hash_link by_key, by_content;
    struct pc__remote_present *older, *newer;
    pc__id key;
    pc__remote_entry entry;
    double absent_until; /* pc__now clock; 0: present */
} pc__remote_present;

typedef struct pc__remote_presence { /* zero-initialised but for mem and most: empty */
    const pc_allocator *mem;
    size_t most;
    pc__hash_table keys, contents; /* contents: of present entries only */
    pc__remote_present *oldest, *newest;
    uint64_t present, present_bytes;
} pc__remote_presence;

/* NULL: nothing is known. */
const pc__remote_present *pc__remote_presence_find(const pc__remote_presence *presence,
                                                   const pc__id *key);
int pc__remote_presence_has_content(const pc__remote_presence *presence, const pc__id *content);
/* Present with `entry`; NULL: absent, until `absent_until`. *forgotten: how many present entries
 * were dropped to make room. After PC_ERR_NOMEM nothing is known of the key. */
pc_status pc__remote_presence_set(pc__remote_presence *presence, const pc__id *key,
                                  const pc__remote_entry *entry, double absent_until,
                                  size_t *forgotten);
void pc__remote_presence_free(pc__remote_presence *presence);

#endif
