/* Catches: links that are followed, folders that others may write to, incomplete files under their
 * final name, incomplete or too large files that are read as whole, a lock that two processes hold
 * or that is on a removed file, descriptors that leak.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dir.h"
#include "testing.h"

static void path_of(char out[512], const pc__dir *dir, const char *name)
{
    snprintf(out, 512, "%s/%s", dir->path, name);
}

static pc__dir fresh(const char *name)
{
    char path[512];
    pc__dir dir;
    snprintf(path, sizeof path, "%s/%s", pc_test_folder(), name);
    CHECK_OK(pc__dir_open(&dir, &pc__libc_allocator, path, 1));
    return dir;
}

static void test_open(void)
{
    pc__dir dir, other;
    char path[512];
    CHECK_STATUS(pc__dir_open(&dir, &pc__libc_allocator, "", 1), PC_ERR_INVALID);
    snprintf(path, sizeof path, "%s/none", pc_test_folder());
    CHECK_STATUS(pc__dir_open(&dir, &pc__libc_allocator, path, 0), PC_ERR_NOT_FOUND);
    CHECK(dir.fd < 0 && !dir.path);
    pc__dir_close(&dir, &pc__libc_allocator);
    dir = fresh("open");
    CHECK_OK(pc__dir_open(&other, &pc__libc_allocator, dir.path, 1)); /* it is there */
    pc__dir_close(&other, &pc__libc_allocator);
    CHECK(!chmod(dir.path, 0707));
    CHECK_STATUS(pc__dir_open(&other, &pc__libc_allocator, dir.path, 0), PC_ERR_STATE);
    CHECK_ERROR_HAS("everybody");
    CHECK(!chmod(dir.path, 0775)); /* as mkdir(1) makes it where the umask is 002 */
    CHECK_STATUS(pc__dir_open(&other, &pc__libc_allocator, dir.path, 1), PC_ERR_STATE);
    CHECK_ERROR_HAS("its group");
    CHECK_ERROR_HAS("chmod go-w");
    CHECK(!chmod(dir.path, 0755));
    CHECK_OK(pc__dir_open(&other, &pc__libc_allocator, dir.path,
                          0)); /* who may only look does no harm */
    pc__dir_close(&other, &pc__libc_allocator);
    CHECK(!chmod(dir.path, 0700));
    CHECK(!pc__dir_is_gone(&dir));
    CHECK(!rmdir(dir.path));
    CHECK(pc__dir_is_gone(&dir));
    errno = ENOENT;
    CHECK_STATUS(pc__dir_fault(&dir, "x"), PC_ERR_IO);
    CHECK_ERROR_HAS("has been removed");
    pc__dir_close(&dir, &pc__libc_allocator);
}

static void test_files(void)
{
    pc__dir dir = fresh("files");
    char path[512];
    struct stat st;
    int fd;
    CHECK_STATUS(pc__dir_file(&dir, "a", O_RDONLY, &fd, &st), PC_ERR_NOT_FOUND);
    CHECK_INT(fd, -1);
    CHECK_OK(pc__dir_file(&dir, "a", O_RDWR | O_CREAT, &fd, &st));
    CHECK_INT(st.st_mode & 0777, 0600);
    close(fd);
    path_of(path, &dir, "link");
    CHECK(!symlink("a", path));
    CHECK_STATUS(pc__dir_file(&dir, "link", O_RDONLY, &fd, &st), PC_ERR_IO);
    CHECK_STATUS(pc__dir_file(&dir, "link", O_RDWR | O_CREAT, &fd, &st), PC_ERR_IO);
    path_of(path, &dir, "pipe");
    CHECK(!mkfifo(path, 0600));
    CHECK_STATUS(pc__dir_file(&dir, "pipe", O_RDONLY, &fd, &st), PC_ERR_STATE);
    CHECK_INT(fd, -1);
    path_of(path, &dir, "sub");
    CHECK(!mkdir(path, 0700));
    CHECK_STATUS(pc__dir_file(&dir, "sub", O_RDONLY, &fd, &st), PC_ERR_STATE);
    pc__dir_close(&dir, &pc__libc_allocator);
}

static void test_publish(void)
{
    pc__dir dir = fresh("publish");
    char path[512], draft[512];
    size_t size;
    path_of(path, &dir, "it");
    path_of(draft, &dir, "it.new");
    CHECK_OK(pc__dir_publish(&dir, "it.new", "it", "first", 5, 1));
    pc_test_write(draft, "left behind", 11);
    CHECK_OK(pc__dir_publish(&dir, "it.new", "it", "second!", 7, 0));
    char *data = pc_test_read(path, &size);
    CHECK(data && size == 7 && !memcmp(data, "second!", 7));
    free(data);
    CHECK(access(draft, F_OK));
    CHECK(!unlink(path) && !mkdir(path, 0700)); /* nothing can be put there */
    CHECK_STATUS(pc__dir_publish(&dir, "it.new", "it", "third", 5, 1), PC_ERR_IO);
    CHECK(access(draft, F_OK));
    pc__dir_close(&dir, &pc__libc_allocator);
}

static void test_read(void)
{
    pc__dir dir = fresh("read");
    uint8_t *data;
    size_t size;
    int fd;
    struct stat st;
    CHECK_STATUS(pc__dir_read(&dir, &pc__libc_allocator, "it", 9, &data, &size), PC_ERR_NOT_FOUND);
    CHECK(!data && !size);
    CHECK_OK(pc__dir_publish(&dir, "it.new", "it", "some bytes", 10, 0));
    CHECK_STATUS(pc__dir_read(&dir, &pc__libc_allocator, "it", 9, &data, &size), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("read/it: has 10 bytes");
    CHECK(!data && !size);
    CHECK_OK(pc__dir_read(&dir, &pc__libc_allocator, "it", 10, &data, &size));
    CHECK(size == 10 && !memcmp(data, "some bytes", 10));
    pc__free(&pc__libc_allocator, data);
    CHECK_OK(pc__dir_file(&dir, "it", O_RDONLY, &fd, &st));
    size = 100; /* more than there are */
    CHECK_OK(pc__dir_read_at(&dir, &pc__libc_allocator, "it", fd, 5, &data, &size));
    CHECK(size == 5 && !memcmp(data, "bytes", 5));
    pc__free(&pc__libc_allocator, data);
    close(fd);
    size = 10;
    CHECK_STATUS(pc__dir_read_at(&dir, &pc__libc_allocator, "it", -1, 0, &data, &size), PC_ERR_IO);
    CHECK(!data && !size);
    pc__dir_close(&dir, &pc__libc_allocator);
}

static void test_lock(void)
{
    pc__dir dir = fresh("lock");
    char path[512];
    int first = -1, second = -1;
    path_of(path, &dir, "l");
    CHECK_OK(pc__dir_lock(&dir, "l", 0, &first));
    CHECK(pc__dir_has(&dir, "l", first));
    double start = pc__now();
    CHECK_STATUS(pc__dir_lock(&dir, "l", start + 0.05, &second), PC_AGAIN);
    CHECK(pc__now() - start >= 0.05);
    CHECK_ERROR_HAS("deadline");
    CHECK(!unlink(path)); /* the others lock another file now */
    CHECK(!pc__dir_has(&dir, "l", first));
    CHECK_OK(pc__dir_lock(&dir, "l", pc__now() + 5, &second));
    CHECK(pc__dir_has(&dir, "l", second));
    close(second);
    CHECK_OK(pc__dir_lock(&dir, "l", pc__now() + 5,
                          &first)); /* its file is the removed one: it opens the new one */
    CHECK(pc__dir_has(&dir, "l", first));
    close(first);
    pc__dir_close(&dir, &pc__libc_allocator);
}

int main(void)
{
    test_open();
    test_files();
    test_publish();
    test_read();
    test_lock();
    return pc_test_end();
}
