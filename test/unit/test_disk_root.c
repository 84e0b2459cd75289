/* The folder of the DISK tier under attack. Catches: links followed out of the folder; files of
 * others, pipes and folders taken for records; damaged files that block the tier for good; folders
 * that are not ours, or that others may write to; a folder that vanishes; writing in a read-only
 * folder. */
#include <errno.h>
#include <sys/file.h>

#include "disk.h"

enum { SIZE = 3000 };

static void plant(const char *path, const char *inside, const char *target)
{
    char name[2 * PATH_MAX];
    snprintf(name, sizeof name, "%s/%s", path, inside);
    CHECK(!symlink(target, name));
}

/* Nothing is read or written through links; no plain file elsewhere is harmed. */
static void test_links(void)
{
    const char *path = disk_fresh_folder(), *outside = disk_fresh_folder();
    char victim[PATH_MAX], sub[512];
    uint32_t reason;
    uint64_t bytes;
    pc__tier *tier = disk_open_tier(outside, 0), *fooled = NULL;
    CHECK_OK(disk_put(tier, 1, SIZE, NULL));
    disk_close_tier(tier);
    tier = disk_open_tier(path, 0);
    pc__id key = disk_key(1);
    snprintf(victim, sizeof victim, "%s", disk_record_path(outside, 1));
    snprintf(sub, sizeof sub, "%s/%02x", path, key.bytes[0]);
    CHECK(!mkdir(sub, 0700));
    CHECK(!symlink(victim, disk_record_path(path, 1)));
    CHECK(!tier->ops->may_have(tier, &key, &bytes));
    CHECK_STATUS(disk_get(tier, 1, SIZE, NULL), PC_MISS);
    tier->ops->remove(tier, &key);
    CHECK(!access(victim, R_OK));
    CHECK_OK(disk_put(tier, 1, SIZE, NULL)); /* replaces the link, not its target */
    CHECK_OK(disk_get(tier, 1, SIZE, NULL));
    struct stat st;
    CHECK(!lstat(disk_record_path(path, 1), &st) && S_ISREG(st.st_mode));
    disk_close_tier(tier);
    /* a sub-folder that is a link */
    key = disk_key(2);
    snprintf(sub, sizeof sub, "%02x", key.bytes[0]);
    path = disk_fresh_folder();
    tier = disk_open_tier(path, 0);
    plant(path, sub, outside);
    CHECK(!tier->ops->may_have(tier, &key, &bytes));
    CHECK_STATUS(disk_get(tier, 2, SIZE, NULL), PC_MISS);
    CHECK_STATUS(disk_put(tier, 2, SIZE, &reason), PC_ERR_IO);
    CHECK_INT(reason, PC_REASON_IO);
    CHECK_INT(disk_look(path).drafts, 0);
    CHECK_INT(disk_stats(tier).failed, 1);
    disk_close_tier(tier);
    /* so are new/, the lock and the index */
    static const char *const names[] = {"new", "promptcache.lock", "promptcache.index",
                                        "promptcache.index.new"};
    for (size_t i = 0; i < 4; i++) {
        path = disk_fresh_folder();
        char target[PATH_MAX];
        snprintf(target, sizeof target, "%s/precious%zu", pc_test_folder(), i);
        if (i)
            pc_test_write(target, "precious", 8);
        else
            CHECK(!mkdir(target, 0700));
        CHECK(!mkdir(path, 0700));
        plant(path, names[i], target);
        pc_status status = disk_open(&fooled, path, &(disk_options){0});
        CHECK_STATUS(status, i < 2 ? PC_ERR_IO : PC_OK);
        if (status == PC_OK) {
            CHECK_OK(disk_put(fooled, 1, SIZE, NULL));
            disk_close_tier(fooled);
        } else {
            CHECK(!fooled);
        }
        size_t size = 0;
        char *data = i ? pc_test_read(target, &size) : NULL;
        if (i)
            CHECK(size == 8 && data && !memcmp(data, "precious", 8));
        free(data);
    }
}

/* Files of others under a record's name: pipes, folders, too short ones, another key's. */
static void test_foreign_files(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = disk_open_tier(path, 0);
    uint64_t bytes;
    for (uint32_t n = 1; n < 8; n++)
        CHECK_OK(disk_put(tier, n, SIZE, NULL));
    pc__id key = disk_key(1);
    CHECK(!unlink(disk_record_path(path, 1)) && !mkfifo(disk_record_path(path, 1), 0600));
    CHECK_STATUS(disk_get(tier, 1, SIZE, NULL), PC_MISS);
    CHECK(!unlink(disk_record_path(path, 2)) && !mkdir(disk_record_path(path, 2), 0700));
    CHECK_STATUS(disk_get(tier, 2, SIZE, NULL), PC_MISS);
    CHECK_STATUS(disk_put(tier, 2, SIZE, NULL), PC_ERR_IO);
    CHECK(!disk_truncate(path, 3, 50));
    CHECK_STATUS(disk_get(tier, 3, SIZE, NULL), PC_ERR_FORMAT);
    key = disk_key(3);
    CHECK(!tier->ops->may_have(tier, &key, &bytes)); /* it got rid of it */
    CHECK_OK(disk_put(tier, 3, SIZE, NULL));
    CHECK_OK(disk_get(tier, 3, SIZE, NULL));
    int fd = open(disk_record_path(path, 4), O_WRONLY); /* a bit in a block */
    uint8_t byte = 0;
    CHECK(pwrite(fd, &byte, 1, 4096 + 20) == 1 && pwrite(fd, &byte, 1, 4096 + 21) == 1);
    close(fd);
    CHECK_STATUS(disk_get(tier, 4, SIZE, NULL), PC_ERR_FORMAT);
    key = disk_key(4);
    CHECK(!tier->ops->may_have(tier, &key, &bytes));
    CHECK(!disk_truncate(path, 5, 0));
    disk_close_tier(tier);
    tier = disk_open_tier(path, 0);
    CHECK_STATUS(disk_get(tier, 5, SIZE, NULL), PC_ERR_FORMAT);
    CHECK_OK(disk_put(tier, 5, SIZE, NULL));
    CHECK_OK(disk_get(tier, 5, SIZE, NULL));
    CHECK(!rename(disk_record_path(path, 6), disk_record_path(path, 7)) || errno == ENOENT);
    disk_close_tier(tier);
    if (geteuid() == 0) { /* another user's file */
        tier = disk_open_tier(path, 0);
        CHECK(!chown(disk_record_path(path, 3), 65534, 65534));
        CHECK_STATUS(disk_get(tier, 3, SIZE, NULL), PC_MISS);
        disk_close_tier(tier);
    }
}

/* A writer has taken the file for another record after a reader looked up its name: it holds a lock
 * on it. A reader holds one too, which tells writers that the file is in use. */
static void test_taken_file(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = disk_open_tier(path, 0);
    pc__dir root;
    const pc_allocator *mem = &pc__libc_allocator;
    pc__record_name record_name = {.key = disk_key(1)};
    struct stat st;
    CHECK_OK(disk_put(tier, 1, SIZE, NULL));
    CHECK_OK(pc__disk_root_open(&root, mem, path, 0));
    int writer = open(disk_record_path(path, 1), O_RDONLY), reader = -1;
    CHECK(!flock(writer, LOCK_EX | LOCK_NB));
    CHECK_STATUS(pc__disk_open_record(&root, &record_name, &reader, &st), PC_MISS);
    CHECK_INT(reader, -1);
    CHECK(!flock(writer, LOCK_UN));
    CHECK_OK(pc__disk_open_record(&root, &record_name, &reader, &st));
    CHECK(flock(writer, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK);
    close(reader);
    CHECK(!flock(writer, LOCK_EX | LOCK_NB));
    close(writer);
    pc__dir_close(&root, mem);
    disk_close_tier(tier);
}

static void refused(const char *path, pc_status want, const char *part, uint32_t read_only)
{
    pc__tier *tier = (pc__tier *)(uintptr_t)8;
    CHECK_STATUS(disk_open(&tier, path, &(disk_options){.read_only = read_only}), want);
    CHECK(!tier);
    CHECK_ERROR_HAS(part);
}

static void test_bad_folders(void)
{
    char name[PATH_MAX];
    const char *path = disk_fresh_folder();
    pc_test_write(path, "x", 1);
    refused(path, PC_ERR_IO, "Not a directory", 0);
    snprintf(name, sizeof name, "%s/none/deeper", pc_test_folder());
    refused(name, PC_ERR_IO, "No such file", 0);
    refused(name, PC_ERR_STATE, "No such file", 1);
    refused("", PC_ERR_INVALID, "empty", 0);
    path = disk_fresh_folder();
    CHECK(!mkdir(path, 0700));
    snprintf(name, sizeof name, "%s/thesis.tex", path);
    pc_test_write(name, "x", 1);
    refused(path, PC_ERR_STATE, "thesis.tex", 0);
    CHECK(!access(name, R_OK));
    path = disk_fresh_folder();
    CHECK(!mkdir(path, 0700) && !chmod(path, 0777));
    refused(path, PC_ERR_STATE, "everybody", 0);
    if (geteuid() == 0) {
        path = disk_fresh_folder();
        CHECK(!mkdir(path, 0700) && !chown(path, 65534, 65534) && !chmod(pc_test_folder(), 0755));
        CHECK(!seteuid(65533));
        refused(path, PC_ERR_IO, path, 0);
        CHECK(!seteuid(0));
        CHECK(!chmod(path, 0755) && !seteuid(65533));
        refused(path, PC_ERR_STATE, "another user", 0);
        CHECK(!seteuid(0));
    }
}

/* A folder that another user can write to, or whose parents can be. That is an error while it is
 * open, and when it is opened again. */
static void test_loose_folders(void)
{
    static const mode_t loose[] = {0770, 0777, 0720, 0702};
    const char *path = disk_fresh_folder(), *parts[3];
    char sub[PATH_MAX], drafts[PATH_MAX];
    pc__tier *tier = disk_open_tier(path, 0);
    CHECK_OK(disk_put(tier, 3, SIZE, NULL));
    disk_close_tier(tier);
    snprintf(sub, sizeof sub, "%s", disk_record_path(path, 3));
    *strrchr(sub, '/') = 0;
    snprintf(drafts, sizeof drafts, "%s/new", path);
    parts[0] = path, parts[1] = sub, parts[2] = drafts;
    for (size_t i = 0; i < 3; i++)
        for (size_t m = 0; m < sizeof loose / sizeof *loose; m++) {
            CHECK(!chmod(parts[i], loose[m]));
            refused(path, PC_ERR_STATE, "may write to it", 0);
            CHECK_ERROR_HAS(parts[i]);
            CHECK_ERROR_HAS("chmod go-w");
            if (i < 2) /* read-only folders have no drafts */
                refused(path, PC_ERR_STATE, "may write to it", 1);
            CHECK(!chmod(parts[i], 0700));
        }
    tier = disk_open_tier(path, 0);
    CHECK_OK(disk_get(tier, 3, SIZE, NULL));
    disk_close_tier(tier);
}

static void test_removed_folder(void)
{
    const char *path = disk_fresh_folder();
    char command[PATH_MAX];
    pc__tier *tier = disk_open_tier(path, 0);
    uint32_t reason = 0;
    CHECK_OK(disk_put(tier, 1, SIZE, NULL));
    snprintf(command, sizeof command, "rm -r '%s'", path);
    CHECK(!system(command));
    CHECK_STATUS(disk_get(tier, 1, SIZE, NULL), PC_MISS);
    CHECK_STATUS(disk_put(tier, 2, SIZE, &reason), PC_ERR_IO);
    CHECK_ERROR_HAS("has been removed");
    CHECK_INT(reason, PC_REASON_IO);
    tier->ops->sweep(tier);
    disk_close_tier(tier);
}

/* Without write permission there is an error, and reading still works. */
static void test_permissions(void)
{
    const char *path = disk_fresh_folder();
    char name[PATH_MAX];
    pc__tier *tier = NULL;
    uint32_t reason = 0;
    int is_root = geteuid() == 0;
    CHECK(!chmod(pc_test_folder(), 0777));
    if (is_root)
        CHECK(!seteuid(65533));
    tier = disk_open_tier(path, 0);
    if (tier) {
        CHECK_OK(disk_put(tier, 1, SIZE, NULL));
        snprintf(name, sizeof name, "%s/new", path);
        CHECK(!chmod(name, 0500));
        CHECK_STATUS(disk_put(tier, 2, SIZE, &reason), PC_ERR_IO);
        CHECK_ERROR_HAS("Permission denied");
        CHECK_INT(reason, PC_REASON_IO);
        CHECK(!chmod(name, 0700) && !chmod(disk_record_path(path, 1), 0));
        CHECK_STATUS(disk_get(tier, 1, SIZE, NULL), PC_ERR_IO);
        CHECK(!chmod(disk_record_path(path, 1), 0600));
        CHECK_OK(disk_get(tier, 1, SIZE, NULL));
        CHECK_OK(disk_put(tier, 2, SIZE, NULL));
        disk_close_tier(tier);
    }
    if (is_root)
        CHECK(!seteuid(0));
}

static void test_read_only(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = disk_open_tier(path, 0), *reader = NULL;
    uint32_t reason = 0;
    uint64_t bytes;
    CHECK_OK(disk_put(tier, 1, SIZE, NULL));
    CHECK_OK(disk_open(&reader, path, &(disk_options){.read_only = 1}));
    CHECK_OK(disk_get(reader, 1, SIZE, NULL));
    CHECK_OK(disk_put(tier, 2, SIZE, NULL));
    CHECK_OK(disk_get(reader, 2, SIZE, NULL));
    CHECK_STATUS(disk_put(reader, 3, SIZE, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_NOT_ADMITTED);
    pc__id key = disk_key(1);
    reader->ops->remove(reader, &key);
    reader->ops->clear(reader);
    reader->ops->sweep(reader);
    reader->ops->read_done(reader, &key, PC_ERR_FORMAT, 0, 0);
    CHECK(reader->ops->may_have(reader, &key, &bytes));
    CHECK_INT(disk_look(path).records, 2);
    CHECK_INT(disk_look(path).others, 1); /* the lock: the index comes with the end of the writer */
    disk_close_tier(reader);
    CHECK_INT(disk_look(path).others, 1);
    disk_close_tier(tier);
    CHECK_INT(disk_look(path).others, 2);
}

int main(void)
{
    test_links();
    test_foreign_files();
    test_taken_file();
    test_bad_folders();
    test_loose_folders();
    test_removed_folder();
    test_permissions();
    test_read_only();
    return pc_test_end();
}
