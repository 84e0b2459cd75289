/* The tier REMOTE: what is asked of the servers, what is known of them here, and the counters. */
#include "store/remote/remote_tier.h"

#include <sodium.h>
#include <string.h>

#include "base/fail.h"

enum { MOST_SEEN = 65536 };
#define ABSENT_SECONDS                                                                          \
    0.5                   /* how long "it is not there" is believed: somebody else may write it \
                           */
#define FULL_SECONDS 5.0  /* how long a server that has no room is spared */
#define ASIDE_SECONDS 0.5 /* for what nobody waits for: removing */
#define RENEW_SECONDS 0.1 /* for moving an end, for which the one who has loaded waits */

static void emit_event(pc__remote *r, uint32_t kind, uint32_t reason, const pc__id *key,
                       uint32_t tokens, uint64_t bytes, double seconds)
{
    pc_event event;
    if (!r->common.callbacks.event)
        return;
    event = pc__event(PC_TIER_REMOTE, kind, reason, key, bytes, tokens, seconds);
    r->common.callbacks.event(r->common.callbacks.user, &event);
}

static void report_bytes(pc__remote *r)
{
    uint64_t bytes;
    if (!r->common.callbacks.bytes)
        return;
    pthread_mutex_lock(&r->lock);
    bytes = r->presence.present_bytes;
    pthread_mutex_unlock(&r->lock);
    r->common.callbacks.bytes(r->common.callbacks.user, PC_TIER_REMOTE, bytes, r->common.budget);
}

/* -------------------------------------------------- what is known here, with its counters */

/* How a sighting came about, or ended. */
typedef enum presence_change { STORED, FOUND, LOST, REMOVED } presence_change;

/* With the lock held. `entry` NULL: it is not there. */
static void update_presence(pc__remote *r, const pc__id *key, const pc__remote_entry *entry,
                            presence_change why)
{
    const pc__remote_present *s = pc__remote_presence_find(&r->presence, key);
    int was = s && !(s->absent_until > 0), same = was && entry && s->entry.tag == entry->tag;
    size_t forgotten = 0;
    pc__remote_entry sighted = entry ? *entry : (pc__remote_entry){0};
    pc_status status;
    sighted.is_usable |= same && s->entry.is_usable;
    status = pc__remote_presence_set(&r->presence, key, entry ? &sighted : NULL,
                                     pc__now() + ABSENT_SECONDS, &forgotten);
    if (was && !same && (!entry || why == STORED)) /* what was believed to be there is not */
        *(why == REMOVED ? &r->stats.removed : &r->stats.lost) += 1;
    r->stats.stored += why == STORED;
    if (why == STORED && same)
        r->stats.found--; /* another thread has found it before its writer came to say so */
    if (why == FOUND && !was)
        r->stats.found++;
    if (status < 0 && entry)
        forgotten = 1;             /* memory is short: it is there, but we do not know */
    r->stats.evicted += forgotten; /* from sight */
}

static int known(pc__remote *r, const pc__id *key, pc__remote_entry *entry)
{
    const pc__remote_present *s;
    int is_there;
    pthread_mutex_lock(&r->lock);
    s = pc__remote_presence_find(&r->presence, key);
    is_there = s && !(s->absent_until > 0);
    if (is_there)
        *entry = s->entry;
    pthread_mutex_unlock(&r->lock);
    return is_there;
}

static int is_known_absent(const pc__remote *r, const pc__id *key)
{
    const pc__remote_present *s = pc__remote_presence_find(&r->presence, key);
    return s && s->absent_until > pc__now();
}

static int may_have(pc__tier *tier, const pc__id *key, uint64_t *bytes)
{
    pc__remote *r = (pc__remote *)tier;
    const pc__remote_present *s;
    int absent;
    pthread_mutex_lock(&r->lock);
    s = pc__remote_presence_find(&r->presence, key);
    *bytes = s && !(s->absent_until > 0) ? s->entry.bytes : 0;
    absent = is_known_absent(r, key);
    pthread_mutex_unlock(&r->lock);
    return !absent && pc__remote_nodes_may_ask(r->nodes, pc__remote_entry_slot(key));
}

static int has_content(pc__tier *tier, const pc__id *content)
{
    pc__remote *r = (pc__remote *)tier;
    int known_here;
    pthread_mutex_lock(&r->lock);
    known_here = pc__remote_presence_has_content(&r->presence, content);
    pthread_mutex_unlock(&r->lock);
    return known_here;
}

/* ---------------------------------------------------------------- reading */

static void mark_absent(pc__remote *r, const pc__id *key)
{
    pthread_mutex_lock(&r->lock);
    update_presence(r, key, NULL, LOST);
    pthread_mutex_unlock(&r->lock);
}

/* What is damaged, foreign or without its blocks goes; unless somebody has written it anew since it
 * was read. */
static void discard_entry(pc__remote *r, const pc__id *key, const pc__remote_entry *read,
                          uint32_t reason)
{
    pc__remote_deadline limit = {pc__now() + ASIDE_SECONDS, 0};
    pc__remote_entry there;
    pc_status status;
    int gone = 0;
    if (!r->common.read_only && pc__remote_nodes_may_ask(r->nodes, pc__remote_entry_slot(key))) {
        status = pc__remote_entry_read_envelope(r, key, &there, &limit);
        if (status == PC_OK && read && there.tag == read->tag)
            gone = pc__remote_entry_remove(r, key, there.tag, there.pieces, 1, &limit) >= 0;
        else if (status == PC_ERR_FORMAT || status == PC_ERR_UNSUPPORTED)
            gone = pc__remote_entry_remove_foreign(r, key, &limit) >= 0;
    }
    mark_absent(r, key);
    if (gone)
        emit_event(r, PC_EVENT_REMOVE, reason, key, 0, read ? read->bytes : 0, 0);
    report_bytes(r);
}

static pc_status read_first(pc__remote *r, const pc__id *key, pc__remote_entry *entry,
                            uint8_t **first, size_t *size, pc__remote_deadline *limit)
{
    pc_status status;
    *first = pc__alloc(&r->mem, PC__REMOTE_FIRST_BYTES);
    if (!*first)
        return PC_ERR_NOMEM;
    status = pc__remote_entry_read_header(r, key, 0, *first, PC__REMOTE_FIRST_BYTES, size, limit);
    if (status == PC_OK)
        status = pc__remote_envelope_read(entry, *first, *size);
    if (status == PC_OK)
        return PC_OK;
    pc__free(&r->mem, *first);
    *first = NULL;
    return status;
}

static pc_status open_entry(pc__tier *tier, const pc__id *key, double deadline, pc__source **out,
                            int *timed_out)
{
    pc__remote *r = (pc__remote *)tier;
    pc__remote_deadline limit = {deadline, 0};
    pc__remote_entry entry;
    uint8_t *first = NULL;
    size_t size;
    pc_status status;
    uint64_t before;
    int absent, changed;
    *out = NULL;
    *timed_out = 0;
    pthread_mutex_lock(&r->lock);
    r->stats.lookups++;
    absent = is_known_absent(r, key);
    pthread_mutex_unlock(&r->lock);
    status = absent ? PC_MISS : read_first(r, key, &entry, &first, &size, &limit);
    if (status == PC_OK)
        status = pc__remote_entry_open(out, r, key, &entry, first, size, deadline);
    *timed_out = limit.timed_out;
    pthread_mutex_lock(&r->lock);
    before = r->presence.present_bytes;
    if (status == PC_MISS && !absent)
        update_presence(r, key, NULL, LOST);
    if (status == PC_OK)
        update_presence(r, key, &entry, FOUND);
    changed = r->presence.present_bytes != before;
    r->stats.misses += status == PC_MISS;
    r->stats.load_failed += status < 0;
    pthread_mutex_unlock(&r->lock);
    if (status == PC_ERR_FORMAT)
        discard_entry(r, key, NULL, PC_REASON_DAMAGED);
    else if (changed)
        report_bytes(r);
    if (status < 0)
        emit_event(r, PC_EVENT_LOAD_FAILED,
                   limit.timed_out       ? PC_REASON_DEADLINE
                   : status == PC_ERR_IO ? PC_REASON_UNREACHABLE
                                         : pc__reason_of(status),
                   key, 0, 0, 0);
    return status;
}

/* It was opened: it need not be asked again whether it is of use. */
static void mark_usable(pc__remote *r, const pc__id *key, const pc__remote_entry *read)
{
    pc__remote_entry ours = *read;
    ours.is_usable = 1;
    pthread_mutex_lock(&r->lock);
    update_presence(r, key, &ours, FOUND);
    pthread_mutex_unlock(&r->lock);
}

static void read_done(pc__tier *tier, const pc__id *key, pc_status status, uint64_t bytes,
                      double seconds)
{
    pc__remote *r = (pc__remote *)tier;
    pc__remote_entry entry;
    int is_known = known(r, key, &entry);
    uint64_t stored = is_known ? entry.bytes : bytes;
    pthread_mutex_lock(&r->lock);
    *(status == PC_OK ? &r->stats.hits
      : status > 0    ? &r->stats.misses
                      : &r->stats.load_failed) += 1;
    if (status == PC_OK)
        r->stats.bytes_read += stored;
    r->stats.seconds_read += seconds;
    pthread_mutex_unlock(&r->lock);
    if (status == PC_ERR_FORMAT || status == PC_ERR_MISMATCH || status == PC_ERR_NOT_FOUND)
        discard_entry(r, key, is_known ? &entry : NULL, PC_REASON_DAMAGED);
    else if (status == PC_ERR_UNSUPPORTED)
        mark_absent(r,
                    key); /* others may have use for it; the next writer of ours takes its place */
    else if (status == PC_OK && is_known)
        mark_usable(r, key, &entry);
    if (status == PC_OK && is_known && entry.ttl && !r->common.read_only) {
        pc__remote_deadline limit = {pc__now() + RENEW_SECONDS, 0};
        pc__remote_entry_renew(r, key, &entry, &limit); /* if it fails it ends a little sooner */
    }
    if (status == PC_OK)
        emit_event(r, PC_EVENT_HIT, PC_REASON_NONE, key, is_known ? entry.tokens : 0, stored,
                   seconds);
    else if (status < 0)
        emit_event(r, PC_EVENT_LOAD_FAILED, pc__reason_of(status), key, is_known ? entry.tokens : 0,
                   stored, seconds);
}

/* ---------------------------------------------------------------- writing */

/* Could we use what stands there? PC_OK; PC_MISS: nothing does; PC_ERR_FORMAT, PC_ERR_UNSUPPORTED,
 * PC_ERR_MISMATCH, PC_ERR_NOT_FOUND: not. */
static pc_status try_existing(pc__remote *r, const pc__id *key, pc__remote_entry *there,
                              pc__remote_deadline *limit)
{
    uint8_t *first;
    size_t size;
    pc__source *source;
    pc__record *record;
    pc_status status = read_first(r, key, there, &first, &size, limit);
    if (status == PC_OK)
        status = pc__remote_entry_open(&source, r, key, there, first, size, limit->deadline);
    if (status != PC_OK)
        return status;
    status = pc__record_open(&record, &r->mem, &r->common.record, source);
    if (status == PC_OK && !pc__id_equal(&pc__record_image(record)->key, key))
        status = pc__fail(PC_ERR_MISMATCH, "remote: a record of another key has this name");
    limit->timed_out |= atomic_load(&source->timed_out) != 0;
    pc__record_free(record);
    source->close(source);
    return status;
}

static int is_unusable(pc_status status)
{
    return status == PC_ERR_FORMAT || status == PC_ERR_UNSUPPORTED || status == PC_ERR_MISMATCH
           || status == PC_ERR_NOT_FOUND;
}

/* PC_MISS: known already. PC_OK: it may be written; what stood there and is of no use to us is
 * gone. */
static pc_status check_existing(pc__remote *r, const pc__id *key, pc__remote_deadline *limit)
{
    pc__remote_entry before, there;
    int ours = known(r, key, &before) && before.is_usable;
    pc_status status = pc__remote_entry_read_envelope(r, key, &there, limit);
    if (status == PC_OK && !(ours && there.tag == before.tag))
        status = try_existing(r, key, &there, limit);
    if (status == PC_OK)
        mark_usable(r, key, &there);
    if (is_unusable(status)) {
        discard_entry(r, key, &there, pc__reason_of(status));
        return PC_OK;
    }
    return status == PC_OK ? PC_MISS : status == PC_MISS ? PC_OK : status;
}

static pc_status write_entry(pc__remote *r, const pc__image *image, pc__remote_entry *entry,
                             uint32_t *reason, pc__remote_deadline *limit)
{
    pc_status status;
    double full_until;
    pthread_mutex_lock(&r->lock);
    full_until = r->full_until;
    pthread_mutex_unlock(&r->lock);
    *reason = r->common.read_only ? PC_REASON_NOT_ADMITTED : PC_REASON_NO_ROOM;
    if (r->common.read_only || pc__now() < full_until)
        return PC_MISS;
    *reason = PC_REASON_UNREACHABLE;
    if (!pc__remote_nodes_may_ask(r->nodes, pc__remote_entry_slot(&image->key)))
        return PC_MISS;
    status = check_existing(r, &image->key, limit);
    if (status == PC_MISS)
        *reason = PC_REASON_NONE;
    if (status == PC_OK)
        status = pc__remote_entry_write(r, image, entry, reason, limit);
    return status;
}

static pc_status put(pc__tier *tier, const pc__image *image, double deadline, uint32_t *reason)
{
    pc__remote *r = (pc__remote *)tier;
    pc__remote_deadline limit = {deadline, 0};
    pc__remote_entry entry;
    double started = pc__now(), seconds;
    pc_status status = write_entry(r, image, &entry, reason, &limit);
    seconds = pc__now() - started;
    pthread_mutex_lock(&r->lock);
    r->stats.offered++;
    r->stats.seconds_written += seconds;
    entry.is_usable = 1;
    if (status == PC_OK) {
        update_presence(r, &image->key, &entry, STORED);
        r->stats.bytes_written += entry.bytes;
    } else if (status < 0) {
        r->stats.failed++;
    } else {
        *(*reason == PC_REASON_NONE ? &r->stats.known : &r->stats.refused) += 1;
        if (*reason == PC_REASON_NO_ROOM && pc__now() >= r->full_until)
            r->full_until = pc__now() + FULL_SECONDS;
    }
    pthread_mutex_unlock(&r->lock);
    if (status == PC_OK)
        emit_event(r, PC_EVENT_STORE, PC_REASON_NONE, &image->key, entry.tokens, entry.bytes,
                   seconds);
    else if (status == PC_MISS && *reason != PC_REASON_NONE)
        emit_event(r, PC_EVENT_STORE_FAILED, *reason, &image->key, (uint32_t)image->tokens, 0,
                   seconds);
    else if (status < 0)
        emit_event(r, PC_EVENT_STORE_FAILED, limit.timed_out ? PC_REASON_DEADLINE : PC_REASON_IO,
                   &image->key, (uint32_t)image->tokens, 0, seconds);
    report_bytes(r);
    return status;
}

static void remove_entry(pc__tier *tier, const pc__id *key)
{
    pc__remote *r = (pc__remote *)tier;
    pc__remote_deadline limit = {pc__now() + ASIDE_SECONDS, 0};
    pc__remote_entry entry, there;
    int is_known = known(r, key, &entry);
    if (!r->common.read_only) {
        pc_status status = pc__remote_entry_read_envelope(r, key, &there, &limit);
        if (status == PC_OK)
            pc__remote_entry_remove(r, key, there.tag, there.pieces, 1, &limit);
        else if (status == PC_ERR_FORMAT)
            pc__remote_entry_remove_foreign(r, key, &limit);
    }
    pthread_mutex_lock(&r->lock);
    update_presence(r, key, NULL, REMOVED);
    pthread_mutex_unlock(&r->lock);
    if (is_known)
        emit_event(r, PC_EVENT_REMOVE, PC_REASON_NONE, key, entry.tokens, entry.bytes, 0);
    report_bytes(r);
}

/* What this process has seen there; others may use the server too. */
static void clear(pc__tier *tier)
{
    pc__remote *r = (pc__remote *)tier;
    double until = pc__now() + 4 * ASIDE_SECONDS;
    for (;;) {
        const pc__remote_present *s;
        pc__id key;
        pthread_mutex_lock(&r->lock);
        for (s = r->presence.oldest; s && s->absent_until > 0;)
            s = s->newer;
        if (s)
            key = s->key;
        pthread_mutex_unlock(&r->lock);
        if (!s || pc__now() > until)
            return;
        remove_entry(tier, &key);
    }
}

static int sweep(pc__tier *tier)
{
    pc__remote_nodes_sweep(((pc__remote *)tier)->nodes);
    return 0;
}

static void stats(pc__tier *tier, pc_tier_stats *out)
{
    pc__remote *r = (pc__remote *)tier;
    pthread_mutex_lock(&r->lock);
    *out = r->stats;
    out->struct_size = sizeof *out;
    out->segments = r->presence.present;
    out->segment_bytes = r->presence.present_bytes;
    out->budget_bytes = r->common.budget;
    pthread_mutex_unlock(&r->lock);
}

static void free_tier(pc__tier *tier)
{
    pc__remote *r = (pc__remote *)tier;
    pc_allocator mem = r->mem;
    pc__remote_nodes_free(r->nodes);
    pc__remote_presence_free(&r->presence);
    pthread_mutex_destroy(&r->lock);
    pc__free(&mem, r);
}

pc_status pc__remote_tier_new(pc__tier **out, const pc__tier_common *common,
                              pc__remote_address *address)
{
    static const pc__tier_ops ops = {.id = PC_TIER_REMOTE,
                                     .may_have = may_have,
                                     .open = open_entry,
                                     .read_done = read_done,
                                     .put = put,
                                     .has_content = has_content,
                                     .remove = remove_entry,
                                     .clear = clear,
                                     .sweep = sweep,
                                     .stats = stats,
                                     .free = free_tier};
    pc__remote *r = pc__calloc(common->mem, 1, sizeof *r);
    pc_status status;
    *out = NULL;
    if (!r) {
        pc__remote_address_free(address);
        return PC_ERR_NOMEM;
    }
    if (sodium_init() < 0) { /* random tags, drawn by several threads */
        pc__remote_address_free(address);
        pc__free(common->mem, r);
        return pc__fail(PC_ERR_INTERNAL, "remote: libsodium does not start");
    }
    r->tier.ops = &ops;
    r->mem = *common->mem;
    r->common = *common;
    pc__variant_of(&common->record, r->variant);
    r->common.mem = &r->mem;
    r->presence.mem = &r->mem;
    r->presence.most = MOST_SEEN;
    pthread_mutex_init(&r->lock, NULL);
    status = pc__remote_nodes_new(&r->nodes, &r->mem, common->context, address);
    if (status < 0)
        free_tier(&r->tier);
    else
        *out = &r->tier;
    return status;
}
