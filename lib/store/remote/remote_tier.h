/* The REMOTE tier: records as values of a Redis or Valkey server or cluster (doc/format.md, "A
 * server"). Its parts, from the store down to the socket:
 *
 *   remote_tier        the operations of pc__tier, events and counters; which entries the servers
 *                      are known to have, or not to have
 *   remote_entry       reading, writing and removing one entry
 *   remote_call        one call to the node of a hash slot: attempts, redirections, errors
 *   remote_nodes       servers: which has a slot, idle connections, pauses for one that fails
 *   remote_connection  one connection with deadlines
 *   remote_resp        requests and replies as bytes
 *   remote_tls         TLS of a connection
 *   remote_address     the text that names servers, login and TLS options; a name's addresses
 *
 * All but remote_address are a plug-in module, which remote_tier_open.c opens for the first cache
 * with this tier; it is built only with hiredis. */
#ifndef PC_STORE_REMOTE_TIER_H
#define PC_STORE_REMOTE_TIER_H

#include <promptcache/cache.h>
#include <pthread.h>

#include "base/hash_table.h"
#include "base/module.h"
#include "store/remote/remote_entry.h"
#include "store/tier.h"

/* A presence cache: which entries a server is believed to have, and for a short while which it does
 * not have. Its size is limited; it forgets the least recently set key (LRU). No states, no costs:
 * so no eviction score. */
typedef struct pc__remote_present {
    pc__hash_link by_key, by_content;
    struct pc__remote_present *older, *newer;
    pc__id key;
    pc__remote_entry entry;
    double absent_until; /* pc__now clock; 0: present */
} pc__remote_present;

typedef struct pc__remote_presence { /* zero-initialised: empty */
    pc__hash_table keys, contents;   /* contents: of present entries only */
    pc__remote_present *oldest, *newest;
    uint64_t present, present_bytes;
} pc__remote_presence;

typedef struct pc__remote_tier {
    pc__tier tier; /* first */
    pc_allocator mem;
    pc__tier_common common;
    pc__remote_client client;
    pthread_mutex_t lock; /* guards all below; not held while a server is asked */
    pc__remote_presence presence;
    pc_tier_stats stats;
    double full_until; /* pc__now clock: the server has no room before */
} pc__remote_tier;

/* The table of the plug-in module remote. */
typedef struct pc__remote_functions {
    /* pc__tier_remote_new; takes the address over, also on failure. */
    pc_status (*create)(pc__tier **out, const pc__tier_common *common, pc__remote_address *address);
} pc__remote_functions;
extern const pc__module *const pc__linked_remote; /* only with PC_HAVE_HIREDIS */

#endif
