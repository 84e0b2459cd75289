/* Loads: on a miss in RAM, requests read a segment from a lower tier. A load is one job of the I/O
 * threads; requests for the same key share it. It asks the tiers in order until one has the
 * segment, puts the segment into RAM and keeps it for the requests that wait. */
#include "store/cache_internal.h"

#include <string.h>

static pc__entry_load *find_load(pc_cache *cache, const pc__id *key)
{
    return PC__FIND_ID(&cache->loads, key, pc__entry_load, by_key, desc.key);
}

static void unlist_load(pc__entry_load *load)
{
    pc_cache *cache = load->cache;
    if (load->listed)
        pc__hash_table_remove(&cache->loads, &load->by_key);
    load->listed = 0;
    cache->backlog -= load->expected_seconds < cache->backlog ? load->expected_seconds
                                                              : cache->backlog;
}

void pc__load_unref(pc__entry_load *load)
{
    pc_allocator mem;
    if (atomic_fetch_sub_explicit(&load->references, 1, memory_order_acq_rel) != 1)
        return;
    mem = load->cache->context->mem;
    pc__segment_unref(load->segment);
    pc__segment_unref(load->early);
    pc__segment_unref(load->from);
    if (load->has_owner_ref && load->ops->drop_owner)
        load->ops->drop_owner(load->owner);
    pc__free(&mem, load->ready);
    pc__free(&mem, load->into);
    pc__free(&mem, load->image);
    pc__free(&mem, load);
}

/* The tier that should have it first, and after how many seconds; PC_TIER_NONE: no tier may have
 * it. Skips tiers that fail; *reason says why. */
static uint32_t best_tier(pc_cache *cache, const pc__load_request *request,
                          double *expected_seconds, uint32_t *reason)
{
    const pc__id *key = &request->image->key;
    uint32_t best = PC_TIER_NONE;
    for (uint32_t t = PC_TIER_COMPRESSED; t < PC_TIER_COUNT; t++) {
        pc__tier *tier = cache->tiers[t];
        uint64_t bytes = 0;
        uint32_t refused = PC_REASON_NONE;
        double seconds;
        int there = tier && pc__tiers_have(request->tiers, t)
                    && tier->ops->may_have(tier, key, &bytes);
        if (tier && !there && pc__tiers_have(request->tiers, t) && tier->ops->absence_reason)
            refused = tier->ops->absence_reason(tier, key);
        if (there && !(cache->flags & PC_CACHE_ALWAYS_LOAD))
            refused = pc__estimate_refusal(&cache->estimate, t, pc__now(), NULL);
        if (refused)
            *reason = refused;
        if (!there || refused)
            continue;
        seconds = pc__estimate_load(&cache->estimate, t, bytes ? bytes : request->bytes);
        if (best == PC_TIER_NONE || seconds < *expected_seconds) {
            best = t;
            *expected_seconds = seconds;
        }
    }
    return best;
}

/* 1: loading pays. It must end before computing would, and all threads together must load
 * more than is computed meanwhile. If not: 1 if a probe of the tier is due. */
static int should_load(pc_cache *cache, const pc__load_request *request, uint32_t tier,
                       double expected_seconds)
{
    double threads = (double)pc__io_threads(cache->io), queued;
    if ((cache->flags & PC_CACHE_ALWAYS_LOAD) || request->cost <= 0)
        return 1;
    pthread_mutex_lock(&cache->load_lock);
    queued = cache->backlog / threads;
    pthread_mutex_unlock(&cache->load_lock);
    if (expected_seconds < request->cost * threads
        && queued + expected_seconds < request->queue_cost + request->cost)
        return 1;
    return pc__estimate_probe_is_due(&cache->estimate, tier, pc__now());
}

static void set_load_desc(pc__entry_load *load, const pc__entry_desc *desc)
{
    pc__image *image = load->image;
    load->desc = *desc;
    load->desc.key = image->key;
    pc__image_set_entry(image, &load->desc, &image->salt);
    load->desc.content = image->has_content ? &image->content : NULL;
    load->desc.parent = image->has_parent ? &image->parent : NULL;
    load->desc.salt = desc->salt ? &image->salt : NULL;
}

/* Takes the segment of a finished load that nobody waits for, so that it is freed at once. Under
 * the lock. */
static pc_segment *take_unwanted_segment(pc__entry_load *load)
{
    pc_segment *segment = load->waiters || load->listed ? NULL : load->segment;
    if (segment)
        load->segment = NULL;
    return segment;
}

/* The reading thread drops what it holds before others learn that the load is done. `reason` NONE:
 * it has succeeded. */
static void end_load(pc__entry_load *load, uint32_t reason)
{
    pc_cache *cache = load->cache;
    pc_segment *segment;
    pthread_mutex_lock(&cache->load_lock);
    load->reason = reason;
    unlist_load(load);
    pc__removals_leave(cache);
    atomic_store_explicit(&load->done, reason == PC_REASON_NONE ? 1 : -1, memory_order_release);
    pthread_cond_broadcast(&cache->load_done);
    segment = take_unwanted_segment(load);
    pthread_mutex_unlock(&cache->load_lock);
    pc__segment_unref(segment);
    pc__load_unref(load);
}

/* 1: every request has given up before the load began. */
static int has_no_waiter(pc__entry_load *load)
{
    int none;
    pthread_mutex_lock(&load->cache->load_lock);
    none = !load->waiters && !atomic_load(&load->prefetch);
    load->begun = !none;
    load->reader = pthread_self();
    pthread_mutex_unlock(&load->cache->load_lock);
    return none;
}

/* Of a tier that did not have it after all: another process has written it, and it has expired. */
static uint32_t why_absent(pc__tier *tier, const pc__id *key)
{
    uint32_t reason = tier->ops->absence_reason ? tier->ops->absence_reason(tier, key)
                                                : PC_REASON_NONE;
    return reason ? reason : PC_REASON_FIRST_USE;
}

/* Asks the tiers in order, the expected one first. PC_REASON_NONE: one had it; else the reason of
 * the first failure. */
static uint32_t ask_tiers(pc__entry_load *load)
{
    pc_cache *cache = load->cache;
    uint32_t reason = PC_REASON_NONE, absent = PC_REASON_FIRST_USE;
    uint64_t bytes;
    for (uint32_t i = PC_TIER_NONE; i < PC_TIER_COUNT; i++) {
        pc_status status;
        uint32_t t = i == PC_TIER_NONE ? load->first_tier : i;
        pc__tier *tier = cache->tiers[t];
        if (!tier || (i && t == load->first_tier) || !pc__tiers_have(load->tiers, t))
            continue;
        if (i
            && (!tier->ops->may_have(tier, &load->image->key, &bytes)
                || pc__estimate_distrust(&cache->estimate, t)))
            continue;
        if (pc__now() > load->deadline)
            return reason ? reason : PC_REASON_DEADLINE;
        status = pc__load_read(load, t);
        if (status == PC_OK)
            return PC_REASON_NONE;
        if (status < 0 && !reason)
            reason = load->reason;
        else if (status == PC_MISS && absent == PC_REASON_FIRST_USE)
            absent = why_absent(tier, &load->image->key);
    }
    return reason ? reason : absent;
}

/* Of a segment in RAM, into given memory. */
static uint32_t copy_segment(pc__entry_load *load)
{
    pc_raw raw = PC_RAW_INIT;
    const pc__image *image = load->image;
    if (pc_segment_raw(load->from, &raw) < 0 || raw.block_count != image->block_count)
        return PC_REASON_FOREIGN;
    for (size_t b = 0; b < raw.block_count; b++)
        if (raw.block_bytes[b] != image->block_bytes[b])
            return PC_REASON_FOREIGN;
    for (size_t b = 0; b < raw.block_count; b++)
        memcpy(load->into[b], raw.blocks[b], (size_t)raw.block_bytes[b]);
    load->lossy = raw.lossy;
    load->other_kernels = load->from->other_kernels;
    load->tier = PC_TIER_RAM;
    pc__segment_unref(load->from);
    load->from = NULL;
    return PC_REASON_NONE;
}

static void run_load(pc__io_job *job, int give_up)
{
    pc__entry_load *load = (pc__entry_load *)job;
    uint32_t reason = PC_REASON_SLOW;
    if (load->began_as_prefetch)
        load->deadline = pc__now() + load->cache->deadline;
    if (!give_up && !has_no_waiter(load)) {
        reason = load->from ? copy_segment(load) : ask_tiers(load);
        if (load->segment)
            pc__promote(load->cache, load->tier, load->segment, load->entered);
        if (!reason && load->into && load->tier != PC_TIER_RAM)
            atomic_fetch_add(&load->cache->counts.hits, 1);
    }
    end_load(load, reason);
}

static pc__entry_load *new_load(pc_cache *cache, const pc__load_request *request)
{
    const pc_allocator *mem = &cache->context->mem;
    pc__entry_load *load = pc__calloc(mem, 1, sizeof *load);
    pc__image *image = load ? pc__image_copy(mem, request->image) : NULL;
    if (!image) {
        pc__free(mem, load);
        return NULL;
    }
    load->job.run = run_load;
    atomic_init(&load->references, 1); /* the I/O thread's */
    load->cache = cache;
    load->mem = request->mem ? *request->mem : *mem;
    load->image = image;
    set_load_desc(load, request->desc);
    load->ops = request->ops;
    load->owner = request->owner;
    load->bytes = request->bytes;
    load->cost = request->cost;
    load->deadline = request->deadline > 0 ? request->deadline : pc__now() + cache->deadline;
    load->tiers = request->tiers;
    if (request->ref_owner)
        request->ref_owner(request->owner);
    load->ref_owner = request->ref_owner;
    load->has_owner_ref = request->ref_owner != NULL;
    return load;
}

/* Adds a waiter, under the lock. PC_MISS: it loads another segment than this request wants. */
static pc_status join_load(pc__entry_load *load, const pc__load_request *request,
                           pc__entry_load **out)
{
    const pc__image *image = load->image;
    if (!pc__payload_serves(load->ops, load->owner, request->ops, request->owner)
        || !pc__tiers_have(request->tiers, load->first_tier))
        return PC_MISS;
    if (image->tokens != request->image->tokens
        || (image->tokens
            && memcmp(image->token_ids, request->image->token_ids,
                      image->tokens * sizeof *image->token_ids)
                   != 0))
        return PC_MISS;
    load->waiters++;
    atomic_fetch_add_explicit(&load->references, 1, memory_order_relaxed);
    atomic_fetch_add(&load->cache->counts.joined, 1);
    *out = load;
    return PC_OK;
}

/* PC_AGAIN: no load of this key is running. */
static pc_status join_running_load(pc_cache *cache, const pc__load_request *request,
                                   pc__entry_load **out)
{
    pc_status status = PC_AGAIN;
    pc__entry_load *load;
    pthread_mutex_lock(&cache->load_lock);
    load = find_load(cache, &request->image->key);
    if (load) {
        status = join_load(load, request, out);
        if (status == PC_OK && atomic_exchange(&load->prefetch, 0)
            && pc__io_make_load(cache->io, &load->job))
            load->due = pc__now() + load->expected_seconds;
    }
    pthread_mutex_unlock(&cache->load_lock);
    return status;
}

/* Adds the load to the list and the queue. PC_AGAIN: another thread was faster; PC_MISS: the queue
 * is full. */
static pc_status queue_load(pc_cache *cache, pc__entry_load *load, size_t waiters)
{
    pc_status status = PC_OK;
    pthread_mutex_lock(&cache->load_lock);
    if (!load->into && find_load(cache, &load->image->key)) {
        status = PC_AGAIN;
    } else if (load->into
               || (status = pc__hash_table_reserve(&cache->loads, &cache->context->mem)) >= 0) {
        if (!load->into)
            pc__hash_table_add(&cache->loads, &load->by_key, pc__id_hash(&load->image->key));
        load->listed = !load->into;
        load->due = pc__now() + cache->backlog / (double)pc__io_threads(cache->io)
                    + load->expected_seconds;
        cache->backlog += load->expected_seconds;
        load->waiters = waiters;
        load->entered = pc__removals_enter(cache);
        atomic_fetch_add_explicit(&load->references, waiters, memory_order_relaxed);
        if (!pc__io_add(cache->io, load->prefetch ? PC__IO_PREFETCH : PC__IO_LOAD, &load->job)) {
            atomic_fetch_sub_explicit(&load->references, waiters, memory_order_relaxed);
            unlist_load(load);
            pc__removals_leave(cache);
            status = PC_MISS;
        }
    }
    pthread_mutex_unlock(&cache->load_lock);
    if (status == PC_OK) {
        atomic_fetch_add(&cache->counts.loads, 1);
        if (!waiters)
            atomic_fetch_add(&cache->counts.prefetches, 1);
    }
    return status;
}

/* Starts a load, from `tier` first. *out waits for it; out NULL: a prefetch, nobody waits. Status
 * as of queue_load. */
static pc_status start_load(pc_cache *cache, const pc__load_request *request, uint32_t tier,
                            double expected_seconds, pc__entry_load **out)
{
    pc__entry_load *load = new_load(cache, request);
    pc_status status;
    if (!load)
        return PC_ERR_NOMEM;
    load->first_tier = tier;
    load->expected_seconds = expected_seconds;
    load->began_as_prefetch = !out;
    atomic_store(&load->prefetch, !out);
    status = queue_load(cache, load, out ? 1 : 0);
    if (status != PC_OK)
        pc__load_unref(load);
    else if (out)
        *out = load;
    return status;
}

/* The first tier, or PC_TIER_NONE: *reason. */
static uint32_t choose_tier(pc_cache *cache, const pc__load_request *request,
                            double *expected_seconds, uint32_t *reason)
{
    uint32_t tier;
    *reason = PC_REASON_FIRST_USE;
    tier = cache->has_lower ? best_tier(cache, request, expected_seconds, reason) : PC_TIER_NONE;
    if (tier == PC_TIER_NONE || should_load(cache, request, tier, *expected_seconds))
        return tier;
    *reason = PC_REASON_SLOW;
    atomic_fetch_add(&cache->counts.slower_than_compute[tier], 1);
    return PC_TIER_NONE;
}

pc_status pc__cache_lookup_async(pc_cache *cache, const pc__load_request *request,
                                 pc__entry_load **out, uint32_t *reason)
{
    double expected_seconds = 0;
    uint32_t tier;
    pc_status status;
    *out = NULL;
    *reason = PC_REASON_FIRST_USE;
    PC__TRY_RETURN(pc__cache_check(cache, "a request"));
    if (!cache->has_lower)
        return PC_MISS;
    do {
        status = join_running_load(cache, request, out);
        if (status != PC_AGAIN)
            return status;
        tier = choose_tier(cache, request, &expected_seconds, reason);
        if (tier == PC_TIER_NONE)
            return PC_MISS;
        *reason = PC_REASON_SLOW;
        status = start_load(cache, request, tier, expected_seconds, out);
    } while (status == PC_AGAIN);
    return status;
}

/* Without threads, or with a full queue, a segment is copied at once. */
static pc_status start_load_into(pc_cache *cache, pc__entry_load *load)
{
    pc_status status = cache->io ? queue_load(cache, load, 1) : PC_MISS;
    if (status == PC_OK || !load->from)
        return status;
    pthread_mutex_lock(&cache->load_lock);
    load->waiters = 1;
    load->entered = pc__removals_enter(cache);
    pthread_mutex_unlock(&cache->load_lock);
    atomic_fetch_add_explicit(&load->references, 1, memory_order_relaxed);
    run_load(&load->job, 0);
    return PC_OK;
}

pc_status pc__cache_load_into(pc_cache *cache, const pc__load_request *request,
                              uint8_t *const *blocks, pc_segment *segment, pc__entry_load **out,
                              uint32_t *reason)
{
    static const pc__payload_ops none = {0};
    pc__entry_desc desc = {.key = request->image->key, .cost = request->cost};
    pc__load_request r = *request;
    double expected_seconds = 0;
    uint32_t tier = PC_TIER_RAM;
    pc__entry_load *load;
    pc_status status = PC_ERR_NOMEM;
    *out = NULL;
    if (!segment && (tier = choose_tier(cache, request, &expected_seconds, reason)) == PC_TIER_NONE)
        return PC_MISS;
    *reason = PC_REASON_SLOW;
    r.ops = &none;
    r.owner = NULL;
    r.ref_owner = NULL;
    r.desc = &desc;
    load = new_load(cache, &r);
    if (load)
        load->into = pc__calloc(&cache->context->mem, r.image->block_count, sizeof(*load->into));
    if (!load || !load->into) {
        pc__segment_unref(segment);
        if (load)
            pc__load_unref(load);
        return status;
    }
    memcpy(load->into, blocks, r.image->block_count * sizeof *blocks);
    load->from = segment;
    load->first_tier = tier;
    load->expected_seconds = expected_seconds;
    status = start_load_into(cache, load);
    if (status == PC_OK)
        *out = load;
    else
        pc__load_unref(load);
    return status;
}

pc_status pc__load_filled(pc__entry_load *load, uint32_t *lossy, uint32_t *other_kernels,
                          uint32_t *reason)
{
    *lossy = load->lossy;
    *other_kernels = load->other_kernels;
    *reason = load->reason;
    return pc__load_succeeded(load) ? PC_OK : PC_MISS;
}

void pc__load_give_up(pc__entry_load *load)
{
    if (!load)
        return;
    pthread_mutex_lock(&load->cache->load_lock);
    load->waiters = 0;
    pthread_mutex_unlock(&load->cache->load_lock);
}

void pc__load_end(pc__entry_load *load)
{
    pc_cache *cache;
    if (!load)
        return;
    cache = load->cache;
    pc__load_give_up(load);
    pthread_mutex_lock(&cache->load_lock);
    /* In a callback on the reading thread: it goes on with no block when it comes back. */
    while (load->into && load->begun && !pc__load_is_done(load)
           && !pthread_equal(load->reader, pthread_self()))
        pthread_cond_wait(&cache->load_done, &cache->load_lock);
    pthread_mutex_unlock(&cache->load_lock);
    pc__load_unref(load);
}

pc_status pc__cache_prefetch_entry(pc_cache *cache, const pc__load_request *request)
{
    uint32_t reason, tier;
    double expected_seconds = 0;
    pc_status status;
    PC__TRY_RETURN(pc__cache_check(cache, "a request"));
    if (!cache->has_lower || !pc__tiers_have(request->tiers, PC_TIER_RAM)
        || pc__ram_tier_has(cache->ram, &request->image->key))
        return PC_MISS;
    tier = best_tier(cache, request, &expected_seconds, &reason);
    if (tier == PC_TIER_NONE)
        return PC_MISS;
    status = start_load(cache, request, tier, expected_seconds, NULL);
    return status == PC_AGAIN ? PC_MISS : status;
}

void pc__load_sleep(pc__entry_load *load, double until)
{
    struct timespec t = pc__timespec(until);
    pthread_cond_timedwait(&load->cache->load_done, &load->cache->load_lock, &t);
}

int pc__load_await(pc__entry_load *load, double until, int early)
{
    pc_cache *cache = load->cache;
    int there = pc__load_is_done(load);
    if (there || (until <= 0 && !early))
        return there;
    pthread_mutex_lock(&cache->load_lock);
    while (!(there = pc__load_is_done(load) || (early && load->early && !load->stream_error))
           && pc__now() < until)
        pc__load_sleep(load, until);
    pthread_mutex_unlock(&cache->load_lock);
    return there;
}

pc_status pc__entry_load_wait(pc__entry_load *load, double until, pc_segment **out,
                              uint32_t *reason)
{
    pc_cache *cache = load->cache;
    *out = NULL;
    *reason = PC_REASON_NONE;
    if (!pc__load_await(load, until, 0))
        return PC_AGAIN;
    *reason = load->reason;
    if (!load->segment)
        return PC_MISS;
    *out = pc__segment_ref(load->segment);
    atomic_fetch_add(&cache->counts.hits, 1);
    return PC_OK;
}

int pc__load_is_done(const pc__entry_load *load)
{
    return atomic_load(&load->done) != 0;
}

int pc__load_succeeded(const pc__entry_load *load)
{
    return atomic_load(&load->done) > 0;
}

double pc__load_due(const pc__entry_load *load)
{
    double due;
    pthread_mutex_lock(&load->cache->load_lock);
    due = load->due;
    pthread_mutex_unlock(&load->cache->load_lock);
    return due;
}

uint32_t pc__load_tier(const pc__entry_load *load)
{
    return pc__load_succeeded(load) ? load->tier : load->first_tier;
}

uint64_t pc__load_bytes(const pc__entry_load *load)
{
    return pc__load_is_done(load) ? load->bytes_read : 0;
}

void pc__load_drop(pc__entry_load *load)
{
    pc_cache *cache;
    pc_segment *segment;
    if (!load)
        return;
    cache = load->cache;
    pthread_mutex_lock(&cache->load_lock);
    load->waiters--;
    segment = take_unwanted_segment(load);
    pthread_mutex_unlock(&cache->load_lock);
    pc__segment_unref(segment);
    pc__load_unref(load);
}
