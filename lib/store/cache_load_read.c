/* Reads one load from one tier: reads the header and compares it with what is wanted, reserves RAM,
 * has the owner make memory, reads, checks and decodes the blocks in several threads, and hands the
 * payload over. A record that the tier can map is not copied: its blocks are checked in place.
 * After any failure nothing is left behind.
 *
 * What a record claims is compared with what was asked for before memory is allocated for it, and
 * before anything gives way. RAM is reserved before memory is allocated. If the RAM tier has no
 * room, a load that a request waits for goes on: its memory then belongs to the request, like a
 * segment that the request computes, and is freed with it. A prefetch ends.
 *
 * A load into given memory (pc__entry_load.into) reads there and makes no segment. */
#include "store/cache_internal.h"

#include <promptcache/cache.h>
#include <stdio.h>
#include <string.h>

#include "attn/kernels.h"

enum { HELP_BYTES = 1 << 18 }; /* bytes that are worth another thread */

typedef struct record_load {
    pc__entry_load *load;
    pc__tier *tier;
    pc__source *source;
    pc__record *record;
    const pc__image *image; /* of the record */
    /* Entry in RAM: the load's, with what only the record knows. */
    pc__entry_desc desc;
    void *payload;
    pc_segment *segment; /* around the payload, if it is used early */
    uint8_t **blocks;
    uint64_t reserved; /* bytes, in RAM */
    int is_mapped;     /* the payload lies in the source, and closes it */
    double started;
} record_load;

static uint32_t load_error_reason(const record_load *r, pc_status status)
{
    if (r->source && atomic_load_explicit(&r->source->timed_out, memory_order_relaxed))
        return PC_REASON_DEADLINE;
    switch (status) {
    case PC_ERR_NOMEM:
        return PC_REASON_NO_ROOM;
    case PC_ERR_CANCELLED:
        return PC_REASON_SLOW;
    default:
        return pc__reason_of(status);
    }
}

/* 1: nobody waits any more, and RAM already has the segment or we are shutting down. Under
 * load_lock. */
static int is_abandoned(pc__entry_load *load)
{
    if (pc__io_is_ending(load->cache->io))
        return 1;
    if (load->into)
        return !load->waiters;
    return !load->waiters && !load->prefetch
           && pc__ram_tier_has(load->cache->ram, &load->image->key);
}

/* Keeps the first error and its text: error texts are per thread, and another thread reports it.
 * Under load_lock. */
static void fail_load(pc__entry_load *load, pc_status status)
{
    if (load->failed < 0)
        return;
    load->failed = status;
    snprintf(load->why, sizeof load->why, "%s", pc_error_text());
}

/* The next block; SIZE_MAX: there is none. */
static size_t claim_block(pc__entry_load *load)
{
    size_t index = SIZE_MAX;
    pthread_mutex_lock(&load->cache->load_lock);
    if (load->failed >= 0 && load->next_block < load->block_count) {
        if (is_abandoned(load))
            fail_load(load, pc__fail(PC_ERR_CANCELLED, "nobody waits for it any more"));
        else if (pc__now() > load->deadline)
            load->failed = PC_AGAIN; /* read_all_blocks makes it a timeout */
        if (load->failed == PC_OK)
            index = load->next_block++;
    }
    pthread_mutex_unlock(&load->cache->load_lock);
    return index;
}

static void read_blocks(pc__entry_load *load)
{
    size_t index;
    while ((index = claim_block(load)) != SIZE_MAX) {
        pc_status status = load->blocks ? pc__record_block(load->record, index, load->blocks[index])
                                        : pc__record_check(load->record, index);
        if (status < 0) {
            pthread_mutex_lock(&load->cache->load_lock);
            fail_load(load, status);
            pthread_mutex_unlock(&load->cache->load_lock);
            continue;
        }
        if (load->ops->block_ready)
            load->ops->block_ready(load->owner, load->writing, index);
        if (load->ready)
            pc__layer_stream_ready(load, index);
    }
}

/* Reads blocks of the load's record until none is left. */
static void help_load(pc__entry_load *load)
{
    pc_cache *cache = load->cache;
    int join;
    pthread_mutex_lock(&cache->load_lock);
    join = load->record && load->next_block < load->block_count;
    load->readers += join ? 1 : 0;
    pthread_mutex_unlock(&cache->load_lock);
    if (!join)
        return;
    read_blocks(load);
    pthread_mutex_lock(&cache->load_lock);
    if (!--load->readers)
        pthread_cond_broadcast(&cache->load_done);
    pthread_mutex_unlock(&cache->load_lock);
}

typedef struct block_helper {
    pc__io_job job;
    pc__entry_load *load; /* a reference */
} block_helper;

static void run_block_helper(pc__io_job *job, int give_up)
{
    block_helper *h = (block_helper *)job;
    pc_allocator mem = h->load->cache->context->mem;
    pc__entry_load *load = h->load;
    if (!give_up)
        help_load(load);
    pc__load_unref(load);
    pc__free(&mem, h);
}

/* Free I/O threads help; none has to. */
static void queue_block_helpers(pc__entry_load *load, const pc__image *image)
{
    const pc_allocator *mem = &load->cache->context->mem;
    uint64_t bytes = pc__image_bytes(image);
    size_t most = pc__io_threads(load->cache->io) - 1;
    if (most > bytes / HELP_BYTES)
        most = (size_t)(bytes / HELP_BYTES);
    for (size_t i = 0; i < most && i + 1 < image->block_count && !load->prefetch; i++) {
        block_helper *h = pc__calloc(mem, 1, sizeof *h);
        if (!h)
            return;
        h->job.run = run_block_helper;
        h->load = load;
        atomic_fetch_add_explicit(&load->references, 1, memory_order_relaxed);
        if (!pc__io_add(load->cache->io, PC__IO_LOAD, &h->job)) {
            atomic_fetch_sub(&load->references, 1); /* not the last one: the caller has its own */
            pc__free(mem, h);
            return;
        }
    }
}

/* Reads or maps all blocks, and checks them. */
static pc_status read_all_blocks(record_load *r)
{
    pc__entry_load *load = r->load;
    pc_cache *cache = load->cache;
    pc_status status;
    pthread_mutex_lock(&cache->load_lock);
    load->record = r->record;
    load->blocks = r->blocks;
    load->writing = r->payload;
    load->block_count = r->image->block_count;
    load->next_block = 0;
    load->failed = PC_OK;
    pthread_mutex_unlock(&cache->load_lock);
    queue_block_helpers(load, r->image);
    read_blocks(load);
    pthread_mutex_lock(&cache->load_lock);
    while (load->readers)
        pthread_cond_wait(&cache->load_done, &cache->load_lock);
    load->record = NULL;
    status = load->failed;
    pthread_mutex_unlock(&cache->load_lock);
    if (status == PC_AGAIN) {
        atomic_store(&r->source->timed_out, 1);
        return pc__fail(PC_ERR_IO, "not read before the deadline");
    }
    return status < 0 ? pc__fail(status, "%s", load->why) : status;
}

/* Memory for decoding: one block for each thread that reads. */
static uint64_t decode_bytes(const record_load *r)
{
    pc_record_info info = PC_RECORD_INFO_INIT;
    uint64_t largest = 0, readers = pc__io_threads(r->load->cache->io);
    pc__record_describe(r->record, &info);
    if (info.codec == PC_CODEC_RAW && !info.sealed)
        return 0;
    for (size_t b = 0; b < r->image->block_count; b++)
        largest = r->image->block_bytes[b] > largest ? r->image->block_bytes[b] : largest;
    return largest * (readers < r->image->block_count ? readers : r->image->block_count);
}

/* 1: nothing but the record says how large the states are. Nothing gives way for such a claim until
 * the states are there, and it may not be larger than RAM. */
static int is_mere_claim(const record_load *r)
{
    const pc__image *wanted = r->load->image;
    return !wanted->block_bytes && !wanted->most_block;
}

static pc_status check_mere_claim(const record_load *r)
{
    pc_tier_stats ram = PC_TIER_STATS_INIT;
    pc__ram_tier_stats(r->load->cache->ram, &ram);
    return pc__image_bytes(r->image) > ram.budget_bytes
               ? pc__fail(PC_ERR_MISMATCH,
                          "the record claims %llu bytes of states, more than RAM may hold",
                          (unsigned long long)pc__image_bytes(r->image))
               : PC_OK;
}

static pc_status reserve_ram(record_load *r)
{
    pc__entry_load *load = r->load;
    int free_only = load->prefetch || is_mere_claim(r);
    uint64_t reserved;
    pc_status status;
    if (load->into) {
        status = pc__ram_tier_reserve(load->cache->ram, &r->desc, decode_bytes(r), free_only, NULL);
        r->reserved = status == PC_OK ? decode_bytes(r) : 0;
        return status < 0 ? status : PC_OK;
    }
    if (is_mere_claim(r))
        PC__TRY_RETURN(check_mere_claim(r));
    if (!load->bytes)
        load->bytes = pc__image_bytes(r->image); /* only the record knows */
    reserved = pc__ram_tier_entry_bytes(load->bytes, load->image->tokens) + decode_bytes(r);
    if (load->ops->finish) /* it makes the payload of the bytes that are read */
        reserved += pc__image_bytes(r->image);
    status = pc__ram_tier_reserve(load->cache->ram, &r->desc, reserved, free_only, NULL);
    r->reserved = status == PC_OK ? reserved : 0;
    if (status == PC_MISS && load->prefetch)
        return pc__fail(PC_ERR_CANCELLED, "no free room for a prefetch");
    return status < 0 ? status : PC_OK;
}

static void close_mapped_source(void *memory_owner)
{
    pc__source *source = memory_owner;
    source->close(source);
}

/* Wraps the record where it is mapped; nothing is checked yet. PC_MISS: it cannot be mapped. */
static pc_status wrap_memory(record_load *r)
{
    pc__entry_load *load = r->load;
    const pc_allocator *mem = &load->cache->context->mem;
    const void **blocks;
    pc_status status = PC_OK;
    if (!load->ops->wrap_memory || !r->source->map || !pc__record_is_plain(r->record)
        || !r->source->map(r->source))
        return PC_MISS;
    blocks = pc__calloc(mem, r->image->block_count, sizeof *blocks);
    if (!blocks)
        return PC_ERR_NOMEM;
    for (size_t b = 0; b < r->image->block_count && status == PC_OK; b++)
        status = (blocks[b] = pc__record_block_address(r->record, b)) != NULL ? PC_OK : PC_MISS;
    if (status == PC_OK) {
        status = load->ops->wrap_memory(load->owner, r->image, blocks, r->source,
                                        close_mapped_source, &r->payload);
        r->is_mapped = status >= 0;
        if (status == PC_ERR_UNSUPPORTED)
            status = PC_MISS;
    }
    pc__free(mem, blocks);
    return status;
}

static uint32_t is_of_other_kernels(const pc__image *image)
{
    return pc__layout_is_ours(image->form.layout)
           && strcmp(image->kernels, pc__kernels_class()) != 0;
}

static pc_status make_segment(record_load *r, pc_segment **segment)
{
    pc__entry_load *load = r->load;
    PC__TRY_RETURN(pc__segment_new(segment, &load->mem, load->ops, r->payload, load->owner,
                                   load->bytes, load->image->token_ids, load->image->tokens));
    (*segment)->lossy = r->image->lossy;
    (*segment)->other_kernels = is_of_other_kernels(r->image);
    atomic_store_explicit(&(*segment)->tier, r->tier->ops->id, memory_order_relaxed);
    if (r->image->has_visibility && pc__segment_set_visibility(*segment, &r->image->visibility) < 0)
        pc__log(load->cache->context, PC_LOG_DEBUG, "cache: no memory to keep what a segment saw");
    if (load->cache->flags & PC_CACHE_ZERO_MEMORY)
        atomic_store_explicit(&(*segment)->zero_memory, 1, memory_order_relaxed);
    return PC_OK;
}

/* Lets waiting requests begin with the first layers. */
static pc_status offer_stream(record_load *r)
{
    pc__entry_load *load = r->load;
    if (!load->ops->set_layer_stream || !load->ref_owner || pc__load_stream_error(load)
        || atomic_load_explicit(&load->prefetch, memory_order_relaxed) || r->image->block_count < 2
        || r->image->block_count != (size_t)r->image->form.shape.layers)
        return PC_OK;
    PC__TRY_RETURN(make_segment(r, &r->segment));
    load->ref_owner(load->owner); /* the segment's; the load keeps its own */
    pc__layer_stream_offer(load, r->segment, r->image->block_count, r->tier->ops->id);
    return PC_OK;
}

/* Makes memory to copy the record to. */
static pc_status create_payload(record_load *r)
{
    pc__entry_load *load = r->load;
    r->blocks = pc__calloc(&load->cache->context->mem, r->image->block_count, sizeof(*r->blocks));
    if (!r->blocks)
        return PC_ERR_NOMEM;
    if (!load->ops->create)
        return pc__fail(PC_ERR_UNSUPPORTED, "the owner of these states cannot load them");
    return load->ops->create(load->owner, r->image, &r->payload, r->blocks);
}

/* If the application's own memory is full, frees what RAM keeps of it without use, and tries once
 * more. */
static pc_status finish_payload(record_load *r)
{
    pc__entry_load *load = r->load;
    pc_status status;
    if (!load->ops->finish)
        return PC_OK;
    status = load->ops->finish(load->owner, r->image, &r->payload);
    if (status == PC_ERR_LIMIT && pc__ram_tier_trim(load->cache->ram, 0, load->bytes, load->owner))
        status = load->ops->finish(load->owner, r->image, &r->payload);
    return status;
}

/* Into given memory. */
static pc_status fill_given(record_load *r)
{
    pc__entry_load *load = r->load;
    size_t bytes = r->image->block_count * sizeof(*r->blocks);
    r->blocks = pc__alloc(&load->cache->context->mem, bytes);
    if (!r->blocks)
        return PC_ERR_NOMEM;
    memcpy(r->blocks, load->into, bytes);
    load->lossy = r->image->lossy;
    load->other_kernels = is_of_other_kernels(r->image);
    return read_all_blocks(r);
}

static pc_status read_payload(record_load *r)
{
    pc__entry_load *load = r->load;
    pc_status status;
    if (load->into)
        return fill_given(r);
    status = wrap_memory(r);
    if (status == PC_MISS)
        status = create_payload(r);
    if (status < 0)
        goto done;
    PC__TRY(offer_stream(r), done);
    PC__TRY(read_all_blocks(r), done);
    if (!r->is_mapped)
        status = finish_payload(r);
    else if (r->source->close_rest)
        r->source->close_rest(r->source);
done:
    if (r->segment)
        pc__layer_stream_end(load, status < 0 ? load_error_reason(r, status) : PC_REASON_NONE);
    return status;
}

/* 0: its key was removed meanwhile. Else a removal waits for end_storing. */
static int begin_storing(pc__entry_load *load)
{
    pc_cache *cache = load->cache;
    pthread_mutex_lock(&cache->load_lock);
    load->storing = !pc__removals_have(cache, &load->image->key, PC_TIER_RAM, load->entered);
    pthread_mutex_unlock(&cache->load_lock);
    return load->storing;
}

static void end_storing(pc__entry_load *load)
{
    pthread_mutex_lock(&load->cache->load_lock);
    load->storing = 0;
    pthread_cond_broadcast(&load->cache->load_done);
    pthread_mutex_unlock(&load->cache->load_lock);
}

/* Makes a segment of the payload and puts it into RAM if there is room. */
static pc_status store_segment(record_load *r)
{
    pc__entry_load *load = r->load;
    pc_cache *cache = load->cache;
    pc_segment *segment = r->segment, *stored = NULL;
    uint32_t why;
    pc_status status;
    PC__TRY_RETURN(segment ? PC_OK : make_segment(r, &segment));
    if (!r->segment)
        load->has_owner_ref = 0; /* its reference is the segment's now */
    r->segment = NULL;
    r->payload = NULL;
    status = pc__segment_set_description(segment, r->image);
    if (status >= 0 && begin_storing(load)) {
        r->desc.reserved = r->reserved;
        r->reserved = 0; /* the put returns it */
        status = pc__ram_tier_put(cache->ram, &r->desc, segment, &stored, &why);
        end_storing(load);
    }
    if (status >= 0 && stored && pc__segment_serves(stored, load->ops, load->owner)) {
        pc__segment_unref(segment);
        segment = stored;
        stored = NULL;
    }
    pc__segment_unref(stored); /* of another owner */
    load->segment = segment;
    return PC_OK; /* loaded, even if RAM has no room for it */
}

/* Completes the entry before RAM is reserved for it. */
static void set_desc(record_load *r)
{
    const pc__image *image = r->image;
    pc__entry_desc *n = &r->desc;
    *n = r->load->desc;
    n->cost = image->cost > 0 ? image->cost : n->cost;
    n->ttl = image->ttl > 0 ? image->ttl : n->ttl;
    n->priority = n->priority ? n->priority : image->priority;
    if (!n->salt) /* pc_cache_get passes none */
        n->salt = &image->salt;
}

static pc_status open_record(record_load *r)
{
    pc__entry_load *load = r->load;
    pc_cache *cache = load->cache;
    const pc__record_options options = {
        .codecs = cache->codecs,
        .codec = PC_CODEC_RAW,
        .seal_key = r->tier->ops->id == PC_TIER_COMPRESSED ? NULL : cache->seal_key,
        .kernels = pc__cache_own_kernels(cache),
        .wanted = load->image};
    PC__TRY_RETURN(pc__record_open(&r->record, cache->scratch, &options, r->source));
    r->image = pc__record_image(r->record);
    /* A record of another key is of use to nobody under this name. What else does not agree may be
     * the caller's mistake. */
    if (!pc__id_equal(&load->image->key, &r->image->key))
        return pc__fail(PC_ERR_FORMAT, "the record under this name has another key");
    set_desc(r);
    return pc__image_match(load->image, r->image);
}

static uint64_t bytes_of(const record_load *r)
{
    uint64_t bytes = r->source ? r->source->bytes : 0;
    if (r->image && !bytes)
        bytes = pc__image_bytes(r->image);
    return bytes ? bytes : r->load->bytes;
}

static void learn(const record_load *r, pc_status status, uint64_t bytes, double seconds)
{
    pc_cache *cache = r->load->cache;
    uint32_t t = r->tier->ops->id;
    if (status >= 0) {
        pc__estimate_report_load(&cache->estimate, t, bytes, seconds);
        atomic_fetch_add(&cache->counts.load_seconds_n, (uint_fast64_t)(seconds * 1e9));
    } else if (r->load->reason == PC_REASON_IO || r->load->reason == PC_REASON_DEADLINE
               || r->load->reason == PC_REASON_UNREACHABLE
               || r->load->reason == PC_REASON_DAMAGED) {
        /* the tier's fault, even repeated damage; a foreign record says nothing about others */
        pc__estimate_report_failure(&cache->estimate, t, bytes, seconds, r->load->reason);
    }
}

static void log_failure(const pc__entry_load *load, uint32_t tier, pc_status status)
{
    pc__log(load->cache->context, status == PC_ERR_CANCELLED ? PC_LOG_DEBUG : PC_LOG_INFO,
            "cache: a load from tier %u failed: %s", tier, pc_error_text());
}

static pc_status open_source(record_load *r)
{
    pc__entry_load *load = r->load;
    int timed_out = 0;
    pc_status status = r->tier->ops->open(r->tier, &load->image->key, load->deadline, &r->source,
                                          &timed_out);
    if (status < 0) {
        uint32_t t = r->tier->ops->id;
        log_failure(load, t, status);
        load->reason = timed_out                                    ? PC_REASON_DEADLINE
                       : t == PC_TIER_REMOTE && status == PC_ERR_IO ? PC_REASON_UNREACHABLE
                                                                    : load_error_reason(r, status);
        pc__estimate_report_failure(&load->cache->estimate, t, load->bytes, pc__now() - r->started,
                                    load->reason);
    }
    return status;
}

/* Frees a payload that did not become a segment. */
static void release(record_load *r)
{
    const pc__entry_load *load = r->load;
    if (load->cache->flags & PC_CACHE_ZERO_MEMORY && load->ops->zero_memory)
        load->ops->zero_memory(load->owner, r->payload);
    load->ops->release(load->owner, r->payload);
}

static void close_all(record_load *r)
{
    if (r->segment)
        pc__segment_unref(r->segment);
    else if (r->payload)
        release(r);
    if (r->reserved)
        pc__ram_tier_unreserve(r->load->cache->ram, r->reserved);
    pc__record_free(r->record);
    if (r->source && !r->is_mapped)
        r->source->close(r->source);
    pc__free(&r->load->cache->context->mem, r->blocks);
}

pc_status pc__load_read(pc__entry_load *load, uint32_t tier)
{
    record_load r = {.load = load, .tier = load->cache->tiers[tier], .started = pc__now()};
    uint64_t bytes = 0;
    double seconds;
    pc_status status = open_source(&r);
    if (status != PC_OK)
        return status;
    PC__TRY(open_record(&r), done);
    PC__TRY(reserve_ram(&r), done);
    status = read_payload(&r);
    if (status >= 0) {
        bytes = bytes_of(&r);
        /* Freed with the payload; at once if another thread's segment is in RAM. */
        if (r.is_mapped)
            r.source = NULL;
        status = load->into ? PC_OK : store_segment(&r);
    }
done:
    bytes = bytes ? bytes : bytes_of(&r);
    seconds = pc__now() - r.started;
    if (status < 0) {
        load->reason = load_error_reason(&r, status);
        log_failure(load, tier, status);
    }
    load->tier = tier;
    load->bytes_read += bytes;
    learn(&r, status, bytes, seconds);
    r.tier->ops->read_done(r.tier, &load->image->key, status, bytes, seconds);
    close_all(&r);
    return status;
}
