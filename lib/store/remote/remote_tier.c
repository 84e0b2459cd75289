/* The operations of the REMOTE tier. It owns the client, the presence cache and the counters.
 */
#include "store/remote/remote_tier.h"

#include <promptcache/cache.h>
#include <sodium.h>
#include <string.h>

#include "base/fail.h"

enum { MOST_KNOWN = 65536 }; /* keys of the presence cache */
#define ABSENT_SECONDS 0.5   /* how long an absent key is not asked for: others may write it */
#define FULL_SECONDS 5.0     /* pause of writes after a server had no room */
#define REMOVE_SECONDS 0.5   /* deadline of removals, for which nobody waits */
#define RENEW_SECONDS 0.1    /* deadline of a renewal, for which a load waits */

static void emit_event(pc__remote_tier *r, uint32_t kind, uint32_t reason, const pc__id *key,
                       size_t tokens, uint64_t bytes, double seconds)
{
    const pc__tier_callbacks *to = &r->common.callbacks;
    pc__event_report(to->event, to->user, PC_TIER_REMOTE, kind, reason, key, bytes, tokens,
                     seconds);
}

static void report_bytes(pc__remote_tier *r)
{
    uint64_t bytes;
    if (!r->common.callbacks.bytes)
        return;
    pthread_mutex_lock(&r->lock);
    bytes = r->presence.present_bytes;
    pthread_mutex_unlock(&r->lock);
    r->common.callbacks.bytes(r->common.callbacks.user, PC_TIER_REMOTE, bytes, r->common.budget);
}

/* -------------------------------------------------- presence, with its counters */

/* All but the last four functions of this part are called under the lock. */

static pc__remote_present *find_known(const pc__remote_tier *r, const pc__id *key)
{
    return PC__FIND_ID(&r->presence.keys, key, pc__remote_present, by_key, key);
}

static int is_present(const pc__remote_present *s)
{
    return s && !(s->absent_until > 0);
}

static void unlink_known(pc__remote_presence *p, pc__remote_present *s)
{
    pc__hash_table_remove(&p->keys, &s->by_key);
    if (is_present(s)) {
        if (s->entry.has_content)
            pc__hash_table_remove(&p->contents, &s->by_content);
        p->present--;
        p->present_bytes -= s->entry.bytes;
    }
    *(s->older ? &s->older->newer : &p->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &p->newest) = s->older;
}

static void link_known(pc__remote_presence *p, pc__remote_present *s)
{
    pc__hash_table_add(&p->keys, &s->by_key, pc__id_hash(&s->key));
    if (is_present(s)) {
        if (s->entry.has_content)
            pc__hash_table_add(&p->contents, &s->by_content, pc__id_hash(&s->entry.content));
        p->present++;
        p->present_bytes += s->entry.bytes;
    }
    s->older = p->newest;
    *(p->newest ? &p->newest->newer : &p->oldest) = s;
    p->newest = s;
}

/* `s`: what is known of the key, or NULL. Returns how many present entries are forgotten: those
 * that make room, or the new one if memory is short. */
static size_t set_known(pc__remote_tier *r, pc__remote_present *s, const pc__id *key,
                        const pc__remote_entry *entry)
{
    pc__remote_presence *p = &r->presence;
    size_t forgotten = 0;
    if (s)
        unlink_known(p, s);
    else
        s = pc__alloc(&r->mem, sizeof *s);
    if (!s || pc__hash_table_reserve(&p->keys, &r->mem) < 0
        || pc__hash_table_reserve(&p->contents, &r->mem) < 0) {
        pc__free(&r->mem, s);
        return entry != NULL;
    }
    *s = (pc__remote_present){.key = *key};
    if (entry)
        s->entry = *entry;
    else
        s->absent_until = pc__now() + ABSENT_SECONDS;
    link_known(p, s);
    while (p->keys.count > MOST_KNOWN) {
        pc__remote_present *old = p->oldest;
        forgotten += is_present(old) ? 1 : 0;
        unlink_known(p, old);
        pc__free(&r->mem, old);
    }
    return forgotten;
}

/* Why presence changes. */
typedef enum presence_change { STORED, FOUND, LOST, REMOVED } presence_change;

/* `entry` NULL: absent. */
static void update_presence(pc__remote_tier *r, const pc__id *key, const pc__remote_entry *entry,
                            presence_change why)
{
    pc__remote_present *s = find_known(r, key);
    int was = is_present(s), same = was && entry && s->entry.tag == entry->tag;
    pc__remote_entry copy = entry ? *entry : (pc__remote_entry){0};
    copy.is_disputed |= same && s->entry.is_disputed && !copy.is_usable;
    copy.is_usable |= same && s->entry.is_usable;
    r->stats.evicted += set_known(r, s, key, entry ? &copy : NULL); /* from the presence cache */
    if (was && !same && (!entry || why == STORED))                  /* a present entry is gone */
        *(why == REMOVED ? &r->stats.removed : &r->stats.lost) += 1;
    r->stats.stored += why == STORED;
    if (why == STORED && same)
        r->stats.found--; /* another thread has counted it before its writer does */
    if (why == FOUND && !was)
        r->stats.found++;
}

static int is_known_absent(const pc__remote_present *s)
{
    return s && s->absent_until > pc__now();
}

static void lock_and_update(pc__remote_tier *r, const pc__id *key, const pc__remote_entry *entry,
                            presence_change why)
{
    pthread_mutex_lock(&r->lock);
    update_presence(r, key, entry, why);
    pthread_mutex_unlock(&r->lock);
}

static int find_present(pc__remote_tier *r, const pc__id *key, pc__remote_entry *entry)
{
    const pc__remote_present *s;
    int is_there;
    pthread_mutex_lock(&r->lock);
    s = find_known(r, key);
    is_there = is_present(s);
    *entry = is_there ? s->entry : (pc__remote_entry){0};
    pthread_mutex_unlock(&r->lock);
    return is_there;
}

static int may_have(pc__tier *tier, const pc__id *key, uint64_t *bytes)
{
    pc__remote_tier *r = (pc__remote_tier *)tier;
    const pc__remote_present *s;
    int absent;
    pthread_mutex_lock(&r->lock);
    s = find_known(r, key);
    *bytes = is_present(s) ? s->entry.bytes : 0;
    absent = is_known_absent(s);
    pthread_mutex_unlock(&r->lock);
    return !absent
           && pc__remote_nodes_may_ask(r->client.nodes, pc__remote_entry_slot(&r->client, key));
}

static int has_content(pc__tier *tier, const pc__id *content)
{
    pc__remote_tier *r = (pc__remote_tier *)tier;
    const pc__remote_present *s;
    pc__id shown = pc__shown_content(content, &r->common.record);
    pthread_mutex_lock(&r->lock);
    s = PC__FIND_ID(&r->presence.contents, &shown, pc__remote_present, by_content, entry.content);
    pthread_mutex_unlock(&r->lock);
    return s != NULL;
}

/* ---------------------------------------------------------------- reading */

/* Removes an entry that is damaged, foreign or without its blocks, unless another writer has
 * replaced it since it was read. */
static void discard_entry(pc__remote_tier *r, const pc__id *key, const pc__remote_entry *read,
                          uint32_t reason)
{
    pc__remote_deadline limit = {pc__now() + REMOVE_SECONDS, 0};
    pc__remote_entry there;
    pc_status status;
    int gone = 0;
    if (!r->common.read_only
        && pc__remote_nodes_may_ask(r->client.nodes, pc__remote_entry_slot(&r->client, key))) {
        status = pc__remote_entry_read_envelope(&r->client, key, &there, &limit);
        if (status == PC_OK && read && there.tag == read->tag)
            gone = pc__remote_entry_remove(&r->client, key, there.tag, there.pieces, 1, &limit)
                   >= 0;
        else if (status == PC_ERR_FORMAT || status == PC_ERR_UNSUPPORTED)
            gone = pc__remote_entry_remove_foreign(&r->client, key, &limit) >= 0;
    }
    lock_and_update(r, key, NULL, LOST);
    if (gone)
        emit_event(r, PC_EVENT_REMOVE, reason, key, 0, read ? read->bytes : 0, 0);
    report_bytes(r);
}

static pc_status open_entry(pc__tier *tier, const pc__id *key, double deadline, pc__source **out,
                            int *timed_out)
{
    pc__remote_tier *r = (pc__remote_tier *)tier;
    pc__remote_deadline limit = {deadline, 0};
    pc__remote_entry entry;
    pc_status status;
    uint64_t before;
    int absent, changed;
    *out = NULL;
    pthread_mutex_lock(&r->lock);
    r->stats.lookups++;
    absent = is_known_absent(find_known(r, key));
    pthread_mutex_unlock(&r->lock);
    status = absent ? PC_MISS : pc__remote_entry_open(out, &r->client, key, &entry, &limit);
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

/* This process could open it: check_existing need not try again. */
static void mark_usable(pc__remote_tier *r, const pc__id *key, const pc__remote_entry *read)
{
    pc__remote_entry ours = *read;
    ours.is_usable = 1;
    lock_and_update(r, key, &ours, FOUND);
}

/* It stays: its reader may have been wrong. A writer compares it (try_existing). */
static void mark_disputed(pc__remote_tier *r, const pc__id *key, const pc__remote_entry *read)
{
    pc__remote_entry theirs = *read;
    theirs.is_usable = 0;
    theirs.is_disputed = 1;
    lock_and_update(r, key, &theirs, FOUND);
}

static void read_done(pc__tier *tier, const pc__id *key, pc_status status, uint64_t bytes,
                      double seconds)
{
    pc__remote_tier *r = (pc__remote_tier *)tier;
    pc__remote_entry entry;
    int is_known = find_present(r, key, &entry);
    uint64_t stored = is_known ? entry.bytes : bytes;
    pthread_mutex_lock(&r->lock);
    *(status == PC_OK ? &r->stats.hits
      : status > 0    ? &r->stats.misses
                      : &r->stats.load_failed) += 1;
    if (status == PC_OK)
        r->stats.bytes_read += stored;
    r->stats.seconds_read += seconds;
    pthread_mutex_unlock(&r->lock);
    if (status == PC_ERR_FORMAT || status == PC_ERR_NOT_FOUND)
        discard_entry(r, key, is_known ? &entry : NULL, PC_REASON_DAMAGED);
    else if (status == PC_ERR_MISMATCH && is_known)
        mark_disputed(r, key, &entry);
    else if (status == PC_ERR_UNSUPPORTED) /* others may read it; our next write replaces it */
        lock_and_update(r, key, NULL, LOST);
    else if (status == PC_OK && is_known)
        mark_usable(r, key, &entry);
    if (status == PC_OK && entry.ttl && !r->common.read_only) {
        pc__remote_deadline limit = {pc__now() + RENEW_SECONDS, 0};
        /* a failure only makes it expire earlier */
        pc__remote_entry_renew(&r->client, key, &entry, &limit);
    }
    if (status == PC_OK)
        emit_event(r, PC_EVENT_HIT, PC_REASON_NONE, key, entry.tokens, stored, seconds);
    else if (status < 0)
        emit_event(r, PC_EVENT_LOAD_FAILED, pc__reason_of(status), key, entry.tokens, stored,
                   seconds);
}

/* ---------------------------------------------------------------- writing */

/* Tries to open the entry of this image. PC_OK; PC_MISS: there is none; PC_ERR_FORMAT,
 * PC_ERR_UNSUPPORTED, PC_ERR_MISMATCH, PC_ERR_NOT_FOUND: it cannot be used. */
static pc_status try_existing(pc__remote_tier *r, const pc__image *image,
                              const pc__remote_entry *before, pc__remote_entry *there,
                              pc__remote_deadline *limit)
{
    pc__record_options options = r->common.record;
    pc__source *source;
    pc__record *record;
    pc_status status = pc__remote_entry_open(&source, &r->client, &image->key, there, limit);
    if (status != PC_OK)
        return status;
    options.wanted = image;
    status = pc__record_open(&record, &r->mem, &options, source);
    if (status == PC_OK && !pc__id_equal(&pc__record_image(record)->key, &image->key))
        status = pc__fail(PC_ERR_MISMATCH, "remote: the record under this name has another key");
    if (status == PC_OK && before->is_disputed && before->tag == there->tag)
        status = pc__image_match(image, pc__record_image(record));
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

/* Before a write. PC_MISS: a usable entry exists. PC_OK: the entry may be written; an unusable one
 * has been removed. */
static pc_status check_existing(pc__remote_tier *r, const pc__image *image,
                                pc__remote_deadline *limit)
{
    const pc__id *key = &image->key;
    pc__remote_entry before, there = {0};
    int ours = find_present(r, key, &before) && before.is_usable && !before.is_disputed;
    pc_status status = pc__remote_entry_read_envelope(&r->client, key, &there, limit);
    if (status == PC_OK && !(ours && there.tag == before.tag))
        status = try_existing(r, image, &before, &there, limit);
    if (status == PC_OK)
        mark_usable(r, key, &there);
    if (is_unusable(status)) {
        discard_entry(r, key, &there, pc__reason_of(status));
        return PC_OK;
    }
    return status == PC_OK ? PC_MISS : status == PC_MISS ? PC_OK : status;
}

static pc_status write_entry(pc__remote_tier *r, const pc__image *image, pc__remote_entry *entry,
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
    if (!pc__remote_nodes_may_ask(r->client.nodes, pc__remote_entry_slot(&r->client, &image->key)))
        return PC_MISS;
    status = check_existing(r, image, limit);
    if (status == PC_MISS)
        *reason = PC_REASON_NONE;
    if (status == PC_OK)
        status = pc__remote_entry_write(&r->client, image, entry, reason, limit);
    return status;
}

static pc_status put_entry(pc__tier *tier, const pc__image *image, double deadline,
                           uint32_t *reason)
{
    pc__remote_tier *r = (pc__remote_tier *)tier;
    pc__remote_deadline limit = {deadline, 0};
    pc__remote_entry entry;
    double started = pc__now(), seconds;
    pc_status status = write_entry(r, image, &entry, reason, &limit);
    seconds = pc__now() - started;
    pthread_mutex_lock(&r->lock);
    pc__count_put(&r->stats, status, *reason);
    r->stats.seconds_written += seconds;
    entry.is_usable = 1;
    if (status == PC_OK) {
        update_presence(r, &image->key, &entry, STORED);
        r->stats.bytes_written += entry.bytes;
    } else if (status > 0 && *reason == PC_REASON_NO_ROOM && pc__now() >= r->full_until) {
        r->full_until = pc__now() + FULL_SECONDS;
    }
    pthread_mutex_unlock(&r->lock);
    if (status == PC_OK)
        emit_event(r, PC_EVENT_STORE, PC_REASON_NONE, &image->key, entry.tokens, entry.bytes,
                   seconds);
    else if (status < 0 || *reason != PC_REASON_NONE)
        emit_event(r, PC_EVENT_STORE_FAILED,
                   status > 0        ? *reason
                   : limit.timed_out ? PC_REASON_DEADLINE
                                     : PC_REASON_IO,
                   &image->key, image->tokens, 0, seconds);
    report_bytes(r);
    return status;
}

static pc_status remove_entry(pc__tier *tier, const pc__id *key)
{
    pc__remote_tier *r = (pc__remote_tier *)tier;
    pc__remote_deadline limit = {pc__now() + REMOVE_SECONDS, 0};
    pc__remote_entry entry, there;
    int is_known = find_present(r, key, &entry);
    pc_status status;
    if (r->common.read_only) {
        status = is_known ? pc__fail(PC_ERR_STATE, "remote: the tier is read-only") : PC_MISS;
    } else {
        status = pc__remote_entry_read_envelope(&r->client, key, &there, &limit);
        if (status == PC_OK)
            status = pc__remote_entry_remove(&r->client, key, there.tag, there.pieces, 1, &limit);
        else if (status == PC_ERR_FORMAT)
            status = pc__remote_entry_remove_foreign(&r->client, key, &limit);
    }
    lock_and_update(r, key, NULL, REMOVED);
    if (is_known)
        emit_event(r, PC_EVENT_REMOVE, PC_REASON_NONE, key, entry.tokens, entry.bytes, 0);
    report_bytes(r);
    return status;
}

/* Of at most PC__REMOTE_FIND_MOST keys. The presence cache learns what the server says. */
static void find_some(pc__remote_tier *r, const pc__id *keys, size_t count,
                      pc__remote_entry *entries, uint8_t *there, pc__remote_deadline *limit)
{
    pc__remote_entry_find(&r->client, keys, count, entries, there, limit);
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < count; i++)
        if (there[i])
            update_presence(r, &keys[i], &entries[i], FOUND);
    pthread_mutex_unlock(&r->lock);
}

/* In groups, each of which takes a round trip. */
static void find_entries(pc__tier *tier, const pc__id *keys, size_t count, double deadline,
                         uint8_t *there)
{
    pc__remote_tier *r = (pc__remote_tier *)tier;
    pc__remote_deadline limit = {deadline, 0};
    size_t most = count < PC__REMOTE_FIND_MOST ? count : PC__REMOTE_FIND_MOST;
    pc__remote_entry *entries = pc__calloc(&r->mem, most, sizeof *entries);
    memset(there, 0, count);
    for (size_t i = 0, n; entries && i < count && !limit.timed_out; i += n) {
        n = count - i < most ? count - i : most;
        find_some(r, keys + i, n, entries, there + i, &limit);
    }
    pc__free(&r->mem, entries);
    report_bytes(r);
}

/* Removes what this process knows of; other processes may use the server too. */
static void clear_entries(pc__tier *tier)
{
    pc__remote_tier *r = (pc__remote_tier *)tier;
    double until = pc__now() + 4 * REMOVE_SECONDS;
    for (;;) {
        const pc__remote_present *s;
        pc__id key;
        pthread_mutex_lock(&r->lock);
        for (s = r->presence.oldest; s && !is_present(s);)
            s = s->newer;
        if (s)
            key = s->key;
        pthread_mutex_unlock(&r->lock);
        if (!s || pc__now() > until)
            return;
        remove_entry(tier, &key);
    }
}

static int sweep_connections(pc__tier *tier)
{
    pc__remote_nodes_sweep(((pc__remote_tier *)tier)->client.nodes);
    return 0;
}

static void get_stats(pc__tier *tier, pc_tier_stats *out)
{
    pc__remote_tier *r = (pc__remote_tier *)tier;
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
    pc__remote_tier *r = (pc__remote_tier *)tier;
    pc_allocator mem = r->mem;
    pc__remote_nodes_free(r->client.nodes);
    for (pc__remote_present *s = r->presence.oldest, *newer; s; s = newer) {
        newer = s->newer;
        pc__free(&mem, s);
    }
    pc__hash_table_free(&r->presence.keys, &mem);
    pc__hash_table_free(&r->presence.contents, &mem);
    pthread_mutex_destroy(&r->lock);
    pc__free(&mem, r);
}

static pc_status create_tier(pc__tier **out, const pc__tier_common *common,
                             pc__remote_address *address)
{
    static const pc__tier_ops ops = {.id = PC_TIER_REMOTE,
                                     .may_have = may_have,
                                     .open = open_entry,
                                     .read_done = read_done,
                                     .put = put_entry,
                                     .has_content = has_content,
                                     .remove = remove_entry,
                                     .clear = clear_entries,
                                     .sweep = sweep_connections,
                                     .stats = get_stats,
                                     .free = free_tier,
                                     .find = find_entries};
    pc__remote_tier *r = pc__calloc(common->mem, 1, sizeof *r);
    pc_status status;
    *out = NULL;
    if (!r) {
        pc__remote_address_free(address);
        return PC_ERR_NOMEM;
    }
    r->tier.ops = &ops;
    r->mem = *common->mem;
    r->common = *common;
    r->common.mem = &r->mem;
    r->client.mem = &r->mem;
    r->client.record = &r->common.record;
    pthread_mutex_init(&r->lock, NULL);
    status = pc__remote_nodes_new(&r->client.nodes, &r->mem, common->context, address);
    if (status < 0)
        free_tier(&r->tier);
    else
        *out = &r->tier;
    return status;
}

static pc_status start(const pc__module_host *host, const void **table)
{
    static const pc__remote_functions functions = {create_tier};
    pc__module_join(host);
    if (sodium_init() < 0) /* random tags, drawn by several threads */
        return pc__fail(PC_ERR_INTERNAL, "libsodium cannot be initialised");
    *table = &functions;
    return PC_OK;
}

PC__MODULE(remote) = {pc__module_version, pc__module_build, start};
