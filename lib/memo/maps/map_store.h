/* The attention maps of a memo on disk: records of one model, each with the maps of all layers of
 * one prompt, in one file that is mapped, beside a log of what is in it (doc/format.md, "A memo's
 * maps"). A record that was reported stored is there after a kill at any moment; one that was not
 * is there whole, or not at all.
 *
 * Threads: internally locked; records are written, and checked at their first use, under no lock.
 * Processes: one writer (a lock on the folder, PC_AGAIN for the second), any number of readers, who
 * see what was there when they opened it, less what the writer has given up since: that is PC_MISS
 * for them, unless they hold it. Caveats: a local file system, as mappings and locks need; a disk
 * that cannot be read, or a file that others cut, is a SIGBUS for who reads the mapping; no fork
 * while it is open. */
#ifndef PC_MEMO_MAP_STORE_H
#define PC_MEMO_MAP_STORE_H

#include "attn/map.h"
#include "base/digest.h"
#include "base/mem.h"

typedef struct pc__map_signature { /* what a store is of; another one is refused with
                                       PC_ERR_MISMATCH that names the difference */
    pc__id model;                  /* fingerprint */
    int32_t layers, heads;
    int causal;
    uint32_t format; /* PC_MAP_F16 or U8 */
} pc__map_signature;

typedef struct pc__map_store_options {
    pc__map_signature signature;
    int create; /* 1: made where it is not there */
    int read_only;
    uint64_t budget_bytes; /* of the folder; 0: none */
    double
        cold_seconds; /* records that were not used for so long are packed with zstd by
                         pc__map_store_tidy; 0: never. Of the budget, 1/64 is kept free for that */
    int relaxed; /* 1: what was added survives a kill of the process, but a crash of the machine
                    only after pc__map_store_sync. Filling a store is much faster so */
} pc__map_store_options;

typedef struct pc__map_record {
    int64_t id;       /* ascending, never used again */
    pc__id tokens_id; /* digest of the prompt's tokens (and types) */
    uint32_t tokens;
    size_t metadata_size; /* of what the memo keeps beside the maps (the pooled input that features
                         are made of) */
    uint64_t bytes;       /* of its maps as they lie there */
    uint64_t used;        /* how often pc__map_store_get gave it out, of this process */
} pc__map_record;

typedef struct pc__map_store pc__map_store;
pc_status pc__map_store_open(pc__map_store **out, const pc_allocator *mem, const char *folder,
                             const pc__map_store_options *options);
void pc__map_store_free(pc__map_store *store); /* all maps were released; NULL does nothing */
size_t pc__map_store_count(const pc__map_store *store);
/* All records, in the order of their ids, until it returns non-zero. Not under the lock of the
 * store. */
pc_status pc__map_store_each(pc__map_store *store,
                             int (*visit)(void *user, const pc__map_record *record), void *user);

/* maps [layer]: packed maps of the face's format, as pc__map_bytes of (heads, tokens, causal). *id:
 * the new record's. PC_ERR_LIMIT: it alone is larger than the budget. Others that are worth less go
 * to make room: `evicted` (may be NULL) is told each one's id, not under the lock, also when the
 * call fails in the end. PC_AGAIN: what could make room is held, here or by readers. PC_ERR_IO:
 * nothing was added; the store goes on. */
pc_status pc__map_store_add(pc__map_store *store, const pc__id *tokens_id, uint32_t tokens,
                            const void *metadata, size_t metadata_size, const void *const *maps,
                            int64_t *id, void (*evicted)(void *user, int64_t id), void *user);
pc_status pc__map_store_remove(pc__map_store *store, int64_t id); /* PC_MISS: not there */

/* Copies the first `size` bytes of a record's note, all of which is checked. PC_MISS: not there.
 * PC_ERR_FORMAT: damaged; the record is removed. PC_ERR_INVALID: it has fewer. */
pc_status pc__map_store_metadata(pc__map_store *store, int64_t id, void *out, size_t size);
/* All of it, to be freed. is_use: it counts as pc__map_store_get does. */
pc_status pc__map_store_metadata_copy(pc__map_store *store, int64_t id, int is_use, uint8_t **out,
                                      size_t *size);

/* The maps of a record, to read from, until pc__maps_release: mapped memory, no copy (of a cold
 * record: unpacked). Checksums are verified at the first use of each layer by this process.
 * PC_ERR_FORMAT: damaged; the record is removed. PC_MISS: not there. */
typedef struct pc__maps {
    const void **layer; /* [layers] */
    void *owner;
} pc__maps;
pc_status pc__map_store_get(pc__map_store *store, int64_t id, pc__maps *out);
void pc__maps_release(pc__map_store *store, pc__maps *maps);

/* What was added is on the disk then; only of use where `relaxed`. PC_ERR_IO. */
pc_status pc__map_store_sync(pc__map_store *store);
/* Room of removed records is given back to the system (holes), cold ones are packed. */
pc_status pc__map_store_tidy(pc__map_store *store);
typedef struct pc__map_store_stats {
    uint64_t stored, live, evicted, removed, damaged, bytes,
        budget_bytes; /* stored = live + evicted + removed + damaged, in this process's life,
                         records found at opening counted as stored */
} pc__map_store_stats;
void pc__map_store_get_stats(pc__map_store *store, pc__map_store_stats *out);

#endif
