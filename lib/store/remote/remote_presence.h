/* What this process has seen of a server: entries that are (likely) there, and for a short while
 * those that were not. At most so many; the one seen longest ago is forgotten first. Not locked. */
#ifndef PC_STORE_REMOTE_PRESENCE_H
#define PC_STORE_REMOTE_PRESENCE_H

#include "store/remote/remote_entry.h"
#include "base/hash_table.h"

typedef struct pc__remote_present {
    pc__hash_link by_key, by_content;
    struct pc__remote_present *older, *newer;
    pc__id key;
    pc__remote_entry entry;
    double absent_until; /* pc__now clock; 0: it is there */
} pc__remote_present;

typedef struct pc__remote_presence { /* zero-initialised but for mem and most: empty */
    const pc_allocator *mem;
    size_t most;
    pc__hash_table keys, contents; /* contents: of those that are there */
    pc__remote_present *oldest, *newest;
    uint64_t present, present_bytes;
} pc__remote_presence;

const pc__remote_present *pc__remote_presence_find(
    const pc__remote_presence *presence, const pc__id *key); /* NULL: never, or forgotten */
int pc__remote_presence_has_content(const pc__remote_presence *presence, const pc__id *content);
/* `entry` NULL: it is not there, which is believed until `absent_until`. *forgotten: how many
 * present ones gave way. On PC_ERR_NOMEM nothing is known of the key any more. */
pc_status pc__remote_presence_set(pc__remote_presence *presence, const pc__id *key,
                                  const pc__remote_entry *entry, double absent_until,
                                  size_t *forgotten);
void pc__remote_presence_free(pc__remote_presence *presence);

#endif
