/* The cache's body, for the files that make it up: cache_new.c (options, tiers, end), cache.c
 * (RAM, pins, statistics), cache_load.c and cache_load_read.c (what is sought below RAM),
 * cache_write_behind.c, cache_metrics.c.
 *
 * Memory. RAM has ram_bytes; with tiers below it a sixteenth of them (at least 1 MiB, which
 * stands beside a budget of less than 16 MiB) is kept for what is on its way to a lower tier and is
 * in RAM no more: evicted entries that COMPRESSED is to get, and what RAM had no room for. What is
 * in RAM and on its way is counted there (it cannot be evicted meanwhile), and is at most a quarter
 * of it. What does not fit into these is not written. */
#ifndef PC_STORE_CACHE_INTERNAL_H
#define PC_STORE_CACHE_INTERNAL_H

#include <pthread.h>

#include "base/clock.h"
#include "store/cache.h"
#include "store/estimate.h"
#include "store/io_threads.h"
#include "store/tier.h"
#include "store/zeroing.h"

enum { PC__LOAD_BUCKETS = 256, PC__ADMISSION_KEYS = 4096 };

/* Beside what RAM and the tiers count for themselves. */
typedef struct pc__cache_counts {
    atomic_uint_fast64_t lookups, hits; /* of any tier */
    atomic_uint_fast64_t slower_than_compute[PC_TIER_COUNT];
    atomic_uint_fast64_t early;  /* segments used before all of their layers were there */
    atomic_uint_fast64_t joined; /* seeks that found a load under way */
    atomic_uint_fast64_t loads;  /* started, prefetches included */
    atomic_uint_fast64_t prefetches;
    atomic_uint_fast64_t load_seconds_n; /* nanoseconds that loads took which succeeded */
    atomic_uint_fast64_t not_admitted;   /* not written: not used again yet */
    atomic_uint_fast64_t
        not_written; /* not written: no room on the way, or the tier does not answer */
    atomic_uint_fast64_t promoted; /* written to a tier above that it came from */
} pc__cache_counts;

struct pc_cache {
    atomic_size_t references;
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
    const pc_allocator *scratch; /* of what states pass through: the context's, or with
                                    PC_CACHE_ZERO_MEMORY `wiping` around it */
    double deadline, ttl;        /* seconds */
    pc_event_fn on_event;
    void *event_user;
    void (*on_bytes)(void *user, uint32_t tier, uint64_t bytes, uint64_t budget);
    void *bytes_user;
    pc__estimate estimate;
    pc__cache_counts counts;

    pthread_mutex_t load_lock; /* of the loads' fields, too */
    pthread_cond_t load_done;
    pc__load *loads[PC__LOAD_BUCKETS]; /* under way, by key */
    double backlog;                    /* seconds that those should take that have not ended */

    uint64_t room_inside,
        room_outside; /* bytes that may be on their way: counted in RAM; in RAM no more */
    atomic_uint_fast64_t inside, outside;
    atomic_uint_fast64_t admission_keys[PC__ADMISSION_KEYS]; /* beginnings of keys that were stored
                                                      once without being written */
};

/* Makes a cache over tiers that are there already (NULL: not), which it owns on success. */
pc_status pc__cache_new_over(pc_cache **out, pc_context *context, const pc_cache_options *options,
                             pc__tier *const tiers[PC_TIER_COUNT]);

void pc__cache_report_event(const pc_cache *cache, uint32_t kind, uint32_t tier, uint32_t reason,
                            const pc__id *key, const pc_segment *segment);

void pc__cache_tier_stats(pc_cache *cache, uint32_t tier, pc_tier_stats *stats); /* adds to zeros */

/* Writes what the tiers below RAM are to have of a segment. `in_host`: RAM keeps it. */
void pc__write_behind(pc_cache *cache, const pc__entry_desc *desc, pc_segment *segment, int in_ram);
/* May it be written at its first use? Notes that it was seen. */
int pc__write_is_admitted(pc_cache *cache, const pc__entry_desc *desc);
/* It has been used once more. */
void pc__write_reused(pc_cache *cache, const pc__id *key, pc_segment *segment);
/* RAM is about to let it go (pc__ram_tier_options.evicting). */
void pc__write_evicted(void *cache, const pc__entry_desc *desc, pc_segment *segment);
/* It came from `from`: the tiers between may have it, too. */
void pc__promote(pc_cache *cache, uint32_t from, pc_segment *segment);

struct pc__load {
    pc__io_job job; /* first: the job is the load */
    atomic_size_t references;
    pc_cache *cache;
    pc__load *next;   /* of the same bucket */
    pc_allocator mem; /* of the segment */
    pc__image *image; /* what it has to be; owns its tokens, relative positions and block sizes */
    pc__entry_desc desc; /* its pointers are into image */
    const pc__payload_ops *ops;
    void *owner;
    void (*ref_owner)(void *owner);
    int has_owner_ref; /* a reference on it, until a segment takes that over */
    uint64_t bytes;
    double cost, expected_seconds, deadline;
    int is_prefetch;     /* begun by nobody who waits: its deadline counts from when it is read, not
                         while     it waits for a pause of the requests */
    uint32_t first_tier; /* where it was expected */
    atomic_int prefetch; /* takes free room only; until somebody waits for it */

    /* under load_lock */
    double due; /* when it should be there */
    size_t waiters;
    int listed; /* in cache->loads */
    pc_segment *segment;
    uint32_t reason, tier;
    uint64_t bytes_read;
    atomic_int done;

    /* the record that is being read; under load_lock, too */
    const pc__record *record;
    uint8_t **blocks;
    size_t block_count, next_block, readers;
    pc_status failed; /* of a block */
    char why[256];    /* and its text: error texts belong to threads, and several read blocks */
    void *writing;    /* the payload whose blocks they are */

    /* the segment, if it may be used before all of its blocks are there (cache_layer_stream.c);
     * under load_lock, but for the flow itself */
    pc__layer_stream stream;
    pc_segment *early;
    uint32_t early_tier;
    uint8_t *ready;        /* [block_count] */
    double stream_until;   /* how long somebody waits for a block */
    uint32_t stream_error; /* PC_REASON_… why, for good: it came too late, or never will */
};

/* Lets those who wait use `segment` while its blocks are being read; without memory for that they
 * wait for all of it. */
void pc__layer_stream_offer(pc__load *load, pc_segment *segment, size_t blocks, uint32_t tier);
void pc__layer_stream_ready(pc__load *load, size_t block);
void pc__layer_stream_end(
    pc__load *load,
    uint32_t reason); /* all blocks are there (PC_REASON_NONE), or something has failed */

void pc__load_sleep(
    pc__load *load,
    double until); /* under load_lock: until something has changed, or the time has come */
void pc__load_unref(pc__load *load);
/* Reads a load from one tier. PC_OK: the segment is in load->segment; PC_MISS: not there; else
 * load->reason says why. */
pc_status pc__load_read(pc__load *load, uint32_t tier);
/* Reads blocks of a load's record until none is left. */
void pc__load_help(pc__load *load);

#endif
