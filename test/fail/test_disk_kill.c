/* A folder of records whose writers are killed, or whose disk fails, at every system call and at
 * random moments. Catches: a readable record with other contents than were written; drafts that
 * stay; recorded usage that is not the sum of the files; a budget that writing exceeds; room that
 * is lost for good; a folder that nobody can use any more; counters that do not balance after a
 * failure; leaked descriptors; a record that nobody here can open and that blocks its name.
 *
 * failing_calls.h counts the library's calls and kills the process or makes them fail.
 * PC_TEST_LONG=1: all calls in both folders, and 500 random moments. */

#include "disk.h"
#include "failing_calls.h"
#include "strangers.h"

WRAP_OPEN_PATH(open)
WRAP_OPEN_PATH(open64)
WRAP(mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
WRAP(utimensat, (int dir, const char *path, const struct timespec times[2], int flags),
     (dir, path, times, flags))

/* ------------------------------------------------------------- the scenario */

enum { NUMBERS = 24 };

static size_t size_of(uint32_t number)
{
    return 300 + 700 * (size_t)(number % 7);
}

static uint64_t budget_of(int records)
{
    return (uint64_t)records * 4 * 8192;
}

/* Everything that changes a folder: made, filled, given up, removed, expired, renamed, index.
 * Returns the number of wrong answers. */
static int scenario(const char *path, int records)
{
    pc__tier *tier = NULL;
    int wrong = 0;
    uint32_t reason;
    toy_image t;
    if (disk_open(&tier, path, &(disk_options){.budget = budget_of(records)}) < 0)
        return 0;
    for (uint32_t n = 0; n < 6; n++) {
        disk_put(tier, n, size_of(n), NULL);
        wrong += disk_get(tier, n / 2, size_of(n / 2), NULL) == PC_ERR_INTERNAL;
    }
    pc__id key = disk_key(1);
    tier->ops->remove(tier, &key);
    disk_image(&t, 7, size_of(7));
    t.image.expires = pc__now_date() - 1;
    tier->ops->put(tier, &t.image, pc__now() + 20, &reason);
    toy_image_free(&t);
    tier->ops->sweep(tier);
    disk_put(tier, 7, size_of(7), NULL);
    wrong += !disk_balances(tier);
    tier->ops->free(tier);
    return wrong;
}

/* Checks the folder after an accident, and again after the next process has opened it. */
static int check_folder(const char *path, uint64_t budget, int is_strict)
{
    disk_files before = disk_look(path);
    pc__tier *tier = NULL;
    uint32_t dirty = 0;
    int fine = CHECK(!is_strict || before.record_bytes + before.draft_bytes <= budget);
    fine &= CHECK_OK(disk_open(&tier, path, &(disk_options){.budget = budget}));
    if (!tier)
        return 0;
    while (tier->ops->sweep(tier)) /* what exceeded the budget when it was opened */
        ;
    disk_files after = disk_look(path);
    fine &= CHECK_INT(after.drafts, 0);
    fine &= CHECK(after.record_bytes <= budget);
    fine &= CHECK_INT(disk_usage(path, &dirty), after.record_bytes);
    fine &= CHECK_INT(dirty, 0);
    fine &= CHECK_INT(disk_stats(tier).segments, after.records);
    size_t readable = 0;
    for (uint32_t n = 0; n < NUMBERS; n++) {
        pc_status status = disk_get(tier, n, size_of(n), NULL);
        fine &= CHECK(status == PC_OK || status == PC_MISS);
        readable += status == PC_OK;
    }
    fine &= CHECK(readable
                  >= after.records - (size_t)(after.records > 0)); /* one may have expired */
    fine &= CHECK(disk_put(tier, 23, size_of(23), NULL) >= 0);     /* it can still be written */
    fine &= CHECK_OK(disk_get(tier, 23, size_of(23), NULL));
    fine &= CHECK(disk_balances(tier));
    tier->ops->free(tier);
    fine &= CHECK_INT(disk_look(path).others, 2); /* lock and index, nothing else */
    return fine;
}

static void prepare(const char *path)
{
    pc__tier *tier = NULL;
    CHECK_OK(disk_open(&tier, path, &(disk_options){.budget = budget_of(3)}));
    for (uint32_t n = 10; n < 12; n++)
        disk_put(tier, n, size_of(n), NULL);
    tier->ops->free(tier);
}

static int three(const char *path)
{
    return scenario(path, 3);
}

static int check_three(const char *path)
{
    return check_folder(path, budget_of(3), 1);
}

/* In an empty folder, or in one that has records already. */
static void test_kill(int what, const char *name, int prepared, long step)
{
    kill_at_each_call(what, &(accident){name, step, what == KILL ? 300 : 30,
                                        prepared ? prepare : NULL, three, check_three});
}

static void test_fail(int error, long step)
{
    fail_at_each_call(error, &(accident){.step = step, .scenario = three, .check = check_three});
}

/* ------------------------------------------ replacing what nobody here can open */

static const uint8_t ours[32] = {4, 5, 6};

/* A record of each kind under a name of ours. */
static void plant_strangers(const char *path)
{
    pc__tier *tier = NULL;
    CHECK_OK(disk_open(&tier, path, &(disk_options){.seal_key = ours}));
    tier->ops->free(tier);
    for (uint32_t n = 0; n < STRANGER_COUNT; n++) {
        toy_image t;
        disk_image(&t, n, size_of(n));
        record_file file = stranger_make((int)n, &t.image, ours);
        disk_plant(path, n, ours, file.data, file.size);
        record_file_free(&file);
        toy_image_free(&t);
    }
}

static int replace(const char *path)
{
    pc__tier *tier = NULL;
    int wrong = 0;
    if (disk_open(&tier, path, &(disk_options){.seal_key = ours}) < 0)
        return 0;
    for (uint32_t n = 0; n < STRANGER_COUNT; n++) {
        disk_get(tier, n, size_of(n), n % 2 ? ours : NULL);
        disk_put(tier, n, size_of(n), NULL);
        wrong += disk_get(tier, n, size_of(n), ours) == PC_ERR_INTERNAL;
    }
    wrong += !disk_balances(tier);
    tier->ops->free(tier);
    return wrong;
}

/* Each record is still the stranger's, or ours by now, and nothing between. The next writer makes
 * it ours. */
static int check_replaced(const char *path)
{
    pc__tier *tier = NULL;
    uint32_t dirty = 0;
    int fine = CHECK_OK(disk_open(&tier, path, &(disk_options){.seal_key = ours}));
    if (!fine)
        return 0;
    disk_files files = disk_look(path);
    fine &= CHECK_INT(files.records, STRANGER_COUNT) & CHECK_INT(files.drafts, 0);
    fine &= CHECK_INT(disk_usage(path, &dirty), files.record_bytes);
    for (uint32_t n = 0; n < STRANGER_COUNT; n++) {
        pc_status status = disk_get(tier, n, size_of(n), ours);
        fine &= CHECK(status == PC_OK || status == PC_ERR_UNSUPPORTED);
        fine &= CHECK_STATUS(disk_put(tier, n, size_of(n), NULL),
                             status == PC_OK ? PC_MISS : PC_OK);
        fine &= CHECK_OK(disk_get(tier, n, size_of(n), ours));
    }
    fine &= CHECK(disk_balances(tier));
    tier->ops->free(tier);
    return fine;
}

static void test_replacing(int what, const char *name, long step)
{
    kill_at_each_call(what, &(accident){name, step, what == KILL ? 300 : 20, plant_strangers,
                                        replace, check_replaced});
}

/* ----------------------------------------------------------- random moments */

static void work_for_ever(const char *path, uint64_t seed, uint64_t budget, long rounds)
{
    pc_test_rng rng = {seed};
    pc__tier *tier = NULL;
    int wrong = 0;
    disk_map = seed & 1 ? PC__MAP_ALWAYS : PC__MAP_NEVER;
    disk_block_signals(seed & 2 ? 1 : 0);
    for (long i = 0; i < rounds; i++) {
        if (!tier && disk_open(&tier, path, &(disk_options){.budget = budget}) < 0)
            _exit(2);
        uint64_t bits = pc_test_bits(&rng);
        uint32_t n = (uint32_t)(bits % NUMBERS);
        pc__id key = disk_key(n);
        switch (bits >> 32 & 15) {
        case 0:
            tier->ops->remove(tier, &key);
            break;
        case 1:
            tier->ops->sweep(tier);
            break;
        case 2: /* a restart writes the index */
            wrong += !disk_balances(tier);
            tier->ops->free(tier);
            tier = NULL;
            break;
        case 3:
        case 4:
        case 5:
        case 6: {
            pc_status status = disk_get(tier, n, size_of(n), NULL);
            wrong += status != PC_OK && status != PC_MISS;
            break;
        }
        default: {
            pc_status status = disk_put(tier, n, size_of(n), NULL);
            wrong += status < 0;
        }
        }
        if (wrong)
            _exit(3);
    }
    if (tier)
        tier->ops->free(tier);
    _exit(0);
}

static pid_t start(const char *path, uint64_t seed, uint64_t budget, long rounds)
{
    pid_t child = fork();
    if (!child)
        work_for_ever(path, seed, budget, rounds);
    return child;
}

static void stop(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    if (CHECK(waitpid(child, &status, 0) == child))
        CHECK(WIFSIGNALED(
            status)); /* it had not ended by itself, which would mean that something was wrong */
}

static void test_random(int kills)
{
    char path[256];
    pc_test_rng rng = {20261121};
    uint64_t budget = budget_of(5);
    pid_t children[2];
    snprintf(path, sizeof path, "%s/random", pc_test_folder());
    for (int i = 0; i < 2; i++)
        children[i] = start(path, pc_test_bits(&rng), budget, INT_MAX);
    for (int done = 0; done < kills; done++) {
        uint64_t bits = pc_test_bits(&rng);
        usleep((useconds_t)(bits % 25000));
        stop(children[bits >> 40 & 1]);
        if (done % 3
            == 2) { /* both were killed: now the folder must be right before anybody opens it */
            stop(children[!(bits >> 40 & 1)]);
            if (!check_folder(path, budget, 1)) {
                fprintf(stderr, "    after %d kills\n", done + 1);
                return;
            }
            children[!(bits >> 40 & 1)] = start(path, pc_test_bits(&rng), budget, INT_MAX);
        }
        children[bits >> 40 & 1] = start(path, pc_test_bits(&rng), budget, INT_MAX);
    }
    for (int i = 0; i < 2; i++)
        stop(children[i]);
    check_folder(path, budget, 1);
    printf("%d random kills\n", kills);
}

/* Four processes use one folder. Whoever holds its lock sees that the budget is kept and the
 * recorded usage is right. */
static void test_shared_budget(int looks)
{
    char path[256], name[300];
    uint64_t budget = budget_of(4);
    pid_t children[4];
    uint64_t most = 0;
    snprintf(path, sizeof path, "%s/four", pc_test_folder());
    for (int i = 0; i < 4; i++)
        children[i] = start(path, (uint64_t)i + 1, budget, INT_MAX);
    snprintf(name, sizeof name, "%s/promptcache.lock", path);
    for (int i = 0; i < looks; i++) {
        uint32_t dirty = 1;
        int fd = open(name, O_RDWR);
        if (fd >= 0 && !flock(fd, LOCK_EX)) {
            disk_files files = disk_look(path);
            uint64_t usage = disk_usage(path, &dirty);
            CHECK(files.record_bytes + files.draft_bytes <= budget);
            if (usage != UINT64_MAX)
                CHECK_INT(usage, files.record_bytes + files.draft_bytes);
            most = files.record_bytes + files.draft_bytes > most
                       ? files.record_bytes + files.draft_bytes
                       : most;
        }
        if (fd >= 0)
            close(fd);
        usleep(3000);
    }
    for (int i = 0; i < 4; i++)
        stop(children[i]);
    CHECK(most > budget / 2);
    check_folder(path, budget, 1);
}

int main(void)
{
    const char *longer = getenv("PC_TEST_LONG");
    int is_long = longer && *longer && strcmp(longer, "0");
    test_kill(KILL, "empty", 0, 1);
    test_kill(HALF_WRITE, "half", 0, 1);
    test_kill(KILL, "prepared", 1, is_long ? 1 : 8);
    test_replacing(KILL, "strangers", is_long ? 1 : 8);
    test_replacing(HALF_WRITE, "half-strangers", is_long ? 1 : 3);
    test_fail(EIO, 1);
    disk_block_signals(1); /* files of evicted records become drafts */
    test_kill(KILL, "reused", 1, is_long ? 1 : 4);
    test_fail(ENOSPC, is_long ? 1 : 8);
    disk_block_signals(0);
    test_shared_budget(is_long ? 1000 : 100);
    test_random(is_long ? 500 : 60);
    return pc_test_end();
}
