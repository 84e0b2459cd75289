#include "store/disk/disk_reuse.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

/* Bytes that stay of the old record, for its draft's header to overwrite at last: ext4 takes a file
 * that was cut to nothing for one whose owner wants it on the disk when it is closed, which takes
 * milliseconds (mount option auto_da_alloc). */
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

/* Nobody else has the file open or mapped, and nobody can open it until give_lease. */
static int take_lease(int fd)
{
    struct f_owner_ex self = {F_OWNER_TID, (pid_t)syscall(SYS_gettid)};
    return !fcntl(fd, F_SETOWN_EX, &self) && !fcntl(fd, F_SETLEASE, F_WRLCK);
}

static void give_lease(int fd)
{
    (void)!fcntl(fd, F_SETLEASE, F_UNLCK);
}

/* The record's file, open for writing: it is read-only for all until now. -1: it is not to be had.
 */
static int open_to_write(const pc__disk_root *root, int sub, const char *name, struct stat *st)
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
    give_lease(fd);
    return moved;
}

int pc__disk_reuse(pc__disk *disk, const pc__record_name *record_name, pc__disk_spare *spare,
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
        pc__disk_lock_add(&disk->lock,
                          LEFT); /* like every file in new/ it counts: a scan finds it */
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

int pc__disk_reuse(pc__disk *disk, const pc__record_name *record_name, pc__disk_spare *spare,
                   uint64_t *bytes)
{
    (void)disk, (void)record_name, (void)spare, (void)bytes;
    return 0;
}

#endif

int pc__disk_spare_use(pc__disk *disk, pc__disk_spare *spare, uint64_t bytes, int *fd)
{
    if (spare->fd < 0 || ftruncate(spare->fd, (off_t)bytes))
        return 0;
    pc__disk_lock_subtract(&disk->lock, LEFT);
    *fd = spare->fd;
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
        disk->lock.is_trusted = 0; /* whoever comes next counts */
    pc__disk_lock_subtract(&disk->lock, LEFT);
    if (dir >= 0)
        close(dir);
    close(spare->fd);
    spare->fd = -1;
}
