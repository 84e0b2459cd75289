/* Catches: read-only drafts that a writer left when it was killed just before publishing, and that
 * nobody can remove; room of living writers that is forgotten when descriptors run out, so that a
 * folder exceeds its budget. */
#include <errno.h>
#include <sys/resource.h>

#include "disk.h"

enum { SIZE = 3000, DRAFT = 5000 };

/* A file in new/; *fd (if wanted) holds its writer's lock. */
static void leave_draft(const char *path, mode_t mode, int *fd)
{
    static const uint8_t bytes[DRAFT];
    char name[300];
    int draft;
    snprintf(name, sizeof name, "%s/new", path);
    CHECK(!mkdir(name, 0700) || errno == EEXIST);
    snprintf(name, sizeof name, "%s/new/left", path);
    draft = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(draft >= 0 && write(draft, bytes, DRAFT) == DRAFT && !fchmod(draft, mode));
    if (fd) {
        CHECK(!flock(draft, LOCK_EX | LOCK_NB));
        *fd = draft;
    } else {
        close(draft);
    }
}

/* Root may open everything, so another user does this. */
static void test_read_only_draft(void)
{
    const char *path = disk_fresh_folder();
    const uid_t me = geteuid(), other = me ? me : 65534;
    uint32_t dirty;
    pc__tier *tier;
    CHECK(!chmod(pc_test_folder(), 0711) && !mkdir(path, 0700)
          && (me || !chown(path, other, (gid_t)-1)) && !seteuid(other));
    tier = disk_open_tier(path, 0);
    CHECK_OK(disk_put(tier, 1, SIZE, NULL));
    disk_close_tier(tier);
    leave_draft(path, 0400, NULL);
    CHECK_INT(disk_look(path).drafts, 1);
    disk_close_tier(disk_open_tier(path, 0));
    CHECK_INT(disk_look(path).drafts, 0);
    CHECK_INT(disk_usage(path, &dirty), disk_look(path).record_bytes);
    CHECK(!seteuid(me));
}

/* With few descriptors: opening fails, or the sum is right. */
static void test_few_descriptors(void)
{
    struct rlimit old, few;
    int opened = 0, refused = 0, draft, next = dup(0);
    CHECK(next >= 0 && !close(next) && !getrlimit(RLIMIT_NOFILE, &old));
    for (int more = 1; more < 12 && opened < 2; more++) {
        const char *path = disk_fresh_folder();
        pc__tier *tier = disk_open_tier(path, 0);
        char lock[300];
        uint32_t dirty;
        pc_status status;
        CHECK_OK(disk_put(tier, 1, SIZE, NULL));
        disk_close_tier(tier);
        leave_draft(path, 0600, &draft);
        snprintf(lock, sizeof lock, "%s/promptcache.lock", path);
        pc_test_write(lock, "damaged", 7); /* so that it is counted anew */
        few = old;
        few.rlim_cur = (rlim_t)(draft + 1 + more);
        CHECK(!setrlimit(RLIMIT_NOFILE, &few));
        status = disk_open(&tier, path, &(disk_options){0});
        CHECK(!setrlimit(RLIMIT_NOFILE, &old));
        if (status >= 0) {
            CHECK_INT(disk_usage(path, &dirty), disk_look(path).record_bytes + DRAFT);
            disk_close_tier(tier);
            opened++;
        } else {
            refused++;
        }
        close(draft);
    }
    CHECK_INT(opened, 2);
    CHECK(refused > 1);
}

/* A sub-folder with a date that nanoseconds since 1970 cannot hold is scanned like any other. */
static void test_far_dates(void)
{
    const struct timespec far[2] = {{0, UTIME_OMIT}, {INT64_C(13000000000), 5}};
    const char *path = disk_fresh_folder();
    char name[PATH_MAX];
    pc__tier *tier = disk_open_tier(path, 0);
    CHECK_OK(disk_put(tier, 1, SIZE, NULL));
    disk_close_tier(tier);
    snprintf(name, sizeof name, "%s", disk_record_path(path, 1));
    *strrchr(name, '/') = 0;
    CHECK(!utimensat(AT_FDCWD, name, far, 0));
    for (int i = 0; i < 2; i++) {
        tier = disk_open_tier(path, 0);
        CHECK_INT(disk_stats(tier).segments, 1);
        CHECK_OK(disk_get(tier, 1, SIZE, NULL));
        disk_close_tier(tier);
    }
}

int main(void)
{
    test_far_dates();
    test_read_only_draft();
    test_few_descriptors();
    return pc_test_end();
}
