/* Folders by descriptor: checks of owner and mode, locks, files that replace others at once. */
#include "base/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"

enum { FILE_FLAGS = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

pc_status pc__dir_check(const char *path, const char *name, const struct stat *st, uid_t owner)
{
    const char *slash = name ? "/" : "", *who = st->st_mode & S_IWOTH ? "everybody" : "its group";
    name = name ? name : "";
    if (st->st_uid != geteuid() && st->st_uid != 0 && st->st_uid != owner)
        return pc__fail(PC_ERR_STATE,
                        "%s%s%s: belongs to another user, who could change what is served from it",
                        path, slash, name);
    if (!(st->st_mode & (S_IWGRP | S_IWOTH)))
        return PC_OK;
    return pc__fail(PC_ERR_STATE,
                    "%s%s%s: %s may write to it (mode %03o) and could change what is served from "
                    "it; 'chmod go-w' ends that",
                    path, slash, name, who, (unsigned)(st->st_mode & 0777));
}

static pc_status check_owner(pc__dir *dir)
{
    struct stat st;
    if (fstat(dir->fd, &st))
        return pc__fail(PC_ERR_IO, "%s: %s", dir->path, strerror(errno));
    dir->owner = st.st_uid;
    return pc__dir_check(dir->path, NULL, &st, geteuid());
}

pc_status pc__dir_open(pc__dir *out, const pc_allocator *mem, const char *path, int make)
{
    pc_status status;
    *out = (pc__dir){-1, NULL, 0};
    if (!*path)
        return pc__fail(PC_ERR_INVALID, "the path of a folder is empty: a path is needed");
    out->path = pc__strdup(mem, path);
    if (!out->path)
        return PC_ERR_NOMEM;
    if (make && mkdir(path, 0700) && errno != EEXIST)
        status = pc__fail_system(PC_ERR_IO, errno, "%s: the folder cannot be made: %s", path,
                                 strerror(errno));
    else if ((out->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        status = pc__fail(errno == ENOENT ? PC_ERR_NOT_FOUND : PC_ERR_IO, "%s: %s", path,
                          strerror(errno));
    else
        status = check_owner(out);
    if (status < 0)
        pc__dir_close(out, mem);
    return status;
}

void pc__dir_close(pc__dir *dir, const pc_allocator *mem)
{
    if (dir->fd >= 0)
        close(dir->fd);
    pc__free(mem, dir->path);
    *dir = (pc__dir){-1, NULL, 0};
}

int pc__dir_is_gone(const pc__dir *dir)
{
    struct stat st;
    return !fstat(dir->fd, &st) && !st.st_nlink;
}

int pc__dir_is_trusted(const pc__dir *dir, const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_size >= 0 && !(st->st_mode & (S_IWGRP | S_IWOTH))
           && (st->st_uid == dir->owner || st->st_uid == geteuid() || st->st_uid == 0);
}

pc_status pc__dir_fault(const pc__dir *dir, const char *name)
{
    int error = errno;
    if (pc__dir_is_gone(dir))
        return pc__fail(PC_ERR_IO, "%s: the folder has been removed", dir->path);
    return pc__fail_system(PC_ERR_IO, error, "%s/%s: %s", dir->path, name, strerror(error));
}

pc_status pc__dir_file(const pc__dir *dir, const char *name, int flags, int *fd, struct stat *st)
{
    *fd = openat(dir->fd, name, flags | FILE_FLAGS, 0600);
    if (*fd < 0 && errno == ENOENT && !(flags & O_CREAT))
        return pc__fail(PC_ERR_NOT_FOUND, "%s/%s: %s", dir->path, name, strerror(errno));
    if (*fd < 0)
        return pc__dir_fault(dir, name);
    if (!fstat(*fd, st) && pc__dir_is_trusted(dir, st))
        return PC_OK;
    close(*fd);
    *fd = -1;
    if (S_ISREG(st->st_mode) && st->st_mode & (S_IWGRP | S_IWOTH))
        return pc__fail(
            PC_ERR_STATE,
            "%s/%s: others may write to it (mode %03o); remove it if you do not know who "
            "has, else 'chmod go-w' ends that",
            dir->path, name, (unsigned)(st->st_mode & 0777));
    return pc__fail(PC_ERR_STATE, "%s/%s: not a regular file of this user", dir->path, name);
}

pc_status pc__dir_read_at(const pc__dir *dir, const pc_allocator *mem, const char *name, int fd,
                          uint64_t at, uint8_t **data, size_t *size)
{
    size_t wanted = *size;
    int64_t got;
    pc_status status;
    *size = 0;
    *data = pc__alloc(mem, wanted);
    if (!*data)
        return PC_ERR_NOMEM;
    got = pc__read_at(fd, *data, wanted, at);
    if (got >= 0) {
        *size = (size_t)got;
        return PC_OK;
    }
    status = pc__dir_fault(dir, name);
    pc__free(mem, *data);
    *data = NULL;
    return status;
}

pc_status pc__dir_read(const pc__dir *dir, const pc_allocator *mem, const char *name,
                       uint64_t limit, uint8_t **data, size_t *size)
{
    struct stat st;
    int fd;
    pc_status status;
    *data = NULL;
    *size = 0;
    PC__TRY_RETURN(pc__dir_file(dir, name, O_RDONLY, &fd, &st));
    if ((uint64_t)st.st_size > limit) {
        status = pc__fail(PC_ERR_FORMAT, "%s/%s: has %lld bytes", dir->path, name,
                          (long long)st.st_size);
    } else {
        *size = (size_t)st.st_size;
        status = pc__dir_read_at(dir, mem, name, fd, 0, data, size);
    }
    close(fd);
    return status;
}

int pc__dir_has(const pc__dir *dir, const char *name, int fd)
{
    struct stat opened, there;
    return !fstat(fd, &opened) && !fstatat(dir->fd, name, &there, AT_SYMLINK_NOFOLLOW)
           && opened.st_ino == there.st_ino && opened.st_dev == there.st_dev;
}

pc_status pc__dir_lock(const pc__dir *dir, const char *name, double deadline, int *fd)
{
    struct timespec wait = {0, 50000};
    struct stat st;
    for (;;) {
        int got;
        if (*fd < 0)
            PC__TRY_RETURN(pc__dir_file(dir, name, O_RDWR | O_CREAT, fd, &st));
        got = !flock(*fd, LOCK_EX | LOCK_NB);
        if (!got && errno != EWOULDBLOCK && errno != EINTR)
            return pc__fail(PC_ERR_IO, "%s/%s: cannot be locked: %s", dir->path, name,
                            strerror(errno));
        if (!pc__dir_has(dir, name, *fd)) { /* removed meanwhile: others lock a new file */
            close(*fd);
            *fd = -1;
        } else if (got) {
            return PC_OK;
        }
        if (pc__now() >= deadline) {
            pc__fail(PC_ERR_IO, "%s/%s: another process holds the lock%s", dir->path, name,
                     deadline > 0 ? ", still at the deadline" : "");
            return PC_AGAIN;
        }
        nanosleep(&wait, NULL);
        wait.tv_nsec = wait.tv_nsec < 1000000 ? 2 * wait.tv_nsec : 2000000;
    }
}

pc_status pc__dir_draft(const pc__dir *dir, const char *draft, int *fd)
{
    unlinkat(dir->fd, draft, 0); /* of a process that was killed */
    *fd = openat(dir->fd, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *fd < 0 ? pc__dir_fault(dir, draft) : PC_OK;
}

pc_status pc__dir_commit(const pc__dir *dir, const char *draft, const char *name, int fd, int error,
                         int sync)
{
    pc_status status;
    if (!error && sync && fsync(fd))
        error = errno;
    if (close(fd) && !error)
        error = errno;
    if (!error && renameat(dir->fd, draft, dir->fd, name))
        error = errno;
    if (!error)
        return sync && fsync(dir->fd) ? pc__dir_fault(dir, name) : PC_OK;
    errno = error;
    status = pc__dir_fault(dir, name);
    unlinkat(dir->fd, draft, 0);
    return status;
}

void pc__dir_discard(const pc__dir *dir, const char *draft, int fd)
{
    close(fd);
    unlinkat(dir->fd, draft, 0);
}

pc_status pc__dir_publish(const pc__dir *dir, const char *draft, const char *name, const void *data,
                          size_t size, int sync)
{
    int fd;
    PC__TRY_RETURN(pc__dir_draft(dir, draft, &fd));
    return pc__dir_commit(dir, draft, name, fd, pc__write_at(fd, data, size, 0), sync);
}
