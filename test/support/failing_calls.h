/* The system calls of a process, counted. A given call fails, or the process is killed before it or
 * in the middle of a write. A test names the calls with the macros below, and the linker (--wrap)
 * redirects them to this file. Only for tests of one file. */
#ifndef PC_FAILING_CALLS_H
#define PC_FAILING_CALLS_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/wait.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "testing.h"

enum { KILL = 1, HALF_WRITE, FAIL };
static struct {
    int what;  /* 0: nothing */
    long at;   /* which call, from 1 */
    int error; /* errno of FAIL */
    long calls, writes;
    int found_nothing; /* the last call opened a file that is not there */
} hook;

/* 1: this call fails. */
static int tick(void)
{
    hook.found_nothing = 0;
    hook.calls++;
    if (hook.what == KILL && hook.calls == hook.at)
        kill(getpid(), SIGKILL);
    if (hook.what != FAIL || hook.calls != hook.at)
        return 0;
    errno = hook.error;
    return 1;
}

/* As tick(). Opening several files one after the other that are not there, such as the 256 folders
 * of a new folder of records, counts as one call: nothing changes between them. */
static int tick_open(int dir, const char *path, int flags)
{
    int finds_nothing = hook.what && !(flags & O_CREAT) && faccessat(dir, path, F_OK, 0)
                        && errno == ENOENT;
    int fails = finds_nothing && hook.found_nothing ? 0 : tick();
    hook.found_nothing = finds_nothing;
    return fails;
}

#define WRAP(name, parameters, arguments)             \
    int __real_##name parameters;                     \
    int __wrap_##name parameters;                     \
    int __wrap_##name parameters                      \
    {                                                 \
        return tick() ? -1 : __real_##name arguments; \
    }
#define WRAP_OPEN(name)                                                                  \
    int __real_##name(int dir, const char *path, int flags, ...);                        \
    int __wrap_##name(int dir, const char *path, int flags, ...);                        \
    int __wrap_##name(int dir, const char *path, int flags, ...)                         \
    {                                                                                    \
        va_list args;                                                                    \
        va_start(args, flags);                                                           \
        mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;                        \
        va_end(args);                                                                    \
        return tick_open(dir, path, flags) ? -1 : __real_##name(dir, path, flags, mode); \
    }
#define WRAP_READ(name)                                               \
    ssize_t __real_##name(int fd, void *data, size_t size, off_t at); \
    ssize_t __wrap_##name(int fd, void *data, size_t size, off_t at); \
    ssize_t __wrap_##name(int fd, void *data, size_t size, off_t at)  \
    {                                                                 \
        return tick() ? -1 : __real_##name(fd, data, size, at);       \
    }
/* At the end of a disk, the first half is written. */
#define WRAP_WRITE(name)                                                    \
    ssize_t __real_##name(int fd, const void *data, size_t size, off_t at); \
    ssize_t __wrap_##name(int fd, const void *data, size_t size, off_t at); \
    ssize_t __wrap_##name(int fd, const void *data, size_t size, off_t at)  \
    {                                                                       \
        int half = hook.what == HALF_WRITE && ++hook.writes == hook.at;     \
        if (half || (hook.what == FAIL && hook.calls + 1 == hook.at))       \
            (void)!__real_##name(fd, data, size / 2, at);                   \
        if (half)                                                           \
            kill(getpid(), SIGKILL);                                        \
        return tick() ? -1 : __real_##name(fd, data, size, at);             \
    }
#define WRAP_OPEN_PATH(name)                                                             \
    int __real_##name(const char *path, int flags, ...);                                 \
    int __wrap_##name(const char *path, int flags, ...);                                 \
    int __wrap_##name(const char *path, int flags, ...)                                  \
    {                                                                                    \
        va_list args;                                                                    \
        va_start(args, flags);                                                           \
        mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;                        \
        va_end(args);                                                                    \
        return tick_open(AT_FDCWD, path, flags) ? -1 : __real_##name(path, flags, mode); \
    }
#define WRAP_FCNTL(name)                                           \
    int __real_##name(int fd, int command, ...);                   \
    int __wrap_##name(int fd, int command, ...);                   \
    int __wrap_##name(int fd, int command, ...)                    \
    {                                                              \
        va_list args;                                              \
        va_start(args, command);                                   \
        void *argument = va_arg(args, void *);                     \
        va_end(args);                                              \
        return tick() ? -1 : __real_##name(fd, command, argument); \
    }
#define WRAP_MMAP(name)                                                                          \
    void *__real_##name(void *at, size_t size, int protection, int flags, int fd, off_t offset); \
    void *__wrap_##name(void *at, size_t size, int protection, int flags, int fd, off_t offset); \
    void *__wrap_##name(void *at, size_t size, int protection, int flags, int fd, off_t offset)  \
    {                                                                                            \
        return tick() ? MAP_FAILED : __real_##name(at, size, protection, flags, fd, offset);     \
    }

WRAP_OPEN(openat)
WRAP_OPEN(openat64)
WRAP_READ(pread)
WRAP_READ(pread64)
WRAP_WRITE(pwrite)
WRAP_WRITE(pwrite64)
WRAP(ftruncate, (int fd, off_t size), (fd, size))
WRAP(ftruncate64, (int fd, off_t size), (fd, size))
WRAP(fstat, (int fd, struct stat *st), (fd, st))
WRAP(fstat64, (int fd, struct stat *st), (fd, st))
WRAP(fstatat, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags))
WRAP(fstatat64, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags))
WRAP(mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(renameat, (int from, const char *old, int to, const char *now), (from, old, to, now))
WRAP(unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
WRAP(flock, (int fd, int how), (fd, how))

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) /* the file is closed in any case */
{
    int failed = tick(), status = __real_close(fd), error = hook.error;
    if (failed)
        errno = error;
    return failed ? -1 : status;
}

/* ------------------------------------------- a scenario, with one accident in each run */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

static void remove_folder(const char *path)
{
    CHECK(!nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS));
}

typedef struct accident {
    const char *name; /* of the folder */
    long step;        /* 1: each call has its accident; n: each nth */
    long least;       /* calls that the scenario makes, at least (KILL and HALF_WRITE) */
    void (*prepare)(const char *path); /* before each run; NULL: nothing */
    int (*scenario)(const char *path); /* returns the number of wrong results */
    int (*check)(const char *path);    /* looks at the folder afterwards; 1: it is right */
} accident;

/* what: KILL or HALF_WRITE, in a child process, at each call. */
static void kill_at_each_call(int what, const accident *a)
{
    char path[256];
    long at = 1;
    snprintf(path, sizeof path, "%s/%s", pc_test_folder(), a->name);
    for (int killed = 1; killed; at += a->step) {
        if (a->prepare)
            a->prepare(path);
        pid_t child = fork();
        if (!child) {
            hook.what = what;
            hook.at = at;
            hook.calls = hook.writes = 0;
            _exit(a->scenario(path));
        }
        int status = 0;
        if (!CHECK(child > 0 && waitpid(child, &status, 0) == child))
            return;
        killed = WIFSIGNALED(status);
        CHECK(killed ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
        if (!a->check(path)) {
            fprintf(stderr, "    at call %ld of %s\n", at, a->name);
            return;
        }
        remove_folder(path);
    }
    printf("%s: killed at each %ld. of %ld calls\n", a->name, a->step, at - 1 - a->step);
    CHECK(at > a->least);
}

/* Each call fails once with `error`, and the process continues. */
static void fail_at_each_call(int error, const accident *a)
{
    char path[256];
    long at = 1;
    int reached = 1;
    size_t files = pc_test_open_files();
    snprintf(path, sizeof path, "%s/fail%d", pc_test_folder(), error);
    for (; reached; at += a->step) {
        if (a->prepare)
            a->prepare(path);
        hook.what = FAIL;
        hook.at = at;
        hook.error = error;
        hook.calls = 0;
        int wrong = a->scenario(path);
        reached = hook.calls >= at;
        hook.what = 0;
        int fine = CHECK_INT(wrong, 0) & CHECK_INT(pc_test_open_files(), files);
        if (!(fine & a->check(path))) {
            fprintf(stderr, "    at call %ld, error %d\n", at, error);
            return;
        }
        remove_folder(path);
    }
    printf("errno %d at each %ld. of %ld calls\n", error, a->step, at - 1 - a->step);
}

#endif
