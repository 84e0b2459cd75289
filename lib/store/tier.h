/* A tier that keeps records: COMPRESSED, DISK, REMOTE. A tier locks itself, calls nobody under its
 * lock, never blocks longer than the deadline that it is given (COMPRESSED: never blocks), and
 * keeps its own counters, which balance (pc_tier_stats). Budgets include what is being written. */
#ifndef PC_STORE_TIER_H
#define PC_STORE_TIER_H

#include "base/clock.h"
#include "store/event.h"
#include "store/key.h"
#include "store/record/record.h"

typedef struct pc__tier pc__tier;

typedef struct pc__tier_ops {
    uint32_t id; /* PC_TIER_… */
    /* Is it worth asking? Answers at once, from what is known here: 1 (likely) there, 0 not, with
     * *bytes as stored (0: unknown). REMOTE may say 1 to everything while the server answers.
     * Counts nothing. */
    int (*may_have)(pc__tier *tier, const pc__id *key, uint64_t *bytes);
    /* Opens a record for reading; it stays readable until closed, whatever becomes of the entry.
     * PC_MISS: not there. PC_ERR_IO (source timed out: *timed_out). `deadline` by pc__now() clock,
     * seconds; it holds for all that is read from the source. Counts a look-up. */
    pc_status (*open)(pc__tier *tier, const pc__id *key, double deadline, pc__source **out,
                      int *timed_out);
    /* What became of it, for counters and worth: seconds that reading took, bytes read; status < 0:
     * failed. PC_ERR_FORMAT and PC_ERR_MISMATCH: the record is damaged or foreign, the tier gets
     * rid of it. */
    void (*read_done)(pc__tier *tier, const pc__id *key, pc_status status, uint64_t bytes,
                      double seconds);
    /* Writes the record of an image. PC_OK: published; PC_MISS with *reason (PC_REASON_…): not
     * taken (no room, known already: PC_REASON_NONE); errors: nothing is left of it. */
    pc_status (*put)(pc__tier *tier, const pc__image *image, double deadline, uint32_t *reason);
    int (*has_content)(pc__tier *tier,
                       const pc__id *content); /* pc__cache_has_content, from what is known here */
    void (*remove)(pc__tier *tier, const pc__id *key);
    void (*clear)(pc__tier *tier);
    /* Now and then, from an I/O thread: what has expired goes, the index is written … 1: there is
     * more to do, which should not be done in one go. */
    int (*sweep)(pc__tier *tier);
    void (*stats)(pc__tier *tier, pc_tier_stats *stats);
    void (*free)(pc__tier *tier);
    /* Where may_have says 0: PC_REASON_… if something of this key is there all the same, else NONE.
     * NULL: never. */
    uint32_t (*absence_reason)(pc__tier *tier, const pc__id *key);
} pc__tier_ops;

/* How a tier tells what happened, never under its lock. May be NULL. */
typedef struct pc__tier_callbacks {
    void (*event)(void *user, const pc_event *event);
    void (*bytes)(void *user, uint32_t tier, uint64_t bytes, uint64_t budget);
    void *user;
} pc__tier_callbacks;

struct pc__tier {
    const pc__tier_ops *ops;
};

/* Which RAW records of DISK are mapped: none; those that gain by it, of a local file system; all
 * that can be. */
enum { PC__MAP_NEVER = 0, PC__MAP_LOCAL = 1, PC__MAP_ALWAYS = 2 };

typedef struct pc__tier_common {
    const pc_allocator *mem;   /* with PC_CACHE_ZERO_MEMORY one that overwrites (store/zeroing.h) */
    const pc_context *context; /* for its log */
    pc__record_options record; /* how records are written and read */
    pc__tier_callbacks callbacks; /* copied */
    uint64_t budget;
    uint32_t read_only;
    uint32_t map; /* PC__MAP_… */
} pc__tier_common;

pc_status pc__tier_compressed_new(pc__tier **out, const pc__tier_common *common);
/* PC_ERR_IO, PC_ERR_STATE name the folder and what is wrong. */
pc_status pc__tier_disk_new(pc__tier **out, const pc__tier_common *common, const char *path);
/* Does not connect yet. PC_ERR_INVALID: not such an address; PC_ERR_UNSUPPORTED: built without
 * hiredis, or without OpenSSL for an address that wants TLS. */
pc_status pc__tier_remote_new(pc__tier **out, const pc__tier_common *common, const char *address);

#endif
