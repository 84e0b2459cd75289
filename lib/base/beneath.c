/* Opens files beneath a folder. The kernel does it in one call (openat2, Linux 5.6 and later).
 * Where that call is missing or forbidden, the path is walked name by name. Each name is opened
 * relative to the folder before it and never as a link; links are read and walked like names. ".."
 * goes back to the folder that the walk came from. So nothing that others rename meanwhile leads
 * out. */
#include "base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, /* opening a pipe must not block */
    ENTER = O_PATH | O_CLOEXEC,
    MOST_DEPTH = 64,
    MOST_LINKS = 40, /* as the kernel */
    GO_ON = -2
};

typedef struct walk {
    int folders[MOST_DEPTH + 1]; /* the folder, and those below it that lead to this place */
    size_t depth;
    unsigned links;
    char rest[PATH_MAX]; /* names that are still to be walked; begins with a slash behind a name */
} walk;

static int fail(int error)
{
    errno = error;
    return -1;
}

/* Closes it without changing errno. */
static void drop(int fd)
{
    int error = errno;
    close(fd);
    errno = error;
}

/* Puts the link's target before the rest. Closes `link`. */
static int follow(walk *w, int link)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(link, "", target, sizeof target);
    size_t rest = strlen(w->rest);
    drop(link);
    if (n < 0)
        return -1;
    if (++w->links > MOST_LINKS)
        return fail(ELOOP);
    if (!n || target[0] == '/')
        return fail(EXDEV);
    if ((size_t)n + rest >= sizeof w->rest)
        return fail(ENAMETOOLONG);
    memmove(w->rest + n, w->rest, rest + 1);
    memcpy(w->rest, target, (size_t)n);
    return GO_ON;
}

static int go_back(walk *w)
{
    if (!w->depth)
        return fail(EXDEV);
    close(w->folders[w->depth--]);
    return GO_ON;
}

/* Goes one name further: GO_ON, the descriptor of a file at the end, or -1. */
static int step(walk *w, const char *name)
{
    int here = w->folders[w->depth], there;
    struct stat st;
    if (!strcmp(name, "."))
        return GO_ON;
    if (!strcmp(name, ".."))
        return go_back(w);
    there = openat(here, name, ENTER | O_NOFOLLOW);
    if (there < 0)
        return -1;
    if (fstat(there, &st)) {
        drop(there);
        return -1;
    }
    if (S_ISLNK(st.st_mode))
        return follow(w, there);
    if (S_ISDIR(st.st_mode) && w->depth < MOST_DEPTH) {
        w->folders[++w->depth] = there;
        return GO_ON;
    }
    close(there);
    if (S_ISDIR(st.st_mode))
        return fail(ENAMETOOLONG);
    return *w->rest ? fail(ENOTDIR) : openat(here, name, FLAGS | O_NOFOLLOW);
}

static int walk_path(walk *w)
{
    int result = GO_ON;
    while (result == GO_ON) {
        char name[NAME_MAX + 1];
        const char *at = w->rest + strspn(w->rest, "/");
        size_t n = strcspn(at, "/");
        if (!n) /* ends at a folder */
            return openat(w->folders[w->depth], ".", FLAGS);
        if (n > NAME_MAX)
            return fail(ENAMETOOLONG);
        memcpy(name, at, n);
        name[n] = 0;
        memmove(w->rest, at + n, strlen(at + n) + 1);
        result = step(w, name);
    }
    return result;
}

static int open_by_walk(int folder, const char *name)
{
    walk w = {.folders = {folder}};
    int fd;
    if (strlen(name) >= sizeof w.rest)
        return fail(ENAMETOOLONG);
    strcpy(w.rest, name);
    fd = walk_path(&w);
    while (w.depth)
        drop(w.folders[w.depth--]);
    return fd;
}

#if defined(SYS_openat2)
/* As <linux/openat2.h>, which older systems lack, has it. */
typedef struct how_to_open {
    uint64_t flags, mode, resolve;
} how_to_open;

static int open_at_once(int folder, const char *name)
{
    const uint64_t no_magic_links = 0x02, beneath = 0x08;
    how_to_open how = {FLAGS, 0, no_magic_links | beneath};
    return (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
}
#else
static int open_at_once(int folder, const char *name)
{
    (void)folder, (void)name;
    return fail(ENOSYS);
}
#endif

/* The call is missing, forbidden (EPERM, by some containers), or was disturbed by a rename. */
static int has_no_answer(int error)
{
    return error == ENOSYS || error == EPERM || error == EINVAL || error == E2BIG
           || error == EAGAIN;
}

int pc__open_beneath(const char *folder, const char *name)
{
    int root, fd;
    if (*name == '/')
        return fail(EXDEV);
    root = open(folder, ENTER | O_DIRECTORY);
    if (root < 0)
        return -1;
    fd = open_at_once(root, name);
    if (fd < 0 && has_no_answer(errno))
        fd = open_by_walk(root, name);
    drop(root);
    return fd;
}
