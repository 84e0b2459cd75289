/* What the files of the tier REMOTE share. */
#ifndef PC_STORE_REMOTE_TIER_H
#define PC_STORE_REMOTE_TIER_H

#include <pthread.h>

#include "store/remote/remote_nodes.h"
#include "store/remote/remote_presence.h"
#include "store/tier.h"

typedef struct pc__remote {
    pc__tier tier; /* first */
    pc_allocator mem;
    pc__tier_common common;
    char variant[PC__VARIANT]; /* of the records that we write and read */
    pc__remote_nodes *nodes;
    pthread_mutex_t lock; /* guards all below; never held while something is waited for */
    pc__remote_presence presence;
    pc_tier_stats stats;
    double full_until; /* pc__now clock: the server has no room */
} pc__remote;

enum {
    PC__REMOTE_WRITE_SECONDS = 600, /* how long blocks live whose header is not written (yet) */
    PC__REMOTE_SLACK_SECONDS = 60   /* how much longer blocks live than their header */
};

/* Takes the address over in any case. */
pc_status pc__remote_tier_new(pc__tier **out, const pc__tier_common *common,
                              pc__remote_address *address);

uint32_t pc__remote_entry_slot(const pc__id *key);
pc__remote_name pc__remote_entry_header_name(const pc__remote *remote, const pc__id *key);
pc__remote_name pc__remote_entry_block_name(const pc__remote *remote, const pc__id *key,
                                            uint64_t tag, size_t piece);

/* Bytes [at, at + size) of the header's value. PC_MISS: there is none, or nothing there.
 * PC_ERR_FORMAT: something else has this name. */
pc_status pc__remote_entry_read_header(pc__remote *remote, const pc__id *key, uint64_t at,
                                       void *data, size_t size, size_t *got,
                                       pc__remote_deadline *limit);
/* The envelope of an entry. */
pc_status pc__remote_entry_read_envelope(pc__remote *remote, const pc__id *key,
                                         pc__remote_entry *entry, pc__remote_deadline *limit);
/* Removes the blocks of a writer, before them the header if `header`, and if it is still this
 * writer's. */
pc_status pc__remote_entry_remove(pc__remote *remote, const pc__id *key, uint64_t tag,
                                  uint32_t pieces, int header, pc__remote_deadline *limit);
/* Removes what stands under the header's name and is none. */
pc_status pc__remote_entry_remove_foreign(pc__remote *remote, const pc__id *key,
                                          pc__remote_deadline *limit);
/* The entry ends `ttl` seconds from now. */
pc_status pc__remote_entry_renew(pc__remote *remote, const pc__id *key,
                                 const pc__remote_entry *entry, pc__remote_deadline *limit);

/* Reads an entry whose header's value begins with `first`, which is taken over. */
enum { PC__REMOTE_FIRST_BYTES = 65536 };
pc_status pc__remote_entry_open(pc__source **out, pc__remote *remote, const pc__id *key,
                                const pc__remote_entry *entry, uint8_t *first, size_t first_size,
                                double deadline);

/* Writes an entry. PC_OK: *entry is published. PC_MISS with *reason: NONE, somebody else has
 * published it meanwhile, or NO_ROOM. On errors what was written of it is removed, or ends by
 * itself. */
pc_status pc__remote_entry_write(pc__remote *remote, const pc__image *image,
                                 pc__remote_entry *entry, uint32_t *reason,
                                 pc__remote_deadline *limit);

#endif
