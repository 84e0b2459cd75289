/* Catches: a digest of files that is not that of doc/format.md, depends on how a file is read or
 * named, or leaves out a byte; missing or changing files and empty lists without an error that
 * names them. */
#include <promptcache/extend.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "testing.h"

static const char *in_folder(const char *name)
{
    static char paths[4][300];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", pc_test_folder(), name);
    return path;
}

static pc_status of_one(uint8_t id[32], const char *path)
{
    return pc_fingerprint_files(id, &path, 1, NULL, NULL);
}

/* files/1 of hashlib: run(b"files/1") + u64(count) + run(bytes) of each */
static void vectors(void)
{
    uint8_t id[32], again[32];
    char hex[65];
    const char *paths[] = {in_folder("a"), in_folder("b")};
    pc_test_write(paths[0], "weights", 7);
    pc_test_write(paths[1], "", 0);
    CHECK_OK(pc_fingerprint_files(id, paths, 2, NULL, NULL));
    pc__id_hex((const pc__id *)(const void *)id, hex);
    CHECK_STR(hex, "2847cf5fe4396ec6439f64c48573b483c12fadaa83655e8c41cc666672e3a621");
    CHECK_OK(of_one(id, paths[0]));
    pc__id_hex((const pc__id *)(const void *)id, hex);
    CHECK_STR(hex, "d4f293c5b20944bdad5bc99868a0a9ce19ee0a8fc32c3316821836adbac9ab52");
    pc_test_write(in_folder("other name"), "weights", 7);
    CHECK_OK(of_one(again, in_folder("other name")));
    CHECK(!memcmp(id, again, 32));
}

/* Sizes around the parts that are read; the last byte counts. */
static void every_byte(void)
{
    static const size_t sizes[] = {1, (1 << 15) - 1, 1 << 15, (1 << 15) + 1, 100003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t id[32], other[32], *data = calloc(sizes[i], 1);
        pc__digest d;
        pc_test_write(in_folder("file"), data, sizes[i]);
        CHECK_OK(of_one(id, in_folder("file")));
        pc__digest_start(&d, "files/1");
        pc__digest_u64(&d, 1);
        pc__digest_bytes(&d, data, sizes[i]);
        pc__id want = pc__digest_end(&d);
        CHECK(!memcmp(id, want.bytes, 32));
        data[sizes[i] - 1] = 1;
        pc_test_write(in_folder("file"), data, sizes[i]);
        CHECK_OK(of_one(other, in_folder("file")));
        CHECK(memcmp(id, other, 32));
        free(data);
    }
}

/* Told of the file: another process writes to it. */
static int32_t grow(void *user, const char *what, uint64_t done, uint64_t total)
{
    const int *by = user;
    if (!done && total)
        pc_test_write(what, "0123456789abcdef", (size_t)((int)total + *by));
    return 0;
}

static void refused(void)
{
    static const uint8_t zeros[32];
    uint8_t id[32];
    int more = 3, less = -3;
    const char *paths[] = {in_folder("a"), in_folder("missing")}, *none = NULL,
               *grows = in_folder("grows");
    memset(id, 1, sizeof id);
    CHECK_STATUS(pc_fingerprint_files(id, paths, 2, NULL, NULL), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("missing: No such file");
    CHECK(!memcmp(id, zeros, 32));
    CHECK_STATUS(of_one(id, pc_test_folder()), PC_ERR_IO);
    CHECK_ERROR_HAS("not a regular file");
    CHECK(!mkfifo(in_folder("pipe"), 0600));
    CHECK_STATUS(of_one(id, in_folder("pipe")), PC_ERR_IO); /* and does not wait for a writer */
    CHECK_STATUS(of_one(id, none), PC_ERR_INVALID);
    CHECK_STATUS(pc_fingerprint_files(id, paths, 0, NULL, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_fingerprint_files(id, NULL, 1, NULL, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_fingerprint_files(NULL, paths, 1, NULL, NULL), PC_ERR_INVALID);
    pc_test_write(grows, "0123456789", 10);
    CHECK_STATUS(pc_fingerprint_files(id, &grows, 1, grow, &more), PC_ERR_IO);
    CHECK_ERROR_HAS("grows: became longer while being read");
    pc_test_write(grows, "0123456789", 10);
    CHECK_STATUS(pc_fingerprint_files(id, &grows, 1, grow, &less), PC_ERR_IO);
    CHECK_ERROR_HAS("grows: became shorter while being read");
    CHECK(!memcmp(id, zeros, 32));
}

int main(void)
{
    size_t files = pc_test_open_files();
    vectors();
    every_byte();
    refused();
    CHECK_INT(pc_test_open_files(), files);
    return pc_test_end();
}
