/* Catches: names and links that lead out of a folder and are opened all the same; names and links
 * inside that are refused; a kernel without openat2, or a container that forbids it, where another
 * answer is given or nothing works; pipes that block; descriptors that leak; a folder that is
 * exchanged for a link while it is walked. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/beneath.h"
#include "testing.h"

enum { PATH = 700 };

static char root[PATH / 2]; /* the folder; beside it lies `secret` */

static const char *below(const char *name)
{
    static char path[PATH];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void make_folders(void)
{
    char other[PATH];
    snprintf(root, sizeof root, "%s/folder", pc_test_folder());
    snprintf(other, sizeof other, "%s/secret", pc_test_folder());
    pc_test_write(other, "secret", 6);
    CHECK(!mkdir(root, 0755) && !mkdir(below("a"), 0755) && !mkdir(below("a/b"), 0755));
    pc_test_write(below("file"), "file", 4);
    pc_test_write(below("a/b/deep"), "deep", 4);
    CHECK(!symlink("file", below("link")) && !symlink("../file", below("a/up")));
    CHECK(!symlink("a/b", below("b")) && !symlink("../..", below("a/b/top")));
    CHECK(!symlink("../secret", below("out")) && !symlink("../../..", below("a/b/above")));
    CHECK(!symlink(other, below("absolute")) && !symlink("loop", below("loop")));
    snprintf(other, sizeof other, "%s/file", root);
    CHECK(!symlink(other, below("absolute_inside")) && !symlink("none", below("dangling")));
    CHECK(!mkfifo(below("pipe"), 0600));
    snprintf(other, sizeof other, "%s_by_link", root);
    CHECK(!symlink(root, other));
}

/* "x": opened, of this content; or the error. */
static void opens(const char *folder, const char *name, const char *content, int error)
{
    char got[16] = "";
    size_t files = pc_test_open_files();
    int fd;
    errno = 0;
    fd = pc__open_beneath(folder, name);
    if (!CHECK((fd >= 0) == !error) || !CHECK_INT(fd < 0 ? errno : 0, error))
        printf("%s in %s\n", name, folder);
    if (fd >= 0 && content && CHECK(read(fd, got, sizeof got - 1) >= 0))
        CHECK_STR(got, content);
    if (fd >= 0)
        close(fd);
    CHECK_INT(pc_test_open_files(), files);
}

static void names(void)
{
    char longer[300], path[5000], by_link[PATH];
    snprintf(by_link, sizeof by_link, "%s_by_link", root);
    opens(root, "file", "file", 0);
    opens(root, "./a/../file", "file", 0);
    opens(root, "a//b/./deep", "deep", 0);
    opens(by_link, "a/b/deep", "deep", 0);
    opens(root, "link", "file", 0);
    opens(root, "a/up", "file", 0);
    opens(root, "b/deep", "deep", 0);
    opens(root, "b/top/a/b/top/link", "file", 0);
    opens(root, "a/b", NULL, 0); /* folders and pipes are for the caller to refuse */
    opens(root, "b/top", NULL, 0);
    opens(root, ".", NULL, 0);
    opens(root, "pipe", NULL, 0);
    opens(root, "..", NULL, EXDEV);
    opens(root, "../secret", NULL, EXDEV);
    opens(root, "a/../../secret", NULL, EXDEV);
    opens(root, "../folder/file", NULL, EXDEV);
    opens(root, "/etc/passwd", NULL, EXDEV);
    opens(root, below("file"), NULL, EXDEV);
    opens(root, "out", NULL, EXDEV);
    opens(root, "b/above/secret", NULL, EXDEV);
    opens(root, "absolute", NULL, EXDEV);
    opens(root, "absolute_inside", NULL, EXDEV);
    opens(root, "loop", NULL, ELOOP);
    opens(root, "none", NULL, ENOENT);
    opens(root, "dangling", NULL, ENOENT);
    opens(root, "file/", NULL, ENOTDIR);
    opens(root, "link/", NULL, ENOTDIR);
    opens(root, "file/x", NULL, ENOTDIR);
    opens("/nonexistent", "file", NULL, ENOENT);
    opens("/nonexistent", "/etc/passwd", NULL, EXDEV);
    opens(below("file"), "file", NULL, ENOTDIR);
    memset(longer, 'n', sizeof longer);
    longer[sizeof longer - 1] = 0;
    opens(root, longer, NULL, ENAMETOOLONG);
    memset(path, '/', sizeof path);
    path[0] = 'a';
    path[sizeof path - 1] = 0;
    opens(root, path, NULL, ENAMETOOLONG);
}

static atomic_int stop;

/* Exchanges the folder `a` for a link to the folder above, again and again. */
static void *exchange(void *unused)
{
    char a[PATH], kept[PATH];
    (void)unused;
    snprintf(a, sizeof a, "%s/a", root);
    snprintf(kept, sizeof kept, "%s/kept", root);
    while (!atomic_load(&stop)) {
        if (rename(a, kept) || symlink("..", a) || unlink(a) || rename(kept, a))
            break;
    }
    return NULL;
}

/* Whatever is renamed meanwhile, the file outside is never opened. */
static void races(void)
{
    pthread_t thread;
    atomic_store(&stop, 0);
    CHECK(!pthread_create(&thread, NULL, exchange, NULL));
    for (int i = 0; i < 4000; i++) {
        int fd = pc__open_beneath(root, i % 2 ? "a/secret" : "a/b/../../../secret");
        CHECK(fd < 0);
        if (fd >= 0)
            close(fd);
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
}

/* From here openat2 fails with `error`. */
static int forbid(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
           || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The same where the system has no openat2. In a process of its own: filters stay. */
static void without_openat2(int error)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        if (forbid(error)) {
            printf("no filters of system calls can be set here: the walk is not tested\n");
        } else {
            CHECK(syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0) < 0);
            CHECK_INT(errno, error);
            names();
            races();
        }
        _exit(pc_test_end());
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

int main(void)
{
    make_folders();
    names();
    races();
    without_openat2(ENOSYS);
    without_openat2(EPERM);
    return pc_test_end();
}
