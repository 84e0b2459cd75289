/* The DISK tier without a cache. Catches: records changed or under another key; a budget exceeded
 * by stored or written bytes; eviction of a higher score, a higher priority or a parent; entries of
 * other processes not found, or their removals not noticed; uses and dates lost by a restart; a
 * damaged index that is believed; a name blocked for ever by a record that cannot be opened;
 * counters that do not balance; leaks of memory or descriptors; a folder that blocks for ever;
 * races. */
#include <promptcache/cache.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "disk.h"
#include "strangers.h"

enum { SIZE = 3000 };

/* The test's own clock for the tier (test/CMakeLists.txt wraps its calls) and for dates of files,
 * so that no test waits. */
static int64_t later, stopped; /* seconds; not 0: the clock has stopped there */
int64_t __real_pc__now_date(void);
int64_t __wrap_pc__now_date(void);
int __wrap_utimensat(int dir, const char *name, const struct timespec *times, int flags);
int __real_utimensat(int dir, const char *name, const struct timespec *times, int flags);

int64_t __wrap_pc__now_date(void)
{
    return (stopped ? stopped : __real_pc__now_date()) + later;
}

int __wrap_utimensat(int dir, const char *name, const struct timespec *times, int flags)
{
    struct timespec at[2] = {times[0], times[1]};
    if (at[1].tv_nsec == UTIME_NOW)
        at[1] = (struct timespec){(time_t)pc__now_date(), 0};
    return __real_utimensat(dir, name, at, flags);
}

static uint64_t record_bytes_of_number(uint32_t number)
{
    toy_image t;
    pc__record_options options = {.codec = PC_CODEC_RAW};
    disk_image(&t, number, SIZE);
    uint64_t bytes = pc__record_bound(&t.image, &options, NULL);
    toy_image_free(&t);
    return bytes;
}

static void test_put_get(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = disk_open_tier(path, 0);
    uint64_t bytes = 7;
    uint32_t reason = 77, dirty;
    for (uint32_t n = 0; n < 40; n++) {
        pc__id key = disk_key(n);
        CHECK(!tier->ops->may_have(tier, &key, &bytes));
        CHECK_STATUS(disk_get(tier, n, SIZE, NULL), PC_MISS);
        CHECK_OK(disk_put(tier, n, SIZE, NULL));
        CHECK(tier->ops->may_have(tier, &key, &bytes) && bytes > 3 * SIZE);
    }
    for (uint32_t n = 0; n < 40; n++)
        CHECK_OK(disk_get(tier, n, SIZE, NULL));
    CHECK_STATUS(disk_put(tier, 5, SIZE, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_NONE);
    pc_tier_stats s = disk_stats(tier);
    CHECK(s.stored == 40 && s.known == 1 && s.hits == 40 && s.misses == 40 && s.segments == 40
          && s.found == 0);
    disk_files files = disk_look(path);
    CHECK(files.records == 40 && files.drafts == 0);
    CHECK_INT(files.record_bytes, s.segment_bytes);
    CHECK_INT(disk_usage(path, &dirty), files.record_bytes);
    CHECK_INT(dirty, 0);
    pc__id content = disk_key(1000007), key = disk_key(7);
    CHECK(tier->ops->has_content(tier, &content) && !tier->ops->has_content(tier, &key));
    tier->ops->remove(tier, &key);
    CHECK(!tier->ops->has_content(tier, &content) && !tier->ops->may_have(tier, &key, &bytes));
    CHECK_STATUS(disk_get(tier, 7, SIZE, NULL), PC_MISS);
    tier->ops->clear(tier);
    CHECK_INT(disk_look(path).records, 0);
    CHECK_INT(disk_usage(path, &dirty), 0);
    s = disk_stats(tier);
    CHECK(s.removed == 40 && s.segments == 0 && s.segment_bytes == 0);
    disk_close_tier(tier);
}

/* An open source outlives its entry, mapped or read. */
static void test_open_survives(uint32_t map)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = NULL;
    pc__source *source = NULL;
    pc__record *record = NULL;
    pc__record_options options = {0};
    pc__id key = disk_key(3);
    int timed_out;
    CHECK_OK(disk_open(&tier, path, &(disk_options){.map = map}));
    CHECK_OK(disk_put(tier, 3, SIZE, NULL));
    CHECK_OK(tier->ops->open(tier, &key, pc__now() + 10, &source, &timed_out));
    tier->ops->remove(tier, &key);
    CHECK_INT(disk_look(path).records, 0);
    CHECK_OK(pc__record_open(&record, &pc__libc_allocator, &options, source));
    CHECK_INT(source->map && source->map(source), map != PC__MAP_NEVER);
    CHECK_OK(disk_compare(record, 3, SIZE));
    const void *lent = pc__record_block_address(record, 1);
    CHECK((lent != NULL) == (map != PC__MAP_NEVER));
    if (lent)
        CHECK(pc__record_check(record, 1) == PC_OK
              && ((const uint8_t *)lent)[17] == toy_byte(3, 1, 17));
    tier->ops->read_done(tier, &key, PC_OK, source->bytes, 0.1);
    pc__record_free(record);
    source->close(source);
    disk_close_tier(tier);
}

static void test_deadline(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = disk_open_tier(path, 0);
    pc__source *source = NULL;
    pc__id key = disk_key(3);
    int timed_out = 0;
    uint8_t byte;
    uint32_t reason = 0;
    toy_image t;
    CHECK_OK(disk_put(tier, 3, SIZE, NULL));
    CHECK_STATUS(tier->ops->open(tier, &key, pc__now() - 1, &source, &timed_out), PC_ERR_IO);
    CHECK(timed_out == 1 && !source);
    CHECK_OK(tier->ops->open(tier, &key, pc__now() + 0.25, &source,
                             &timed_out)); /* a busy machine may take long */
    usleep(260000);
    CHECK_STATUS(source->read(source, 0, 0, 0, &byte, 1), PC_ERR_IO);
    CHECK_INT(atomic_load(&source->timed_out), 1);
    CHECK_STATUS(source->read(source, 0, 0, source->bytes, &byte, 1), PC_ERR_FORMAT);
    CHECK_STATUS(source->read(source, 0, UINT64_MAX, 2, &byte, 1), PC_ERR_FORMAT);
    CHECK_STATUS(source->read(source, 0, 2, UINT64_MAX, &byte, 1), PC_ERR_FORMAT);
    tier->ops->read_done(tier, &key, PC_ERR_IO, 0, 0.1);
    source->close(source);
    /* another process has locked the folder */
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/promptcache.lock", path);
    int fd = open(name, O_RDWR);
    CHECK(!flock(fd, LOCK_EX));
    disk_image(&t, 4, SIZE);
    double begin = pc__now();
    CHECK_STATUS(tier->ops->put(tier, &t.image, pc__now() + 0.05, &reason), PC_ERR_IO);
    CHECK(pc__now() - begin < 2);
    CHECK_INT(reason, PC_REASON_DEADLINE);
    CHECK_ERROR_HAS("another process holds the lock, still at the deadline");
    CHECK_OK(disk_get(tier, 3, SIZE, NULL)); /* readers need no lock */
    close(fd);
    CHECK_STATUS(tier->ops->put(tier, &t.image, pc__now() - 1, &reason), PC_ERR_IO);
    CHECK_INT(disk_look(path).drafts, 0);
    toy_image_free(&t);
    CHECK_OK(disk_put(tier, 4, SIZE, NULL));
    disk_close_tier(tier);
}

static void test_budget(void)
{
    const char *path = disk_fresh_folder();
    uint64_t one = record_bytes_of_number(0), budget = 5 * one + 100;
    pc__tier *tier = disk_open_tier(path, budget);
    toy_image t;
    uint32_t reason = 0;
    for (uint32_t n = 0; n < 20; n++) {
        CHECK_OK(disk_put(tier, n, SIZE, NULL));
        CHECK(disk_look(path).record_bytes <= budget);
    }
    pc_tier_stats s = disk_stats(tier);
    CHECK(s.segments == 5 && s.evicted == 15 && s.segment_bytes <= budget);
    CHECK_STATUS(disk_put(tier, 99, 20 * SIZE, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_NO_ROOM);
    CHECK_INT(disk_stats(tier).segments, 5);
    /* one that has been used stays */
    CHECK_OK(disk_get(tier, 15, SIZE, NULL));
    CHECK_OK(disk_get(tier, 15, SIZE, NULL));
    for (uint32_t n = 20; n < 24; n++)
        CHECK_OK(disk_put(tier, n, SIZE, NULL));
    CHECK_OK(disk_get(tier, 15, SIZE, NULL));
    /* a lower priority does not evict a higher one */
    disk_image(&t, 30, SIZE);
    t.image.priority = 3;
    for (uint32_t n = 30; n < 35; n++) {
        t.image.key = disk_key(n);
        CHECK_OK(tier->ops->put(tier, &t.image, pc__now() + 9, &reason));
    }
    CHECK_STATUS(disk_put(tier, 40, SIZE, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_NO_ROOM);
    CHECK_INT(disk_stats(tier).segments, 5);
    toy_image_free(&t);
    disk_close_tier(tier);
    /* one as large as the budget */
    pc__tier *full = disk_open_tier(disk_fresh_folder(), one);
    CHECK_OK(disk_put(full, 0, SIZE, NULL));
    CHECK_INT(disk_stats(full).segment_bytes, one);
    disk_close_tier(full);
}

/* A folder over its budget: opening removes nothing, writers do not wait for the excess, which goes
 * in batches or with the tier. */
static void test_smaller_budget(int by_closing)
{
    enum { RECORDS = 300 };
    const char *path = disk_fresh_folder();
    uint64_t one = record_bytes_of_number(0), budget = 20 * one, bytes_before, swept;
    pc__tier *tier = disk_open_tier(path, 0);
    pc_tier_stats s;
    for (uint32_t n = 0; n < RECORDS; n++)
        CHECK_OK(disk_put(tier, n, SIZE, NULL));
    disk_close_tier(tier);
    bytes_before = disk_look(path).record_bytes;
    tier = disk_open_tier(path, budget);
    s = disk_stats(tier);
    CHECK_INT(disk_look(path).records, RECORDS);
    CHECK_INT(s.segments, RECORDS);
    CHECK_INT(s.excess_bytes, bytes_before - budget);
    CHECK(s.evicted == 0 && s.evicted_behind == 0);
    for (uint32_t n = 0; n < 5; n++) {
        CHECK_OK(disk_put(tier, RECORDS + n, SIZE, NULL));
        CHECK(disk_look(path).record_bytes <= bytes_before); /* it does not grow */
    }
    s = disk_stats(tier);
    CHECK(s.evicted > 0 && s.evicted <= 10 && s.evicted_behind == 0
          && s.excess_bytes <= bytes_before - budget);
    swept = s.evicted;
    while (!by_closing && tier->ops->sweep(tier))
        CHECK(disk_balances(tier));
    s = disk_stats(tier);
    if (!by_closing) {
        CHECK(s.excess_bytes == 0 && s.segment_bytes <= budget
              && disk_look(path).record_bytes <= budget);
        CHECK_INT(s.evicted_behind, s.evicted - swept);
        CHECK(s.segments > 10); /* and no more than that */
    }
    disk_close_tier(tier);
    CHECK(disk_look(path).record_bytes <= budget);
}

/* Entries 1 <- 2 <- 3 (each the parent of the next): the last is evicted first, and a new entry
 * does not evict its parent. */
static void test_chain(void)
{
    const char *path = disk_fresh_folder();
    uint64_t one = record_bytes_of_number(1), bytes;
    pc__tier *tier = disk_open_tier(path, 3 * one + 100);
    uint32_t reason;
    toy_image t;
    pc__id key;
    for (uint32_t n = 1; n <= 4; n++) {
        disk_image(&t, n, SIZE);
        t.image.cost = n; /* the later the dearer */
        t.image.has_parent = n > 1;
        if (n > 1)
            t.image.parent = disk_key(n - 1);
        CHECK_STATUS(tier->ops->put(tier, &t.image, pc__now() + 9, &reason),
                     n < 4 ? PC_OK : PC_MISS);
        toy_image_free(&t);
    }
    CHECK_INT(reason, PC_REASON_NO_ROOM); /* all three are what 4 saw */
    CHECK_OK(disk_put(tier, 50, SIZE, NULL));
    key = disk_key(3);
    CHECK(!tier->ops->may_have(tier, &key, &bytes));
    key = disk_key(1);
    CHECK(tier->ops->may_have(tier, &key, &bytes));
    disk_close_tier(tier);
    tier = disk_open_tier(path, one + 100); /* chains survive a restart */
    while (tier->ops->sweep(tier))
        ;
    CHECK(!tier->ops->may_have(tier, &key, &bytes) || disk_stats(tier).segments == 1);
    key = disk_key(2);
    CHECK(!tier->ops->may_have(tier, &key, &bytes));
    disk_close_tier(tier);
}

static void test_expiry(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = disk_open_tier(path, 0);
    uint32_t reason;
    uint64_t bytes;
    toy_image t;
    pc__id key;
    stopped = pc__now_date();
    disk_image(&t, 1, SIZE);
    t.image.expires = pc__now_date() - 1;
    CHECK_OK(tier->ops->put(tier, &t.image, pc__now() + 9, &reason));
    CHECK(!tier->ops->may_have(tier, &t.image.key, &bytes));
    CHECK_STATUS(disk_get(tier, 1, SIZE, NULL), PC_MISS);
    CHECK_OK(disk_put(tier, 1, SIZE, NULL)); /* one that does not expire replaces it */
    CHECK_OK(disk_get(tier, 1, SIZE, NULL));
    toy_image_free(&t);
    disk_image(&t, 2, SIZE); /* every use moves the end, for other processes too */
    t.image.ttl = 4;
    t.image.expires = pc__now_date() + 1;
    CHECK_OK(tier->ops->put(tier, &t.image, pc__now() + 9, &reason));
    CHECK_OK(disk_get(tier, 2, SIZE, NULL));
    key = disk_key(3);
    t.image.key = key;
    t.image.expires = pc__now_date() + 1;
    t.image.ttl = 0;
    CHECK_OK(tier->ops->put(tier, &t.image, pc__now() + 9, &reason));
    toy_image_free(&t);
    later += 1; /* its last second has come */
    CHECK(!tier->ops->may_have(tier, &key, &bytes));
    CHECK_INT(tier->ops->absence_reason(tier, &key), PC_REASON_EXPIRED);
    later += 1;
    pc__tier *other = disk_open_tier(path, 0);
    CHECK_OK(disk_get(other, 2, SIZE, NULL));
    CHECK_STATUS(disk_get(other, 3, SIZE, NULL), PC_MISS);
    other->ops->sweep(other);
    CHECK_INT(disk_look(path).records, 2);
    tier->ops->sweep(tier);
    CHECK_OK(disk_get(tier, 2, SIZE, NULL)); /* moves it again */
    CHECK_INT(disk_look(path).records, 2);
    later += 3;
    CHECK_OK(disk_get(tier, 2, SIZE, NULL));
    later += 2; /* the end that `other` knows has passed */
    key = disk_key(2);
    CHECK(other->ops->may_have(other, &key, &bytes) && bytes > SIZE);
    CHECK_OK(disk_get(other, 2, SIZE, NULL));
    later += 5; /* and it was never used */
    CHECK(!other->ops->may_have(other, &key, &bytes));
    CHECK_STATUS(disk_get(tier, 2, SIZE, NULL), PC_MISS);
    disk_close_tier(other);
    disk_close_tier(tier);
    later = stopped = 0;
}

/* Two tiers on one folder, as two processes have them. */
static void test_two(void)
{
    const char *path = disk_fresh_folder();
    uint64_t one = record_bytes_of_number(0), bytes;
    pc__tier *a = disk_open_tier(path, 6 * one), *b = disk_open_tier(path, 6 * one);
    uint32_t dirty;
    pc__id key;
    for (uint32_t n = 0; n < 4; n++)
        CHECK_OK(disk_put(n % 2 ? a : b, n, SIZE, NULL));
    for (uint32_t n = 0; n < 4; n++) {
        key = disk_key(n);
        CHECK(a->ops->may_have(a, &key, &bytes) && b->ops->may_have(b, &key, &bytes));
        CHECK_OK(disk_get(a, n, SIZE, NULL));
        CHECK_OK(disk_get(b, n, SIZE, NULL));
    }
    CHECK(disk_stats(a).found == 2 && disk_stats(b).found == 2);
    CHECK_STATUS(disk_put(a, 0, SIZE, NULL), PC_MISS);
    key = disk_key(1);
    a->ops->remove(a, &key);
    CHECK_STATUS(disk_get(b, 1, SIZE, NULL), PC_MISS);
    CHECK_INT(disk_stats(b).lost, 1);
    for (uint32_t n = 10; n < 40;
         n++) { /* a tier that does not know the other's records makes room all the same */
        CHECK_OK(disk_put(n % 3 ? a : b, n, SIZE, NULL));
        CHECK(disk_look(path).record_bytes <= 6 * one);
    }
    CHECK_INT(disk_usage(path, &dirty), disk_look(path).record_bytes);
    disk_close_tier(a);
    disk_close_tier(b);
    /* one tier knows only records of the other, which take all the room */
    a = disk_open_tier(path, 6 * one);
    b = disk_open_tier(path, 6 * one);
    a->ops->clear(a);
    for (uint32_t n = 50; n < 56; n++)
        CHECK_OK(disk_put(a, n, SIZE, NULL));
    CHECK_OK(disk_put(b, 60, SIZE, NULL));
    CHECK(disk_look(path).record_bytes <= 6 * one);
    disk_close_tier(b);
    disk_close_tier(a);
}

static uint64_t evict_all_but(const char *path, uint32_t kept, uint64_t budget)
{
    pc__tier *tier = disk_open_tier(path, budget);
    uint64_t bytes = 0;
    pc__id key = disk_key(kept);
    int there = tier->ops->may_have(tier, &key, &bytes);
    disk_close_tier(tier);
    return there ? bytes : 0;
}

/* Often used records stay after a restart; without an index the records are found all the same. */
static void test_restart(void)
{
    const char *path = disk_fresh_folder();
    char index[PATH_MAX];
    uint64_t one = record_bytes_of_number(0);
    pc__tier *tier = disk_open_tier(path, 0);
    snprintf(index, sizeof index, "%s/promptcache.index", path);
    for (uint32_t n = 0; n < 10; n++)
        CHECK_OK(disk_put(tier, n, SIZE, NULL));
    for (int i = 0; i < 5; i++)
        CHECK_OK(disk_get(tier, 4, SIZE, NULL));
    disk_close_tier(tier);
    CHECK(!access(index, R_OK));
    pc__tier *other = disk_open_tier(path, 0); /* using another one does not undo that */
    CHECK_OK(disk_get(other, 5, SIZE, NULL));
    disk_close_tier(other);
    tier = disk_open_tier(path, 0);
    CHECK_INT(disk_stats(tier).found, 10);
    pc__id content = disk_key(1000003);
    CHECK(tier->ops->has_content(tier, &content));
    disk_close_tier(tier);
    CHECK(evict_all_but(path, 4, one + 10));
    CHECK(!unlink(index));
    tier = disk_open_tier(path, 0);
    CHECK_INT(disk_stats(tier).found, 1);
    content = disk_key(1000004);
    CHECK(tier->ops->has_content(tier, &content));
    CHECK_OK(disk_get(tier, 4, SIZE, NULL));
    disk_close_tier(tier);
}

/* Whatever happens to the index and the lock file, the records are found and counted.
 * PC_TEST_LONG=1: every length and every byte. */
static void test_damaged_index(const char *file)
{
    const char *longer = getenv("PC_TEST_LONG");
    int is_long = longer && *longer && strcmp(longer, "0") != 0;
    const char *path = disk_fresh_folder();
    char name[PATH_MAX];
    size_t size;
    char *whole;
    uint32_t dirty;
    pc__tier *tier = disk_open_tier(path, 0);
    snprintf(name, sizeof name, "%s/%s", path, file);
    for (uint32_t n = 0; n < 3; n++)
        CHECK_OK(disk_put(tier, n, 100, NULL));
    disk_close_tier(tier);
    whole = pc_test_read(name, &size);
    CHECK(whole && size);
    for (size_t cut = 0, step = 1; whole && cut <= 2 * size; cut += step) {
        char *changed = malloc(size);
        memcpy(changed, whole, size);
        if (cut >= size && cut < 2 * size)
            changed[cut - size] ^= (char)(1 << cut % 8);
        pc_test_write(name, changed, cut < size ? cut : size);
        free(changed);
        tier = disk_open_tier(path, 0);
        if (!tier || !CHECK_INT(disk_stats(tier).found, 3))
            break;
        CHECK_OK(disk_get(tier, (uint32_t)cut % 3, 100, NULL));
        disk_close_tier(tier);
        if (!CHECK_INT(disk_usage(path, &dirty), disk_look(path).record_bytes))
            break;
        step = is_long                                                     ? 1
               : size > 1000 && cut % size > 64 && cut % size < size - 600 ? 97
               : size > 1000                                               ? 5
                                                                           : 1;
    }
    free(whole);
}

/* A full disk, as far as a test can have it: a limit for files of this process. */
static void test_full(void)
{
    const char *path = disk_fresh_folder();
    struct rlimit old, limit;
    uint32_t reason = 0, dirty;
    pc__tier *tier = disk_open_tier(path, 0);
    CHECK_OK(disk_put(tier, 1, SIZE, NULL));
    signal(SIGXFSZ, SIG_IGN);
    CHECK(!getrlimit(RLIMIT_FSIZE, &old));
    limit = old;
    limit.rlim_cur = 8192;
    CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
    CHECK_STATUS(disk_put(tier, 2, SIZE, &reason), PC_ERR_IO);
    CHECK_ERROR_HAS(path);
    CHECK(!setrlimit(RLIMIT_FSIZE, &old));
    CHECK_INT(reason, PC_REASON_IO);
    CHECK_INT(disk_look(path).drafts, 0);
    CHECK_INT(disk_look(path).records, 1);
    CHECK_INT(disk_usage(path, &dirty), disk_look(path).record_bytes);
    CHECK_INT(disk_stats(tier).failed, 1);
    CHECK_INT(disk_stats(tier).staging_bytes, 0);
    CHECK_OK(disk_put(tier, 2, SIZE, NULL));
    disk_close_tier(tier);
}

static void test_sealed(void)
{
    const char *path = disk_fresh_folder();
    uint8_t key[32], other[32];
    pc__tier *tier = NULL, *stranger = NULL, *open = NULL;
    memset(key, 5, sizeof key);
    memset(other, 6, sizeof other);
    CHECK_OK(disk_open(&tier, path, &(disk_options){.seal_key = key}));
    CHECK_OK(disk_put(tier, 1, SIZE, NULL));
    CHECK_OK(disk_get(tier, 1, SIZE, key));
    /* with another seal key, or none, there are other records beside it; each finds its own after a
     * restart */
    for (int round = 0; round < 2; round++) {
        CHECK_OK(disk_open(&stranger, path, &(disk_options){.seal_key = other}));
        CHECK_OK(disk_open(&open, path, &(disk_options){0}));
        CHECK_STATUS(disk_get(stranger, 1, SIZE, other), round ? PC_OK : PC_MISS);
        CHECK_STATUS(disk_put(stranger, 1, SIZE, NULL), round ? PC_MISS : PC_OK);
        CHECK_STATUS(disk_put(open, 1, SIZE, NULL), round ? PC_MISS : PC_OK);
        CHECK_STATUS(disk_put(tier, 1, SIZE, NULL), PC_MISS);
        CHECK_OK(disk_get(stranger, 1, SIZE, other));
        CHECK_OK(disk_get(open, 1, SIZE, NULL));
        CHECK_OK(disk_get(tier, 1, SIZE, key));
        CHECK_INT(disk_look(path).records, 3);
        CHECK_INT(disk_stats(open).segments, round ? 3 : 2); /* the stranger's came later */
        disk_close_tier(stranger);
        disk_close_tier(open);
        disk_close_tier(tier);
        CHECK_OK(disk_open(&tier, path, &(disk_options){.seal_key = key}));
    }
    disk_close_tier(tier);
}

/* Reading does not remove a record under a name of ours that cannot be opened; a writer replaces
 * it. */
static void test_stranger(int kind, const uint8_t *key, int read_first)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = NULL, *again = NULL;
    uint32_t dirty = 0;
    toy_image t;
    disk_image(&t, 1, SIZE);
    record_file file = stranger_make(kind, &t.image, key);
    CHECK_OK(disk_open(&tier, path, &(disk_options){.seal_key = key}));
    disk_close_tier(tier);
    disk_plant(path, 1, key, file.data, file.size);
    CHECK_OK(disk_open(&tier, path, &(disk_options){.seal_key = key}));
    if (read_first) {
        CHECK_STATUS(disk_get(tier, 1, SIZE, key), PC_ERR_UNSUPPORTED);
        CHECK_INT(disk_look(path).record_bytes, file.size);
    }
    CHECK_OK(disk_put(tier, 1, SIZE, NULL));
    CHECK_OK(disk_get(tier, 1, SIZE, key));
    CHECK_STATUS(disk_put(tier, 1, SIZE, NULL), PC_MISS);
    CHECK_INT(disk_look(path).records, 1);
    CHECK_INT(disk_usage(path, &dirty), disk_look(path).record_bytes);
    CHECK_OK(disk_open(&again, path, &(disk_options){.seal_key = key}));
    CHECK_OK(disk_get(again, 1, SIZE, key));
    disk_close_tier(again);
    disk_close_tier(tier);
    record_file_free(&file);
    toy_image_free(&t);
}

static void test_strangers(void)
{
    static const uint8_t key[32] = {5, 4, 3};
    for (int kind = 0; kind < STRANGER_COUNT; kind++)
        for (int sealed = 0; sealed < 2; sealed++)
            for (int read_first = 0; read_first < 2; read_first++)
                test_stranger(kind, sealed ? key : NULL, read_first);
}

/* ------------------------------------------------------------------- events */

typedef struct seen {
    uint32_t kinds[8];
    uint64_t bytes, budget;
    pc__tier *tier;
} seen;

static void on_event(void *user, const pc_event *event)
{
    seen *s = user;
    s->kinds[event->kind]++;
    CHECK_INT(event->tier, PC_TIER_DISK);
    if (s->tier)
        disk_stats(s->tier); /* no lock is held */
}

static void on_bytes(void *user, uint32_t tier, uint64_t bytes, uint64_t budget)
{
    seen *s = user;
    CHECK_INT(tier, PC_TIER_DISK);
    s->bytes = bytes;
    s->budget = budget;
    CHECK(bytes <= budget);
}

static void test_events(void)
{
    const char *path = disk_fresh_folder();
    uint64_t one = record_bytes_of_number(0);
    seen s = {0};
    pc__tier *tier = NULL;
    CHECK_OK(disk_open(&tier, path,
                       &(disk_options){.budget = 3 * one, .callbacks = {on_event, on_bytes, &s}}));
    s.tier = tier;
    for (uint32_t n = 0; n < 5; n++)
        CHECK_OK(disk_put(tier, n, SIZE, NULL));
    CHECK_OK(disk_get(tier, 4, SIZE, NULL));
    CHECK(!disk_truncate(path, 4, 10));
    CHECK_STATUS(disk_get(tier, 4, SIZE, NULL), PC_ERR_FORMAT);
    CHECK_STATUS(disk_put(tier, 9, 20 * SIZE, NULL), PC_MISS);
    tier->ops->clear(tier);
    CHECK(s.kinds[PC_EVENT_STORE] == 5 && s.kinds[PC_EVENT_EVICT] == 2 && s.kinds[PC_EVENT_HIT] == 1
          && s.kinds[PC_EVENT_LOAD_FAILED] == 1 && s.kinds[PC_EVENT_STORE_FAILED] == 1
          && s.kinds[PC_EVENT_REMOVE] == 3);
    CHECK(s.bytes == 0 && s.budget == 3 * one);
    s.tier = NULL;
    disk_close_tier(tier);
}

/* ------------------------------------------------------------ out of memory */

/* Runs everything once, with the `fail_at`th allocation failing. 1: it came to that one. */
static int without_memory(uint64_t fail_at)
{
    const char *path = disk_fresh_folder();
    pc_test_memory memory = {.fail_at = fail_at};
    pc_allocator mem = pc_test_allocator(&memory);
    pc__tier *tier = NULL;
    uint32_t dirty;
    size_t files = pc_test_open_files();
    for (int round = 0; round < 2; round++) {
        if (disk_open(&tier, path,
                      &(disk_options){.mem = &mem, .budget = 5 * record_bytes_of_number(0)})
            < 0) {
            CHECK(!tier);
            continue;
        }
        for (uint32_t n = 0; n < 8; n++) {
            pc_status status = disk_put(tier, n, SIZE, NULL);
            CHECK(status == PC_OK || status == PC_MISS || status == PC_ERR_NOMEM);
            status = disk_get(tier, n, SIZE, NULL);
            CHECK(status == PC_OK || status == PC_MISS || status == PC_ERR_NOMEM);
        }
        tier->ops->sweep(tier);
        CHECK(disk_balances(tier));
        tier->ops->free(tier);
    }
    CHECK_INT(memory.live_blocks, 0);
    CHECK_INT(pc_test_open_files(), files);
    tier = disk_open_tier(path, 0); /* nothing is left that should not be */
    disk_files there = disk_look(path);
    CHECK(there.drafts == 0);
    CHECK_INT(disk_usage(path, &dirty), there.record_bytes);
    for (uint32_t n = 0; n < 8; n++) {
        pc_status status = disk_get(tier, n, SIZE, NULL);
        CHECK(status == PC_OK || status == PC_MISS);
    }
    disk_close_tier(tier);
    return memory.calls >= fail_at;
}

/* ------------------------------------------------------------------ threads */

enum { THREADS = 4, KEYS = 24 };
typedef struct worker {
    pc__tier *tiers[2];
    uint64_t seed;
    size_t wrong;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    pc_test_rng rng = {w->seed};
    for (int i = 0; i < 150; i++) {
        uint64_t bits = pc_test_bits(&rng);
        uint32_t number = (uint32_t)(bits % KEYS);
        pc__tier *tier = w->tiers[bits >> 20 & 1];
        pc__id key = disk_key(number);
        pc_status status = PC_OK;
        switch (bits >> 32 & 7) {
        case 0:
        case 1:
        case 2:
            status = disk_put(tier, number, 500 + 40 * number, NULL);
            break;
        case 3:
            tier->ops->remove(tier, &key);
            break;
        case 4:
            tier->ops->sweep(tier);
            break;
        default:
            status = disk_get(tier, number, 500 + 40 * number, NULL);
        }
        w->wrong += status < 0;
    }
    return NULL;
}

static void test_threads(void)
{
    const char *path = disk_fresh_folder();
    worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t budget = 12 * record_bytes_of_number(0);
    uint32_t dirty;
    pc__tier *a = disk_open_tier(path, budget), *b = disk_open_tier(path, budget);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){{a, b}, 77 + i, 0};
        CHECK(!pthread_create(&threads[i], NULL, work, &workers[i]));
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(workers[i].wrong, 0);
    }
    disk_files files = disk_look(path);
    CHECK(files.record_bytes <= budget && files.drafts == 0);
    CHECK_INT(disk_usage(path, &dirty), files.record_bytes);
    disk_close_tier(a);
    disk_close_tier(b);
}

/* Records that are read, or mapped. */
static void both_ways(uint32_t map)
{
    disk_map = map;
    test_put_get();
    test_open_survives(map);
    test_restart();
    test_full();
    test_sealed();
    test_expiry();
    test_threads();
    for (uint64_t i = 1; without_memory(i); i += i < 60 ? 1 : 7)
        ;
}

int main(void)
{
    both_ways(PC__MAP_NEVER);
    test_deadline();
    test_budget();
    test_smaller_budget(0);
    test_smaller_budget(1);
    test_chain();
    test_two();
    test_strangers();
    test_damaged_index("promptcache.index");
    test_damaged_index("promptcache.lock");
    test_events();
    both_ways(PC__MAP_ALWAYS);
    return pc_test_end();
}
