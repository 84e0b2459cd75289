/* The DISK tier: the operations of store/tier.h on a folder of records that several processes share
 * (doc/format.md, "The folder").
 *
 * If the disk is too full for the folder when the cache is opened, the tier fails every call. It
 * tries to open the folder at most once a second, when it is asked or swept. So a full disk costs
 * the tier and not the cache, and it is counted like any other failure of a tier. */
#include <promptcache/cache.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/context.h"
#include "store/disk/disk_draft.h"
#include "store/disk/disk_room.h"
#include "store/disk/disk_scan.h"
#include "store/disk/disk_source.h"

#define TRY_SECONDS 1.0     /* seconds between two tries to open the folder */
#define SWEEP_SECONDS 0.5   /* seconds that a sweep waits for other processes */
#define SAVE_SECONDS 15.0   /* seconds between two writings of the index */
#define BY_HAND_SECONDS 2.0 /* seconds that a removal waits */
/* A use so soon after another one sets no date on the file, unless the record's ttl is short. */
#define TOUCH_SECONDS 60

typedef struct disk_tier {
    pc__tier tier;
    pc_allocator mem;
    pc__tier_common common;
    char *path;
    atomic_int is_open;
    /* once it is open */
    pc__disk disk;
    pc__mapped_files *mapped; /* NULL: records are read */
    double saved;             /* under work */
    pthread_mutex_t opening;  /* held while the folder is opened; guards the next three */
    pc__tenants quotas;       /* for the folder, once it is open */
    double next_try;          /* pc__now clock */
    char why[256];
    pthread_mutex_t counting; /* guards `failed` */
    pc_tier_stats failed;     /* calls that failed because it is not open */
} disk_tier;

static disk_tier *self_of(pc__tier *tier)
{
    return PC__AROUND(tier, disk_tier, tier);
}

/* ------------------------------------------------------------------ opening */

/* NULL: the folder is not open. */
static pc__disk *folder_of(pc__tier *tier)
{
    disk_tier *t = self_of(tier);
    return atomic_load(&t->is_open) ? &t->disk : NULL;
}

static pc_status open_folder(disk_tier *t)
{
    pc_status status;
    PC__TRY_RETURN(pc__disk_open(&t->disk, &t->common, t->path, 1));
    status = pc__mapped_files_new(&t->mapped, &t->mem, t->disk.root.fd, t->common.map);
    if (status < 0) {
        pc__disk_close(&t->disk);
        return status;
    }
    t->saved = pc__now();
    pc__tenants_move_limits(&t->disk.table.tenants, &t->mem, &t->quotas);
    atomic_store(&t->is_open, 1);
    return PC_OK;
}

static void note_why(disk_tier *t)
{
    snprintf(t->why, sizeof t->why, "%s", pc_error_text());
    t->next_try = pc__now() + TRY_SECONDS;
}

/* Opens the folder if it can be opened now. NULL: it cannot, the error text says why. One thread
 * tries; the others do not wait for it. */
static pc__disk *try_open(pc__tier *tier)
{
    disk_tier *t = self_of(tier);
    if (folder_of(tier))
        return folder_of(tier);
    if (pthread_mutex_trylock(&t->opening)) {
        pc__fail(PC_ERR_IO, "%s: another thread is opening it", t->path);
        return NULL;
    }
    if (!folder_of(tier) && pc__now() >= t->next_try) {
        if (open_folder(t) < 0)
            note_why(t);
        else
            pc__log(t->common.context, PC_LOG_WARN,
                    "cache: %s: the disk has room now, the folder is open", t->path);
    }
    if (!folder_of(tier))
        pc__fail(PC_ERR_IO, "%s", t->why);
    pthread_mutex_unlock(&t->opening);
    return folder_of(tier);
}

/* Counts and reports a call that failed because the folder is not open. */
static pc_status fail_call(disk_tier *t, uint32_t kind, const pc__id *key, size_t tokens)
{
    char why[256]; /* a callback may change the error text */
    snprintf(why, sizeof why, "%s", pc_error_text());
    pthread_mutex_lock(&t->counting);
    if (kind == PC_EVENT_LOAD_FAILED)
        pc__count_read(&t->failed, PC_ERR_IO, 0, 0);
    else
        pc__count_put(&t->failed, PC_ERR_IO, PC_REASON_IO);
    pthread_mutex_unlock(&t->counting);
    pc__event_report(t->common.callbacks.event, t->common.callbacks.user, PC_TIER_DISK, kind,
                     PC_REASON_IO, key, 0, tokens, 0);
    return pc__fail(PC_ERR_IO, "%s", why);
}

/* ------------------------------------------------------------------ reading */

static int may_have(pc__tier *tier, const pc__id *key, uint64_t *bytes)
{
    pc__disk *disk = folder_of(tier);
    pc__record_name record_name;
    struct stat st;
    int there;
    *bytes = 0;
    if (!disk) /* unknown: opening the record reports the error */
        return 1;
    record_name = pc__disk_record_name(disk, key);
    there = pc__disk_look_up(disk, &record_name, bytes);
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

/* PC_REASON_EXPIRED. PC_REASON_KERNELS: the record exists, but states of other kernels are not
 * wanted. */
static uint32_t absence_reason(pc__tier *tier, const pc__id *key)
{
    pc__disk *disk = folder_of(tier);
    pc__record_options any = self_of(tier)->common.record;
    pc__record_name record_name;
    struct stat st;
    uint64_t bytes;
    if (!disk)
        return PC_REASON_NONE;
    record_name = pc__disk_record_name(disk, key);
    if (pc__disk_look_up(disk, &record_name, &bytes) == 0)
        return PC_REASON_EXPIRED;
    if (!any.kernels)
        return PC_REASON_NONE;
    any.kernels = NULL;
    record_name = pc__record_name_of(key, &any);
    return pc__disk_stat_record(&disk->root, &record_name, &st) ? PC_REASON_KERNELS
                                                                : PC_REASON_NONE;
}

static pc_status open_source(disk_tier *t, const pc__id *key, double deadline, pc__source **out,
                             int *timed_out)
{
    pc__disk *disk = &t->disk;
    pc__record_name record_name = pc__disk_record_name(disk, key);
    struct stat st;
    int fd;
    pc_status status;
    if (deadline > 0 && pc__now() >= deadline) {
        *timed_out = 1;
        return pc__fail(PC_ERR_IO, "%s: not opened within its deadline", disk->root.path);
    }
    status = pc__disk_open_record(&disk->root, &record_name, &fd, &st);
    if (status == PC_MISS)
        pc__disk_drop_lost(disk, &record_name);
    if (status != PC_OK)
        return status;
    if (!pc__disk_add_foreign(disk, &record_name, (uint64_t)st.st_size)) {
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
    pc__disk *disk = try_open(tier);
    pc_status status;
    *out = NULL;
    *timed_out = 0;
    if (!disk)
        return fail_call(t, PC_EVENT_LOAD_FAILED, key, 0);
    status = open_source(t, key, deadline, out, timed_out);
    if (status == PC_OK)
        return status;
    pthread_mutex_lock(&disk->guard);
    disk->counts.lookups++;
    ++*(status < 0 ? &disk->counts.load_failed : &disk->counts.misses);
    pthread_mutex_unlock(&disk->guard);
    if (status < 0)
        pc__disk_report_event(disk, PC_EVENT_LOAD_FAILED,
                              *timed_out ? PC_REASON_DEADLINE : PC_REASON_IO, key, 0, 0, 0);
    return status;
}

/* Removes a damaged record. */
static void discard(pc__disk *disk, const pc__record_name *record_name, uint32_t reason)
{
    if (disk->read_only) {
        pc__disk_drop_lost(disk, record_name);
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
    pc__disk *disk = &self_of(tier)->disk; /* open: it has opened the record */
    pc__record_name record_name = pc__disk_record_name(disk, key);
    pc__disk_entry *e;
    uint32_t tokens, reason = status >= 0 ? PC_REASON_NONE : pc__reason_of(status);
    int touch = 0;
    pthread_mutex_lock(&disk->guard);
    pc__count_read(&disk->counts, status, bytes, seconds);
    e = pc__disk_table_find(&disk->table, &record_name);
    tokens = e ? e->facts.tokens : 0;
    pc__disk_table_know(e, key);
    if (e) {
        e->is_verified = status >= 0;
        e->is_disputed = status == PC_ERR_MISMATCH || (e->is_disputed && status < 0);
        touch = status >= 0 && count_use(disk, e);
    }
    pthread_mutex_unlock(&disk->guard);
    if (touch)
        pc__disk_touch_record(&disk->root, &record_name);
    if (status == PC_ERR_FORMAT)
        discard(disk, &record_name, reason);
    pc__disk_report_event(disk, status >= 0 ? PC_EVENT_HIT : PC_EVENT_LOAD_FAILED, reason, key,
                          bytes, tokens, seconds);
}

/* --------------------------------------------------------------------- the rest */

static pc_status put(pc__tier *tier, const pc__image *image, double deadline, uint32_t *reason)
{
    disk_tier *t = self_of(tier);
    pc__disk *disk = try_open(tier);
    if (disk)
        return pc__disk_put(disk, image, deadline, reason);
    *reason = PC_REASON_IO;
    return fail_call(t, PC_EVENT_STORE_FAILED, &image->key, image->tokens);
}

static int has_content(pc__tier *tier, const pc__id *content)
{
    pc__disk *disk = folder_of(tier);
    pc__id shown;
    int known;
    if (!disk)
        return 0;
    shown = pc__shown_content(content, &disk->record);
    pthread_mutex_lock(&disk->guard);
    known = pc__eviction_has_content(&disk->table.eviction, &shown);
    pthread_mutex_unlock(&disk->guard);
    return known;
}

/* To remove records. NULL: it is not open, read-only, or locked by others. */
static pc__disk *enter_folder(pc__tier *tier)
{
    pc__disk *disk = folder_of(tier);
    int entered = disk && !disk->read_only
                  && pc__disk_enter(disk, pc__now() + BY_HAND_SECONDS) == PC_OK;
    return entered ? disk : NULL;
}

/* A folder that is not open, or has no such record, need not be locked. */
static pc_status remove_key(pc__tier *tier, const pc__id *key)
{
    pc__disk *disk = folder_of(tier);
    pc__record_name record_name;
    uint64_t bytes;
    pc_status status;
    if (!disk)
        return pc__fail(PC_ERR_IO, "%s: the folder is not open", self_of(tier)->path);
    if (!may_have(tier, key, &bytes))
        return PC_MISS;
    if (disk->read_only)
        return pc__fail(PC_ERR_STATE, "%s: opened read-only", disk->root.path);
    PC__TRY_RETURN(
        pc__disk_enter(disk, pc__now() + BY_HAND_SECONDS) == PC_OK
            ? PC_OK
            : pc__fail(PC_ERR_IO, "%s: the folder is locked by others", disk->root.path));
    record_name = pc__disk_record_name(disk, key);
    pthread_mutex_lock(&disk->guard);
    pc__disk_table_know(pc__disk_table_find(&disk->table, &record_name), key);
    pthread_mutex_unlock(&disk->guard);
    status = pc__disk_erase(disk, &record_name, PC_EVENT_REMOVE, PC_REASON_NONE, 0);
    pc__disk_leave(disk);
    return status;
}

/* may_have, but a folder that is not open has nothing. */
static void find_keys(pc__tier *tier, const pc__id *keys, size_t count, double deadline,
                      uint8_t *there)
{
    uint64_t bytes;
    (void)deadline; /* a look into a directory waits for nobody */
    for (size_t i = 0; i < count; i++)
        there[i] = folder_of(tier) && may_have(tier, &keys[i], &bytes);
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
    pc__disk *disk = enter_folder(tier);
    pc__record_name record_name;
    if (!disk)
        return;
    while (any_record(disk, &record_name)
           && pc__disk_erase(disk, &record_name, PC_EVENT_REMOVE, PC_REASON_NONE, 0) >= 0)
        ;
    pc__disk_leave(disk);
}

/* Removes, a batch at a time, what is over the limits of folder and tenants. */
static int sweep(pc__tier *tier)
{
    disk_tier *t = self_of(tier);
    pc__disk *disk = try_open(tier);
    uint64_t changes;
    pc_status status;
    if (!disk || disk->read_only)
        return 0;
    if (pc__disk_is_over(disk) && pc__disk_shrink(disk, pc__now() + SWEEP_SECONDS) == PC_AGAIN)
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

/* What is over the limit goes in the next sweep, or for later records of the tenant. */
static pc_status set_quota(pc__tier *tier, const pc__id *salt, uint64_t bytes)
{
    disk_tier *t = self_of(tier);
    pc__id shown = pc__shown_salt(salt, &t->common.record);
    pc__disk *disk;
    pc_status status;
    pthread_mutex_lock(&t->opening);
    disk = folder_of(tier);
    if (disk)
        pthread_mutex_lock(&disk->guard);
    status = pc__tenants_set_limit(disk ? &disk->table.tenants : &t->quotas, &t->mem, &shown,
                                   bytes);
    if (disk)
        pthread_mutex_unlock(&disk->guard);
    pthread_mutex_unlock(&t->opening);
    return status;
}

static void folder_stats(pc__disk *disk, pc_tier_stats *out)
{
    pthread_mutex_lock(&disk->guard);
    *out = disk->counts;
    out->segments = disk->table.eviction.items.count;
    out->segment_bytes = disk->table.eviction.bytes + disk->staging;
    out->staging_bytes = disk->staging;
    out->budget_bytes = disk->budget;
    if (out->segment_bytes > disk->budget && !disk->read_only)
        out->excess_bytes = out->segment_bytes - disk->budget;
    pthread_mutex_unlock(&disk->guard);
}

static void stats(pc__tier *tier, pc_tier_stats *out)
{
    disk_tier *t = self_of(tier);
    pc__disk *disk = folder_of(tier);
    if (disk) {
        folder_stats(disk, out);
        out->mapped_bytes = pc__mapped_files_bytes(t->mapped);
    } else {
        out->budget_bytes = t->common.budget;
        out->reason = PC_REASON_IO;
    }
    pthread_mutex_lock(&t->counting);
    out->offered += t->failed.offered;
    out->failed += t->failed.failed;
    out->lookups += t->failed.lookups;
    out->load_failed += t->failed.load_failed;
    pthread_mutex_unlock(&t->counting);
}

static void free_tier(pc__tier *tier)
{
    disk_tier *t = self_of(tier);
    pc_allocator mem = t->mem;
    if (folder_of(tier)) {
        pc__mapped_files_unref(t->mapped);
        pc__disk_close(&t->disk);
    }
    pc__tenants_free(&t->quotas, &mem);
    pthread_mutex_destroy(&t->opening);
    pthread_mutex_destroy(&t->counting);
    pc__free(&mem, t->path);
    pc__free(&mem, t);
}

pc_status pc__tier_disk_new(pc__tier **out, const pc__tier_common *common, const char *path)
{
    static const pc__tier_ops ops = {PC_TIER_DISK, may_have,       open_record, read_done, put,
                                     has_content,  remove_key,     clear,       sweep,     stats,
                                     free_tier,    absence_reason, set_quota,   find_keys};
    disk_tier *t = pc__calloc(common->mem, 1, sizeof *t);
    pc_status status;
    *out = NULL;
    if (!t || !(t->path = pc__strdup(common->mem, path))) {
        pc__free(common->mem, t);
        return PC_ERR_NOMEM;
    }
    t->tier.ops = &ops;
    t->mem = *common->mem;
    t->common = *common;
    t->common.mem = &t->mem;
    pthread_mutex_init(&t->opening, NULL);
    pthread_mutex_init(&t->counting, NULL);
    status = open_folder(t);
    if (status == PC_ERR_IO && (pc__fail_error() == ENOSPC || pc__fail_error() == EDQUOT)) {
        note_why(t);
        pc__log(common->context, PC_LOG_WARN,
                "cache: the folder cannot be opened now, trying again later: %s", t->why);
    } else if (status < 0) {
        free_tier(&t->tier);
        return status == PC_ERR_FORMAT || status == PC_ERR_NOT_FOUND ? PC_ERR_STATE : status;
    }
    *out = &t->tier;
    return PC_OK;
}
