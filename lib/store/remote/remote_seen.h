/* What this process has seen of a server: entries that are (likely) there, and for a short while
 * those that were not. At most so many; the one seen longest ago is forgotten first. Not locked. */
#ifndef PC_STORE_REMOTE_SEEN_H
#define PC_STORE_REMOTE_SEEN_H

#include "store/remote/remote_entry.h"
#include "base/hash_table.h"

typedef struct pc__sighting {
    pc__hash_link by_key, by_content;
    struct pc__sighting *older, *newer;
    pc__id key;
    pc__entry entry;
    double absent_until; /* pc__now clock; 0: it is there */
} pc__sighting;

typedef struct pc__seen { /* zero-initialised but for mem and most: empty */
    const pc_allocator *mem;
    size_t most;
    pc__hash_table keys, contents; /* contents: of those that are there */
    pc__sighting *oldest, *newest;
    uint64_t present, present_bytes;
} pc__seen;

const pc__sighting *pc__seen_find(const pc__seen *seen,
                                  const pc__id *key); /* NULL: never, or forgotten */
int pc__seen_content(const pc__seen *seen, const pc__id *content);
/* `entry` NULL: it is not there, which is believed until `absent_until`. *forgotten: how many
 * present ones gave way. On PC_ERR_NOMEM nothing is known of the key any more. */
pc_status pc__seen_note(pc__seen *seen, const pc__id *key, const pc__entry *entry,
                        double absent_until, size_t *forgotten);
void pc__seen_free(pc__seen *seen);

#endif
