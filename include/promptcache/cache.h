/*
 * promptcache/cache.h: the cache in operation: statistics, events, pins, quotas; and as a store by
 * key, for K and V of another runtime.
 * Conventions: promptcache.h.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_CACHE_H
#define PROMPTCACHE_CACHE_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Events */

/* Events of a cache: pc_event.kind. */
enum {
    PC_EVENT_STORE = 1,       /* a tier stored a segment */
    PC_EVENT_HIT = 2,         /* a tier served it */
    PC_EVENT_EVICT = 3,       /* a tier evicted it to make room */
    PC_EVENT_REMOVE = 4,      /* cleared, expired, or removed by hand */
    PC_EVENT_LOAD_FAILED = 5, /* a tier has it but could not give it: reason */
    PC_EVENT_STORE_FAILED = 6 /* a tier could not store it: reason */
};
struct pc_event {
    size_t struct_size;
    uint32_t kind;   /* PC_EVENT_… */
    uint32_t tier;   /* PC_TIER_… */
    uint32_t reason; /* PC_REASON_… */
    uint32_t tokens; /* tokens of the segment */
    /* What DISK evicts or removes of sealed records that this process has neither written nor read
     * is told by its name instead (pc_record_info.name). */
    uint8_t key[32];
    uint64_t bytes; /* bytes of the segment in this tier */
    double seconds; /* seconds that it took */
};

/* ---- Statistics */

/* Counters since the cache was opened. hits + misses = lookups. The others are of RAM: stored =
 * segments + evicted + removed. */
typedef struct pc_cache_stats {
    size_t struct_size;
    uint64_t lookups;       /* segments that were looked up */
    uint64_t hits;          /* of lookups: any tier served the segment */
    uint64_t misses;        /* of lookups: no tier served it */
    uint64_t stored;        /* segments that RAM took */
    uint64_t refused;       /* segments larger than the room that the budget leaves */
    uint64_t evicted;       /* segments that left RAM to make room */
    uint64_t removed;       /* segments that left RAM: cleared, expired, or by hand */
    uint64_t segments;      /* segments in RAM now */
    uint64_t segment_bytes; /* bytes of RAM that segments take now */
    uint64_t pinned_bytes;  /* of segment_bytes: pinned */
    uint64_t budget_bytes;  /* bytes that RAM may take */
    uint64_t dropped;       /* sum of pc_tier_stats.dropped */
} pc_cache_stats;

/* Counters of one tier. offered = stored + refused + failed + known. stored + found = segments +
 * evicted + removed + lost. lookups = hits + misses + load_failed. */
typedef struct pc_tier_stats {
    size_t struct_size;
    uint64_t offered;       /* segments that were to be stored */
    uint64_t stored;        /* segments that the tier took */
    uint64_t found;         /* DISK: that were there at opening, or that other processes wrote */
    uint64_t known;         /* offered, but there already */
    uint64_t refused;       /* segments larger than the room that the budget leaves */
    uint64_t failed;        /* segments that could not be stored */
    uint64_t evicted;       /* segments that left to make room */
    uint64_t removed;       /* segments that left: cleared, expired, or by hand */
    uint64_t lost;          /* segments found gone or damaged */
    uint64_t segments;      /* segments in the tier now */
    uint64_t segment_bytes; /* bytes that they take */
    uint64_t pinned_bytes;  /* of segment_bytes: pinned */
    uint64_t budget_bytes;  /* bytes that the tier may take; REMOTE: 0 */
    uint64_t staging_bytes; /* of segment_bytes: being loaded or written */
    uint64_t lookups;       /* segments that it was asked for */
    uint64_t hits;          /* of lookups: segments that it gave */
    uint64_t misses;        /* of lookups: segments that it did not have */
    uint64_t load_failed;   /* of lookups: segments that it had but could not give */
    uint64_t slower_than_compute; /* of misses: it was there, but computing promised to be faster */
    uint64_t bytes_read;          /* bytes of records that were read */
    uint64_t bytes_written;       /* bytes of records that were written */
    double seconds_read;          /* seconds of reading, all threads */
    double seconds_written;       /* seconds of writing, all threads */
    /* DISK: bytes of mapped files, in RAM (and in its segment_bytes and budget) or in use. They are
     * page cache, not memory of pc_allocator. */
    uint64_t mapped_bytes;
    uint64_t evicted_behind; /* DISK: of evicted: in the background, excess at opening */
    uint64_t excess_bytes;   /* DISK: of segment_bytes: over the budget, about to be evicted */
    uint32_t reason; /* PC_REASON_… why the tier is out of use, but for retries; NONE: it is not */
    uint32_t reserved;
    /* Not of offered: entries that were to be written to the tier and were given up on the way. Too
     * much waited to be written (PC_PUT_WAIT waits instead), or the tier is out of use. An entry
     * that had no room is written at its next use in RAM, if there is room then. */
    uint64_t dropped;
} pc_tier_stats;

/* Counters now; other threads may go on. A tier that the cache does not have gives zeros.
 * Returns PC_ERR_INVALID for an unknown tier. */
PC_API pc_status pc_cache_get_stats(pc_cache *cache, pc_cache_stats *stats);
PC_API pc_status pc_cache_get_tier_stats(pc_cache *cache, uint32_t tier, pc_tier_stats *stats);

typedef struct pc_prometheus_options {
    size_t struct_size;
    /* Labels of every sample, as they stand between braces: "model=\"a\",zone=\"b\"", at most 255
     * bytes. NULL: none. */
    const char *labels;
} pc_prometheus_options;

/* All counters as text [capacity] in the format of Prometheus, not NUL-terminated. *size gets its
 * bytes, also with text NULL, capacity 0, and with PC_ERR_LIMIT (capacity). */
PC_API pc_status pc_cache_prometheus(pc_cache *cache, char *text, size_t capacity, size_t *size,
                                     const pc_prometheus_options *options);

/* ---- Room */

/* Removes everything from RAM and COMPRESSED that is not in use or pinned. */
PC_API pc_status pc_cache_clear(pc_cache *cache);
/* Evicts from RAM, lowest eviction score first, until at most `bytes` are left there.
 * *freed (may be NULL): bytes that were freed. Memory of entries that go to COMPRESSED is freed
 * once they are written; pc_cache_flush waits for that. Returns PC_MISS if the rest is in use,
 * pinned or being loaded. */
PC_API pc_status pc_cache_trim(pc_cache *cache, uint64_t bytes, uint64_t *freed);
/* Limits the bytes that one tenant's entries take in a tier: RAM, COMPRESSED or DISK. A tenant over
 * its limit makes room among its own entries. In a folder, entries of all processes count; what is
 * over goes in the background, and what other processes write counts within a second.
 * salt: the cache's own or one of pc_salt; NULL with salt_size 0: no salt. bytes 0: tenant_share of
 * the cache holds. Returns PC_ERR_UNSUPPORTED (REMOTE: the server chooses what it evicts),
 * PC_ERR_INVALID (no such tier). */
PC_API pc_status pc_cache_set_quota(pc_cache *cache, uint32_t tier, const void *salt,
                                    size_t salt_size, uint64_t bytes);

/* Pins an entry in RAM for an owner, until it is unpinned or `seconds` have passed (0: no end).
 * Pinning again as the same owner sets the end anew.
 * owner: any number of the application but UINT64_MAX. Returns PC_MISS if the entry is not in RAM.
 */
PC_API pc_status pc_cache_pin(pc_cache *cache, const uint8_t key[32], uint64_t owner,
                              double seconds);
PC_API pc_status pc_cache_unpin(pc_cache *cache, const uint8_t key[32], uint64_t owner);
/* Removes all pins of an owner. PC_OK also if there are none. */
PC_API pc_status pc_cache_unpin_owner(pc_cache *cache, uint64_t owner);

/* ---- K and V of another runtime in the cache, without our engine
 *
 * Entries under keys of the application go to whoever has the key: a salt is part of a key only if
 * the application puts it there (pc_key_parts).
 */

/* Who lays K and V out. The application's layouts are opaque: codecs RAW, ZSTD and the
 * application's take them, I8 and I4 do not. */
enum {
    PC_LAYOUT_MODEL = 0, /* bytes of ops.export_segment */
    PC_LAYOUT_PAGES = 1, /* doc/format.md */
    /* pages of K alone, with one head: the values are its last v_dim dimensions */
    PC_LAYOUT_LATENT = 2,
    PC_LAYOUT_MODEL_PAGES = 3,  /* pages of what ops.export_layer gives */
    PC_LAYOUT_SEQUENCE = 4,     /* the head of a saved sequence (pc_sequence_save) */
    PC_LAYOUT_APPLICATION = 256 /* first id for layouts of the application */
};

/* Everything but tokens that can change K and V (doc/format.md, "Identity"). Only `model` is
 * needed. */
typedef struct pc_key_parts {
    size_t struct_size;
    const uint8_t *model;     /* [32] fingerprint of the model */
    const uint8_t *adapter;   /* [32] digest of an adapter; NULL: none */
    const uint8_t *tokenizer; /* [32] digest of the tokenizer; NULL: zeros */
    uint32_t position_scheme; /* PC_POSITION_… */
    uint32_t dtype;           /* PC_DTYPE_… of K and V */
    uint64_t rope_regime;     /* length that selects the RoPE frequencies; 0: none */
    uint32_t layout;          /* PC_LAYOUT_… */
    uint32_t encoding;        /* PC_ENCODE_… */
    const void *salt;         /* the tenant's; NULL with salt_size 0: none */
    size_t salt_size;         /* bytes of salt */
} pc_key_parts;

/* base [32]: the base key, digest of everything but tokens. Any thread. */
PC_API pc_status pc_key_base(uint8_t base[32], const pc_key_parts *parts);

/* What a key holds beside its base. */
typedef struct pc_key_segment_args {
    size_t struct_size;
    const uint8_t *base;     /* [32] the base key */
    const uint8_t *parent;   /* [32] key of the last segment that this one saw; NULL: none */
    int64_t distance;        /* from the parent's start to this one's; ignored without a parent */
    int64_t offset;          /* position at which it was computed, if it cannot be moved; else 0 */
    const int32_t *tokens;   /* [count] */
    const int64_t *relative; /* [count] positions minus the first one's, ascending; NULL: 0, 1, … */
    size_t count;            /* length of tokens and relative */
} pc_key_segment_args;

/* key [32] of a segment. Any thread. */
PC_API pc_status pc_key_segment(uint8_t key[32], const pc_key_segment_args *args);

/* States as memory: one block per layer, or as the application likes. */
typedef struct pc_raw {
    size_t struct_size;
    const uint8_t *model;        /* [32] fingerprint of the model */
    char architecture[32];       /* of the model, as in pc_model_info */
    uint32_t position_scheme;    /* PC_POSITION_… */
    uint32_t dtype;              /* PC_DTYPE_… */
    uint32_t layout;             /* PC_LAYOUT_PAGES, _LATENT, or one of the application */
    uint32_t lossy;              /* 1: the states went through something lossy */
    int32_t layers;              /* layers of the states */
    int32_t kv_heads;            /* heads of K and V in each layer */
    int32_t k_dim;               /* width of a head of K */
    int32_t v_dim;               /* width of a head of V */
    uint64_t rope_regime;        /* as in pc_key_parts */
    const int32_t *tokens;       /* [token_count] ids */
    const int64_t *relative;     /* [token_count]; NULL: 0, 1, 2, … */
    size_t token_count;          /* length of tokens */
    const void *const *blocks;   /* [block_count] where each block begins */
    const uint64_t *block_bytes; /* [block_count] bytes of each block */
    size_t block_count;          /* length of blocks */
} pc_raw;

/* Makes a segment around memory of the application. For the cache and pc_segment_raw, not for
 * sequences of our models.
 * raw: the blocks stay where they are until `release` (may be NULL) is called with `user`, when the
 * last reference is gone; everything else is copied. On failure release is not called.
 * Handle: immutable. */
PC_API pc_status pc_segment_wrap(pc_segment **out, pc_context *context, const pc_raw *raw,
                                 void (*release)(void *user), void *user);
/* The memory of a segment: wrapped, from pc_cache_get, or of our models (PC_LAYOUT_PAGES). Pointers
 * are borrowed from the segment.
 * Returns PC_ERR_UNSUPPORTED for a segment of an application's model. */
PC_API pc_status pc_segment_raw(const pc_segment *segment, pc_raw *raw);

/* pc_put_options.flags */
enum {
    /* Waits while too much waits to be written to the tiers below RAM, rather than drop the entry
     * (pc_tier_stats.dropped). Blocks at most as long as the deadlines of the queue. */
    PC_PUT_WAIT = 1
};

typedef struct pc_put_options {
    size_t struct_size;
    double cost_seconds; /* seconds of computing it */
    double ttl_seconds;  /* until it expires; 0: the cache's; INFINITY: never */
    int32_t priority;    /* lower priorities are evicted first; 0 */
    uint32_t reserved;
    /* [32] key of the segment that it saw, which is evicted after it. NULL: none. */
    const uint8_t *parent;
    const void *salt; /* whose quota counts it; NULL: the cache's */
    size_t salt_size; /* bytes of salt */
    uint64_t flags;   /* PC_PUT_… */
    uint64_t tiers;   /* mask of PC_TIERS_…: those that may have it; 0: all */
} pc_put_options;

/* Stores a segment. The cache takes a reference of its own. The tiers below RAM get it later, from
 * a thread of the cache: pc_cache_flush waits for that and tells if something was given up.
 * Returns PC_EXISTS if RAM has an entry under this key, which stays, and PC_MISS if RAM has no room
 * (lower tiers may still take it). */
PC_API pc_status pc_cache_put(pc_cache *cache, const uint8_t key[32], pc_segment *segment,
                              const pc_put_options *options);

typedef struct pc_get_info {
    size_t struct_size;
    uint32_t tier;   /* PC_TIER_… that it came from */
    uint32_t reason; /* PC_REASON_… of a miss */
    uint32_t lossy;  /* 1: it went through a lossy codec, or was stored as lossy */
    uint32_t reserved;
    double seconds; /* seconds of the whole call */
} pc_get_info;

typedef struct pc_get_options {
    size_t struct_size;
    /* Of computing a segment: loading is given up when it takes longer. 0: no limit. */
    double cost_seconds;
    double deadline_seconds; /* of the whole call; 0: the cache's */
    uint64_t tiers;          /* mask of PC_TIERS_…: looks only there; 0: all */
} pc_get_options;

/* Finds a segment. Blocks, at most for cost_seconds or until the deadline.
 * *out: a reference for the caller. info may be NULL.
 * expect: model, position scheme, dtype, layout, shape, RoPE regime, tokens and block sizes must
 * all agree; blocks are not read. Returns PC_MISS, with a reason in info; the entry stays. */
PC_API pc_status pc_cache_get(pc_segment **out, pc_cache *cache, const uint8_t key[32],
                              const pc_raw *expect, const pc_get_options *options,
                              pc_get_info *info);

/* ---- Many keys at once, in tiers of the caller's choice */

/* Tiers of a call: a mask of PC_TIERS_…; 0: all that the cache has. A call that names only tiers
 * that the cache lacks is PC_ERR_INVALID. */

typedef struct pc_find_options {
    size_t struct_size;
    uint64_t tiers;          /* looks only there */
    double deadline_seconds; /* for a server's answer; 0: the cache's */
} pc_find_options;

/* How many of a chain of keys, from the first on, are in some tier. Loads nothing, counts no
 * look-up and changes no eviction score. Costs a microsecond for each key, for keys that only DISK
 * may have a look into its directory, and for REMOTE one round trip for each 512 keys and server.
 * A record may still turn out damaged or evicted when it is read.
 * keys: [count * 32] one behind the other.
 * tiers: [count] PC_TIER_… of each key (the first of RAM, COMPRESSED, DISK, REMOTE), also behind
 * the first that is missing; PC_TIER_NONE: nowhere. May be NULL. A server that does not answer has
 * nothing. */
PC_API pc_status pc_cache_find(pc_cache *cache, const uint8_t *keys, size_t count, size_t *found,
                               uint32_t *tiers, const pc_find_options *options);

/* One entry that is wanted. */
typedef struct pc_get_entry {
    const uint8_t *key;          /* [32] */
    const int32_t *tokens;       /* [token_count] ids */
    const int64_t *relative;     /* [token_count]; NULL: 0, 1, 2, … */
    size_t token_count;          /* length of tokens */
    const uint64_t *block_bytes; /* [block_count of `expect`]; NULL: those of `expect` */
    /* [block_count of `expect`] where to write each block, in memory of the host. NULL: the entry
     * becomes a segment. */
    void *const *blocks;
} pc_get_entry;

typedef struct pc_load pc_load; /* loads of many entries */

/* Starts to load many entries [count], in this order. expect: what they must be, as of
 * pc_cache_get, but for tokens, relative, token_count and blocks, which are the entries'. All is
 * copied; memory of an entry's blocks stays until the entry is done, or the load is freed.
 * What goes into the caller's blocks is read or decoded there, by threads of the cache, and does
 * not get into RAM; what RAM has is copied. At most 8192 loads of a cache wait at a time: further
 * entries are PC_MISS with PC_REASON_SLOW.
 * Handle: one thread at a time. */
PC_API pc_status pc_cache_get_many(pc_load **out, pc_cache *cache, const pc_raw *expect,
                                   const pc_get_entry *wanted, size_t wanted_stride, size_t count,
                                   const pc_get_options *options);
/* Waits until all entries are done, but no longer than `seconds` (0: not at all). Returns PC_OK, or
 * PC_AGAIN: some are not done yet. Every entry is done soon after the deadline. */
PC_API pc_status pc_load_wait(pc_load *load, double seconds);
/* Does not wait. *done (may be NULL): how many entries from the first on are done. Returns as
 * pc_load_wait. */
PC_API pc_status pc_load_poll(pc_load *load, size_t *done);
/* The result of one entry: PC_OK; PC_AGAIN: it is not done; PC_MISS, with a reason in info, and
 * blocks of any contents. *segment: a reference for the caller, NULL for an entry with blocks and
 * of a miss. segment and info may be NULL. Returns PC_ERR_NOT_FOUND: there is no such entry. */
PC_API pc_status pc_load_result(pc_load *load, size_t index, pc_segment **segment,
                                pc_get_info *info);
/* Gives up what is not done. When it returns, nothing is written to the caller's blocks any more:
 * it waits for the blocks that are being read at this moment. */
PC_API void pc_load_free(pc_load *load);

/* Starts to load entries into free room of RAM, and does not wait. Their blocks are not used.
 * *started (may be NULL): how many loads have begun; others are in RAM, in no tier, or do not fit
 * into the queue. */
PC_API pc_status pc_cache_prefetch(pc_cache *cache, const pc_raw *expect,
                                   const pc_get_entry *wanted, size_t wanted_stride, size_t count,
                                   const pc_get_options *options, size_t *started);

typedef struct pc_remove_options {
    size_t struct_size;
    uint64_t tiers; /* removes only there */
} pc_remove_options;

/* Removes entries, also from what is on its way to a tier, and also if they are in use or pinned:
 * users keep their references. *removed (may be NULL): keys that some tier had. Returns an error of
 * a tier that may still have one (PC_ERR_STATE: read-only; PC_ERR_IO); the rest is removed.
 * keys: [count * 32]. */
PC_API pc_status pc_cache_remove(pc_cache *cache, const uint8_t *keys, size_t count,
                                 size_t *removed, const pc_remove_options *options);

/* As pc_cache_put, of a copy: nothing of raw is needed afterwards. Room is made before anything is
 * copied, in RAM, or for what waits to be written; what is refused is not copied.
 * Returns PC_EXISTS and PC_MISS as pc_cache_put. */
PC_API pc_status pc_cache_put_copy(pc_cache *cache, const uint8_t key[32], const pc_raw *raw,
                                   const pc_put_options *options);

/* ---- INIT macros */

/* clang-format off */
#define PC_CACHE_STATS_INIT {sizeof(pc_cache_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define PC_PROMETHEUS_OPTIONS_INIT {sizeof(pc_prometheus_options), NULL}
#define PC_TIER_STATS_INIT {sizeof(pc_tier_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define PC_KEY_SEGMENT_ARGS_INIT {sizeof(pc_key_segment_args), NULL, NULL, 0, 0, NULL, NULL, 0}
#define PC_KEY_PARTS_INIT {sizeof(pc_key_parts), NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, 0}
#define PC_RAW_INIT {sizeof(pc_raw), NULL, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, \
    NULL, 0}
#define PC_PUT_OPTIONS_INIT {sizeof(pc_put_options), 0, 0, 0, 0, NULL, NULL, 0, 0, 0}
#define PC_GET_OPTIONS_INIT {sizeof(pc_get_options), 0, 0, 0}
#define PC_FIND_OPTIONS_INIT {sizeof(pc_find_options), 0, 0}
#define PC_REMOVE_OPTIONS_INIT {sizeof(pc_remove_options), 0}
#define PC_GET_INFO_INIT {sizeof(pc_get_info), 0, 0, 0, 0, 0}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_cache_stats_init(pc_cache_stats *stats, size_t size);
PC_API void pc_prometheus_options_init(pc_prometheus_options *options, size_t size);
PC_API void pc_tier_stats_init(pc_tier_stats *stats, size_t size);
PC_API void pc_key_segment_args_init(pc_key_segment_args *args, size_t size);
PC_API void pc_key_parts_init(pc_key_parts *parts, size_t size);
PC_API void pc_raw_init(pc_raw *raw, size_t size);
PC_API void pc_put_options_init(pc_put_options *options, size_t size);
PC_API void pc_get_options_init(pc_get_options *options, size_t size);
PC_API void pc_find_options_init(pc_find_options *options, size_t size);
PC_API void pc_remove_options_init(pc_remove_options *options, size_t size);
PC_API void pc_get_info_init(pc_get_info *info, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_CACHE_H */
