/* The attention maps of a memo on disk. A record has the maps of all layers of one prompt. The
 * records of one model lie in one file, which is mapped; a log says which are there (doc/format.md,
 * "A memo's maps"). A record that was reported as stored survives a kill at any moment. Any other
 * is there completely or not at all.
 *
 * Threads: internally locked. Records are written, and checked at their first use, outside the
 * locks. Processes: one writer (a lock on the folder; PC_AGAIN for a second one), and any number of
 * readers. A reader sees the records that were there when it opened the store. A record that the
 * writer removed since is PC_MISS for a reader, unless the reader holds it. Limits: a local file
 * system, because of mappings and locks. A read error of the disk, or another program that
 * truncates the file, is a SIGBUS for readers of the mapping. No fork while a store is open. */
#ifndef PC_MEMO_MAP_STORE_H
#define PC_MEMO_MAP_STORE_H

#include "attn/map.h"
#include "base/digest.h"
#include "base/mem.h"

/* What the maps of a store belong to. Opening it with another signature is PC_ERR_MISMATCH, which
 * names the difference. */
typedef struct pc__map_signature {
    pc__id model; /* its fingerprint */
    int32_t layers, heads;
    int causal;
    uint32_t format; /* PC_MAP_F16 or U8 */
} pc__map_signature;
/* The shape of a map of so many tokens. */
static inline pc__map_shape pc__map_shape_of(const pc__map_signature *signature, size_t tokens)
{
    return (pc__map_shape){signature->format, signature->heads, tokens, signature->causal};
}

typedef struct pc__map_store_options {
    pc__map_signature signature;
    int create; /* 1: makes a new store if there is none */
    int read_only;
    uint64_t budget_bytes; /* of log and data; 0: none */
    /* pc__map_store_tidy compresses records that were not used for so long; 0: none. 1/64 of the
     * budget is kept free for it. */
    double cold_seconds;
    /* 1: an added record survives a kill of the process; a crash of the machine only after
     * pc__map_store_sync. Makes filling a store much faster. */
    int relaxed;
} pc__map_store_options;

typedef struct pc__map_record {
    int64_t id;       /* ascending; never given out twice */
    pc__id tokens_id; /* digest of the prompt's tokens (and types) */
    uint32_t tokens;
    /* Bytes that the memo stores beside the maps: the pooled input, and outputs. */
    size_t metadata_size;
    uint64_t bytes; /* in the data file */
    uint64_t used;  /* calls of pc__map_store_get in this process */
} pc__map_record;

typedef struct pc__map_store pc__map_store;
pc_status pc__map_store_open(pc__map_store **out, const pc_allocator *mem, const char *folder,
                             const pc__map_store_options *options);
void pc__map_store_free(pc__map_store *store); /* maps were released before; NULL does nothing */
/* Visits all records by ascending id, until `visit` returns non-zero. It is called without the
 * store's lock. */
void pc__map_store_each(pc__map_store *store,
                        int (*visit)(void *user, const pc__map_record *record), void *user);

/* Adds a record. maps [layer]: maps in the format of the signature, pc__map_bytes of (heads,
 * tokens, causal) each. *id: the new record's. Records with lower scores are evicted to make room;
 * `evicted` (may be NULL) gets the id of each, without the store's lock, even if the call fails
 * later. PC_ERR_LIMIT: larger than the budget. PC_AGAIN: all that could be evicted is in use, here
 * or by readers. PC_ERR_IO: nothing was added; the store stays usable. */
pc_status pc__map_store_add(pc__map_store *store, const pc__id *tokens_id, uint32_t tokens,
                            const void *metadata, size_t metadata_size, const void *const *maps,
                            int64_t *id, void (*evicted)(void *user, int64_t id), void *user);
pc_status pc__map_store_remove(pc__map_store *store, int64_t id); /* PC_MISS: no such record */

/* Copies the first `size` bytes of a record's metadata, and checks all of it. PC_MISS: no such
 * record. PC_ERR_FORMAT: damaged, and removed. PC_ERR_INVALID: it has fewer bytes. */
pc_status pc__map_store_metadata(pc__map_store *store, int64_t id, void *out, size_t size);
/* Copies all of it; the caller frees *out. is_use: counts as a use, as pc__map_store_get does. */
pc_status pc__map_store_metadata_copy(pc__map_store *store, int64_t id, int is_use, uint8_t **out,
                                      size_t *size);

/* The maps of a record, borrowed until pc__maps_release: mapped memory, or the decompressed maps of
 * a cold record. A process verifies the checksums at its first use of a record. PC_ERR_FORMAT:
 * damaged, and removed. PC_MISS: no such record. */
typedef struct pc__maps {
    const void **layer; /* [layers] */
    void *owner;
} pc__maps;
pc_status pc__map_store_get(pc__map_store *store, int64_t id, pc__maps *out);
void pc__maps_release(pc__map_store *store, pc__maps *maps);

/* Writes all that was added to the disk; only needed with `relaxed`. PC_ERR_IO. */
pc_status pc__map_store_sync(pc__map_store *store);
/* Compresses cold records, and gives free room back to the system as holes. */
pc_status pc__map_store_tidy(pc__map_store *store);
/* Sets the numbers from `stored` to `budget_bytes`, the others to 0. */
void pc__map_store_get_stats(pc__map_store *store, pc_memo_stats *out);

#endif
