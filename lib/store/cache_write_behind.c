/* Writes entries to the tiers below RAM.
 *
 * DISK and REMOTE get a segment when it is stored, COMPRESSED when RAM evicts it: no segment is in
 * memory twice. Modules of schemas are written at once. Blocks of a prompt without PML
 * (pc__entry_desc.write_on_reuse) are written at their second use, in RAM or by being stored again
 * after an eviction; for that PC__ADMISSION_KEYS keys are remembered. Long prompts are written at
 * once (serve/gather_exact.c).
 *
 * Each write is a job of the background thread, one for each tier, with a reference on the segment.
 * store/cache_internal.h limits the bytes that wait. Beyond that limit a put waits, if its caller
 * has said so. Else the segment is not written (STORE_FAILED) but at its next use in RAM, if there
 * is room then. Nor is a segment for a tier that has failed several times in a row; one job at
 * times probes such a tier. All of these are counted as dropped. */
#include "store/cache_internal.h"

#include <math.h>
#include <promptcache/cache.h>
#include <string.h>

#define ALL_TIERS UINT32_MAX

typedef struct pc__write_job {
    pc__io_job job;                       /* first: the job is the write */
    struct pc__write_job *before, *after; /* in pc_cache.writes */
    pc_cache *cache;
    uint32_t tier;
    int is_probe;
    pc_segment *segment;           /* a reference */
    pc__image image;               /* names and times; the job adds the rest */
    atomic_uint_fast64_t *counter; /* the counter of its bytes */
    uint64_t entered;              /* pc__removals_enter */
} write_job;

static void report_dropped(pc_cache *cache, uint32_t tier, uint32_t reason, const pc__id *key,
                           const pc_segment *segment)
{
    atomic_fetch_add(&cache->counts.dropped[tier], 1);
    atomic_store(&cache->counts.given_up, 1);
    pc__cache_report_event(cache, PC_EVENT_STORE_FAILED, tier, reason, key, segment);
}

/* Under load_lock. */
static void list_job(write_job *w)
{
    w->after = w->cache->writes;
    if (w->after)
        w->after->before = w;
    w->cache->writes = w;
}

static void unlist_job(write_job *w)
{
    if (w->after)
        w->after->before = w->before;
    if (w->before)
        w->before->after = w->after;
    else
        w->cache->writes = w->after;
}

void pc__cache_await_key(pc_cache *cache, const pc__id *key)
{
    int found = 0;
    if (!cache->io || pc__io_is_own_thread(cache->io))
        return;
    pthread_mutex_lock(&cache->load_lock);
    for (const write_job *w = cache->writes; w && !found; w = w->after)
        found = pc__id_equal(&w->image.key, key);
    pthread_mutex_unlock(&cache->load_lock);
    if (found)
        pc__io_flush(cache->io);
}

/* In a child after fork() nobody locks. */
static void free_job(write_job *w, int forget)
{
    pc_allocator mem = w->cache->context->mem;
    if (!forget) {
        pthread_mutex_lock(&w->cache->load_lock);
        pc__removals_leave(w->cache);
        unlist_job(w);
        pthread_mutex_unlock(&w->cache->load_lock);
    }
    atomic_fetch_sub_explicit(w->counter, w->segment->bytes, memory_order_relaxed);
    pc__segment_unref(w->segment);
    pc__free(&mem, w);
}

/* 1: its key was removed from the tier while it waited, or was being written. */
static int was_removed(const write_job *w)
{
    int removed;
    pthread_mutex_lock(&w->cache->load_lock);
    removed = pc__removals_have(w->cache, &w->image.key, w->tier, w->entered);
    pthread_mutex_unlock(&w->cache->load_lock);
    return removed;
}

static uint32_t write_error_reason(pc_status status, double deadline)
{
    if (status == PC_ERR_NOMEM)
        return PC_REASON_NO_ROOM;
    return pc__now() >= deadline ? PC_REASON_DEADLINE : PC_REASON_IO;
}

/* Frees what describing a segment has allocated, perhaps an application's states. */
static void free_description(const pc_cache *cache, const pc_segment *segment, void *release_me)
{
    pc__zeroing zeroing;
    pc__zeroing_init(&zeroing, &segment->mem);
    pc__free(cache->flags & PC_CACHE_ZERO_MEMORY ? &zeroing.mem : &segment->mem, release_me);
}

static void write_image(write_job *w)
{
    pc_cache *cache = w->cache;
    pc__tier *tier = cache->tiers[w->tier];
    pc_segment *segment = w->segment;
    double begun = pc__now(), deadline = begun + cache->deadline;
    void *release_me = NULL;
    uint32_t reason = PC_REASON_NONE;
    pc_status status;
    w->image.tokens = segment->tokens;
    w->image.token_ids = segment->token_ids;
    status = segment->ops->describe(segment->owner, segment->payload, &w->image, &release_me);
    if (status < 0) {
        report_dropped(cache, w->tier, write_error_reason(status, deadline), &w->image.key,
                       segment);
        return;
    }
    w->image.lossy |= segment->lossy;
    w->image.has_visibility = pc__segment_visibility(segment) != NULL;
    if (w->image.has_visibility)
        w->image.visibility = *pc__segment_visibility(segment);
    status = tier->ops->put(tier, &w->image, deadline, &reason);
    if (status == PC_OK && was_removed(w))
        tier->ops->remove(tier, &w->image.key);
    if (status < 0)
        pc__log(cache->context, PC_LOG_INFO, "cache: a store to tier %u failed: %s", w->tier,
                pc_error_text());
    if (status < 0 || (status == PC_MISS && reason))
        atomic_store(&cache->counts.given_up, 1);
    /* Reads learn of it too: it is the same folder or server. */
    if (status < 0 && status != PC_ERR_NOMEM)
        pc__estimate_report_failure(&cache->estimate, w->tier, segment->bytes, pc__now() - begun,
                                    write_error_reason(status, deadline));
    free_description(cache, segment, release_me);
}

static void run_write(pc__io_job *job, int give_up)
{
    write_job *w = (write_job *)job;
    pc_cache *cache = w->cache;
    uint32_t distrust = PC_REASON_NONE;
    if (give_up == PC__IO_FORGET) {
        free_job(w, 1);
        return;
    }
    if (!w->is_probe) /* the tier may have failed since the job was queued */
        distrust = pc__estimate_distrust(&cache->estimate, w->tier);
    if (give_up || distrust)
        report_dropped(cache, w->tier, distrust ? distrust : PC_REASON_DEADLINE, &w->image.key,
                       w->segment);
    /* COMPRESSED ends with the process. */
    else if (!(w->tier == PC_TIER_COMPRESSED && pc__io_is_ending(cache->io)) && !was_removed(w))
        write_image(w);
    free_job(w, 0);
}

/* 1: the bytes are counted; 0: there is no room now. `alone`: more than the room may go if only
 * `own` bytes wait, which are of the same segment. */
static int count_bytes(atomic_uint_fast64_t *counter, uint64_t bytes, uint64_t room, int alone,
                       uint64_t own)
{
    uint64_t waiting = atomic_fetch_add_explicit(counter, bytes, memory_order_relaxed);
    if (waiting + bytes <= room || (alone && waiting <= own))
        return 1;
    atomic_fetch_sub_explicit(counter, bytes, memory_order_relaxed);
    return 0;
}

/* Counts the segment's bytes, and returns the counter; NULL: there is no room now. `wait`: until
 * there is. More than the room go alone where that takes no memory, in RAM, or where the caller
 * keeps it so long. */
static atomic_uint_fast64_t *take_room(pc_cache *cache, const pc_segment *segment, int in_ram,
                                       uint64_t own, uint32_t wait)
{
    atomic_uint_fast64_t *counter = in_ram ? &cache->inside : &cache->outside;
    uint64_t room = in_ram ? cache->room_inside : cache->room_outside;
    while (!count_bytes(counter, segment->bytes, room, in_ram || wait, own)) {
        if (!wait)
            return NULL;
        pc__io_await_write(cache->io);
    }
    return counter;
}

/* Makes a job and counts its bytes. NULL: *reason says why not. */
static write_job *new_job(pc_cache *cache, const pc_segment *segment, uint32_t tier, int in_ram,
                          uint64_t own, uint32_t wait, uint32_t *reason)
{
    atomic_uint_fast64_t *counter;
    int is_probe;
    write_job *w;
    *reason = pc__estimate_refusal(&cache->estimate, tier, pc__now(), &is_probe);
    if (*reason)
        return NULL;
    *reason = PC_REASON_NO_ROOM;
    if (!(counter = take_room(cache, segment, in_ram, own, wait)))
        return NULL;
    w = pc__calloc(&cache->context->mem, 1, sizeof *w);
    if (!w) {
        atomic_fetch_sub_explicit(counter, segment->bytes, memory_order_relaxed);
        return NULL;
    }
    w->is_probe = is_probe;
    w->counter = counter;
    return w;
}

static int queue_job(pc_cache *cache, write_job *w, uint32_t wait)
{
    while (!pc__io_add(cache->io, PC__IO_WRITE, &w->job))
        if (!wait || !pc__io_await_write(cache->io))
            return 0;
    return 1;
}

/* Returns the bytes that wait now. `own`: those of earlier jobs for the segment. `entered`:
 * removals after that one count, UINT64_MAX: after now. */
static uint64_t queue_write_since(pc_cache *cache, uint32_t tier, const pc__entry_desc *desc,
                                  pc_segment *segment, int in_ram, uint64_t own, uint64_t entered)
{
    const pc__image *description = atomic_load(&segment->description);
    uint32_t reason;
    write_job *w;
    if (!description || !segment->ops->describe)
        return 0;
    w = new_job(cache, segment, tier, in_ram, own, desc->wait_for_room, &reason);
    if (!w) {
        if (in_ram && reason == PC_REASON_NO_ROOM)
            atomic_fetch_or_explicit(&segment->not_written, 1u << tier, memory_order_relaxed);
        report_dropped(cache, tier, reason, &desc->key, segment);
        return 0;
    }
    w->job.run = run_write;
    w->cache = cache;
    w->tier = tier;
    w->segment = pc__segment_ref(segment);
    w->image = *description;
    pc__image_set_entry(&w->image, desc, &cache->salt_id);
    w->image.expires = 0;
    if (desc->ttl > 0)
        w->image.expires = pc__date_after(pc__now_date(),
                                          desc->ttl_left > 0 ? desc->ttl_left : desc->ttl);
    pthread_mutex_lock(&cache->load_lock);
    w->entered = pc__removals_enter(cache);
    w->entered = entered < w->entered ? entered : w->entered;
    list_job(w);
    pthread_mutex_unlock(&cache->load_lock);
    if (!queue_job(cache, w, desc->wait_for_room)) {
        report_dropped(cache, tier, PC_REASON_NO_ROOM, &desc->key, segment);
        free_job(w, 0);
        return 0;
    }
    return segment->bytes;
}

static uint64_t queue_write(pc_cache *cache, uint32_t tier, const pc__entry_desc *desc,
                            pc_segment *segment, int in_ram, uint64_t own)
{
    return queue_write_since(cache, tier, desc, segment, in_ram, own, UINT64_MAX);
}

/* tiers: bits 1 << PC_TIER_…. Returns the bytes that wait. */
static uint64_t queue_lower_tiers(pc_cache *cache, const pc__entry_desc *desc, pc_segment *segment,
                                  int in_ram, uint32_t tiers)
{
    uint64_t queued = 0;
    for (uint32_t t = PC_TIER_DISK; t <= PC_TIER_REMOTE; t++)
        if (cache->tiers[t] && tiers >> t & 1 && !(cache->flags & PC_CACHE_READ_ONLY))
            queued += queue_write(cache, t, desc, segment, in_ram, queued);
    return queued;
}

/* RAM knows the cache's ttl as 0 and "never" as INFINITY; records hold the number, 0: never. */
static pc__entry_desc with_ttl(const pc_cache *cache, const pc__entry_desc *desc)
{
    pc__entry_desc n = *desc;
    n.ttl = isinf(desc->ttl) ? 0 : desc->ttl > 0 ? desc->ttl : cache->ttl;
    return n;
}

uint64_t pc__write_behind(pc_cache *cache, const pc__entry_desc *desc, pc_segment *segment,
                          int in_ram)
{
    pc__entry_desc n = with_ttl(cache, desc);
    uint32_t tiers = desc->tiers ? desc->tiers : ALL_TIERS;
    uint64_t queued = queue_lower_tiers(cache, &n, segment, in_ram, tiers);
    if (!in_ram && cache->tiers[PC_TIER_COMPRESSED] && tiers >> PC_TIER_COMPRESSED & 1)
        queued += queue_write(cache, PC_TIER_COMPRESSED, &n, segment, 0, queued);
    /* It went alone, in no budget: the caller has it in memory so long. */
    if (!in_ram && desc->wait_for_room && segment->bytes > cache->room_outside)
        pc__io_flush(cache->io);
    return queued;
}

int pc__write_is_admitted(pc_cache *cache, const pc__entry_desc *desc)
{
    uint64_t begin, seen;
    if (!desc->write_on_reuse)
        return 1;
    memcpy(&begin, desc->key.bytes, sizeof begin); /* digests are uniform */
    seen = atomic_exchange_explicit(&cache->admission_keys[begin % PC__ADMISSION_KEYS], begin,
                                    memory_order_relaxed);
    if (seen == begin)
        return 1;
    atomic_fetch_add(&cache->counts.not_admitted, 1);
    return 0;
}

/* The entry under which the segment was stored. */
static pc__entry_desc entry_desc_of(const pc__image *description, const pc__id *key)
{
    return (pc__entry_desc){.key = *key,
                            .content = description->has_content ? &description->content : NULL,
                            .parent = description->has_parent ? &description->parent : NULL,
                            .salt = &description->salt,
                            .cost = description->cost,
                            .ttl = description->ttl,
                            .priority = description->priority};
}

/* 1: it can be written; else it would be dropped once more. */
static int has_room_inside(pc_cache *cache, const pc_segment *segment)
{
    uint64_t waiting = atomic_load(&cache->inside);
    return !waiting || waiting + segment->bytes <= cache->room_inside;
}

void pc__write_reused(pc_cache *cache, const pc__id *key, pc_segment *segment, uint32_t wait)
{
    const pc__image *description = atomic_load(&segment->description);
    uint32_t tiers = atomic_load_explicit(&segment->not_written, memory_order_relaxed);
    pc__entry_desc desc;
    if (!description || !tiers
        || (!(tiers & PC__NOT_ADMITTED) && !wait && !has_room_inside(cache, segment)))
        return;
    tiers = atomic_exchange_explicit(&segment->not_written, 0, memory_order_relaxed);
    desc = entry_desc_of(description, key);
    desc.wait_for_room = wait;
    queue_lower_tiers(cache, &desc, segment, 1, tiers & PC__NOT_ADMITTED ? ALL_TIERS : tiers);
}

void pc__promote(pc_cache *cache, uint32_t from, pc_segment *segment, uint64_t entered)
{
    const pc__image *description = atomic_load(&segment->description);
    pc__entry_desc desc;
    if (!description || from != PC_TIER_REMOTE || !cache->tiers[PC_TIER_DISK]
        || (cache->flags & PC_CACHE_READ_ONLY))
        return;
    desc = entry_desc_of(description, &description->key);
    atomic_fetch_add(&cache->counts.promoted, 1);
    queue_write_since(cache, PC_TIER_DISK, &desc, segment,
                      pc__ram_tier_has(cache->ram, &description->key), 0, entered);
}

static int compressed_keeps(pc__tier *compressed, const pc__id *key)
{
    uint64_t bytes;
    return compressed->ops->may_have(compressed, key, &bytes)
           && !(compressed->ops->absence_reason
                && compressed->ops->absence_reason(compressed, key));
}

void pc__write_evicted(void *user, const pc__entry_desc *desc, pc_segment *segment)
{
    pc_cache *cache = user;
    pc__entry_desc n = with_ttl(cache, desc);
    pc__tier *compressed = cache->tiers[PC_TIER_COMPRESSED];
    if (!compressed || !cache->io || !pc__tiers_have(desc->tiers, PC_TIER_COMPRESSED)
        || atomic_load_explicit(&segment->not_written, memory_order_relaxed) & PC__NOT_ADMITTED
        || compressed_keeps(compressed, &desc->key))
        return;
    queue_write(cache, PC_TIER_COMPRESSED, &n, segment, 0, 0);
}
