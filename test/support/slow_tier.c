#include "slow_tier.h"

#include "base/fail.h"
#include "base/mem.h"

#include <promptcache/cache.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testing.h"

static void pause_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (seconds > 0)
        nanosleep(&t, NULL);
}

/* ------------------------------------------------------------------ in memory */

typedef struct piece {
    uint8_t *data;
    size_t size;
} piece;

typedef struct record {
    struct record *next;
    pc__id key, content;
    int has_content;
    piece *pieces;
    size_t count;
    uint64_t bytes;
    size_t users; /* sources, and the tier */
} record;

typedef struct memory_tier {
    pc__tier tier; /* first */
    pc__tier_ops ops;
    pthread_mutex_t lock;
    record *records;
    pc_tier_stats stats;
    pc__codecs *codecs;
} memory_tier;

typedef struct memory_source {
    pc__source source; /* first */
    memory_tier *tier;
    record *record;
} memory_source;

static memory_tier *memory(pc__tier *tier)
{
    return (memory_tier *)tier;
}

static record *find(memory_tier *m, const pc__id *key)
{
    record *r = m->records;
    while (r && !pc__id_equal(&r->key, key))
        r = r->next;
    return r;
}

/* Under the lock. */
static void let_go(record *r)
{
    if (--r->users)
        return;
    for (size_t i = 0; i < r->count; i++)
        free(r->pieces[i].data);
    free(r->pieces);
    free(r);
}

static int memory_may_have(pc__tier *tier, const pc__id *key, uint64_t *bytes)
{
    memory_tier *m = memory(tier);
    record *r;
    pthread_mutex_lock(&m->lock);
    r = find(m, key);
    *bytes = r ? r->bytes : 0;
    pthread_mutex_unlock(&m->lock);
    return r != NULL;
}

static pc_status memory_read(pc__source *source, size_t index, uint64_t offset, uint64_t at,
                             void *data, size_t size)
{
    const record *r = ((memory_source *)source)->record;
    (void)offset;
    if (index >= r->count || at > r->pieces[index].size || size > r->pieces[index].size - at)
        return pc__fail(PC_ERR_FORMAT, "memory tier: cut short");
    memcpy(data, r->pieces[index].data + at, size);
    return PC_OK;
}

static void memory_close(pc__source *source)
{
    memory_source *s = (memory_source *)source;
    pthread_mutex_lock(&s->tier->lock);
    let_go(s->record);
    pthread_mutex_unlock(&s->tier->lock);
    free(s);
}

static pc_status memory_open(pc__tier *tier, const pc__id *key, double deadline, pc__source **out,
                             int *timed_out)
{
    memory_tier *m = memory(tier);
    memory_source *s = NULL;
    record *r;
    (void)deadline;
    *timed_out = 0;
    *out = NULL;
    pthread_mutex_lock(&m->lock);
    m->stats.lookups++;
    r = find(m, key);
    if (r) {
        s = calloc(1, sizeof *s);
        s->source.read = memory_read;
        s->source.close = memory_close;
        s->source.bytes = r->bytes;
        s->tier = m;
        s->record = r;
        r->users++;
        *out = &s->source;
    } else {
        m->stats.misses++;
    }
    pthread_mutex_unlock(&m->lock);
    return s ? PC_OK : PC_MISS;
}

static void unlink_record(memory_tier *m, record *r)
{
    record **at = &m->records;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    m->stats.segments--;
    m->stats.segment_bytes -= r->bytes;
    let_go(r);
}

static void memory_read_done(pc__tier *tier, const pc__id *key, pc_status status, uint64_t bytes,
                             double seconds)
{
    memory_tier *m = memory(tier);
    record *r;
    pthread_mutex_lock(&m->lock);
    m->stats.bytes_read += bytes;
    m->stats.seconds_read += seconds;
    *(status < 0 ? &m->stats.load_failed : &m->stats.hits) += 1;
    r = find(m, key);
    if (r && status == PC_ERR_FORMAT) {
        unlink_record(m, r);
        m->stats.lost++;
    }
    pthread_mutex_unlock(&m->lock);
}

typedef struct memory_sink {
    pc__sink sink; /* first */
    record *record;
} memory_sink;

static pc_status memory_write(pc__sink *sink, size_t index, uint64_t offset, const void *data,
                              size_t size)
{
    record *r = ((memory_sink *)sink)->record;
    (void)offset;
    if (index >= r->count || r->pieces[index].data)
        return pc__fail(PC_ERR_INTERNAL, "memory tier: piece %zu of %zu, or twice", index,
                        r->count);
    r->pieces[index].data = malloc(size ? size : 1);
    memcpy(r->pieces[index].data, data, size);
    r->pieces[index].size = size;
    return PC_OK;
}

static pc_status memory_put(pc__tier *tier, const pc__image *image, double deadline,
                            uint32_t *reason)
{
    memory_tier *m = memory(tier);
    const pc__record_options options = {.codecs = m->codecs, .codec = PC_CODEC_RAW};
    memory_sink sink = {{memory_write}, calloc(1, sizeof(record))};
    record *r = sink.record;
    pc_status status;
    (void)deadline;
    *reason = PC_REASON_NONE;
    r->key = image->key;
    r->content = image->content;
    r->has_content = (int)image->has_content;
    r->count = image->block_count + 1;
    r->pieces = calloc(r->count, sizeof *r->pieces);
    r->users = 1;
    status = pc__record_write(&pc__libc_allocator, image, &options, &sink.sink, &r->bytes);
    pthread_mutex_lock(&m->lock);
    m->stats.offered++;
    if (status < 0) {
        m->stats.failed++;
        let_go(r);
    } else if (find(m, &image->key)) {
        m->stats.known++;
        let_go(r);
        status = PC_MISS;
    } else {
        m->stats.stored++;
        m->stats.segments++;
        m->stats.segment_bytes += r->bytes;
        m->stats.bytes_written += r->bytes;
        r->next = m->records;
        m->records = r;
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}

static int memory_knows(pc__tier *tier, const pc__id *content)
{
    memory_tier *m = memory(tier);
    record *r;
    pthread_mutex_lock(&m->lock);
    for (r = m->records; r && !(r->has_content && pc__id_equal(&r->content, content));)
        r = r->next;
    pthread_mutex_unlock(&m->lock);
    return r != NULL;
}

static pc_status memory_remove(pc__tier *tier, const pc__id *key)
{
    memory_tier *m = memory(tier);
    record *r;
    int was_there;
    pthread_mutex_lock(&m->lock);
    r = find(m, key);
    was_there = r != NULL;
    if (r) {
        unlink_record(m, r);
        m->stats.removed++;
    }
    pthread_mutex_unlock(&m->lock);
    return was_there ? PC_OK : PC_MISS;
}

static void memory_clear(pc__tier *tier)
{
    memory_tier *m = memory(tier);
    pthread_mutex_lock(&m->lock);
    while (m->records) {
        unlink_record(m, m->records);
        m->stats.removed++;
    }
    pthread_mutex_unlock(&m->lock);
}

static int memory_sweep(pc__tier *tier)
{
    (void)tier;
    return 0;
}

static void memory_stats(pc__tier *tier, pc_tier_stats *stats)
{
    memory_tier *m = memory(tier);
    size_t size = stats->struct_size;
    pthread_mutex_lock(&m->lock);
    *stats = m->stats;
    pthread_mutex_unlock(&m->lock);
    stats->struct_size = size;
}

static void memory_free(pc__tier *tier)
{
    memory_tier *m = memory(tier);
    memory_clear(tier);
    pc__codecs_free(m->codecs);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

pc__tier *pc_memory_tier_new(uint32_t id)
{
    memory_tier *m = calloc(1, sizeof *m);
    m->ops = (pc__tier_ops){id,
                            memory_may_have,
                            memory_open,
                            memory_read_done,
                            memory_put,
                            memory_knows,
                            memory_remove,
                            memory_clear,
                            memory_sweep,
                            memory_stats,
                            memory_free,
                            NULL,
                            NULL,
                            NULL};
    m->tier.ops = &m->ops;
    pthread_mutex_init(&m->lock, NULL);
    pc__codecs_new(&m->codecs, &pc__libc_allocator, NULL, 0);
    return &m->tier;
}

size_t pc_memory_tier_count(pc__tier *tier)
{
    pc_tier_stats stats = PC_TIER_STATS_INIT;
    memory_stats(tier, &stats);
    return (size_t)stats.segments;
}

/* ------------------------------------------------------------------ with faults */

typedef struct slow_tier {
    pc__tier tier; /* first */
    pc__tier_ops ops;
    pc__tier *inner;
    pc_faults *faults;
} slow_tier;

typedef struct slow_source {
    pc__source source; /* first */
    pc__source *inner;
    pc_faults *faults;
    pthread_t opener;
    double deadline;
    uint8_t *pages; /* of a mapped one, filled when they are touched */
} slow_source;

static slow_tier *slow(pc__tier *tier)
{
    return (slow_tier *)tier;
}

static double micro(atomic_uint *delay)
{
    return 1e-6 * atomic_load(delay);
}

static int slow_may_have(pc__tier *tier, const pc__id *key, uint64_t *bytes)
{
    return slow(tier)->inner->ops->may_have(slow(tier)->inner, key, bytes);
}

static pc_status timed_out(pc__source *source, double deadline)
{
    pause_for(deadline - pc__now());
    atomic_store(&source->timed_out, 1);
    return pc__fail(PC_ERR_IO, "slow tier: the deadline has passed");
}

/* The faults of reading have not begun yet. */
static int still_good(pc_faults *faults, size_t index)
{
    unsigned good = atomic_load(&faults->good_blocks);
    return good && (!index || atomic_fetch_add(&faults->blocks, 1) < good);
}

static void await_count(const pc_faults *faults)
{
    double limit = pc__now() + PC_AWAITED_SECONDS;
    while (faults->awaited && !atomic_load(faults->awaited) && pc__now() < limit)
        pause_for(0.001);
}

static pc_status slow_read(pc__source *source, size_t index, uint64_t offset, uint64_t at,
                           void *data, size_t size)
{
    slow_source *s = (slow_source *)source;
    pc_status status;
    int good = (atomic_load(&s->faults->helpers) && pthread_equal(pthread_self(), s->opener))
               || still_good(s->faults, index);
    atomic_fetch_add(&s->faults->reads, 1);
    if (!good)
        await_count(s->faults);
    if ((!good && atomic_load(&s->faults->stall))
        || pc__now() + micro(&s->faults->read_delay) > s->deadline)
        return timed_out(source, s->faults->awaited ? pc__now() + 0.1 : s->deadline);
    pause_for(micro(&s->faults->read_delay));
    if (!good && atomic_load(&s->faults->fail) == 2)
        return pc__fail(PC_ERR_IO, "slow tier: reading fails");
    status = s->inner->read(s->inner, index, offset, at, data, size);
    if (status == PC_OK && !good && index && size && atomic_load(&s->faults->damage))
        ((uint8_t *)data)[size / 2] ^= 4;
    return status;
}

static int slow_map(pc__source *source)
{
    slow_source *s = (slow_source *)source;
    if (!s->pages)
        s->pages = aligned_alloc(4096, (size_t)(source->bytes + 4095) / 4096 * 4096);
    return s->pages != NULL;
}

static const void *slow_borrow(pc__source *source, size_t index, uint64_t offset, uint64_t at,
                               size_t size)
{
    const slow_source *s = (const slow_source *)source;
    (void)index;
    return s->pages && offset + at + size <= source->bytes ? s->pages + offset + at : NULL;
}

static pc_status slow_touch(pc__source *source, size_t index, uint64_t offset, uint64_t at,
                            size_t size)
{
    atomic_fetch_add(&((slow_source *)source)->faults->touches, 1);
    return slow_read(source, index, offset, at, ((slow_source *)source)->pages + offset + at, size);
}

static void slow_close(pc__source *source)
{
    slow_source *s = (slow_source *)source;
    free(s->pages);
    s->inner->close(s->inner);
    atomic_fetch_sub(&s->faults->open_now, 1);
    free(s);
}

static pc_status slow_open(pc__tier *tier, const pc__id *key, double deadline, pc__source **out,
                           int *late)
{
    slow_tier *t = slow(tier);
    pc__source *inner;
    slow_source *s;
    pc_status status;
    unsigned now;
    atomic_fetch_add(&t->faults->opens, 1);
    pause_for(micro(&t->faults->open_delay));
    status = t->inner->ops->open(t->inner, key, deadline, &inner, late);
    *out = NULL;
    if (status != PC_OK)
        return status;
    if (atomic_load(&t->faults->fail) == 1) {
        inner->close(inner);
        t->inner->ops->read_done(t->inner, key, PC_ERR_IO, 0, 0);
        return pc__fail(PC_ERR_IO, "slow tier: opening fails");
    }
    s = calloc(1, sizeof *s);
    s->source.read = slow_read;
    s->source.close = slow_close;
    s->source.bytes = inner->bytes;
    s->inner = inner;
    s->faults = t->faults;
    s->opener = pthread_self();
    if (atomic_load(&s->faults->maps)) {
        s->source.map = slow_map;
        s->source.borrow = slow_borrow;
        s->source.touch = slow_touch;
    }
    s->deadline = deadline;
    *out = &s->source;
    now = atomic_fetch_add(&t->faults->open_now, 1) + 1;
    if (now > atomic_load(&t->faults->most_open))
        atomic_store(&t->faults->most_open, now);
    return PC_OK;
}

static void slow_read_done(pc__tier *tier, const pc__id *key, pc_status status, uint64_t bytes,
                           double seconds)
{
    slow(tier)->inner->ops->read_done(slow(tier)->inner, key, status, bytes, seconds);
}

static pc_status slow_put(pc__tier *tier, const pc__image *image, double deadline, uint32_t *reason)
{
    slow_tier *t = slow(tier);
    atomic_fetch_add(&t->faults->puts, 1);
    *reason = PC_REASON_NONE;
    pause_for(micro(&t->faults->put_delay));
    if (atomic_load(&t->faults->fail) == 3)
        return pc__fail(PC_ERR_IO, "slow tier: writing fails");
    return t->inner->ops->put(t->inner, image, deadline, reason);
}

static int slow_knows(pc__tier *tier, const pc__id *content)
{
    return slow(tier)->inner->ops->has_content(slow(tier)->inner, content);
}

static pc_status slow_remove(pc__tier *tier, const pc__id *key)
{
    return slow(tier)->inner->ops->remove(slow(tier)->inner, key);
}

static void slow_clear(pc__tier *tier)
{
    slow(tier)->inner->ops->clear(slow(tier)->inner);
}

static int slow_sweep(pc__tier *tier)
{
    return slow(tier)->inner->ops->sweep(slow(tier)->inner);
}

static void slow_stats(pc__tier *tier, pc_tier_stats *stats)
{
    slow(tier)->inner->ops->stats(slow(tier)->inner, stats);
}

static void slow_free(pc__tier *tier)
{
    slow(tier)->inner->ops->free(slow(tier)->inner);
    free(tier);
}

pc__tier *pc_slow_tier_new(pc__tier *inner, pc_faults *faults)
{
    slow_tier *t = calloc(1, sizeof *t);
    t->ops = (pc__tier_ops){inner->ops->id, slow_may_have, slow_open,   slow_read_done,
                            slow_put,       slow_knows,    slow_remove, slow_clear,
                            slow_sweep,     slow_stats,    slow_free,   NULL,
                            NULL,           NULL};
    t->tier.ops = &t->ops;
    t->inner = inner;
    t->faults = faults;
    return &t->tier;
}

const char *const pc_fault_names[PC_FAULTS] = {"healthy",       "ten times slower", "stalled",
                                               "opening fails", "reading fails",    "damaged"};

void pc_faults_set(pc_faults *faults, int fault, unsigned read_delay)
{
    atomic_store(&faults->read_delay, fault == PC_FAULT_SLOW ? 10 * read_delay : read_delay);
    atomic_store(&faults->stall, fault == PC_FAULT_STALLS);
    atomic_store(&faults->fail, fault == PC_FAULT_OPENING ? 1 : fault == PC_FAULT_READING ? 2 : 0);
    atomic_store(&faults->damage, fault == PC_FAULT_DAMAGED);
}

pc_cache *pc_slow_cache_new(pc_context *context, pc_faults *faults, uint64_t flags, double deadline)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc__tier *tiers[PC_TIER_COUNT] = {NULL};
    pc_cache *cache = NULL;
    memset(faults, 0, sizeof *faults);
    tiers[PC_TIER_DISK] = pc_slow_tier_new(pc_memory_tier_new(PC_TIER_DISK), faults);
    o.flags = flags;
    o.deadline_seconds = deadline;
    CHECK_OK(pc__cache_new_over(&cache, context, &o, tiers));
    return cache;
}
