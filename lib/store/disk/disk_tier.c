/* The DISK tier: the operations of store/tier.h on a folder of records that several processes share
 * (doc/format.md, "The folder"). */
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "store/disk/disk_draft.h"
#include "store/disk/disk_room.h"
#include "store/disk/disk_scan.h"
#include "store/disk/disk_source.h"

#define SWEEP_SECONDS 0.5   /* seconds that a sweep waits for other processes */
#define SAVE_SECONDS 15.0   /* seconds between two writings of the index */
#define BY_HAND_SECONDS 2.0 /* seconds that a removal waits */
/* A use so soon after another one sets no date on the file, unless the record's ttl is short. */
#define TOUCH_SECONDS 60

typedef struct disk_tier {
    pc__tier tier;
    pc__disk disk;
    pc__mapped_files *mapped; /* NULL: records are read */
    double saved;             /* under work */
} disk_tier;

static disk_tier *self_of(pc__tier *tier)
{
    return PC__AROUND(tier, disk_tier, tier);
}

/* ------------------------------------------------------------------ reading */

/* 1: known and not expired; 0: known and expired; -1: unknown. */
static int look_up(pc__disk *disk, const pc__record_name *record_name, uint64_t *bytes)
{
    pc__disk_entry *e;
    int there = -1;
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e) {
        there = !pc__disk_facts_expired(&e->facts, pc__now_date());
        *bytes = e->facts.bytes;
    }
    pthread_mutex_unlock(&disk->guard);
    return there;
}

static int may_have(pc__tier *tier, const pc__id *key, uint64_t *bytes)
{
    pc__disk *disk = &self_of(tier)->disk;
    pc__record_name record_name = pc__disk_record_name(disk, key);
    struct stat st;
    int there = look_up(disk, &record_name, bytes);
    if (there == 1
        || (there == 0 && pc__disk_was_used_elsewhere(disk, &record_name, pc__now_date())))
        return 1;
    *bytes = 0;
    /* Another process may have written it; asking costs microseconds. */
    if (there == 0 || !pc__disk_stat_record(&disk->root, &record_name, &st))
        return 0;
    *bytes = (uint64_t)st.st_size;
    return 1;
}

/* PC_REASON_KERNELS: the record exists, but states of other kernels are not wanted. */
static uint32_t absence_reason(pc__tier *tier, const pc__id *key)
{
    const pc__disk *disk = &self_of(tier)->disk;
    pc__record_options any = disk->record;
    pc__record_name record_name = {.key = *key};
    struct stat st;
    if (!any.kernels)
        return PC_REASON_NONE;
    any.kernels = NULL;
    pc__variant_of(&any, record_name.variant);
    return pc__disk_stat_record(&disk->root, &record_name, &st) ? PC_REASON_KERNELS
                                                                : PC_REASON_NONE;
}

/* Adds a record of another process to the table, or one whose size has changed. *expired: it is of
 * no use. */
static void add_foreign(pc__disk *disk, const pc__record_name *record_name, uint64_t bytes,
                        int *expired)
{
    pc__disk_facts facts;
    pc__disk_entry *e;
    int known;
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    known = e && e->facts.bytes == bytes;
    *expired = known && pc__disk_facts_expired(&e->facts, pc__now_date());
    pthread_mutex_unlock(&disk->guard);
    if (*expired)
        *expired = !pc__disk_was_used_elsewhere(disk, record_name, pc__now_date());
    if (known || pc__disk_read_facts(disk, record_name, &facts, NULL) != PC_OK)
        return;
    *expired = pc__disk_facts_expired(&facts, pc__now_date());
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e && e->facts.bytes != facts.bytes) {
        pc__disk_table_drop(&disk->table, e);
        disk->counts.lost++;
        e = NULL;
    }
    if (!e && pc__disk_table_add(&disk->table, &facts, NULL) >= 0)
        disk->counts.found++;
    disk->changes++;
    pthread_mutex_unlock(&disk->guard);
}

/* Drops a record that is no longer in the folder. */
static void drop_lost(pc__disk *disk, const pc__record_name *record_name)
{
    pc__disk_entry *e;
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e) {
        pc__disk_table_drop(&disk->table, e);
        disk->counts.lost++;
        disk->changes++;
    }
    pthread_mutex_unlock(&disk->guard);
}

static void count_lookup(pc__disk *disk, uint64_t *outcome)
{
    pthread_mutex_lock(&disk->guard);
    disk->counts.lookups++;
    ++*outcome;
    pthread_mutex_unlock(&disk->guard);
}

static pc_status open_source(disk_tier *t, const pc__id *key, double deadline, pc__source **out,
                             int *timed_out)
{
    pc__disk *disk = &t->disk;
    pc__record_name record_name = pc__disk_record_name(disk, key);
    struct stat st;
    int fd, expired;
    pc_status status;
    if (deadline > 0 && pc__now() >= deadline) {
        *timed_out = 1;
        return pc__fail(PC_ERR_IO, "%s: not opened within its deadline", disk->root.path);
    }
    status = pc__disk_open_record(&disk->root, &record_name, &fd, &st);
    if (status == PC_MISS)
        drop_lost(disk, &record_name);
    if (status != PC_OK)
        return status;
    add_foreign(disk, &record_name, (uint64_t)st.st_size, &expired);
    if (expired) {
        close(fd);
        return PC_MISS;
    }
    status = pc__disk_source_new(out, &disk->mem, &disk->root, &record_name, fd,
                                 (uint64_t)st.st_size, deadline, t->mapped);
    if (status == PC_OK)
        pc__disk_source_prefetch(*out);
    return status;
}

static pc_status open_record(pc__tier *tier, const pc__id *key, double deadline, pc__source **out,
                             int *timed_out)
{
    disk_tier *t = self_of(tier);
    pc_status status;
    *out = NULL;
    *timed_out = 0;
    status = open_source(t, key, deadline, out, timed_out);
    if (status == PC_MISS)
        count_lookup(&t->disk, &t->disk.counts.misses);
    if (status < 0) {
        count_lookup(&t->disk, &t->disk.counts.load_failed);
        pc__disk_report_event(&t->disk, PC_EVENT_LOAD_FAILED,
                              *timed_out ? PC_REASON_DEADLINE : PC_REASON_IO, key, 0, 0, 0);
    }
    return status;
}

/* Removes a damaged record. */
static void discard(pc__disk *disk, const pc__record_name *record_name, uint32_t reason)
{
    if (disk->read_only) {
        drop_lost(disk, record_name);
    } else if (pc__disk_enter(disk, pc__now() + BY_HAND_SECONDS) == PC_OK) {
        pc__disk_erase(disk, record_name, PC_EVENT_REMOVE, reason, 1);
        pc__disk_leave(disk);
    }
}

/* Under guard. 1: the file's date is to be set. */
static int count_use(pc__disk *disk, pc__disk_entry *e)
{
    int64_t now = pc__now_date(), wait = TOUCH_SECONDS;
    pc__disk_table_use(&disk->table, e, now);
    disk->changes++;
    if (e->facts.ttl > 0 && e->facts.ttl < 4 * TOUCH_SECONDS)
        wait = (int64_t)e->facts.ttl / 4;
    if (disk->read_only || e->touched > now - wait)
        return 0;
    e->touched = now;
    return 1;
}

static void read_done(pc__tier *tier, const pc__id *key, pc_status status, uint64_t bytes,
                      double seconds)
{
    pc__disk *disk = &self_of(tier)->disk;
    pc__record_name record_name = pc__disk_record_name(disk, key);
    pc__disk_entry *e;
    uint32_t tokens, reason = status >= 0 ? PC_REASON_NONE : pc__reason_of(status);
    int touch = 0;
    pthread_mutex_lock(&disk->guard);
    pc__count_read(&disk->counts, status, bytes, seconds);
    e = pc__disk_table_find(&disk->table, &record_name);
    tokens = e ? e->facts.tokens : 0;
    if (e) {
        e->is_verified = status >= 0;
        touch = status >= 0 && count_use(disk, e);
    }
    pthread_mutex_unlock(&disk->guard);
    if (touch)
        pc__disk_touch_record(&disk->root, &record_name);
    if (status == PC_ERR_FORMAT || status == PC_ERR_MISMATCH)
        discard(disk, &record_name, reason);
    pc__disk_report_event(disk, status >= 0 ? PC_EVENT_HIT : PC_EVENT_LOAD_FAILED, reason, key,
                          bytes, tokens, seconds);
}

/* ------------------------------------------------------------------ writing */

/* Opens a record that another process has written under a name of ours, once, to see whether we can
 * use it. */
static int is_usable(pc__disk *disk, const pc__record_name *record_name)
{
    pc__disk_facts facts;
    pc__disk_entry *e;
    pc_status usable;
    int ours = pc__disk_read_facts(disk, record_name, &facts, &usable) == PC_OK && usable == PC_OK;
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e)
        e->is_verified = ours;
    pthread_mutex_unlock(&disk->guard);
    return ours;
}

/* 1: it need not be written. */
static int is_known(pc__disk *disk, const pc__record_name *record_name)
{
    struct stat st;
    pc__disk_entry *e;
    uint64_t bytes = 0;
    int known = look_up(disk, record_name, &bytes), expired, ours;
    if (known == 0)
        return 0;
    if (!pc__disk_stat_record(&disk->root, record_name, &st)) {
        drop_lost(disk, record_name);
        return 0;
    }
    add_foreign(disk, record_name, (uint64_t)st.st_size, &expired);
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    known = e && e->facts.state == PC__DISK_READ && !expired;
    ours = known && e->is_verified;
    pthread_mutex_unlock(&disk->guard);
    return known && (ours || is_usable(disk, record_name));
}

static pc_status write_draft(pc__disk *disk, const pc__image *image, uint64_t bound,
                             double deadline, uint32_t *reason)
{
    pc__disk_draft draft;
    pc__disk_sink sink;
    uint64_t bytes = 0;
    double begin = pc__now();
    pc_status status = pc__disk_draft_begin(disk, image, bound, deadline, &draft);
    if (status == PC_MISS)
        *reason = PC_REASON_NO_ROOM;
    if (status == PC_OK) {
        pc__disk_sink_init(&sink, draft.fd, disk->root.path, deadline);
        status = pc__record_write(&disk->mem, image, &disk->record, &sink.sink, &bytes);
        if (sink.timed_out)
            *reason = PC_REASON_DEADLINE;
        if (status == PC_OK && bytes > bound)
            status = pc__fail(
                PC_ERR_INTERNAL, "%s: a record has %llu bytes, at most %llu were expected",
                disk->root.path, (unsigned long long)bytes, (unsigned long long)bound);
        if (status == PC_OK)
            status = pc__disk_draft_publish(disk, &draft, image, bytes, pc__now() - begin,
                                            deadline);
        else
            pc__disk_draft_drop(disk, &draft);
    }
    if (status == PC_AGAIN) {
        *reason = PC_REASON_DEADLINE;
        status = PC_ERR_IO;
    }
    pthread_mutex_lock(&disk->guard);
    disk->counts.seconds_written += pc__now() - begin;
    pthread_mutex_unlock(&disk->guard);
    return status;
}

static pc_status write_record(pc__disk *disk, const pc__image *image, double deadline,
                              uint32_t *reason)
{
    pc__record_name record_name = pc__disk_record_name(disk, &image->key);
    pc_status status;
    uint64_t bound;
    if (disk->read_only) {
        *reason = PC_REASON_NOT_ADMITTED;
        return PC_MISS;
    }
    if (is_known(disk, &record_name))
        return PC_MISS;
    bound = pc__record_bound(image, &disk->record, NULL);
    if (bound > disk->budget) {
        *reason = PC_REASON_NO_ROOM;
        return PC_MISS;
    }
    status = write_draft(disk, image, bound,
                         deadline > 0 ? deadline : pc__now() + BY_HAND_SECONDS * 30, reason);
    if (status < 0 && *reason == PC_REASON_NONE)
        *reason = PC_REASON_IO;
    return status;
}

static pc_status put(pc__tier *tier, const pc__image *image, double deadline, uint32_t *reason)
{
    pc__disk *disk = &self_of(tier)->disk;
    uint32_t why = PC_REASON_NONE;
    pc_status status = write_record(disk, image, deadline, &why);
    pthread_mutex_lock(&disk->guard);
    pc__count_put(&disk->counts, status, why);
    pthread_mutex_unlock(&disk->guard);
    if (why != PC_REASON_NONE)
        pc__disk_report_event(disk, PC_EVENT_STORE_FAILED, why, &image->key, 0, image->tokens, 0);
    *reason = why;
    return status;
}

static int has_content(pc__tier *tier, const pc__id *content)
{
    pc__disk *disk = &self_of(tier)->disk;
    int known;
    pthread_mutex_lock(&disk->guard);
    known = pc__eviction_has_content(&disk->table.eviction, content);
    pthread_mutex_unlock(&disk->guard);
    return known;
}

static void remove_key(pc__tier *tier, const pc__id *key)
{
    pc__disk *disk = &self_of(tier)->disk;
    pc__record_name record_name = pc__disk_record_name(disk, key);
    if (disk->read_only || pc__disk_enter(disk, pc__now() + BY_HAND_SECONDS) != PC_OK)
        return;
    pc__disk_erase(disk, &record_name, PC_EVENT_REMOVE, PC_REASON_NONE, 0);
    pc__disk_leave(disk);
}

static int any_record(pc__disk *disk, pc__record_name *record_name)
{
    pc__disk_entry *e;
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_next(&disk->table, NULL);
    if (e)
        *record_name = e->facts.record_name;
    pthread_mutex_unlock(&disk->guard);
    return e != NULL;
}

static void clear(pc__tier *tier)
{
    pc__disk *disk = &self_of(tier)->disk;
    pc__record_name record_name;
    if (disk->read_only || pc__disk_enter(disk, pc__now() + BY_HAND_SECONDS) != PC_OK)
        return;
    while (any_record(disk, &record_name)
           && pc__disk_erase(disk, &record_name, PC_EVENT_REMOVE, PC_REASON_NONE, 0) >= 0)
        ;
    pc__disk_leave(disk);
}

/* Removes, a batch at a time, what was over the budget when the folder was opened. */
static int sweep(pc__tier *tier)
{
    disk_tier *t = self_of(tier);
    pc__disk *disk = &t->disk;
    uint64_t changes;
    pc_status status;
    if (disk->read_only)
        return 0;
    if (pc__disk_bytes_over_budget(disk)
        && pc__disk_shrink(disk, pc__now() + SWEEP_SECONDS) == PC_AGAIN)
        return 1;
    if (pc__disk_enter(disk, pc__now() + SWEEP_SECONDS) != PC_OK)
        return 0;
    status = pc__disk_drop_expired(disk);
    pthread_mutex_lock(&disk->guard);
    changes = disk->changes;
    pthread_mutex_unlock(&disk->guard);
    if (status >= 0 && changes && pc__now() - t->saved >= SAVE_SECONDS) {
        status = pc__disk_rescan(disk);
        if (status >= 0)
            status = pc__disk_save(disk);
        t->saved = pc__now();
    }
    if (status < 0 && disk->context)
        pc__log(disk->context, PC_LOG_WARN, "sweep: %s", pc_error_text());
    pc__disk_leave(disk);
    return 0;
}

static void stats(pc__tier *tier, pc_tier_stats *out)
{
    pc__disk *disk = &self_of(tier)->disk;
    const pc__mapped_files *mapped = self_of(tier)->mapped;
    pthread_mutex_lock(&disk->guard);
    *out = disk->counts;
    out->segments = disk->table.eviction.items.count;
    out->segment_bytes = disk->table.eviction.bytes + disk->staging;
    out->staging_bytes = disk->staging;
    out->budget_bytes = disk->budget;
    out->excess_bytes = out->segment_bytes > disk->budget && !disk->read_only
                            ? out->segment_bytes - disk->budget
                            : 0;
    out->mapped_bytes = pc__mapped_files_bytes(mapped);
    pthread_mutex_unlock(&disk->guard);
}

static void free_tier(pc__tier *tier)
{
    disk_tier *t = self_of(tier);
    pc_allocator mem = t->disk.mem;
    pc__mapped_files_unref(t->mapped);
    pc__disk_close(&t->disk);
    pc__free(&mem, t);
}

pc_status pc__tier_disk_new(pc__tier **out, const pc__tier_common *common, const char *path)
{
    static const pc__tier_ops ops = {PC_TIER_DISK, may_have,    open_record, read_done,
                                     put,          has_content, remove_key,  clear,
                                     sweep,        stats,       free_tier,   absence_reason};
    disk_tier *t = pc__calloc(common->mem, 1, sizeof *t);
    pc_status status;
    *out = NULL;
    if (!t)
        return PC_ERR_NOMEM;
    t->tier.ops = &ops;
    status = pc__disk_open(&t->disk, common, path, 1);
    if (status >= 0
        && (status = pc__mapped_files_new(&t->mapped, common->mem, t->disk.root.fd, common->map))
               < 0)
        pc__disk_close(&t->disk);
    if (status < 0) {
        pc__free(common->mem, t);
        return status == PC_ERR_FORMAT || status == PC_ERR_NOT_FOUND ? PC_ERR_STATE : status;
    }
    t->saved = pc__now();
    *out = &t->tier;
    return PC_OK;
}
