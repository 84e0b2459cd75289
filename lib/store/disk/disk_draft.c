/* Writes records: as drafts, until they are renamed (disk_draft.h). */
#include "store/disk/disk_draft.h"

#include <promptcache/cache.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "store/disk/disk_room.h"
#include "store/disk/disk_scan.h"

/* seconds; what cannot be removed by then is left to the next writer that needs room */
#define DROP_SECONDS 0.25
#define WRITE_SECONDS 60.0 /* of a writer without a deadline */
enum { CHUNK = 4 << 20 };  /* bytes that are written between two looks at the clock */

typedef struct draft {
    pc__sink sink;
    int fd;
    char name[32]; /* in new/ */
    uint64_t reserved;
    const char *path; /* of the folder, for error texts */
    double deadline;
    int timed_out;
} draft;

static pc_status write_part(pc__sink *sink, size_t piece, uint64_t offset, const void *data,
                            size_t size)
{
    draft *d = PC__AROUND(sink, draft, sink);
    (void)piece;
    for (size_t done = 0, n; done < size; done += n) {
        int error;
        n = size - done < CHUNK ? size - done : CHUNK;
        if (d->deadline > 0 && pc__now() >= d->deadline) {
            d->timed_out = 1;
            return pc__fail(PC_ERR_IO, "%s: not written within its deadline", d->path);
        }
        error = pc__write_at(d->fd, (const char *)data + done, n, offset + done);
        if (error)
            return pc__fail(PC_ERR_IO, "%s: cannot write a record: %s", d->path, strerror(error));
    }
    return PC_OK;
}

static void count_staging(pc__disk *disk, uint64_t add, uint64_t take_off)
{
    pthread_mutex_lock(&disk->guard);
    disk->staging += add - take_off;
    pthread_mutex_unlock(&disk->guard);
}

static pc_status draft_error(const pc__disk *disk, const char *name)
{
    int error = errno;
    if (pc__dir_is_gone(&disk->root))
        return pc__fail(PC_ERR_IO, "%s: has been removed", disk->root.path);
    return pc__fail(PC_ERR_IO, "%s/%s: %s", disk->root.path, name, strerror(error));
}

/* Creates a file with a new name, and locks it while we still hold the folder's lock. */
static pc_status make_file(pc__disk *disk, uint64_t bytes, draft *out)
{
    pc_status status = PC_OK;
    int dir = pc__disk_new(&disk->root, 1);
    if (dir < 0)
        return draft_error(disk, PC__DISK_NEW);
    do {
        pc__disk_draft_name(disk, out->name);
        out->fd = openat(dir, out->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    } while (out->fd < 0 && errno == EEXIST);
    if (out->fd < 0)
        status = draft_error(disk, PC__DISK_NEW);
    else if (flock(out->fd, LOCK_EX | LOCK_NB) || ftruncate(out->fd, (off_t)bytes)) {
        status = draft_error(disk, PC__DISK_NEW);
        unlinkat(dir, out->name, 0);
        close(out->fd);
    }
    close(dir);
    return status;
}

/* Makes room for `bytes` and creates the file, or takes that of an evicted record. PC_MISS: there
 * is no such room, *reason. PC_AGAIN: another process held the folder beyond the deadline. */
static pc_status begin_draft(pc__disk *disk, const pc__image *image, uint64_t bytes,
                             double deadline, draft *out, uint32_t *reason)
{
    pc_status status = pc__disk_enter(disk, deadline);
    pc__disk_spare spare = {.fd = -1};
    *out = (draft){.sink.write = write_part,
                   .fd = -1,
                   .reserved = bytes,
                   .path = disk->root.path,
                   .deadline = deadline};
    if (status != PC_OK)
        return status;
    *reason = PC_REASON_NO_ROOM;
    status = bytes > INT64_MAX ? PC_MISS : pc__disk_make_room(disk, bytes, image, &spare, reason);
    if (status == PC_OK)
        status = pc__disk_lock_mark(&disk->lock, &disk->root);
    if (status == PC_OK && !pc__disk_spare_use(disk, &spare, bytes, &out->fd, out->name))
        status = make_file(disk, bytes, out);
    pc__disk_spare_drop(disk, &spare);
    if (status == PC_OK) {
        disk->lock.bytes += bytes;
        count_staging(disk, bytes, 0);
    }
    pc__disk_leave(disk);
    return status;
}

/* Between enter and leave. */
static void unlink_draft(pc__disk *disk, const draft *d)
{
    int dir = pc__disk_new(&disk->root, 0);
    if ((dir >= 0 && !unlinkat(dir, d->name, 0))
        || errno == ENOENT) /* or somebody has removed it by hand */
        pc__disk_lock_subtract(&disk->lock, d->reserved);
    if (dir >= 0)
        close(dir);
}

static void drop_draft(pc__disk *disk, draft *d)
{
    count_staging(disk, 0, d->reserved);
    if (pc__disk_enter(disk, pc__now() + DROP_SECONDS) == PC_OK) {
        if (pc__disk_lock_mark(&disk->lock, &disk->root) == PC_OK)
            unlink_draft(disk, d);
        pc__disk_leave(disk);
    } else if (!ftruncate(d->fd,
                          0)) { /* frees its blocks; its size stands for the reserved bytes */
        (void)!ftruncate(d->fd, (off_t)d->reserved);
    }
    close(d->fd);
}

/* 1: a usable record has this name already, it stays. 0: there is none, or none of use to us. */
static int has_usable_record(pc__disk *disk, int sub, const char *name,
                             const pc__record_name *record_name, const pc__image *image,
                             uint64_t *replaced)
{
    struct stat st;
    pc__disk_facts facts;
    pc_status usable;
    *replaced = 0;
    if (fstatat(sub, name, &st, AT_SYMLINK_NOFOLLOW) || !pc__dir_is_trusted(&disk->root, &st))
        return 0;
    *replaced = (uint64_t)st.st_size;
    return pc__disk_read_facts(disk, record_name, &facts, image, &usable) == PC_OK
           && usable == PC_OK && !pc__disk_facts_expired(&facts, pc__now_date());
}

static pc_status publish_file(pc__disk *disk, const draft *d, const pc__record_name *record_name,
                              const pc__image *image, uint64_t bytes, uint64_t *replaced)
{
    char name[PC__DISK_NAME];
    pc_status status = PC_OK;
    int sub = pc__disk_sub(&disk->root, record_name->key.bytes[0], 1),
        dir = pc__disk_new(&disk->root, 0);
    pc__disk_file_name(record_name, name);
    /* Read-only: no process changes a record, and others may have it mapped. */
    (void)!fchmod(d->fd, 0400);
    /* Readers may open it by its name now. Whoever looks for abandoned drafts waits for the
     * folder's lock. */
    flock(d->fd, LOCK_UN);
    if (sub < 0 || dir < 0)
        status = draft_error(disk, sub < 0 ? name : PC__DISK_NEW);
    else if (has_usable_record(disk, sub, name, record_name, image, replaced))
        status = PC_MISS;
    else if ((bytes != d->reserved && ftruncate(d->fd, (off_t)bytes))
             || renameat(dir, d->name, sub, name))
        status = draft_error(disk, name);
    if (dir >= 0)
        close(dir);
    if (sub >= 0)
        close(sub);
    return status;
}

/* Adds the published record to the table. */
static void add_to_table(pc__disk *disk, const pc__record_name *record_name, const pc__image *image,
                         uint64_t bytes)
{
    pc__disk_facts facts;
    pc__disk_entry *e;
    pc__shown shown;
    pc__shown_of(&shown, image, &disk->record);
    pc__disk_facts_of(&facts, record_name, image, &shown, bytes, pc__now_date());
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e) {
        pc__disk_table_drop(&disk->table, e);
        disk->counts.lost++;
    }
    disk->counts.stored++;
    disk->counts.bytes_written += bytes;
    if (pc__disk_table_add(&disk->table, &facts, &e) < 0)
        disk->counts.lost++; /* other processes have it; a scan finds it */
    else
        e->is_verified = 1;
    pc__disk_table_know(e, &image->key);
    disk->changes++;
    pthread_mutex_unlock(&disk->guard);
}

/* Cuts the file to `bytes` and renames it. PC_MISS: another process has published the same record.
 * The draft ends in any case. */
static pc_status publish_draft(pc__disk *disk, draft *d, const pc__image *image, uint64_t bytes,
                               double seconds)
{
    pc__record_name record_name = pc__disk_record_name(disk, &image->key);
    uint64_t replaced = 0;
    pc_status status = pc__disk_enter(disk, d->deadline);
    if (status != PC_OK) {
        drop_draft(disk, d);
        return status;
    }
    status = pc__disk_lock_mark(&disk->lock, &disk->root);
    if (status == PC_OK)
        status = publish_file(disk, d, &record_name, image, bytes, &replaced);
    count_staging(disk, 0, d->reserved);
    if (status == PC_OK) {
        disk->lock.bytes += bytes;
        pc__disk_lock_subtract(&disk->lock, d->reserved + replaced);
        add_to_table(disk, &record_name, image, bytes);
        pc__disk_queue_event(disk, PC_EVENT_STORE, PC_REASON_NONE, &image->key, bytes,
                             image->tokens, seconds);
    } else {
        unlink_draft(disk, d);
    }
    pc__disk_leave(disk);
    close(d->fd);
    return status;
}

/* Opens a record that another process has written under a name of ours, once, to see whether we can
 * use it. */
static int is_usable(pc__disk *disk, const pc__record_name *record_name, const pc__image *image)
{
    pc__disk_facts facts;
    pc__disk_entry *e;
    pc_status usable;
    int ours = pc__disk_read_facts(disk, record_name, &facts, image, &usable) == PC_OK
               && usable == PC_OK;
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e)
        e->is_verified = ours;
    pthread_mutex_unlock(&disk->guard);
    return ours;
}

/* 1: it need not be written. */
static int is_known(pc__disk *disk, const pc__record_name *record_name, const pc__image *image)
{
    struct stat st;
    pc__disk_entry *e;
    uint64_t bytes = 0;
    int known = pc__disk_look_up(disk, record_name, &bytes), ours;
    if (known == 0)
        return 0;
    if (!pc__disk_stat_record(&disk->root, record_name, &st)) {
        pc__disk_drop_lost(disk, record_name);
        return 0;
    }
    known = pc__disk_add_foreign(disk, record_name, (uint64_t)st.st_size);
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    known = known && e && e->facts.state == PC__DISK_READ;
    ours = known && e->is_verified;
    pthread_mutex_unlock(&disk->guard);
    return known && (ours || is_usable(disk, record_name, image));
}

static pc_status write_draft(pc__disk *disk, const pc__image *image, uint64_t bound,
                             double deadline, uint32_t *reason)
{
    draft d;
    uint64_t bytes = 0;
    double begin = pc__now();
    pc_status status = begin_draft(disk, image, bound, deadline, &d, reason);
    if (status == PC_OK) {
        status = pc__record_write(&disk->mem, image, &disk->record, &d.sink, &bytes);
        if (d.timed_out)
            *reason = PC_REASON_DEADLINE;
        if (status == PC_OK && bytes > bound)
            status = pc__fail(
                PC_ERR_INTERNAL, "%s: a record has %llu bytes, at most %llu were expected",
                disk->root.path, (unsigned long long)bytes, (unsigned long long)bound);
        if (status == PC_OK)
            status = publish_draft(disk, &d, image, bytes, pc__now() - begin);
        else
            drop_draft(disk, &d);
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
    if (is_known(disk, &record_name, image))
        return PC_MISS;
    bound = pc__record_bound(image, &disk->record, NULL);
    if (bound > disk->budget) {
        *reason = PC_REASON_NO_ROOM;
        return PC_MISS;
    }
    status = write_draft(disk, image, bound, deadline > 0 ? deadline : pc__now() + WRITE_SECONDS,
                         reason);
    if (status < 0 && *reason == PC_REASON_NONE)
        *reason = PC_REASON_IO;
    return status;
}

pc_status pc__disk_put(pc__disk *disk, const pc__image *image, double deadline, uint32_t *reason)
{
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
