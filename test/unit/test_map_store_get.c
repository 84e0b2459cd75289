/* Damage in a store of maps, and links planted in its folder. Catches: a changed bit that is not
 * noticed, a truncated file that crashes the reader or costs records before the cut, an entry that
 * is taken for another, links that are followed. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maps.h"

enum { RECORDS = 3 };

static void path_of(char out[512], const char *folder, const char *name)
{
    snprintf(out, 512, "%s/%s", folder, name);
}

/* Three records; the second one is as small as possible. */
static void make(const char *folder, int64_t ids[RECORDS])
{
    static const uint32_t numbers[RECORDS] = {1, 5, 7};
    pc__map_store *store = NULL;
    CHECK_OK(maps_open(&store, folder, (pc__map_store_options){.relaxed = 1}));
    for (int i = 0; i < RECORDS; i++)
        CHECK_OK(maps_add(store, numbers[i], &ids[i]));
    pc__map_store_free(store);
}

static uint32_t number_of(int i)
{
    static const uint32_t numbers[RECORDS] = {1, 5, 7};
    return numbers[i];
}

static int flip(const char *path, uint64_t at, int bit)
{
    uint8_t byte = 0;
    int fd = open(path, O_RDWR), ok = fd >= 0 && pread(fd, &byte, 1, (off_t)at) == 1;
    byte ^= (uint8_t)(1 << bit);
    ok = ok && pwrite(fd, &byte, 1, (off_t)at) == 1;
    close(fd);
    return ok;
}

static int sum_bytes(void *user, const pc__map_record *record)
{
    uint64_t *bytes = user;
    if (record->tokens == maps_tokens(5))
        *bytes = record->bytes;
    return 0;
}

/* Changes every bit of the second record: its first use, of maps or metadata, finds it. The others
 * stay. */
static void test_record_bits(int is_read_only, int step)
{
    const char *folder = maps_folder();
    int64_t ids[RECORDS];
    char data[512];
    uint64_t bytes = 0, at;
    pc__map_store *store = NULL;
    make(folder, ids);
    path_of(data, folder, "maps.data");
    CHECK_OK(maps_open(&store, folder, (pc__map_store_options){.read_only = 1}));
    pc__map_store_each(store, sum_bytes, &bytes);
    pc__map_store_free(store);
    CHECK(bytes > 600 && bytes < 1200);
    at = 4096 + 4096; /* the first record has one page */
    for (uint64_t bit = 0; bit < 8 * bytes; bit += (uint64_t)step) {
        pc_memo_stats s;
        if (!is_read_only) { /* it was removed: make it again */
            folder = maps_folder();
            make(folder, ids);
            path_of(data, folder, "maps.data");
        }
        CHECK(flip(data, at + bit / 8, (int)(bit % 8)));
        CHECK_OK(maps_open(&store, folder,
                           (pc__map_store_options){.read_only = is_read_only, .relaxed = 1}));
        if (!CHECK_STATUS(maps_check(store, ids[1], 5), PC_ERR_FORMAT))
            fprintf(stderr, "    bit %llu\n", (unsigned long long)bit);
        CHECK_STATUS(maps_check(store, ids[1], 5), PC_MISS);
        CHECK_OK(maps_check(store, ids[0], 1));
        CHECK_OK(maps_check(store, ids[2], 7));
        pc__map_store_get_stats(store, &s);
        CHECK_INT(s.damaged, 1);
        CHECK(maps_balance(store));
        pc__map_store_free(store);
        if (is_read_only) {
            CHECK(flip(data, at + bit / 8, (int)(bit % 8)));
            continue;
        }
        CHECK_OK(maps_open(&store, folder, (pc__map_store_options){.relaxed = 1}));
        CHECK_INT(maps_count(store), 2); /* it stays removed */
        pc__map_store_free(store);
    }
}

/* Changes every bit of the log: at most one record is lost, and no other store is accepted. */
static void test_log_bits(void)
{
    const char *folder = maps_folder();
    int64_t ids[RECORDS];
    char log[512];
    make(folder, ids);
    path_of(log, folder, "maps.log");
    for (uint64_t bit = 0; bit < 8 * 128 * (1 + RECORDS); bit++) {
        pc__map_store *store = NULL;
        pc_memo_stats s;
        CHECK(flip(log, bit / 8, (int)(bit % 8)));
        pc_status status = maps_open(&store, folder, (pc__map_store_options){.read_only = 1});
        if (bit < 8 * 128) {
            CHECK(status == PC_ERR_FORMAT || status == PC_ERR_UNSUPPORTED);
        } else if (CHECK_STATUS(status, PC_OK)) {
            int lost = (int)(bit / 8 / 128) - 1;
            for (int i = 0; i < RECORDS; i++)
                CHECK_STATUS(maps_check(store, ids[i], number_of(i)), i == lost ? PC_MISS : PC_OK);
            pc__map_store_get_stats(store, &s);
            CHECK_INT(s.damaged, 1);
            CHECK(maps_balance(store));
        }
        pc__map_store_free(store);
        CHECK(flip(log, bit / 8, (int)(bit % 8)));
    }
}

/* Truncates the log at all lengths: whole entries count, and the store stays usable. */
static void test_short_log(void)
{
    const char *folder = maps_folder();
    int64_t ids[RECORDS], id;
    char log[512], data[512];
    size_t size, data_size;
    make(folder, ids);
    path_of(log, folder, "maps.log");
    path_of(data, folder, "maps.data");
    char *whole = pc_test_read(log, &size), *whole_data = pc_test_read(data, &data_size);
    CHECK_INT(size, 128 * (1 + RECORDS));
    for (size_t length = 0; length <= size; length++) {
        pc__map_store *store = NULL;
        size_t left = length / 128 - 1;
        int goes_on = length % 128 == 1 || length % 128 == 127;
        pc_test_write(log, whole, length);
        pc_test_write(data, whole_data, data_size);
        pc_status status = maps_open(
            &store, folder,
            (pc__map_store_options){.relaxed = 1, .read_only = length < 128 || !goes_on});
        if (length < 128) {
            CHECK_STATUS(status, PC_ERR_FORMAT);
            continue;
        }
        if (!CHECK_STATUS(status, PC_OK))
            continue;
        if (goes_on) {
            CHECK_OK(maps_add(store, 9, &id));
            pc__map_store_free(store);
            CHECK_OK(maps_open(&store, folder, (pc__map_store_options){.relaxed = 1}));
            CHECK_OK(maps_check(store, id, 9));
        }
        CHECK_INT(maps_count(store), left + (size_t)goes_on);
        for (size_t i = 0; i < RECORDS; i++)
            CHECK_STATUS(maps_check(store, ids[i], number_of((int)i)), i < left ? PC_OK
                                                                       : goes_on && ids[i] == id
                                                                           ? PC_ERR_INTERNAL
                                                                           : PC_MISS);
        pc__map_store_free(store);
    }
    free(whole);
    free(whole_data);
}

/* Truncates the data file at all lengths: records beyond the end are damaged, the others are there.
 */
static void test_short_data(void)
{
    const char *folder = maps_folder();
    int64_t ids[RECORDS];
    char data[512];
    make(folder, ids);
    path_of(data, folder, "maps.data");
    size_t size;
    char *whole = pc_test_read(data, &size);
    for (size_t length = 0; length < size;
         length += length < 64 || length % 4096 > 4080 || length % 4096 < 8 ? 1 : 37) {
        pc__map_store *store = NULL;
        pc_memo_stats s;
        pc_test_write(data, whole, length);
        pc_status status = maps_open(&store, folder, (pc__map_store_options){.read_only = 1});
        if (length < 48) {
            CHECK_STATUS(status, PC_ERR_FORMAT);
            continue;
        }
        if (!CHECK_STATUS(status, PC_OK))
            continue;
        size_t there = maps_count(store);
        CHECK(there < RECORDS + (size_t)(length > size - 4096)
              && there >= (length > 4096 ? (length - 4096) / 4096 : 0) * (length < 3 * 4096));
        for (size_t i = 0; i < RECORDS; i++)
            CHECK_STATUS(maps_check(store, ids[i], number_of((int)i)), i < there ? PC_OK : PC_MISS);
        pc__map_store_get_stats(store, &s);
        CHECK_INT(s.damaged, RECORDS - there);
        pc__map_store_free(store);
    }
    free(whole);
}

/* The data file of another store, or none. */
static void test_exchanged(void)
{
    const char *a = maps_folder(), *b = maps_folder();
    int64_t ids[RECORDS];
    char from[512], to[512];
    pc__map_store *store = NULL;
    make(a, ids);
    make(b, ids);
    path_of(from, a, "maps.data");
    path_of(to, b, "maps.data");
    CHECK(!rename(from, to));
    CHECK_STATUS(maps_open(&store, b, (pc__map_store_options){0}), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("another log");
    CHECK_STATUS(maps_open(&store, a, (pc__map_store_options){0}), PC_ERR_NOT_FOUND);
    path_of(from, b, "maps.log");
    CHECK(!unlink(from));
    CHECK_STATUS(maps_open(&store, b, (pc__map_store_options){0}), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("no log");
}

static void test_links(void)
{
    static const char *const names[] = {"maps.log", "maps.data", "maps.lock"};
    for (size_t i = 0; i < 3; i++) {
        const char *folder = maps_folder(), *outside = maps_folder();
        char link[512], target[512];
        int64_t ids[RECORDS];
        pc__map_store *store = NULL;
        make(folder, ids);
        make(outside, ids);
        path_of(link, folder, names[i]);
        path_of(target, outside, names[i]);
        CHECK(!unlink(link) && !symlink(target, link));
        CHECK_STATUS(maps_open(&store, folder, (pc__map_store_options){0}), PC_ERR_IO);
        CHECK_ERROR_HAS(names[i]);
        CHECK(!unlink(link) && !mkdir(link, 0700));
        CHECK(maps_open(&store, folder, (pc__map_store_options){0}) < 0);
    }
    const char *open_to_all = maps_folder();
    pc__map_store *store = NULL;
    CHECK(!mkdir(open_to_all, 0700) && !chmod(open_to_all, 0777));
    CHECK_STATUS(maps_open(&store, open_to_all, (pc__map_store_options){0}), PC_ERR_STATE);
}

int main(void)
{
    const char *longer = getenv("PC_TEST_LONG");
    test_record_bits(1, 1);
    test_record_bits(0, longer && *longer && strcmp(longer, "0") ? 1 : 509);
    test_log_bits();
    test_short_log();
    test_short_data();
    test_exchanged();
    test_links();
    return pc_test_end();
}
