/* The REMOTE tier: records as values of a Redis or Valkey server or cluster (doc/format.md, "A
 * server"). Its modules, from the store down to the socket:
 *
 *   remote_tier        the operations of pc__tier, events and counters
 *   remote_presence    which entries the servers are known to have, or not to have
 *   remote_entry       reading, writing and removing one entry
 *   remote_nodes       one call to the node of a hash slot: redirections, idle connections
 *   remote_breaker     pauses for a server that fails; remote_slots: hash slots of a cluster
 *   remote_connection  one connection with deadlines; remote_resp: requests and replies on it
 *   remote_tls         TLS of a connection; remote_resolver: addresses of a server's name
 *   remote_address     the text that names servers, login and TLS options
 *
 * Files *_redis.c are built with hiredis, remote_tls_openssl.c with OpenSSL, remote_tls_none.c
 * without it. */
#ifndef PC_STORE_REMOTE_TIER_H
#define PC_STORE_REMOTE_TIER_H

#include <pthread.h>

#include "store/remote/remote_entry.h"
#include "store/remote/remote_presence.h"
#include "store/tier.h"

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

/* Takes the address over, also on failure. */
pc_status pc__remote_tier_new(pc__tier **out, const pc__tier_common *common,
                              pc__remote_address *address);

#endif
