/* What the files of the cache share: cache_new.c (options, tiers, end), cache.c (RAM, pins,
 * statistics), cache_load.c, cache_load_read.c and cache_layer_stream.c (loads from below RAM),
 * cache_write_behind.c, cache_states.c (states of applications), cache_put_copy.c,
 * cache_get_many.c, cache_find.c (many keys, removal), cache_metrics.c.
 *
 * Memory. RAM has ram_bytes. With lower tiers a sixteenth of that (1 MiB at least, in addition if
 * the budget is below 16 MiB) is for segments that wait to be written and are no longer in RAM:
 * evicted ones for COMPRESSED, and those that RAM had no room for. Segments in RAM that wait to be
 * written count there, because they cannot be evicted; they may be a quarter of it, or one larger
 * segment alone. What exceeds these limits is not written, or its put waits
 * (pc__entry_desc.wait_for_room). */
#ifndef PC_STORE_CACHE_INTERNAL_H
#define PC_STORE_CACHE_INTERNAL_H

#include <promptcache/cache.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/hash_table.h"
#include "base/process.h"
#include "store/cache.h"
#include "store/estimate.h"
#include "store/io_threads.h"
#include "store/tier.h"

enum { PC__ADMISSION_KEYS = 4096 };

/* Counters beside those of RAM and the tiers. */
typedef struct pc__cache_counts {
    atomic_uint_fast64_t lookups, hits; /* of any tier */
    atomic_uint_fast64_t slower_than_compute[PC_TIER_COUNT];
    atomic_uint_fast64_t early;  /* segments used before all of their layers were there */
    atomic_uint_fast64_t joined; /* look-ups that found a running load */
    atomic_uint_fast64_t loads;  /* started, with prefetches */
    atomic_uint_fast64_t prefetches;
    atomic_uint_fast64_t load_seconds_n; /* nanoseconds of successful loads */
    atomic_uint_fast64_t not_admitted;   /* not written: not used again yet */
    /* Not written: no room on the way, or the tier does not answer. */
    atomic_uint_fast64_t dropped[PC_TIER_COUNT];
    atomic_uint given_up; /* 1: since the last flush, an entry did not get into a lower tier */
    atomic_uint_fast64_t promoted; /* written to a tier above the one that had it */
} pc__cache_counts;

struct pc_cache {
    atomic_size_t references;
    pid_t process; /* that made it; 0: it has neither threads nor files, any may use it */
    pc_context *context;
    pc__ram_tier *ram;
    pc__tier *tiers[PC_TIER_COUNT]; /* COMPRESSED, DISK, REMOTE; NULL: none */
    uint32_t has_lower;
    pc__io *io; /* NULL: no tiers below RAM */
    pc__codecs *codecs;
    uint8_t *seal_key; /* NULL: not sealed */
    unsigned char *salt;
    size_t salt_size;
    pc__id salt_id;
    uint64_t flags;
    pc__zeroing zeroing;
    /* For memory that states pass through: the context's; with PC_CACHE_ZERO_MEMORY `zeroing`. */
    const pc_allocator *scratch;
    double deadline, ttl; /* seconds */
    pc_event_fn on_event;
    void *event_user;
    void (*on_bytes)(void *user, uint32_t tier, uint64_t bytes, uint64_t budget);
    void *bytes_user;
    pc__estimate estimate;
    pc__cache_counts counts;

    pthread_mutex_t load_lock; /* also of the loads' fields */
    pthread_cond_t load_done;
    pc__hash_table loads; /* running, by key */
    double backlog;       /* seconds that these should take */
    /* Keys that were removed while something was on its way to a tier (cache_find.c). */
    struct pc__removals *removals;
    uint64_t removed, on_the_way; /* removals so far; loads and writes that wait or run */
    struct pc__write_job *writes; /* that wait or run (cache_write_behind.c) */

    /* Bytes that wait to be written, and their limits: in RAM; no longer in RAM. */
    uint64_t room_inside, room_outside;
    atomic_uint_fast64_t inside, outside;
    /* First bytes of keys that were stored once without being written. */
    atomic_uint_fast64_t admission_keys[PC__ADMISSION_KEYS];
};

/* Makes a cache with existing tiers [PC_TIER_COUNT] (of them NULL: none), which it owns on success.
 * NULL: it makes those that the options ask for. */
pc_status pc__cache_new_over(pc_cache **out, pc_context *context, const pc_cache_options *options,
                             pc__tier *const *tiers);

/* 1: this process is a child after fork() and has it, with its threads and files, from its parent.
 */
int pc__cache_is_inherited(const pc_cache *cache);

void pc__cache_report_event(const pc_cache *cache, uint32_t kind, uint32_t tier, uint32_t reason,
                            const pc__id *key, const pc_segment *segment);

void pc__cache_tier_stats(pc_cache *cache, uint32_t tier, pc_tier_stats *stats); /* adds to zeros */

/* Queues the writes of a segment to the lower tiers of desc->tiers. `in_ram`: RAM keeps it. Returns
 * 0 if nothing waits. */
uint64_t pc__write_behind(pc_cache *cache, const pc__entry_desc *desc, pc_segment *segment,
                          int in_ram);
/* 1: the entry may be written now; else its key is remembered until it is stored again. */
int pc__write_is_admitted(pc_cache *cache, const pc__entry_desc *desc);
/* A segment has been used again; nothing happens unless it was not written. `wait`: for room. */
void pc__write_reused(pc_cache *cache, const pc__id *key, pc_segment *segment, uint32_t wait);
uint64_t pc__cache_dropped(const pc_cache *cache); /* of all tiers */
/* RAM is about to evict it (pc__ram_tier_options.evicting). */
void pc__write_evicted(void *cache, const pc__entry_desc *desc, pc_segment *segment);
/* It was loaded from the tier `from`; tiers above that may get it, unless it was removed since
 * `entered`. */
void pc__promote(pc_cache *cache, uint32_t from, pc_segment *segment, uint64_t entered);

/* Reads and checks the options of pc_cache_get and pc_cache_get_many. */
pc_status pc__cache_get_options(pc_get_options *o, const pc_get_options *options, pc_cache *cache,
                                const char *call);

/* Under load_lock. A load or a write begins to wait: its number in the order of removals. */
uint64_t pc__removals_enter(pc_cache *cache);
void pc__removals_leave(pc_cache *cache);
/* 1: this key was removed from the tier after `entered`. */
int pc__removals_have(const pc_cache *cache, const pc__id *key, uint32_t tier, uint64_t entered);

struct pc__entry_load {
    pc__io_job job; /* first: the job is the load */
    atomic_size_t references;
    pc_cache *cache;
    pc__hash_link by_key; /* in cache->loads */
    pc_allocator mem;     /* of the segment */
    pc__image *image;     /* what it must be; owns its tokens, relative positions and block sizes */
    pc__entry_desc desc;  /* points into image */
    const pc__payload_ops *ops;
    void *owner;
    void (*ref_owner)(void *owner);
    int has_owner_ref; /* until a segment takes it over */
    uint64_t bytes;
    double cost, expected_seconds, deadline;
    uint32_t tiers;                /* of the request */
    uint8_t **into;                /* of pc__cache_load_into; NULL: it makes a segment */
    pc_segment *from;              /* of pc__cache_load_into: copied, no tier is asked */
    uint32_t lossy, other_kernels; /* of pc__cache_load_into, when it is done */
    int began_as_prefetch;         /* its deadline counts from the start of reading */
    uint32_t first_tier;           /* asked first */
    atomic_int prefetch;           /* 1: takes free room only; 0 once somebody waits */

    /* under load_lock */
    double due;
    size_t waiters;
    int listed; /* in cache->loads */
    int begun;  /* a thread reads: */
    pthread_t reader;
    int storing;      /* the segment is on its way into RAM; a removal waits for that */
    uint64_t entered; /* pc__removals_enter */
    pc_segment *segment;
    uint32_t reason, tier;
    uint64_t bytes_read;
    atomic_int done;

    /* the record that is being read; under load_lock */
    const pc__record *record;
    uint8_t **blocks;
    size_t block_count, next_block, readers;
    pc_status failed; /* first error of a block */
    char why[256];    /* its text: error texts are per thread */
    void *writing;    /* payload of the blocks */

    /* for early use (cache_layer_stream.c); under load_lock, but for `stream` */
    pc__layer_stream stream;
    pc_segment *early;
    uint32_t early_tier;
    uint8_t *ready;        /* [block_count] */
    double stream_until;   /* latest time at which a layer is waited for */
    uint32_t stream_error; /* PC_REASON_…, once a layer was late or will never come */
};

/* Lets requests use `segment` while its blocks are being read. Without memory they wait for all. */
void pc__layer_stream_offer(pc__entry_load *load, pc_segment *segment, size_t blocks,
                            uint32_t tier);
void pc__layer_stream_ready(pc__entry_load *load, size_t block);
/* PC_REASON_NONE: all blocks are there; else reading has failed. */
void pc__layer_stream_end(pc__entry_load *load, uint32_t reason);

/* Under load_lock: sleeps until a load changes, at most until `until`. */
void pc__load_sleep(pc__entry_load *load, double until);
void pc__load_unref(pc__entry_load *load);
/* Reads a load from one tier. PC_OK: the segment is in load->segment; PC_MISS: not there; else
 * load->reason says why. */
pc_status pc__load_read(pc__entry_load *load, uint32_t tier);

#endif
