/* The DISK tier while its disk is too full for the folder (disk_deferred.h). */
#include "store/disk/disk_deferred.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/context.h"
#include "base/file.h"
#include "base/hash_table.h"

#define TRY_EVERY 1.0 /* seconds */

typedef struct deferred_tier {
    pc__tier tier;
    pc_allocator mem;
    pc__tier_common common;
    char *path;
    _Atomic(pc__tier *) folder; /* NULL: not open yet */
    pthread_mutex_t lock;       /* of what follows */
    double next;                /* time of the next try, pc__now clock */
    char why[256];
    pc_tier_stats counts; /* calls that failed */
} deferred_tier;

static deferred_tier *self_of(pc__tier *tier)
{
    return PC__AROUND(tier, deferred_tier, tier);
}

static pc__tier *folder_of(pc__tier *tier)
{
    return atomic_load_explicit(&self_of(tier)->folder, memory_order_acquire);
}

int pc__disk_was_full(pc_status status)
{
    return status == PC_ERR_IO && (pc__fail_error() == ENOSPC || pc__fail_error() == EDQUOT);
}

static void note_why(deferred_tier *t)
{
    snprintf(t->why, sizeof t->why, "%s", pc_error_text());
    t->next = pc__now() + TRY_EVERY;
}

/* Opens the folder if it can be opened now. NULL: it cannot, the error text says why. One thread
 * tries; the others do not wait for it. */
static pc__tier *try_open(pc__tier *tier)
{
    deferred_tier *t = self_of(tier);
    pc__tier *folder = folder_of(tier);
    if (folder)
        return folder;
    if (pthread_mutex_trylock(&t->lock)) {
        pc__fail(PC_ERR_IO, "%s: another thread is opening it", t->path);
        return NULL;
    }
    folder = folder_of(tier);
    if (!folder && pc__now() >= t->next) {
        if (pc__tier_disk_new(&folder, &t->common, t->path) < 0)
            note_why(t);
        else
            pc__log(t->common.context, PC_LOG_WARN,
                    "cache: %s: the disk has room now, the folder is open", t->path);
        atomic_store_explicit(&t->folder, folder, memory_order_release);
    }
    if (!folder)
        pc__fail(PC_ERR_IO, "%s", t->why);
    pthread_mutex_unlock(&t->lock);
    return folder;
}

/* Counts and reports a call that failed because the folder is not open. */
static pc_status fail_call(deferred_tier *t, uint64_t *calls, uint64_t *failures, uint32_t kind,
                           const pc__id *key, size_t tokens)
{
    pc_event event = pc__event(PC_TIER_DISK, kind, PC_REASON_IO, key, 0, tokens, 0);
    char why[256]; /* a callback may change the error text */
    snprintf(why, sizeof why, "%s", pc_error_text());
    pthread_mutex_lock(&t->lock);
    ++*calls;
    ++*failures;
    pthread_mutex_unlock(&t->lock);
    if (t->common.callbacks.event)
        t->common.callbacks.event(t->common.callbacks.user, &event);
    return pc__fail(PC_ERR_IO, "%s", why);
}

static int may_have(pc__tier *tier, const pc__id *key, uint64_t *bytes)
{
    pc__tier *folder = folder_of(tier);
    *bytes = 0;
    return folder ? folder->ops->may_have(folder, key, bytes)
                  : 1; /* unknown: opening the record reports the error */
}

static uint32_t absence_reason(pc__tier *tier, const pc__id *key)
{
    pc__tier *folder = folder_of(tier);
    return folder && folder->ops->absence_reason ? folder->ops->absence_reason(folder, key)
                                                 : PC_REASON_NONE;
}

static pc_status open_record(pc__tier *tier, const pc__id *key, double deadline, pc__source **out,
                             int *timed_out)
{
    deferred_tier *t = self_of(tier);
    pc__tier *folder = try_open(tier);
    *out = NULL;
    *timed_out = 0;
    if (folder)
        return folder->ops->open(folder, key, deadline, out, timed_out);
    return fail_call(t, &t->counts.lookups, &t->counts.load_failed, PC_EVENT_LOAD_FAILED, key, 0);
}

static void read_done(pc__tier *tier, const pc__id *key, pc_status status, uint64_t bytes,
                      double seconds)
{
    pc__tier *folder = folder_of(tier);
    if (folder)
        folder->ops->read_done(folder, key, status, bytes, seconds);
}

static pc_status put(pc__tier *tier, const pc__image *image, double deadline, uint32_t *reason)
{
    deferred_tier *t = self_of(tier);
    pc__tier *folder = try_open(tier);
    if (folder)
        return folder->ops->put(folder, image, deadline, reason);
    *reason = PC_REASON_IO;
    return fail_call(t, &t->counts.offered, &t->counts.failed, PC_EVENT_STORE_FAILED, &image->key,
                     image->tokens);
}

static int has_content(pc__tier *tier, const pc__id *content)
{
    pc__tier *folder = folder_of(tier);
    return folder && folder->ops->has_content(folder, content);
}

static void remove_key(pc__tier *tier, const pc__id *key)
{
    pc__tier *folder = folder_of(tier);
    if (folder)
        folder->ops->remove(folder, key);
}

static void clear(pc__tier *tier)
{
    pc__tier *folder = folder_of(tier);
    if (folder)
        folder->ops->clear(folder);
}

static int sweep(pc__tier *tier)
{
    pc__tier *folder = try_open(tier);
    return folder && folder->ops->sweep(folder);
}

static void stats(pc__tier *tier, pc_tier_stats *out)
{
    deferred_tier *t = self_of(tier);
    pc__tier *folder = folder_of(tier);
    if (folder) {
        folder->ops->stats(folder, out);
    } else {
        out->budget_bytes = t->common.budget;
        out->reason = PC_REASON_IO;
    }
    pthread_mutex_lock(&t->lock);
    out->offered += t->counts.offered;
    out->failed += t->counts.failed;
    out->lookups += t->counts.lookups;
    out->load_failed += t->counts.load_failed;
    pthread_mutex_unlock(&t->lock);
}

static void free_tier(pc__tier *tier)
{
    deferred_tier *t = self_of(tier);
    pc__tier *folder = folder_of(tier);
    pc_allocator mem = t->mem;
    if (folder)
        folder->ops->free(folder);
    pthread_mutex_destroy(&t->lock);
    pc__free(&mem, t->path);
    pc__free(&mem, t);
}

pc_status pc__tier_disk_deferred_new(pc__tier **out, const pc__tier_common *common,
                                     const char *path)
{
    static const pc__tier_ops ops = {.id = PC_TIER_DISK,
                                     .may_have = may_have,
                                     .absence_reason = absence_reason,
                                     .open = open_record,
                                     .read_done = read_done,
                                     .put = put,
                                     .has_content = has_content,
                                     .remove = remove_key,
                                     .clear = clear,
                                     .sweep = sweep,
                                     .stats = stats,
                                     .free = free_tier};
    char why[256];
    deferred_tier *t;
    *out = NULL;
    snprintf(why, sizeof why, "%s", pc_error_text());
    t = pc__calloc(common->mem, 1, sizeof *t);
    if (!t || !(t->path = pc__strdup(common->mem, path))) {
        pc__free(common->mem, t);
        return PC_ERR_NOMEM;
    }
    t->tier.ops = &ops;
    t->mem = *common->mem;
    t->common = *common;
    snprintf(t->why, sizeof t->why, "%s", why);
    t->next = pc__now() + TRY_EVERY;
    atomic_init(&t->folder, NULL);
    pthread_mutex_init(&t->lock, NULL);
    *out = &t->tier;
    return PC_OK;
}
