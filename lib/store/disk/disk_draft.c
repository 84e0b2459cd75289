/* Records that are being written: files in new/ until they are renamed (disk_draft.h). */
#include "store/disk/disk_draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/disk/disk_room.h"

/* seconds; what cannot be removed by then is left to the next writer that needs room */
#define DROP_SECONDS 0.25

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
static pc_status make_file(pc__disk *disk, uint64_t bytes, pc__disk_draft *out)
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

/* 1: the file of an evicted record is the draft now. */
static int use_spare(pc__disk *disk, pc__disk_spare *spare, uint64_t bytes, pc__disk_draft *out)
{
    memcpy(out->name, spare->name, sizeof out->name);
    return pc__disk_spare_use(disk, spare, bytes, &out->fd);
}

pc_status pc__disk_draft_begin(pc__disk *disk, const pc__image *image, uint64_t bytes,
                               double deadline, pc__disk_draft *out)
{
    pc_status status = pc__disk_enter(disk, deadline);
    pc__disk_spare spare = {.fd = -1};
    *out = (pc__disk_draft){.fd = -1};
    if (status != PC_OK)
        return status;
    status = bytes > INT64_MAX
                 ? PC_MISS
                 : pc__disk_make_room(disk, bytes, image->priority,
                                      image->has_parent ? &image->parent : NULL, &spare);
    if (status == PC_OK)
        status = pc__disk_lock_mark(&disk->lock, &disk->root);
    if (status == PC_OK)
        status = use_spare(disk, &spare, bytes, out) ? PC_OK : make_file(disk, bytes, out);
    pc__disk_spare_drop(disk, &spare);
    if (status == PC_OK) {
        out->reserved = bytes;
        pc__disk_lock_add(&disk->lock, bytes);
        count_staging(disk, bytes, 0);
    }
    pc__disk_leave(disk);
    return status;
}

/* Between enter and leave. */
static void unlink_draft(pc__disk *disk, const pc__disk_draft *draft)
{
    int dir = pc__disk_new(&disk->root, 0);
    if ((dir >= 0 && !unlinkat(dir, draft->name, 0))
        || errno == ENOENT) /* or somebody has removed it by hand */
        pc__disk_lock_subtract(&disk->lock, draft->reserved);
    if (dir >= 0)
        close(dir);
}

void pc__disk_draft_drop(pc__disk *disk, pc__disk_draft *draft)
{
    if (draft->fd < 0)
        return;
    count_staging(disk, 0, draft->reserved);
    if (pc__disk_enter(disk, pc__now() + DROP_SECONDS) == PC_OK) {
        if (pc__disk_lock_mark(&disk->lock, &disk->root) == PC_OK)
            unlink_draft(disk, draft);
        pc__disk_leave(disk);
    } else if (!ftruncate(draft->fd, 0)) { /* frees its blocks at once; the size still stands for
                                              the reserved bytes */
        (void)!ftruncate(draft->fd, (off_t)draft->reserved);
    }
    close(draft->fd);
    draft->fd = -1;
}

/* 1: a usable record has this name already, it stays. 0: there is none, or none of use to us. */
static int has_usable_record(pc__disk *disk, int sub, const char *name,
                             const pc__record_name *record_name, uint64_t *replaced)
{
    struct stat st;
    pc__disk_facts facts;
    pc_status usable;
    *replaced = 0;
    if (fstatat(sub, name, &st, AT_SYMLINK_NOFOLLOW) || !pc__dir_is_trusted(&disk->root, &st))
        return 0;
    *replaced = (uint64_t)st.st_size;
    return pc__disk_read_facts(disk, record_name, &facts, &usable) == PC_OK && usable == PC_OK
           && !pc__disk_facts_expired(&facts, pc__now_date());
}

static pc_status publish_file(pc__disk *disk, const pc__disk_draft *draft,
                              const pc__record_name *record_name, uint64_t bytes,
                              uint64_t *replaced)
{
    char name[PC__DISK_NAME];
    pc_status status = PC_OK;
    int sub = pc__disk_sub(&disk->root, record_name->key.bytes[0], 1),
        dir = pc__disk_new(&disk->root, 0);
    pc__disk_file_name(record_name, name);
    /* Read-only: no process changes a record, and others may have it mapped. */
    (void)!fchmod(draft->fd, 0400);
    /* Readers may open it by its name now. Whoever looks for abandoned drafts waits for the
     * folder's lock. */
    flock(draft->fd, LOCK_UN);
    if (sub < 0 || dir < 0)
        status = draft_error(disk, sub < 0 ? name : PC__DISK_NEW);
    else if (has_usable_record(disk, sub, name, record_name, replaced))
        status = PC_MISS;
    else if ((bytes != draft->reserved && ftruncate(draft->fd, (off_t)bytes))
             || renameat(dir, draft->name, sub, name))
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
    pc__disk_facts_of(&facts, record_name, image, bytes, pc__now_date());
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
    disk->changes++;
    pthread_mutex_unlock(&disk->guard);
}

pc_status pc__disk_draft_publish(pc__disk *disk, pc__disk_draft *draft, const pc__image *image,
                                 uint64_t bytes, double seconds, double deadline)
{
    pc__record_name record_name = pc__disk_record_name(disk, &image->key);
    uint64_t replaced = 0;
    pc_status status = pc__disk_enter(disk, deadline);
    if (status != PC_OK) {
        pc__disk_draft_drop(disk, draft);
        return status;
    }
    status = pc__disk_lock_mark(&disk->lock, &disk->root);
    if (status == PC_OK)
        status = publish_file(disk, draft, &record_name, bytes, &replaced);
    count_staging(disk, 0, draft->reserved);
    if (status == PC_OK) {
        pc__disk_lock_add(&disk->lock, bytes);
        pc__disk_lock_subtract(&disk->lock, draft->reserved + replaced);
        add_to_table(disk, &record_name, image, bytes);
        pc__disk_queue_event(disk, PC_EVENT_STORE, PC_REASON_NONE, &image->key, bytes,
                             image->tokens, seconds);
    } else {
        unlink_draft(disk, draft);
    }
    pc__disk_leave(disk);
    close(draft->fd);
    draft->fd = -1;
    return status;
}
