/* Catches: files that are read past their end or not at all, errors without path or cause,
 * descriptors that leak, paths that are joined wrongly. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "testing.h"

static const char *in_folder(const char *name)
{
    static char ring[4][1024];
    static unsigned next;
    char *out = ring[next++ % 4];
    snprintf(out, sizeof ring[0], "%s/%s", pc_test_folder(), name);
    return out;
}

/* Both functions that read a file refuse it in the same way. */
static void refused(const char *path, pc_status want, const char *part, const char *cause)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    size_t files = pc_test_open_files(), size = 77;
    pc__file file = {(const uint8_t *)"x", 1};
    char *data = (char *)(uintptr_t)8;
    CHECK_STATUS(pc__file_map(&file, path), want);
    CHECK(!file.data && !file.size);
    CHECK_ERROR_HAS(part);
    CHECK_ERROR_HAS(cause);
    pc__file_unmap(&file);
    CHECK_STATUS(pc__file_read(&mem, path, 1000, &data, &size), want);
    CHECK(!data);
    CHECK_ERROR_HAS(part);
    CHECK_ERROR_HAS(cause);
    CHECK_INT(pc_test_open_files(), files);
    CHECK_INT(memory.live_blocks, 0);
}

static void not_files(void)
{
    char longer[400];
    refused(in_folder("nobody"), PC_ERR_NOT_FOUND, "nobody", "No such file");
    refused(in_folder("no/folder/file"), PC_ERR_NOT_FOUND, "no/folder/file", "No such file");
    refused("", PC_ERR_INVALID, "", "a path is needed");
    refused(pc_test_folder(), PC_ERR_IO, pc_test_folder(), "not a regular file");
    refused("/dev/null", PC_ERR_IO, "/dev/null", "not a regular file");
    if (CHECK(!mkfifo(in_folder("pipe"), 0600))) /* no process writes to it */
        refused(in_folder("pipe"), PC_ERR_IO, "pipe", "not a regular file");
    if (CHECK(!symlink("nobody", in_folder("dangling"))))
        refused(in_folder("dangling"), PC_ERR_NOT_FOUND, "dangling", "No such file");
    if (CHECK(!symlink("loop", in_folder("loop"))))
        refused(in_folder("loop"), PC_ERR_IO, "loop", "symbolic links");
    pc_test_write(in_folder("plain"), "x", 1);
    refused(in_folder("plain/below"), PC_ERR_IO, "plain/below", "Not a directory");
    memset(longer, 'n', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    refused(in_folder(longer), PC_ERR_IO, "nnnn", "");
    CHECK(!chmod(in_folder("plain"), 0));
    if (access(in_folder("plain"), R_OK)) /* root may read it all the same */
        refused(in_folder("plain"), PC_ERR_IO, "plain", "Permission denied");
    CHECK(!chmod(in_folder("plain"), 0600));
}

static void contents(const char *name, const char *bytes, size_t length)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    size_t files = pc_test_open_files(), size = 77;
    pc__file file;
    char *data = NULL;
    pc_test_write(in_folder(name), bytes, length);
    CHECK_OK(pc__file_map(&file, in_folder(name)));
    CHECK_INT(file.size, length);
    CHECK(length ? !memcmp(file.data, bytes, length) : !file.data);
    CHECK_INT(pc_test_open_files(), files); /* the mapping lives without its descriptor */
    pc__file_unmap(&file);
    pc__file_unmap(&file);
    CHECK(!file.data && !file.size);
    CHECK_OK(pc__file_read(&mem, in_folder(name), length, &data, &size));
    CHECK(size == length && data && !memcmp(data, bytes, length) && data[length] == 0);
    pc__free(&mem, data);
    if (length) {
        CHECK_STATUS(pc__file_read(&mem, in_folder(name), length - 1, &data, &size), PC_ERR_LIMIT);
        CHECK(!data);
        CHECK_ERROR_HAS(name);
        CHECK_ERROR_HAS("limit");
    }
    memory.fail_at = memory.calls + 1;
    CHECK_STATUS(pc__file_read(&mem, in_folder(name), length, &data, &size), PC_ERR_NOMEM);
    CHECK(!data && !memory.live_blocks);
    CHECK_INT(pc_test_open_files(), files);
}

static void files(void)
{
    char *page = malloc(1 << 16);
    contents("empty", "", 0);
    contents("one", "x", 1);
    contents("nul", "a\0b\0", 4);
    for (int i = 0; i < 1 << 16; i++)
        page[i] = (char)(i * 31);
    contents("page", page, 4096); /* nothing follows its last byte */
    contents("pages", page, (1 << 16) - 1);
    contents("a name with 'quotes', \"these\" and a %s", "x", 1);
    contents("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", "x", 1);
    contents("-", "x", 1);
    free(page);
    CHECK(!symlink("one", in_folder("link")));
    pc__file file;
    CHECK_OK(pc__file_map(&file, in_folder("link")));
    CHECK_INT(file.size, 1);
    pc__file_unmap(&file);
}

/* The text stays one line, and a format sign in a name is no format. */
static void odd_names(void)
{
    pc__file file;
    CHECK_STATUS(pc__file_map(&file, in_folder("two\nlines\t%s%n")), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("two lines %s%n: No such file");
    CHECK(!strpbrk(pc_error_text(), "\n\t"));
}

static void joined(const char *folder, const char *name, const char *want)
{
    char *path = pc__path_join(&pc__libc_allocator, folder, name);
    CHECK_STR(path, want);
    pc__free(&pc__libc_allocator, path);
}

static void folder_of(const char *path, const char *want)
{
    char *folder = pc__path_folder(&pc__libc_allocator, path);
    CHECK_STR(folder, want);
    pc__free(&pc__libc_allocator, folder);
}

static void paths(void)
{
    pc_test_memory memory = {.fail_at = 1};
    const pc_allocator mem = pc_test_allocator(&memory);
    joined("a", "b", "a/b");
    joined("/", "b", "//b");
    joined("a/b", "../c", "a/b/../c");
    joined("a", "/b", "/b");
    joined("", "b", "b");
    joined(NULL, "b", "b");
    joined("a", "", "a/");
    folder_of("a/b", "a");
    folder_of("a", ".");
    folder_of("", ".");
    folder_of("/a", "/");
    folder_of("/a/b/c", "/a/b");
    folder_of("a/", "a");
    CHECK(!pc__path_join(&mem, "a", "b"));
    memory.fail_at = memory.calls + 1;
    CHECK(!pc__path_folder(&mem, "a/b"));
    CHECK_INT(memory.live_blocks, 0);
}

int main(void)
{
    not_files();
    files();
    odd_names();
    paths();
    return pc_test_end();
}
