/* Opens and closes a folder of records, its locks and its events (disk.h). */
#include "store/disk/disk.h"

#include <promptcache/cache.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/disk/disk_index.h"
#include "store/disk/disk_room.h"
#include "store/disk/disk_scan.h"
#include "store/disk/disk_source.h"

/* seconds that an opening waits while another process counts the folder */
#define OPEN_SECONDS 1.0
#define CLOSE_SECONDS 2.0

/* ------------------------------------------------------------- who may, when */

static pc_status lock_work(pc__disk *disk, double deadline)
{
    struct timespec wait = {0, 50000};
    while (pthread_mutex_trylock(&disk->work)) {
        if (pc__now() >= deadline) {
            pc__fail(PC_ERR_IO, "%s: still locked by another thread at the deadline",
                     disk->root.path);
            return PC_AGAIN;
        }
        nanosleep(&wait, NULL);
        wait.tv_nsec = wait.tv_nsec < 1000000 ? 2 * wait.tv_nsec : 2000000;
    }
    return PC_OK;
}

/* What the lock file says of tenants. If that was lost, our own number holds. */
static void read_share(pc__disk *disk)
{
    if (!disk->lock.share)
        disk->lock.share = disk->share;
    pthread_mutex_lock(&disk->guard);
    disk->table.tenants.share = pc__tenants_share(disk->budget, disk->lock.share);
    pthread_mutex_unlock(&disk->guard);
}

/* Our number holds for all processes from now on. */
static pc_status write_share(pc__disk *disk)
{
    pc_status status;
    if (!disk->share_is_due || disk->lock.share == disk->share)
        return PC_OK;
    disk->lock.share = disk->share;
    status = pc__disk_lock_mark(&disk->lock, &disk->root);
    disk->share_is_due = status < 0;
    return status;
}

static pc_status lock_folder(pc__disk *disk, double deadline)
{
    pc_status status = lock_work(disk, deadline);
    if (status != PC_OK)
        return status;
    status = pc__disk_lock_take(&disk->lock, &disk->root, deadline);
    if (status == PC_OK && (status = write_share(disk)) < 0)
        pc__disk_lock_drop(&disk->lock);
    if (status == PC_OK)
        read_share(disk);
    else
        pthread_mutex_unlock(&disk->work);
    return status;
}

pc_status pc__disk_enter(pc__disk *disk, double deadline)
{
    pc_status status = lock_folder(disk, deadline);
    if (status == PC_OK && !disk->lock.is_trusted
        && (status = pc__disk_scan(disk, disk->lock.is_unknown)) < 0)
        pc__disk_leave(disk);
    return status;
}

uint64_t pc__disk_bytes(pc__disk *disk)
{
    uint64_t bytes;
    pthread_mutex_lock(&disk->guard);
    bytes = disk->table.eviction.bytes + disk->staging;
    pthread_mutex_unlock(&disk->guard);
    return bytes;
}

void pc__disk_leave(pc__disk *disk)
{
    pc_event *events = disk->events;
    size_t count = disk->event_count;
    uint64_t bytes = pc__disk_bytes(disk), reported = disk->reported_bytes;
    int others = disk->generation != disk->lock.generation; /* we are behind until our next scan */
    int changes = disk->lock.is_dirty;
    pc__disk_lock_drop(&disk->lock);
    if (!others && changes)
        disk->generation = disk->lock.generation;
    disk->events = NULL;
    disk->event_count = disk->event_capacity = 0;
    disk->reported_bytes = bytes;
    pthread_mutex_unlock(&disk->work);
    for (size_t i = 0; i < count && disk->callbacks.event; i++)
        disk->callbacks.event(disk->callbacks.user, &events[i]);
    if (bytes != reported && disk->callbacks.bytes)
        disk->callbacks.bytes(disk->callbacks.user, PC_TIER_DISK, bytes, disk->budget);
    pc__free(&disk->mem, events);
}

void pc__disk_queue_event(pc__disk *disk, uint32_t kind, uint32_t reason, const pc__id *key,
                          uint64_t bytes, size_t tokens, double seconds)
{
    if (disk->callbacks.event
        && pc__grow(&disk->mem, (void **)&disk->events, &disk->event_capacity,
                    disk->event_count + 1, sizeof *disk->events)
               >= 0)
        disk->events[disk->event_count++] = pc__tell_event(PC_TIER_DISK, kind, reason, key, bytes,
                                                           tokens, seconds);
}

void pc__disk_report_event(const pc__disk *disk, uint32_t kind, uint32_t reason, const pc__id *key,
                           uint64_t bytes, size_t tokens, double seconds)
{
    pc__event_report(disk->callbacks.event, disk->callbacks.user, PC_TIER_DISK, kind, reason, key,
                     bytes, tokens, seconds);
}

/* --------------------------------------------------------------- what a record says */

pc__record_name pc__disk_record_name(const pc__disk *disk, const pc__id *key)
{
    return pc__record_name_of(key, &disk->record);
}

/* 1: a reader in this process expected something else of it: a writer asks whether it agrees. */
static int is_disputed(pc__disk *disk, const pc__record_name *record_name)
{
    const pc__disk_entry *e;
    int disputed;
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    disputed = e && e->is_disputed;
    pthread_mutex_unlock(&disk->guard);
    return disputed;
}

/* With `usable`: opens the seal, to learn whether we can use the record for `wanted`. Without: the
 * face, which is in the clear, is enough. */
static void facts_of_source(pc__disk *disk, pc__source *source, pc__disk_facts *facts,
                            const pc__image *wanted, pc_status *usable)
{
    pc__record_options options = disk->record;
    pc__record_name record_name = facts->record_name;
    pc__record *record = NULL;
    pc_status status;
    options.wanted = wanted;
    status = usable ? pc__record_open_frame(&record, &disk->mem, &options, source)
                    : pc__record_open_face(&record, &disk->mem, source);
    if (usable)
        *usable = status < 0 ? status : PC_ERR_MISMATCH;
    if (status < 0)
        return;
    if (pc__record_name_matches(&record_name, record)) { /* else it is a record of another name */
        pc__disk_facts_of(facts, &record_name, pc__record_image(record), pc__record_shown(record),
                          facts->bytes, facts->last);
        if (usable)
            *usable = pc__record_usable(record);
        if (usable && *usable >= 0 && wanted && is_disputed(disk, &record_name))
            *usable = pc__image_match(wanted, pc__record_image(record));
    }
    facts->expires = pc__end_after_use(facts->expires, facts->ttl, facts->last);
    pc__record_free(record);
}

pc_status pc__disk_read_facts(pc__disk *disk, const pc__record_name *record_name,
                              pc__disk_facts *facts, const pc__image *wanted, pc_status *usable)
{
    struct stat st;
    pc__source *source;
    int fd;
    pc_status status = pc__disk_open_record(&disk->root, record_name, &fd, &st);
    *facts = (pc__disk_facts){.record_name = *record_name, .state = PC__DISK_UNREADABLE};
    if (status != PC_OK)
        return status;
    facts->bytes = (uint64_t)st.st_size;
    facts->last = st.st_mtim.tv_sec;
    PC__TRY_RETURN(pc__disk_source_new(&source, &disk->mem, &disk->root, record_name, fd,
                                       facts->bytes, 0, NULL));
    facts_of_source(disk, source, facts, wanted, usable);
    source->close(source);
    return PC_OK;
}

/* --------------------------------------------------------------- the index */

pc_status pc__disk_save(pc__disk *disk)
{
    pc__disk_index others = {0}, index = {0};
    pc_status status = pc__disk_index_read(&others, &disk->mem, &disk->root);
    uint64_t changes;
    if (status < 0)
        return status;
    pthread_mutex_lock(&disk->guard);
    if (status == PC_OK)
        pc__disk_index_apply(&others, &disk->table, disk->dates);
    status = pc__disk_index_make(&index, &disk->table, disk->dates);
    changes = disk->changes;
    pthread_mutex_unlock(&disk->guard);
    pc__disk_index_free(&others, &disk->mem);
    if (status >= 0)
        status = pc__disk_index_write(&index, &disk->root);
    pc__disk_index_free(&index, &disk->mem);
    if (status < 0)
        return status;
    pthread_mutex_lock(&disk->guard);
    pc__disk_index_published(&disk->table);
    disk->changes -= changes; /* other changes may have come meanwhile */
    pthread_mutex_unlock(&disk->guard);
    return status;
}

static pc_status load_index(pc__disk *disk)
{
    pc__disk_index index = {0};
    pc_status status = pc__disk_index_read(&index, &disk->mem, &disk->root);
    if (status == PC_OK)
        status = pc__disk_index_apply(&index, &disk->table, disk->dates);
    else if (status == PC_MISS)
        disk->changes = 1;
    pc__disk_index_free(&index, &disk->mem);
    return status;
}

/* ------------------------------------------------------------------ opening */

static pc_status learn_records(pc__disk *disk)
{
    pc_status status;
    PC__TRY_RETURN(load_index(disk));
    if (disk->read_only)
        return pc__disk_scan(disk, 0);
    status = lock_folder(disk, pc__now() + OPEN_SECONDS);
    if (status == PC_AGAIN) {
        pc__log(disk->context, PC_LOG_WARN,
                "cache: %s; until then nothing is written to the folder, only read",
                pc_error_text());
        return pc__disk_list(disk);
    }
    if (status < 0)
        return status;
    status = pc__disk_scan(disk, disk->lock.is_unknown);
    pc__disk_leave(disk);
    return status;
}

static void free_disk(pc__disk *disk)
{
    pc__disk_table_free(&disk->table);
    pc__disk_lock_close(&disk->lock);
    pc__dir_close(&disk->root, &disk->mem);
    pthread_mutex_destroy(&disk->work);
    pthread_mutex_destroy(&disk->guard);
}

pc_status pc__disk_open(pc__disk *disk, const pc__tier_common *common, const char *path, int make)
{
    pc_status status;
    memset(disk, 0, sizeof *disk);
    disk->mem = disk->table.eviction.mem = *common->mem;
    disk->context = common->context;
    disk->record = common->record;
    disk->budget = disk->table.eviction.budget = common->budget;
    disk->read_only = common->read_only != 0;
    disk->share = common->tenant_share;
    disk->share_is_due = disk->share != 0;
    disk->process = pc__process();
    pc__disk_lock_init(&disk->lock);
    PC__TRY_RETURN(pc__disk_root_open(&disk->root, &disk->mem, path, make && !disk->read_only));
    pthread_mutex_init(&disk->work, NULL);
    pthread_mutex_init(&disk->guard, NULL);
    disk->can_reuse = (pc__file_system(disk->root.fd) & PC__FS_COUNTS_USERS) != 0;
    status = learn_records(disk);
    if (status >= 0)
        status = pc__disk_read_headers(disk);
    if (status < 0) {
        free_disk(disk);
        return status;
    }
    disk->counts = (pc_tier_stats){.struct_size = sizeof disk->counts,
                                   .found = disk->table.eviction.items.count};
    disk->reported_bytes = disk->table.eviction.bytes;
    disk->callbacks = common->callbacks; /* set last: opening reports nothing */
    return PC_OK;
}

/* Removes a part of what is over the limits, most of it since the folder was opened. */
static void shrink_a_while(pc__disk *disk)
{
    double until = pc__now() + CLOSE_SECONDS;
    while (pc__disk_is_over(disk) && pc__now() < until && pc__disk_shrink(disk, until) == PC_AGAIN)
        ;
}

/* A thread of the parent may have been in the middle of a change. */
static void close_inherited(pc__disk *disk)
{
    if (!pthread_mutex_trylock(&disk->guard)) {
        pthread_mutex_unlock(&disk->guard);
        pc__disk_table_free(&disk->table);
    }
    pc__disk_lock_close(&disk->lock);
    pc__dir_close(&disk->root, &disk->mem);
}

void pc__disk_close(pc__disk *disk)
{
    if (!pc__is_own_process(disk->process)) {
        close_inherited(disk);
        return;
    }
    shrink_a_while(disk);
    if (!disk->read_only && disk->changes
        && pc__disk_enter(disk, pc__now() + CLOSE_SECONDS) == PC_OK) {
        if (pc__disk_scan(disk, 0) >= 0)
            pc__disk_save(disk); /* on failure the next process reads headers */
        pc__disk_leave(disk);
    }
    free_disk(disk);
}
