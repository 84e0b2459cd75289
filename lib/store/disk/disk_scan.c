/* Compares the table of records with the folder (disk_scan.h). */
#include "store/disk/disk_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "store/disk/disk_room.h"

/* A folder that changed a moment ago may change again within one tick of the file system's clock,
 * so its date proves nothing. */
#define RACY_NS INT64_C(2000000000)

typedef struct found_file {
    pc__record_name record_name;
    uint64_t bytes;
    int64_t last;
} found_file;

typedef struct listing {
    found_file *items;
    size_t count, capacity;
} listing;

static int64_t ns_of(struct timespec time)
{
    /* Dates of a file system may be far off; they are only compared. */
    return (int64_t)((uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec);
}

static pc_status dir_fault(const pc__disk *disk, const char *name)
{
    return pc__fail(PC_ERR_IO, "%s/%s: %s", disk->root.path, name, strerror(errno));
}

/* Opens a sub-folder for listing; takes `fd`. Other users must not be able to write to it: they
 * could remove or rename records. */
static pc_status open_sub(const pc__disk *disk, const char *name, int fd, struct stat *st,
                          DIR **out)
{
    pc_status status = fstat(fd, st) ? dir_fault(disk, name)
                                     : pc__dir_check(disk->root.path, name, st, disk->root.owner);
    *out = status >= 0 ? fdopendir(fd) : NULL;
    if (status >= 0 && !*out)
        status = dir_fault(disk, name);
    if (status < 0)
        close(fd);
    return status;
}

/* Lists the records of one sub-folder; *date is the folder's from before the listing. PC_OK with no
 * record if the sub-folder is missing. PC_ERR_STATE: other users may write to it. */
static pc_status list_sub(pc__disk *disk, unsigned sub, listing *out, int64_t *date)
{
    struct stat st;
    struct timespec now;
    struct dirent *entry;
    char name[16];
    pc_status status = PC_OK;
    int fd = pc__disk_sub(&disk->root, sub, 0);
    DIR *dir;
    out->count = 0;
    *date = 0;
    snprintf(name, sizeof name, "%02x", sub);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? PC_OK
                                                                     : dir_fault(disk, name);
    PC__TRY_RETURN(open_sub(disk, name, fd, &st, &dir));
    clock_gettime(CLOCK_REALTIME, &now);
    *date = ns_of(st.st_mtim) < ns_of(now) - RACY_NS ? ns_of(st.st_mtim) : 0;
    for (errno = 0; status >= 0 && (entry = readdir(dir)); errno = 0) {
        found_file one;
        if (!pc__disk_parse_name(entry->d_name, sub, &one.record_name)
            || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW)
            || !pc__dir_is_trusted(&disk->root, &st))
            continue;
        one.bytes = (uint64_t)st.st_size;
        one.last = st.st_mtim.tv_sec;
        status = pc__grow(&disk->mem, (void **)&out->items, &out->capacity, out->count + 1,
                          sizeof *out->items);
        if (status >= 0)
            out->items[out->count++] = one;
    }
    if (status >= 0 && errno)
        status = dir_fault(disk, name);
    closedir(dir);
    return status;
}

/* Drops a record that is no longer in the folder. Under guard. */
static void lose_record(pc__disk *disk, pc__disk_entry *e)
{
    pc__disk_table_drop(&disk->table, e);
    disk->counts.lost++;
    disk->changes++;
}

/* Adds new records by name and size. A file of another size is another record. Under guard. */
static pc_status add_found(pc__disk *disk, const listing *list)
{
    pc_status status = PC_OK;
    for (size_t i = 0; i < list->count && status >= 0; i++) {
        const found_file *f = &list->items[i];
        pc__disk_facts facts = {.record_name = f->record_name,
                                .bytes = f->bytes,
                                .last = f->last,
                                .state = PC__DISK_UNREAD};
        pc__disk_entry *e = pc__disk_table_find(&disk->table, &f->record_name);
        if (e && e->facts.bytes != f->bytes) {
            lose_record(disk, e);
            e = NULL;
        }
        if (e) {
            e->last_scan = disk->table.scans;
            continue;
        }
        status = pc__disk_table_add(&disk->table, &facts, NULL);
        disk->counts.found += status >= 0;
        disk->changes++;
    }
    return status;
}

/* Drops records of scanned sub-folders that the scan has not found. Under guard. */
static void drop_missing(pc__disk *disk, const uint8_t scanned[PC__DISK_SUBS])
{
    for (pc__disk_entry *e = pc__disk_table_next(&disk->table, NULL), *next; e; e = next) {
        next = pc__disk_table_next(&disk->table, e);
        if (scanned[e->facts.record_name.key.bytes[0]] && e->last_scan != disk->table.scans)
            lose_record(disk, e);
    }
}

static int is_unchanged(const pc__disk *disk, unsigned sub)
{
    struct stat st;
    /* A folder that other users may write to is listed, which reports them. */
    return disk->dates[sub] && !pc__disk_sub_stat(&disk->root, sub, &st)
           && ns_of(st.st_mtim) == disk->dates[sub] && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static pc_status scan_subs(pc__disk *disk, int all)
{
    uint8_t scanned[PC__DISK_SUBS] = {0};
    listing list = {0};
    pc_status status = PC_OK;
    pthread_mutex_lock(&disk->guard);
    disk->table.scans++;
    pthread_mutex_unlock(&disk->guard);
    for (unsigned sub = 0; sub < PC__DISK_SUBS && status >= 0; sub++) {
        int64_t date;
        if (!all && is_unchanged(disk, sub))
            continue;
        disk->dates[sub] = 0;
        status = list_sub(disk, sub, &list, &date);
        if (status >= 0) {
            pthread_mutex_lock(&disk->guard);
            status = add_found(disk, &list);
            pthread_mutex_unlock(&disk->guard);
        }
        if (status >= 0) {
            disk->dates[sub] = date;
            scanned[sub] = 1;
        }
    }
    pc__free(&disk->mem, list.items);
    pthread_mutex_lock(&disk->guard);
    drop_missing(disk, scanned);
    pthread_mutex_unlock(&disk->guard);
    return status;
}

pc_status pc__disk_list(pc__disk *disk)
{
    return scan_subs(disk, 0);
}

/* One file of new/: its writer holds a lock on it while it lives. */
static pc_status reclaim_one(pc__disk *disk, int dir, const char *name, uint64_t *live)
{
    struct stat st;
    pc_status status = PC_OK;
    /* A draft that was about to be published is read-only. */
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    /* A link, published meanwhile, or of another user. After any other error the sum of the folder
     * is unknown. */
    if (fd < 0)
        return errno == ELOOP || errno == ENOENT || errno == EACCES || errno == ENXIO
                   ? PC_OK
                   : dir_fault(disk, PC__DISK_NEW);
    if (!fstat(fd, &st) && pc__dir_is_trusted(&disk->root, &st)) {
        if (flock(fd, LOCK_EX | LOCK_NB)) {
            *live += (uint64_t)st.st_size;
        } else if ((status = pc__disk_lock_mark(&disk->lock, &disk->root)) == PC_OK
                   && !unlinkat(dir, name, 0)) {
            pc__disk_lock_subtract(&disk->lock, (uint64_t)st.st_size);
            disk->reclaimed_bytes += (uint64_t)st.st_size;
            disk->reclaimed++;
        }
    }
    close(fd);
    return status;
}

pc_status pc__disk_remove_abandoned(pc__disk *disk, uint64_t *live)
{
    struct stat st;
    struct dirent *entry;
    pc_status status = PC_OK;
    int fd;
    DIR *dir;
    *live = 0;
    unlinkat(disk->root.fd, PC__DISK_INDEX_NEW, 0); /* we hold the lock: nobody is writing it */
    fd = pc__disk_new(&disk->root, 0);
    if (fd < 0)
        return errno == ENOENT ? PC_OK : dir_fault(disk, PC__DISK_NEW);
    PC__TRY_RETURN(open_sub(disk, PC__DISK_NEW, fd, &st, &dir));
    for (errno = 0; status >= 0 && (entry = readdir(dir)); errno = 0)
        if (entry->d_name[0] != '.')
            status = reclaim_one(disk, fd, entry->d_name, live);
    if (status >= 0 && errno)
        status = dir_fault(disk, PC__DISK_NEW);
    closedir(dir);
    return status;
}

pc_status pc__disk_scan(pc__disk *disk, int all)
{
    uint64_t live = 0, bytes;
    pc_status status = scan_subs(disk, all);
    if (status < 0 || disk->read_only)
        return status;
    PC__TRY_RETURN(pc__disk_remove_abandoned(disk, &live));
    pthread_mutex_lock(&disk->guard);
    bytes = disk->table.eviction.bytes + live;
    pthread_mutex_unlock(&disk->guard);
    if (!disk->lock.is_trusted || disk->lock.bytes != bytes) {
        PC__TRY_RETURN(pc__disk_lock_mark(&disk->lock, &disk->root));
        disk->lock.bytes = bytes;
        disk->lock.is_trusted = 1;
    }
    disk->scanned = pc__now();
    disk->generation = disk->lock.generation;
    return PC_OK;
}

/* Lists the records whose headers are not read yet. */
static pc_status list_unread(pc__disk *disk, listing *out)
{
    pc_status status = PC_OK;
    pthread_mutex_lock(&disk->guard);
    for (pc__disk_entry *e = pc__disk_table_next(&disk->table, NULL); e && status >= 0;
         e = pc__disk_table_next(&disk->table, e)) {
        if (e->facts.state != PC__DISK_UNREAD)
            continue;
        status = pc__grow(&disk->mem, (void **)&out->items, &out->capacity, out->count + 1,
                          sizeof *out->items);
        if (status >= 0)
            out->items[out->count++].record_name = e->facts.record_name;
    }
    pthread_mutex_unlock(&disk->guard);
    return status;
}

static pc_status read_one_header(pc__disk *disk, const pc__record_name *record_name)
{
    pc__disk_facts facts;
    pc__disk_entry *e;
    pc_status status = pc__disk_read_facts(disk, record_name, &facts, NULL, NULL);
    if (status < 0)
        return status == PC_ERR_NOMEM ? status : PC_OK;
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e && e->facts.state == PC__DISK_UNREAD) {
        pc__disk_table_drop(&disk->table, e);
        if (status == PC_MISS || pc__disk_table_add(&disk->table, &facts, NULL) < 0)
            disk->counts.lost++;
        disk->changes++;
    }
    pthread_mutex_unlock(&disk->guard);
    return PC_OK;
}

pc_status pc__disk_read_headers(pc__disk *disk)
{
    listing list = {0};
    pc_status status = list_unread(disk, &list);
    for (size_t i = 0; i < list.count && status >= 0; i++)
        status = read_one_header(disk, &list.items[i].record_name);
    pc__free(&disk->mem, list.items);
    return status;
}

pc_status pc__disk_rescan(pc__disk *disk)
{
    PC__TRY_RETURN(pc__disk_scan(disk, 0));
    return pc__disk_read_headers(disk);
}

/* ------------------------------------------------------------------ one record */

int pc__disk_look_up(pc__disk *disk, const pc__record_name *record_name, uint64_t *bytes)
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

int pc__disk_add_foreign(pc__disk *disk, const pc__record_name *record_name, uint64_t bytes)
{
    pc__disk_facts facts;
    pc__disk_entry *e;
    int known, expired;
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    known = e && e->facts.bytes == bytes;
    expired = known && pc__disk_facts_expired(&e->facts, pc__now_date());
    pthread_mutex_unlock(&disk->guard);
    if (expired)
        expired = !pc__disk_was_used_elsewhere(disk, record_name, pc__now_date());
    if (known || pc__disk_read_facts(disk, record_name, &facts, NULL, NULL) != PC_OK)
        return !expired;
    expired = pc__disk_facts_expired(&facts, pc__now_date());
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e && e->facts.bytes != facts.bytes) {
        lose_record(disk, e);
        e = NULL;
    }
    if (!e && pc__disk_table_add(&disk->table, &facts, NULL) >= 0)
        disk->counts.found++;
    disk->changes++;
    pthread_mutex_unlock(&disk->guard);
    return !expired;
}

void pc__disk_drop_lost(pc__disk *disk, const pc__record_name *record_name)
{
    pc__disk_entry *e;
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e)
        lose_record(disk, e);
    pthread_mutex_unlock(&disk->guard);
}
