/* The COMPRESSED tier: the operations of store/tier.h on records in memory, evicted by
 * store/eviction.h. The budget includes what allocators add to each piece, records that are being
 * written with the codec's scratch memory, and removed records that are still being read. A record
 * is open as long as its source: it is not evicted then, which would free nothing, and stays
 * readable if it is removed. */
#include "store/tier.h"

#include <promptcache/cache.h>
#include <pthread.h>
#include <string.h>

#include "base/fail.h"
#include "base/mem.h"
#include "store/compressed/compressed.h"

typedef struct compressed_tier {
    pc__tier tier; /* first */
    pc_allocator mem;
    pc__record_options record;
    pc__tier_callbacks callbacks;
    uint64_t budget;
    pthread_mutex_t lock;
    pc__eviction eviction;
    pc__tenants tenants;
    pc__heap expiries;
    uint64_t writing;        /* bytes of records that are being written */
    uint64_t removed;        /* bytes of removed records that are still being read */
    uint64_t reported_bytes; /* bytes that were reported last */
    pc_tier_stats counts;
} compressed_tier;

static compressed_tier *self_of(pc__tier *tier)
{
    return (compressed_tier *)tier;
}

static pc__compressed_record *record_of(pc__eviction_item *item)
{
    return item ? PC__AROUND(item, pc__compressed_record, item) : NULL;
}

/* --------------------------------------------------------------- lock and news */

static void report_event(const compressed_tier *t, uint32_t kind, uint32_t reason,
                         const pc__id *key, size_t tokens, uint64_t bytes, double seconds)
{
    pc__event_report(t->callbacks.event, t->callbacks.user, PC_TIER_COMPRESSED, kind, reason, key,
                     bytes, tokens, seconds);
}

static uint64_t used_bytes(const compressed_tier *t)
{
    return t->eviction.bytes + t->writing + t->removed;
}

/* Unlocks, frees removed records, reports what has changed. */
static void unlock_tier(compressed_tier *t, pc__compressed_record *gone)
{
    uint64_t now = used_bytes(t);
    int has_changed = now != t->reported_bytes;
    t->reported_bytes = now;
    pthread_mutex_unlock(&t->lock);
    for (pc__compressed_record *next; gone; gone = next) {
        next = gone->next;
        report_event(t, gone->gone, gone->reason, &gone->item.key, gone->tokens, gone->item.bytes,
                     0);
        pc__compressed_record_free(gone, &t->mem);
    }
    if (has_changed && t->callbacks.bytes)
        t->callbacks.bytes(t->callbacks.user, PC_TIER_COMPRESSED, now, t->budget);
}

/* ---------------------------------------------------------------- coming, going */

static void drop_tenant(compressed_tier *t, const pc__id *salt)
{
    pc__tenants_drop_if_unused(&t->tenants, &t->mem, pc__tenants_find(&t->tenants, salt));
}

/* Removes the record from the tables, into *gone unless it is being read; then its last reader
 * frees it. */
static void detach_record(compressed_tier *t, pc__compressed_record *r, uint32_t how,
                          uint32_t reason, pc__compressed_record **gone)
{
    r->in_table = 0;
    r->gone = how;
    r->reason = reason;
    pc__heap_remove(&t->expiries, &r->expiry);
    if (how == PC_EVENT_EVICT)
        pc__eviction_evict(&t->eviction, &r->item);
    else
        pc__eviction_remove(&t->eviction, &r->item);
    drop_tenant(t, &r->salt);
    if (r->readers) {
        t->removed += r->item.bytes;
        return;
    }
    r->next = *gone;
    *gone = r;
}

static void expire_records(compressed_tier *t, pc__compressed_record **gone)
{
    double now = t->expiries.count ? pc__now() : 0;
    while (t->expiries.count && t->expiries.slots[0].key <= now) {
        pc__compressed_record *r = PC__AROUND(t->expiries.slots[0].node, pc__compressed_record,
                                              expiry);
        if (r->expires > now) {
            pc__heap_add(&t->expiries, &r->expiry, 0, r->expires);
        } else {
            t->counts.removed++;
            detach_record(t, r, PC_EVENT_REMOVE, PC_REASON_EXPIRED, gone);
        }
    }
}

static pc__compressed_record *find_record(compressed_tier *t, const pc__id *key,
                                          pc__compressed_record **gone)
{
    expire_records(t, gone);
    return record_of(pc__eviction_find(&t->eviction, key));
}

static void evict_picked(compressed_tier *t, pc__eviction_item *picked,
                         pc__compressed_record **gone)
{
    for (; picked; picked = picked->next_picked) {
        t->counts.evicted++;
        detach_record(t, record_of(picked), PC_EVENT_EVICT, PC_REASON_NONE, gone);
    }
}

/* Evicts until a record that is being written has room for `need` more bytes: all that must go, or
 * nothing. Its parent stays. `charged`: bytes that it has already. PC_MISS: *reason. */
static pc_status evict_for(compressed_tier *t, const pc__compressed_record *r, uint64_t charged,
                           uint64_t need, pc__compressed_record **gone, uint32_t *reason)
{
    pc__eviction *ev = &t->eviction;
    const pc__eviction_item *item = &r->item;
    pc__eviction_item *parent = item->has_parent ? pc__eviction_find(ev, &item->parent) : NULL,
                      *picked;
    pc__room room = {.tenant = pc__tenants_find_or_add(&t->tenants, &t->mem, &r->salt),
                     .need = need,
                     .used = used_bytes(t),
                     .budget = t->budget,
                     .writing = charged,
                     .priority = item->priority};
    if (!room.tenant)
        return PC_ERR_NOMEM;
    pc__eviction_hold(ev, parent);
    *reason = pc__tenants_make_room(&t->tenants, ev, &room, &picked);
    pc__eviction_unhold(ev, parent);
    evict_picked(t, picked, gone);
    drop_tenant(t, &r->salt);
    return *reason ? PC_MISS : PC_OK;
}

/* ---------------------------------------------------------------------- reading */

typedef struct record_source {
    pc__source source; /* first */
    compressed_tier *tier;
    pc__compressed_record *record;
} record_source;

static pc_status read_source(pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                             void *data, size_t size)
{
    pc_status status;
    const void *bytes = pc__compressed_record_bytes(((record_source *)source)->record, piece,
                                                    offset, at, size, &status);
    if (bytes && size)
        memcpy(data, bytes, size);
    return status;
}

static const void *borrow_source(pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                                 size_t size)
{
    pc_status status;
    return pc__compressed_record_bytes(((record_source *)source)->record, piece, offset, at, size,
                                       &status);
}

static void close_source(pc__source *source)
{
    record_source *s = (record_source *)source;
    compressed_tier *t = s->tier;
    pc__compressed_record *r = s->record, *gone = NULL;
    pthread_mutex_lock(&t->lock);
    r->readers--;
    if (r->in_table) {
        pc__eviction_unhold(&t->eviction, &r->item);
    } else if (!r->readers) {
        t->removed -= r->item.bytes;
        r->next = NULL;
        gone = r;
    }
    unlock_tier(t, gone);
    pc__free(&t->mem, s);
}

static int has_expired(const pc__compressed_record *r)
{
    return r->expires > 0 && r->expires <= pc__now();
}

/* Leaves an expired record for absence_reason to see. */
static int may_have(pc__tier *tier, const pc__id *key, uint64_t *bytes)
{
    compressed_tier *t = self_of(tier);
    pc__compressed_record *r;
    pthread_mutex_lock(&t->lock);
    r = record_of(pc__eviction_find(&t->eviction, key));
    if (r && has_expired(r))
        r = NULL;
    *bytes = r ? r->bytes : 0;
    pthread_mutex_unlock(&t->lock);
    return r != NULL;
}

/* PC_REASON_FOREIGN: its last reader expected something else, and the next put replaces it. An
 * expired record goes. */
static uint32_t absence_reason(pc__tier *tier, const pc__id *key)
{
    compressed_tier *t = self_of(tier);
    pc__compressed_record *gone = NULL, *r;
    uint32_t reason = PC_REASON_NONE;
    pthread_mutex_lock(&t->lock);
    r = record_of(pc__eviction_find(&t->eviction, key));
    if (r)
        reason = has_expired(r) ? PC_REASON_EXPIRED : r->disputed ? PC_REASON_FOREIGN : reason;
    expire_records(t, &gone);
    unlock_tier(t, gone);
    return reason;
}

static pc_status open_record(pc__tier *tier, const pc__id *key, double deadline, pc__source **out,
                             int *timed_out)
{
    compressed_tier *t = self_of(tier);
    record_source *s = pc__calloc(&t->mem, 1, sizeof *s);
    pc__compressed_record *gone = NULL, *r = NULL;
    (void)deadline; /* memory never waits */
    *out = NULL;
    *timed_out = 0;
    pthread_mutex_lock(&t->lock);
    if (s)
        r = find_record(t, key, &gone);
    if (r) {
        r->readers++;
        pc__eviction_hold(&t->eviction, &r->item);
    } else {
        t->counts.lookups++;
        ++*(s ? &t->counts.misses : &t->counts.load_failed);
    }
    unlock_tier(t, gone);
    if (!r) {
        pc__free(&t->mem, s);
        return s ? PC_MISS : PC_ERR_NOMEM;
    }
    s->source.read = read_source;
    s->source.borrow = borrow_source;
    s->source.close = close_source;
    s->source.bytes = r->bytes;
    s->tier = t;
    s->record = r;
    *out = &s->source;
    return PC_OK;
}

static void read_done(pc__tier *tier, const pc__id *key, pc_status status, uint64_t bytes,
                      double seconds)
{
    compressed_tier *t = self_of(tier);
    pc__compressed_record *gone = NULL, *r;
    uint32_t tokens = 0;
    pthread_mutex_lock(&t->lock);
    pc__count_read(&t->counts, status, bytes, seconds);
    r = record_of(pc__eviction_find(&t->eviction, key));
    if (r) {
        tokens = r->tokens;
        if (status >= 0) {
            pc__eviction_hit(&t->eviction, &r->item);
            r->disputed = 0;
            if (r->ttl > 0)
                r->expires = pc__now() + r->ttl;
        } else if (status == PC_ERR_MISMATCH) {
            r->disputed = 1;
        } else if (status == PC_ERR_FORMAT) {
            t->counts.lost++;
            detach_record(t, r, PC_EVENT_REMOVE, pc__reason_of(status), &gone);
        }
    }
    unlock_tier(t, gone);
    report_event(t, status >= 0 ? PC_EVENT_HIT : PC_EVENT_LOAD_FAILED,
                 status >= 0 ? PC_REASON_NONE : pc__reason_of(status), key, tokens, bytes, seconds);
}

/* ---------------------------------------------------------------------- writing */

typedef struct record_sink {
    pc__sink sink; /* first */
    compressed_tier *tier;
    pc__compressed_record *record;
    uint64_t charged; /* bytes, counted in tier->writing */
    uint32_t no_room; /* PC_REASON_… of a charge that was refused */
} record_sink;

static pc_status charge_bytes(record_sink *s, uint64_t bytes)
{
    compressed_tier *t = s->tier;
    pc__compressed_record *gone = NULL;
    pc_status status;
    pthread_mutex_lock(&t->lock);
    status = evict_for(t, s->record, s->charged, bytes, &gone, &s->no_room);
    if (status == PC_OK) {
        t->writing += bytes;
        s->charged += bytes;
    }
    unlock_tier(t, gone);
    return status;
}

static pc_status write_piece(pc__sink *sink, size_t piece, uint64_t offset, const void *data,
                             size_t size)
{
    record_sink *s = (record_sink *)sink;
    pc_status status = charge_bytes(s, pc__compressed_piece_bytes(size));
    if (status == PC_MISS)
        return pc__fail(PC_ERR_LIMIT, "COMPRESSED: no room for %zu bytes", size);
    if (status < 0)
        return status;
    return pc__compressed_record_set(s->record, &s->tier->mem, piece, offset, data, size);
}

/* Adds the record to the tables and to its tenant's entries. */
static pc_status add_record(compressed_tier *t, pc__compressed_record *r)
{
    pc__tenant *tenant = pc__tenants_find_or_add(&t->tenants, &t->mem, &r->salt);
    r->item.group = tenant ? &tenant->group : NULL;
    if (tenant && pc__heap_reserve(&t->expiries, &t->mem, t->eviction.items.count + 1) >= 0
        && pc__eviction_add(&t->eviction, &r->item) >= 0)
        return PC_OK;
    drop_tenant(t, &r->salt);
    return PC_ERR_NOMEM;
}

/* 1: a record that stays has this key. */
static int need_not_write(compressed_tier *t, const pc__id *key, uint64_t *bytes)
{
    pc__compressed_record *gone = NULL, *r;
    int stays;
    pthread_mutex_lock(&t->lock);
    r = find_record(t, key, &gone);
    stays = r && !r->disputed;
    *bytes = stays ? r->bytes : 0;
    unlock_tier(t, gone);
    return stays;
}

/* PC_MISS: another thread was faster. */
static pc_status publish_record(record_sink *s, double seconds)
{
    compressed_tier *t = s->tier;
    pc__compressed_record *r = s->record, *gone = NULL, *there;
    pc_status status = PC_OK;
    pthread_mutex_lock(&t->lock);
    t->writing -= s->charged;
    s->charged = 0;
    there = find_record(t, &r->item.key, &gone);
    if (there && there->disputed) {
        t->counts.removed++;
        detach_record(t, there, PC_EVENT_REMOVE, PC_REASON_FOREIGN, &gone);
        there = NULL;
    }
    status = there ? PC_MISS : add_record(t, r);
    if (status == PC_OK) {
        r->in_table = 1;
        if (r->expires > 0)
            pc__heap_add(&t->expiries, &r->expiry, 0, r->expires);
        t->counts.offered++;
        t->counts.stored++;
        t->counts.bytes_written += r->bytes;
        s->record = NULL;
    }
    t->counts.seconds_written += seconds;
    unlock_tier(t, gone);
    return status;
}

/* PC_MISS: *reason; NONE: the record is there already. */
static pc_status write_record(compressed_tier *t, const pc__image *image, uint32_t *reason,
                              uint64_t *bytes)
{
    record_sink s = {.sink.write = write_piece, .tier = t};
    uint64_t scratch = 0, most = pc__record_bound(image, &t->record, &scratch);
    double begin = pc__now();
    pc_status status = PC_MISS;
    if (need_not_write(t, &image->key, bytes))
        return PC_MISS;
    *reason = PC_REASON_NO_ROOM;
    if (most + scratch + pc__compressed_record_own_bytes(image->block_count)
            + (image->block_count + 1) * pc__compressed_piece_bytes(0)
        > t->budget)
        return PC_MISS;
    PC__TRY(pc__compressed_record_new(&s.record, &t->mem, image), done);
    status = charge_bytes(&s, s.record->item.bytes + scratch);
    if (status != PC_OK)
        goto done;
    PC__TRY(pc__record_write(&t->mem, image, &t->record, &s.sink, NULL), done);
    *bytes = s.record->item.bytes;
    status = publish_record(&s, pc__now() - begin);
    *reason = PC_REASON_NONE;
done:
    if (s.no_room)
        *reason = s.no_room;
    if (status < 0 && s.no_room)
        status = PC_MISS;
    else if (status < 0)
        *reason = status == PC_ERR_NOMEM ? PC_REASON_NO_ROOM : PC_REASON_IO;
    pthread_mutex_lock(&t->lock);
    t->writing -= s.charged;
    unlock_tier(t, NULL);
    pc__compressed_record_free(s.record, &t->mem);
    return status;
}

static pc_status put(pc__tier *tier, const pc__image *image, double deadline, uint32_t *reason)
{
    compressed_tier *t = self_of(tier);
    uint64_t bytes = 0;
    double begin = pc__now();
    pc_status status;
    (void)deadline;
    *reason = PC_REASON_NONE;
    status = write_record(t, image, reason, &bytes);
    pthread_mutex_lock(&t->lock);
    if (status != PC_OK) /* else it was counted when it was published */
        pc__count_put(&t->counts, status, *reason);
    unlock_tier(t, NULL);
    if (status <= PC_OK || *reason)
        report_event(t, status == PC_OK ? PC_EVENT_STORE : PC_EVENT_STORE_FAILED, *reason,
                     &image->key, image->tokens, bytes, pc__now() - begin);
    return status;
}

/* --------------------------------------------------------------------- the rest */

static int has_content(pc__tier *tier, const pc__id *content)
{
    compressed_tier *t = self_of(tier);
    pc__compressed_record *gone = NULL;
    int known;
    pthread_mutex_lock(&t->lock);
    expire_records(t, &gone);
    known = pc__eviction_has_content(&t->eviction, content);
    unlock_tier(t, gone);
    return known;
}

static pc_status remove_record(pc__tier *tier, const pc__id *key)
{
    compressed_tier *t = self_of(tier);
    pc__compressed_record *gone = NULL, *r;
    pthread_mutex_lock(&t->lock);
    r = find_record(t, key, &gone);
    if (r) {
        t->counts.removed++;
        detach_record(t, r, PC_EVENT_REMOVE, PC_REASON_NONE, &gone);
    }
    unlock_tier(t, gone);
    return r ? PC_OK : PC_MISS;
}

static void clear(pc__tier *tier)
{
    compressed_tier *t = self_of(tier);
    pc__compressed_record *gone = NULL;
    pthread_mutex_lock(&t->lock);
    for (pc__eviction_item *item = pc__eviction_next(&t->eviction, NULL), *next; item;
         item = next) {
        next = pc__eviction_next(&t->eviction, item);
        t->counts.removed++;
        detach_record(t, record_of(item), PC_EVENT_REMOVE, PC_REASON_NONE, &gone);
    }
    unlock_tier(t, gone);
}

static pc_status set_quota(pc__tier *tier, const pc__id *salt, uint64_t bytes)
{
    compressed_tier *t = self_of(tier);
    pc__eviction_item *picked;
    pc__compressed_record *gone = NULL;
    pc_status status;
    pthread_mutex_lock(&t->lock);
    status = pc__tenants_set_limit(&t->tenants, &t->mem, salt, bytes);
    pc__tenants_shrink(&t->tenants, &t->eviction, salt, &picked);
    evict_picked(t, picked, &gone);
    unlock_tier(t, gone);
    return status;
}

static int sweep(pc__tier *tier)
{
    compressed_tier *t = self_of(tier);
    pc__compressed_record *gone = NULL;
    pthread_mutex_lock(&t->lock);
    expire_records(t, &gone);
    unlock_tier(t, gone);
    return 0;
}

static void stats(pc__tier *tier, pc_tier_stats *stats)
{
    compressed_tier *t = self_of(tier);
    pthread_mutex_lock(&t->lock);
    *stats = t->counts;
    stats->segments = t->eviction.items.count;
    stats->segment_bytes = used_bytes(t);
    stats->staging_bytes = t->writing;
    stats->budget_bytes = t->budget;
    pthread_mutex_unlock(&t->lock);
}

/* No record is open any more. */
static void free_tier(pc__tier *tier)
{
    compressed_tier *t = self_of(tier);
    pc_allocator mem = t->mem;
    t->callbacks = (pc__tier_callbacks){0};
    if (pthread_mutex_trylock(&t->lock)) /* as pc__ram_tier_free */
        return;
    pthread_mutex_unlock(&t->lock);
    clear(tier);
    pc__tenants_free(&t->tenants, &mem);
    pc__eviction_free(&t->eviction);
    pc__heap_free(&t->expiries, &mem);
    pthread_mutex_destroy(&t->lock);
    pc__free(&mem, t);
}

pc_status pc__tier_compressed_new(pc__tier **out, const pc__tier_common *common)
{
    static const pc__tier_ops ops = {
        PC_TIER_COMPRESSED, may_have,       open_record, read_done, put,
        has_content,        remove_record,  clear,       sweep,     stats,
        free_tier,          absence_reason, set_quota,   NULL};
    compressed_tier *t = pc__calloc(common->mem, 1, sizeof *t);
    *out = NULL;
    if (!t)
        return PC_ERR_NOMEM;
    t->tier.ops = &ops;
    t->mem = t->eviction.mem = *common->mem;
    t->record = common->record;
    t->callbacks = common->callbacks;
    t->counts = (pc_tier_stats)PC_TIER_STATS_INIT;
    t->budget = t->eviction.budget = common->budget;
    t->tenants.share = pc__tenants_share(common->budget, common->tenant_share);
    pthread_mutex_init(&t->lock, NULL);
    *out = &t->tier;
    return PC_OK;
}
