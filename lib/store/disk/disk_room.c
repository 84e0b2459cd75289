/* Removes records of a folder, and reuses their files (disk_room.h). */
#include "store/disk/disk_room.h"

#include <promptcache/cache.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "store/disk/disk_scan.h"

/* Least time between two scans for changes of other processes, unless nothing is left to evict. */
#define SCAN_SECONDS 1.0
/* Longest time that one batch of a shrinking folder keeps its lock. */
#define BATCH_SECONDS 0.02

/* ------------------------------------------------- the file of an evicted record */

/* Bytes of the old record that stay until they are overwritten. If a file was cut to zero, ext4
 * flushes it to the disk when it is closed, which takes milliseconds (auto_da_alloc). */
enum { LEFT = 1 };

void pc__disk_draft_name(pc__disk *disk, char name[32])
{
    snprintf(name, 32, "%08x%08x%08x", (unsigned)getpid(), (unsigned)(uintptr_t)disk,
             (unsigned)disk->drafts++);
}

#if defined(F_SETLEASE) && defined(F_SETOWN_EX) && defined(SYS_gettid)

/* The cache's own threads block all signals. */
static int signals_are_blocked(void)
{
    sigset_t now;
    return !pthread_sigmask(SIG_BLOCK, NULL, &now) && sigismember(&now, SIGIO) == 1;
}

/* 1: nobody else has the file open or mapped, and nobody can open it until drop_lease. */
static int take_lease(int fd)
{
    struct f_owner_ex self = {F_OWNER_TID, (pid_t)syscall(SYS_gettid)};
    return !fcntl(fd, F_SETOWN_EX, &self) && !fcntl(fd, F_SETLEASE, F_WRLCK);
}

static void drop_lease(int fd)
{
    (void)!fcntl(fd, F_SETLEASE, F_UNLCK);
}

/* Opens the record's file for writing; until now it was read-only for all. -1: impossible. */
static int open_to_write(const pc__dir *root, int sub, const char *name, struct stat *st)
{
    const int flags = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    struct stat again;
    int fd = openat(sub, name, O_RDONLY | flags), ours;
    if (fd < 0)
        return -1;
    ours = !fstat(fd, st) && pc__dir_is_trusted(root, st) && st->st_uid == geteuid()
           && st->st_nlink == 1 && !fchmod(fd, 0600);
    close(fd);
    fd = ours ? openat(sub, name, O_RDWR | flags) : -1;
    if (fd >= 0 && !fstat(fd, &again) && again.st_ino == st->st_ino && again.st_dev == st->st_dev)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* 1: the file has left its sub-folder for new/. */
static int move_file(int fd, int sub, const char *name, int dir, const char *draft)
{
    int moved;
    if (flock(fd, LOCK_EX | LOCK_NB) || !take_lease(fd))
        return 0;
    moved = !renameat(sub, name, dir, draft);
    drop_lease(fd);
    return moved;
}

/* Between enter and leave, after pc__disk_lock_mark. 1: the record's file is the spare, *bytes its
 * size. 0: it is not; the record may still exist. */
static int reuse_file(pc__disk *disk, const pc__record_name *record_name, pc__disk_spare *spare,
                      uint64_t *bytes)
{
    char name[PC__DISK_NAME];
    struct stat st;
    int sub, dir, fd = -1;
    if (!disk->can_reuse || !signals_are_blocked())
        return 0;
    sub = pc__disk_sub(&disk->root, record_name->key.bytes[0], 0);
    dir = pc__disk_new(&disk->root, 1);
    pc__disk_file_name(record_name, name);
    pc__disk_draft_name(disk, spare->name);
    if (sub >= 0 && dir >= 0)
        fd = open_to_write(&disk->root, sub, name, &st);
    if (fd >= 0 && !move_file(fd, sub, name, dir, spare->name)) {
        close(fd);
        fd = -1;
    }
    spare->fd = fd;
    if (fd >= 0) {
        *bytes = (uint64_t)st.st_size;
        disk->lock.bytes += LEFT; /* as every file in new/: a scan counts it */
        if (ftruncate(fd, LEFT))
            pc__disk_spare_drop(disk, spare);
    }
    if (sub >= 0)
        close(sub);
    if (dir >= 0)
        close(dir);
    return fd >= 0;
}

#else

static int reuse_file(pc__disk *disk, const pc__record_name *record_name, pc__disk_spare *spare,
                      uint64_t *bytes)
{
    (void)disk, (void)record_name, (void)spare, (void)bytes;
    return 0;
}

#endif

int pc__disk_spare_use(pc__disk *disk, pc__disk_spare *spare, uint64_t bytes, int *fd,
                       char name[32])
{
    if (spare->fd < 0 || ftruncate(spare->fd, (off_t)bytes))
        return 0;
    pc__disk_lock_subtract(&disk->lock, LEFT);
    *fd = spare->fd;
    memcpy(name, spare->name, sizeof spare->name);
    spare->fd = -1;
    return 1;
}

void pc__disk_spare_drop(pc__disk *disk, pc__disk_spare *spare)
{
    int dir;
    if (spare->fd < 0)
        return;
    dir = pc__disk_new(&disk->root, 0);
    if (dir < 0 || unlinkat(dir, spare->name, 0))
        disk->lock.is_trusted = 0; /* the next process scans */
    pc__disk_lock_subtract(&disk->lock, LEFT);
    if (dir >= 0)
        close(dir);
    close(spare->fd);
    spare->fd = -1;
}

/* -------------------------------------------------------------- one record */

/* Removes the record, or makes its file the spare. As pc__disk_unlink_record. */
static pc_status remove_or_reuse(pc__disk *disk, const pc__record_name *record_name,
                                 pc__disk_spare *spare, uint64_t *bytes)
{
    if (spare && spare->fd < 0 && reuse_file(disk, record_name, spare, bytes))
        return PC_OK;
    return pc__disk_unlink_record(&disk->root, record_name, bytes);
}

static pc_status erase_record(pc__disk *disk, const pc__record_name *record_name, uint32_t kind,
                              uint32_t reason, int lost, pc__disk_spare *spare)
{
    pc__disk_entry *e;
    uint64_t bytes;
    uint32_t tokens = 0;
    pc__id key = record_name->key;
    pc_status status;
    PC__TRY_RETURN(pc__disk_lock_mark(&disk->lock, &disk->root));
    status = remove_or_reuse(disk, record_name, spare, &bytes);
    if (status < 0)
        return status;
    pc__disk_lock_subtract(&disk->lock, bytes);
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e)
        tokens = e->facts.tokens;
    if (e && e->has_key)
        key = e->key;
    if (e || status == PC_OK) { /* missing in the folder, or unknown to the table */
        disk->counts.found += !e;
        disk->counts.lost += lost || status == PC_MISS;
        uint64_t evicted = !lost && status == PC_OK && kind == PC_EVENT_EVICT;
        disk->counts.evicted += evicted;
        disk->counts.evicted_behind += disk->shrinking ? evicted : 0;
        disk->counts.removed += !lost && status == PC_OK && kind == PC_EVENT_REMOVE;
        disk->changes++;
    }
    if (e && kind == PC_EVENT_EVICT && status == PC_OK)
        pc__disk_table_evict(&disk->table, e);
    else if (e)
        pc__disk_table_drop(&disk->table, e);
    pthread_mutex_unlock(&disk->guard);
    if (status == PC_OK)
        pc__disk_queue_event(disk, kind, reason, &key, bytes, tokens, 0);
    return status;
}

pc_status pc__disk_erase(pc__disk *disk, const pc__record_name *record_name, uint32_t kind,
                         uint32_t reason, int lost)
{
    return erase_record(disk, record_name, kind, reason, lost, NULL);
}

/* ------------------------------------------------------------------ expired */

/* Lists the expired records; notes when the next one expires. */
static pc_status list_expired(pc__disk *disk, int64_t now, pc__record_name **record_names,
                              size_t *count)
{
    size_t capacity = 0;
    int64_t next_expiry = 0;
    pc_status status = PC_OK;
    *record_names = NULL;
    *count = 0;
    pthread_mutex_lock(&disk->guard);
    if (disk->table.next_expiry && disk->table.next_expiry <= now) {
        for (pc__disk_entry *e = pc__disk_table_next(&disk->table, NULL); e && status >= 0;
             e = pc__disk_table_next(&disk->table, e)) {
            if (pc__disk_facts_expired(&e->facts, now)) {
                status = pc__grow(&disk->mem, (void **)record_names, &capacity, *count + 1,
                                  sizeof **record_names);
                if (status >= 0)
                    (*record_names)[(*count)++] = e->facts.record_name;
            } else if (e->facts.expires && (!next_expiry || e->facts.expires < next_expiry)) {
                next_expiry = e->facts.expires;
            }
        }
        if (status >= 0)
            disk->table.next_expiry = next_expiry;
    }
    pthread_mutex_unlock(&disk->guard);
    return status;
}

int pc__disk_was_used_elsewhere(pc__disk *disk, const pc__record_name *record_name, int64_t now)
{
    struct stat st;
    int used = 0;
    if (!pc__disk_stat_record(&disk->root, record_name, &st))
        return 0;
    pthread_mutex_lock(&disk->guard);
    pc__disk_entry *e = pc__disk_table_find(&disk->table, record_name);
    if (e && e->facts.ttl > 0 && pc__date_after(st.st_mtim.tv_sec, e->facts.ttl) > now) {
        e->facts.expires = pc__date_after(st.st_mtim.tv_sec, e->facts.ttl);
        e->facts.last = st.st_mtim.tv_sec;
        if (!disk->table.next_expiry || e->facts.expires < disk->table.next_expiry)
            disk->table.next_expiry = e->facts.expires;
        used = 1;
    }
    pthread_mutex_unlock(&disk->guard);
    return used;
}

pc_status pc__disk_drop_expired(pc__disk *disk)
{
    int64_t now = pc__now_date();
    pc__record_name *record_names;
    size_t count;
    pc_status status = list_expired(disk, now, &record_names, &count);
    for (size_t i = 0; i < count && status >= 0; i++)
        if (!pc__disk_was_used_elsewhere(disk, &record_names[i], now))
            status = pc__disk_erase(disk, &record_names[i], PC_EVENT_REMOVE, PC_REASON_EXPIRED, 0);
    if (status < 0) { /* some are still there */
        pthread_mutex_lock(&disk->guard);
        disk->table.next_expiry = now;
        pthread_mutex_unlock(&disk->guard);
    }
    pc__free(&disk->mem, record_names);
    return status < 0 ? status : PC_OK;
}

/* --------------------------------------------------------------------- room */

static int fits(const pc__disk *disk, uint64_t need, uint64_t limit)
{
    return need <= limit && disk->lock.bytes <= limit - need;
}

/* Room in the folder, and whose. */
typedef struct wanted_room {
    uint64_t need, limit;  /* bytes; most bytes of the folder afterwards */
    const pc__id *salt;    /* tenant; NULL: nobody's */
    uint64_t least_limit;  /* of the tenant */
    const pc__id *parent;  /* stays; NULL: none */
    int32_t priority;      /* nothing of a higher one goes */
    pc__disk_spare *spare; /* NULL: not wanted */
    int scanned;
    uint32_t reason; /* why there is no room */
} wanted_room;

static pc__eviction_item *hold_parent(pc__disk *disk, const wanted_room *want, int hold)
{
    pc__disk_entry *e = NULL;
    if (want->parent) {
        pc__record_name record_name = pc__disk_record_name(disk, want->parent);
        e = pc__disk_table_find(&disk->table, &record_name);
    }
    if (e && hold)
        pc__eviction_hold(&disk->table.eviction, &e->item);
    else if (e)
        pc__eviction_unhold(&disk->table.eviction, &e->item);
    return e ? &e->item : NULL;
}

/* The record that goes next. 0: none; want->reason is PC_REASON_NONE if there is room. */
static int choose_record(pc__disk *disk, wanted_room *want, pc__record_name *record_name)
{
    pc__disk_table *table = &disk->table;
    pc__eviction_item *item = NULL;
    pc__room room = {.need = want->need,
                     .used = disk->lock.bytes,
                     .budget = want->limit,
                     .least_limit = want->least_limit,
                     .priority = want->priority};
    want->reason = PC_REASON_NO_ROOM;
    pthread_mutex_lock(&disk->guard);
    if (want->salt)
        room.tenant = pc__tenants_find_or_add(&table->tenants, &disk->mem, want->salt);
    if (room.tenant || !want->salt) {
        hold_parent(disk, want, 1);
        item = pc__tenants_next(&table->tenants, &table->eviction, &room, &want->reason);
        hold_parent(disk, want, 0);
    }
    if (item)
        *record_name = PC__AROUND(item, pc__disk_entry, item)->facts.record_name;
    if (want->salt)
        pc__disk_table_drop_tenant(table, want->salt);
    pthread_mutex_unlock(&disk->guard);
    return item != NULL;
}

/* A tenant that is over its limit when its writer comes only stops growing, as the folder does. */
static void measure_tenant(pc__disk *disk, wanted_room *want)
{
    const pc__tenant *tenant;
    if (!want->salt)
        return;
    pthread_mutex_lock(&disk->guard);
    tenant = pc__tenants_find(&disk->table.tenants, want->salt);
    want->least_limit = tenant ? tenant->group.bytes : 0;
    pthread_mutex_unlock(&disk->guard);
}

static int is_limited(pc__disk *disk, const wanted_room *want)
{
    const pc__tenant *tenant;
    int limited;
    if (!want->salt)
        return 0;
    pthread_mutex_lock(&disk->guard);
    tenant = pc__tenants_find(&disk->table.tenants, want->salt);
    limited = disk->table.tenants.share || (tenant && tenant->limit);
    pthread_mutex_unlock(&disk->guard);
    return limited;
}

static pc_status rescan_for_room(pc__disk *disk, wanted_room *want)
{
    pc_status status = pc__disk_rescan(disk);
    want->scanned = 1;
    measure_tenant(disk, want);
    return status;
}

/* Removes abandoned drafts and expired records until there is room; then learns what other
 * processes have done. They may have written for the same tenant, too. */
static pc_status free_useless(pc__disk *disk, wanted_room *want)
{
    uint64_t live;
    pc_status status = PC_OK;
    if (!fits(disk, want->need, want->limit))
        status = pc__disk_remove_abandoned(disk, &live);
    if (status >= 0 && !fits(disk, want->need, want->limit))
        status = pc__disk_drop_expired(disk);
    if (status >= 0 && disk->generation != disk->lock.generation
        && pc__now() - disk->scanned > SCAN_SECONDS
        && (!fits(disk, want->need, want->limit) || is_limited(disk, want)))
        status = rescan_for_room(disk, want);
    return status;
}

/* Evicts one record; if there is none to evict, scans once. PC_END: there is room. PC_MISS: there
 * cannot be. */
static pc_status evict_or_rescan(pc__disk *disk, wanted_room *want)
{
    pc__record_name record_name;
    pc_status status;
    if (choose_record(disk, want, &record_name)) {
        status = erase_record(disk, &record_name, PC_EVENT_EVICT, PC_REASON_NO_ROOM, 0,
                              want->spare);
        return status < 0 ? status : PC_OK;
    }
    if (!want->reason)
        return PC_END;
    return want->scanned ? PC_MISS : rescan_for_room(disk, want);
}

pc_status pc__disk_make_room(pc__disk *disk, uint64_t need, const pc__image *image,
                             pc__disk_spare *spare, uint32_t *reason)
{
    uint64_t found = disk->lock.bytes;
    pc__id salt = pc__shown_salt(&image->salt, &disk->record);
    wanted_room want = {.need = need,
                        .limit = found > disk->budget ? found : disk->budget,
                        .salt = &salt,
                        .parent = image->has_parent ? &image->parent : NULL,
                        .priority = image->priority,
                        .spare = spare,
                        .reason = PC_REASON_NO_ROOM};
    pc_status status = PC_MISS;
    measure_tenant(disk, &want);
    if (need <= disk->budget)
        status = free_useless(disk, &want);
    if (want.scanned && disk->lock.bytes < found) /* the folder was smaller than we thought */
        want.limit = disk->lock.bytes > disk->budget ? disk->lock.bytes : disk->budget;
    while (status == PC_OK)
        status = evict_or_rescan(disk, &want);
    *reason = status == PC_MISS ? want.reason : PC_REASON_NONE;
    return status == PC_END ? PC_OK : status;
}

/* A tenant that is over its limit; 0: none is. */
static int find_over_limit(pc__disk *disk, pc__id *salt)
{
    const pc__tenant *tenant;
    pthread_mutex_lock(&disk->guard);
    tenant = pc__tenants_over(&disk->table.tenants);
    if (tenant)
        *salt = tenant->salt;
    pthread_mutex_unlock(&disk->guard);
    return tenant != NULL;
}

/* Evicts until there is the room. until 0: no time limit. PC_END: there is room. */
static pc_status shrink_for(pc__disk *disk, wanted_room *want, double until)
{
    pc_status status = PC_OK;
    while (status == PC_OK) {
        status = evict_or_rescan(disk, want);
        if (status == PC_OK && until > 0 && pc__now() >= until)
            return PC_AGAIN;
    }
    return status;
}

/* First the folder, then the tenants. */
static pc_status shrink_folder(pc__disk *disk, double until)
{
    wanted_room want = {.limit = disk->budget, .priority = INT32_MAX};
    pc__id salt;
    pc_status status = free_useless(disk, &want);
    if (status >= 0)
        status = shrink_for(disk, &want, until);
    while (status == PC_END && find_over_limit(disk, &salt)) {
        want = (wanted_room){
            .limit = UINT64_MAX, .salt = &salt, .priority = INT32_MAX, .scanned = 1};
        status = shrink_for(disk, &want, until);
    }
    return status == PC_END ? PC_OK : status;
}

pc_status pc__disk_shrink_until(pc__disk *disk, double until)
{
    disk->shrinking = 1;
    pc_status status = shrink_folder(disk, until);
    disk->shrinking = 0;
    return status;
}

int pc__disk_is_over(pc__disk *disk)
{
    pc__id salt;
    return !disk->read_only
           && (pc__disk_bytes(disk) > disk->budget || find_over_limit(disk, &salt));
}

pc_status pc__disk_shrink(pc__disk *disk, double until)
{
    double now = pc__now();
    pc_status status = pc__disk_enter(disk, until);
    if (status != PC_OK)
        return status;
    status = pc__disk_shrink_until(disk, until < now + BATCH_SECONDS ? until : now + BATCH_SECONDS);
    pc__disk_leave(disk);
    return status;
}
