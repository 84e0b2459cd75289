/* Catches: a file reused for another record while it is open, mapped, or has a second name; a
 * signal of the kernel that reaches the application; an evicted record whose file cannot be reused,
 * and stays; files removed and created without need; a tenant over its share whose records displace
 * others', at once, after a restart with and without the index, or from several processes; a share
 * that the folder forgets. */
#include "store/disk/disk_room.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "disk.h"

enum { SIZE = 3000 };

static ino_t file_of(const char *path, uint32_t number)
{
    struct stat st;
    return stat(disk_record_path(path, number), &st) ? 0 : st.st_ino;
}

/* A folder with record 0, and room for no more. */
static pc__tier *full(const char *path)
{
    pc__tier *tier = disk_open_tier(path, 0);
    uint64_t bytes;
    CHECK_OK(disk_put(tier, 0, SIZE, NULL));
    bytes = disk_stats(tier).segment_bytes;
    disk_close_tier(tier);
    return disk_open_tier(path, bytes + 4000);
}

/* Writes record 1 instead of record 0. 1: into its file. */
static int takes_the_file(pc__tier *tier, const char *path)
{
    ino_t before = file_of(path, 0);
    struct stat st;
    CHECK(before != 0);
    CHECK_OK(disk_put(tier, 1, SIZE, NULL));
    CHECK(!file_of(path, 0));
    CHECK_INT(disk_look(path).drafts, 0);
    CHECK_OK(disk_get(tier, 1, SIZE, NULL));
    CHECK_STATUS(disk_get(tier, 0, SIZE, NULL), PC_MISS);
    CHECK(!stat(disk_record_path(path, 1), &st) && (st.st_mode & 07777) == 0400);
    CHECK_INT(disk_stats(tier).evicted, 1);
    return file_of(path, 1) == before;
}

static void test_taken(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = full(path);
    disk_block_signals(1);
    CHECK(takes_the_file(tier, path));
    for (uint32_t n = 2; n < 8; n++) { /* shorter and longer ones, whatever was in the file */
        CHECK_OK(disk_put(tier, n, SIZE - 300 * (n % 3), NULL));
        CHECK_OK(disk_get(tier, n, SIZE - 300 * (n % 3), NULL));
    }
    disk_close_tier(tier);
    disk_block_signals(0);
}

/* If a SIGIO could reach this thread, the file is removed. */
static void test_signals(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = full(path);
    struct stat st;
    int fd = open(disk_record_path(path, 0),
                  O_RDONLY); /* so that its inode number is not given out again */
    CHECK(!takes_the_file(tier, path));
    CHECK(!fstat(fd, &st) && st.st_nlink == 0 && st.st_size > SIZE);
    close(fd);
    disk_close_tier(tier);
}

/* A reader that has it open sees it unchanged. */
static void test_in_use(int mapped)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = full(path);
    struct stat st;
    uint8_t *before = NULL, *now;
    size_t size;
    int fd;
    disk_block_signals(1);
    fd = open(disk_record_path(path, 0), O_RDONLY);
    CHECK(fd >= 0 && !fstat(fd, &st));
    size = (size_t)st.st_size;
    before = malloc(size);
    CHECK(before && pread(fd, before, size, 0) == (ssize_t)size);
    now = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(now != MAP_FAILED);
    if (mapped)
        close(fd);
    else
        CHECK(!munmap(now, size));
    CHECK(!takes_the_file(tier, path));
    if (mapped) {
        CHECK(!memcmp(before, now, size));
        CHECK(!munmap(now, size));
    } else {
        now = malloc(size);
        CHECK(now && pread(fd, now, size, 0) == (ssize_t)size && !memcmp(before, now, size));
        free(now);
        close(fd);
    }
    free(before);
    disk_close_tier(tier);
    disk_block_signals(0);
}

/* A copy under a second name (a hard link). */
static void test_second_name(void)
{
    const char *path = disk_fresh_folder();
    char copy[PATH_MAX];
    pc__tier *tier = full(path);
    struct stat st;
    disk_block_signals(1);
    snprintf(copy, sizeof copy, "%s.copy", path);
    CHECK(!link(disk_record_path(path, 0), copy) && !stat(copy, &st));
    CHECK(!takes_the_file(tier, path));
    CHECK(!stat(copy, &st) && st.st_size > SIZE);
    disk_close_tier(tier);
    disk_block_signals(0);
}

/* The spare is removed if the new record is not written. */
static void test_not_written(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = full(path);
    toy_image t;
    uint32_t reason;
    disk_block_signals(1);
    disk_image(&t, 9, SIZE);
    CHECK_STATUS(tier->ops->put(tier, &t.image, pc__now() - 1, &reason),
                 PC_ERR_IO); /* its deadline has passed */
    toy_image_free(&t);
    CHECK_INT(disk_look(path).drafts, 0);
    disk_close_tier(tier);
    disk_block_signals(0);
}

/* The first record is evicted, the second may not be. The folder is scanned while the first one's
 * file belongs to no record; the recorded usage is right afterwards. */
static void test_account(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = disk_open_tier(path, 0);
    uint64_t bytes;
    uint32_t reason, dirty;
    toy_image t;
    disk_block_signals(1);
    CHECK_OK(disk_put(tier, 0, SIZE, NULL));
    disk_image(&t, 1, SIZE);
    t.image.priority = 5;
    CHECK_OK(tier->ops->put(tier, &t.image, pc__now() + 20, &reason));
    toy_image_free(&t);
    bytes = disk_stats(tier).segment_bytes;
    disk_close_tier(tier);
    tier = disk_open_tier(path, bytes);
    CHECK_STATUS(disk_put(tier, 2, SIZE + SIZE / 3, NULL), PC_MISS);
    CHECK_INT(disk_stats(tier).evicted, 1);
    CHECK_INT(disk_look(path).drafts, 0);
    CHECK_INT(disk_usage(path, &dirty), disk_look(path).record_bytes);
    disk_close_tier(tier);
    disk_block_signals(0);
}

/* ------------------------------------------------------------------ tenants */

enum { A = 1, B = 2, EACH = 8 };

/* Records of a tenant have numbers from 1000 times its own. */
static pc_status put_for(pc__tier *tier, uint8_t tenant, uint32_t number, uint32_t *reason)
{
    toy_image t;
    uint32_t why;
    pc_status status;
    disk_image(&t, 1000u * tenant + number, SIZE);
    memset(t.image.salt.bytes, tenant, sizeof t.image.salt.bytes);
    status = tier->ops->put(tier, &t.image, pc__now() + 20, reason ? reason : &why);
    toy_image_free(&t);
    return status;
}

static uint64_t bytes_of(const char *path, uint8_t tenant, uint32_t numbers)
{
    struct stat st;
    uint64_t bytes = 0;
    for (uint32_t n = 0; n < numbers; n++)
        if (!stat(disk_record_path(path, 1000u * tenant + n), &st))
            bytes += (uint64_t)st.st_size;
    return bytes;
}

static uint64_t one_record(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = disk_open_tier(path, 0);
    uint64_t bytes = 0;
    for (uint8_t n = 0; n < 64; n++) {
        uint64_t before = disk_stats(tier).segment_bytes;
        CHECK_OK(put_for(tier, A, n, NULL));
        if (disk_stats(tier).segment_bytes - before > bytes)
            bytes = disk_stats(tier).segment_bytes - before;
    }
    disk_close_tier(tier);
    return bytes;
}

static pc__tier *open_shared(const char *path, uint64_t budget, uint32_t share)
{
    pc__tier *tier = NULL;
    CHECK_OK(disk_open(&tier, path, &(disk_options){.budget = budget, .tenant_share = share}));
    return tier;
}

/* Tenant A has half of the folder. B writes three times as much as the folder holds. */
static void flood(pc__tier *tier, const char *path, uint64_t budget, uint32_t first)
{
    uint64_t before = bytes_of(path, A, 100);
    CHECK(before > budget / 3 && before <= budget / 2);
    for (uint32_t n = first; n < first + 6 * EACH; n++) {
        CHECK_OK(put_for(tier, B, n, NULL));
        CHECK(bytes_of(path, B, first + 6 * EACH) <= budget / 2);
    }
    CHECK_INT(bytes_of(path, A, 100), before);
    CHECK(bytes_of(path, B, first + 6 * EACH) > budget / 3);
}

static void test_two_tenants(void)
{
    const char *path = disk_fresh_folder();
    const uint64_t budget = one_record() * 2 * EACH;
    char index[PATH_MAX];
    uint32_t reason;
    pc__tier *tier = open_shared(path, budget, 50);
    snprintf(index, sizeof index, "%s/%s", path, PC__DISK_INDEX);
    for (uint32_t n = 0; n < 3 * EACH; n++)
        CHECK_OK(put_for(tier, A, n, NULL));
    flood(tier, path, budget, 0);
    disk_close_tier(tier);
    tier = open_shared(path, budget, 0); /* a restart; the folder remembers the share */
    flood(tier, path, budget, 100);
    disk_close_tier(tier);
    CHECK(!unlink(index)); /* the headers tell, too */
    tier = open_shared(path, budget, 0);
    flood(tier, path, budget, 200);
    disk_close_tier(tier);
    tier = open_shared(path, budget, 1); /* no record of this size fits */
    CHECK_STATUS(put_for(tier, 3, 0, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_QUOTA);
    CHECK(bytes_of(path, A, 100) > 0); /* what is over goes in the background */
    while (tier->ops->sweep(tier))
        ;
    CHECK_INT(disk_look(path).records, 0);
    disk_close_tier(tier);
    tier = open_shared(path, budget, 100); /* without limits, the lowest score goes */
    for (uint32_t n = 0; n < 3 * EACH; n++)
        CHECK_OK(put_for(tier, A, n, NULL));
    CHECK(bytes_of(path, A, 100) > budget * 2 / 3);
    disk_close_tier(tier);
}

static void test_own_limit(void)
{
    const char *path = disk_fresh_folder();
    const uint64_t each = one_record(), budget = each * 2 * EACH;
    pc__tier *tier = open_shared(path, budget, 50);
    pc__id a, b;
    memset(a.bytes, A, sizeof a.bytes);
    memset(b.bytes, B, sizeof b.bytes);
    CHECK_OK(tier->ops->set_quota(tier, &a, each * 12));
    for (uint32_t n = 0; n < 4 * EACH; n++)
        CHECK_OK(put_for(tier, A, n, NULL));
    CHECK(bytes_of(path, A, 100) > each * 9 && bytes_of(path, A, 100) <= each * 12);
    CHECK_OK(tier->ops->set_quota(tier, &b, each * 2));
    for (uint32_t n = 0; n < EACH; n++)
        CHECK_OK(put_for(tier, B, n, NULL));
    CHECK(bytes_of(path, B, 100) > 0 && bytes_of(path, B, 100) <= each * 2);
    CHECK_OK(tier->ops->set_quota(tier, &a, 0)); /* again the share of all */
    CHECK(bytes_of(path, A, 100) > each * 9);
    while (tier->ops->sweep(tier))
        ;
    CHECK(bytes_of(path, A, 100) > each * 5 && bytes_of(path, A, 100) <= budget / 2);
    CHECK(bytes_of(path, B, 100) > 0);
    disk_close_tier(tier);
}

/* Sealed records show other ids of their tenants. */
static void test_sealed_limit(void)
{
    const uint8_t seal_key[32] = {5};
    const uint64_t each = one_record() + 4096;
    pc__tier *tier = NULL;
    pc__id a;
    memset(a.bytes, A, sizeof a.bytes);
    CHECK_OK(disk_open(&tier, disk_fresh_folder(), &(disk_options){.seal_key = seal_key}));
    CHECK_OK(tier->ops->set_quota(tier, &a, each * 4));
    for (uint32_t n = 0; n < 2 * EACH; n++) {
        CHECK_OK(put_for(tier, A, n, NULL));
        CHECK_OK(put_for(tier, B, n, NULL));
    }
    CHECK(disk_stats(tier).segments >= 2 * EACH + 3 && disk_stats(tier).segments < 3 * EACH);
    disk_close_tier(tier);
}

/* What another process writes for a tenant counts, too, and the share holds for it. */
static void test_processes(void)
{
    const char *path = disk_fresh_folder();
    const uint64_t each = one_record(), budget = each * 2 * EACH;
    const struct timespec scan = {1, 100000000};
    pc__tier *tier = open_shared(path, budget, 50);
    int code = -1;
    for (uint32_t n = 0; n < EACH / 2; n++)
        CHECK_OK(put_for(tier, A, n, NULL));
    pid_t child = fork();
    if (!child) {
        pc__tier *own = open_shared(path, budget, 0);
        int wrong = 0;
        for (uint32_t n = EACH; n < 3 * EACH; n++)
            wrong += put_for(own, A, n, NULL) != PC_OK;
        own->ops->free(own);
        _exit(wrong);
    }
    CHECK(child > 0 && waitpid(child, &code, 0) == child);
    CHECK_INT(code, 0);
    CHECK(bytes_of(path, A, 100) <= budget / 2);
    nanosleep(&scan, NULL);
    for (uint32_t n = 50; n < 50 + EACH; n++) {
        CHECK_OK(put_for(tier, A, n, NULL));
        CHECK(bytes_of(path, A, 100) <= budget / 2);
    }
    CHECK(bytes_of(path, A, 100) > budget / 3);
    disk_close_tier(tier);
}

int main(void)
{
    test_account();
    test_two_tenants();
    test_own_limit();
    test_sealed_limit();
    test_processes();
    int folder = open(pc_test_folder(), O_RDONLY | O_DIRECTORY),
        can = folder >= 0 && pc__file_system(folder) & PC__FS_COUNTS_USERS;
    if (folder >= 0)
        close(folder);
    if (!can) {
        printf("the file system of %s does not tell who has a file open\n", pc_test_folder());
        return 77;
    }
    test_taken();
    test_signals();
    test_in_use(0);
    test_in_use(1);
    test_second_name();
    test_not_written();
    return pc_test_end();
}
