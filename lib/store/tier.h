/* The interface of a tier of records: COMPRESSED, DISK, REMOTE. A tier locks itself, calls nobody
 * under its lock, and never blocks beyond the deadline of a call (COMPRESSED never blocks). It
 * keeps its own counters, which balance (pc_tier_stats). Its budget includes running writes. */
#ifndef PC_STORE_TIER_H
#define PC_STORE_TIER_H

#include <promptcache/cache.h>
#include "base/clock.h"
#include "store/event.h"
#include "store/key.h"
#include "store/record/record.h"

typedef struct pc__tier pc__tier;

typedef struct pc__tier_ops {
    uint32_t id; /* PC_TIER_… */
    /* 1: the record is probably there, *bytes as stored (0: unknown). 0: it is not. Answers at
     * once, from local knowledge; REMOTE may say 1 while the server answers. Counts nothing. */
    int (*may_have)(pc__tier *tier, const pc__id *key, uint64_t *bytes);
    /* Opens a record for reading. It stays readable until it is closed, even if the entry goes.
     * PC_MISS: not there. PC_ERR_IO; after a timeout *timed_out is 1. The deadline (pc__now clock)
     * holds for all reads of the source. Counts a look-up. */
    pc_status (*open)(pc__tier *tier, const pc__id *key, double deadline, pc__source **out,
                      int *timed_out);
    /* The result of reading, for counters and eviction scores. status < 0: it failed. After
     * PC_ERR_FORMAT (damaged) the tier removes the record. After PC_ERR_MISMATCH it keeps it: the
     * reader may have expected the wrong thing. The next put whose image does not agree with it
     * either replaces it; COMPRESSED does not compare and lets any put replace it. */
    void (*read_done)(pc__tier *tier, const pc__id *key, pc_status status, uint64_t bytes,
                      double seconds);
    /* Writes the record of an image. PC_OK: published. PC_MISS: not written, *reason
     * (PC_REASON_NONE: it is there already). After an error nothing is left of it. */
    pc_status (*put)(pc__tier *tier, const pc__image *image, double deadline, uint32_t *reason);
    /* pc__cache_has_content, from local knowledge. */
    int (*has_content)(pc__tier *tier, const pc__id *content);
    /* PC_OK: it is gone. PC_MISS: it was not there. PC_ERR_STATE (read-only), PC_ERR_IO: it may
     * still be there. */
    pc_status (*remove)(pc__tier *tier, const pc__id *key);
    void (*clear)(pc__tier *tier);
    /* Called now and then from the background thread: drops expired records, writes the index.
     * 1: more is left, to be done in another call. */
    int (*sweep)(pc__tier *tier);
    void (*stats)(pc__tier *tier, pc_tier_stats *stats);
    void (*free)(pc__tier *tier);
    /* PC_REASON_… if a record of this key is there that we may not use, or (COMPRESSED) that the
     * next put replaces; else NONE. NULL: never. */
    uint32_t (*absence_reason)(pc__tier *tier, const pc__id *key);
    /* Limits the bytes of one tenant (pc__salt_digest); 0: the tier's tenant_share holds. NULL: the
     * tier cannot. */
    pc_status (*set_quota)(pc__tier *tier, const pc__id *salt, uint64_t bytes);
    /* Of many keys: there[i] = 1 where the record is there, else 0, also where the tier does not
     * answer before the deadline. Counts no look-up. NULL: may_have knows it all. */
    void (*find)(pc__tier *tier, const pc__id *keys, size_t count, double deadline, uint8_t *there);
} pc__tier_ops;

/* How a tier reports what happens, never under its lock. May be NULL. */
typedef struct pc__tier_callbacks {
    void (*event)(void *user, const pc_event *event);
    void (*bytes)(void *user, uint32_t tier, uint64_t bytes, uint64_t budget);
    void *user;
} pc__tier_callbacks;

struct pc__tier {
    const pc__tier_ops *ops;
};

/* Which RAW records of DISK are mapped: none; large ones of a local file system; all. */
enum { PC__MAP_NEVER = 0, PC__MAP_LOCAL = 1, PC__MAP_ALWAYS = 2 };

typedef struct pc__tier_common {
    const pc_allocator *mem;      /* with PC_CACHE_ZERO_MEMORY one that zeroes (base/mem.h) */
    const pc_context *context;    /* for its log */
    pc__record_options record;    /* how records are written and read */
    pc__tier_callbacks callbacks; /* copied */
    uint64_t budget;
    uint32_t read_only;
    uint32_t map;          /* PC__MAP_… */
    uint32_t tenant_share; /* percent of the budget that one tenant may take; 0: no limit */
} pc__tier_common;

pc_status pc__tier_compressed_new(pc__tier **out, const pc__tier_common *common);
/* PC_ERR_IO, PC_ERR_STATE name the folder and the cause. If the disk is full, PC_OK: the tier fails
 * until the folder can be opened. */
pc_status pc__tier_disk_new(pc__tier **out, const pc__tier_common *common, const char *path);
/* Does not connect yet. PC_ERR_INVALID: not an address. PC_ERR_UNSUPPORTED: built without hiredis,
 * or without OpenSSL for a TLS address, or the plug-in module remote is missing. */
pc_status pc__tier_remote_new(pc__tier **out, const pc__tier_common *common, const char *address);

#endif
