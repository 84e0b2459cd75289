/* The store of attention maps. Catches: maps that come back changed, pointers that move while the
 * file grows, a record that is lost or returns after reopening, counters that do not balance, a
 * store with another signature that opens, an exceeded budget, lost room, damage that is not found,
 * a truncated log that passes for a shorter one, links that are followed. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maps.h"

static pc__map_store *fresh(const char *folder, pc__map_store_options options)
{
    pc__map_store *store = NULL;
    CHECK_OK(maps_open(&store, folder, options));
    return store;
}

static void test_round(void)
{
    const char *folder = maps_folder();
    pc__map_store *store = fresh(folder, (pc__map_store_options){0});
    pc_memo_stats s;
    int64_t ids[20];
    for (uint32_t n = 0; n < 20; n++) {
        CHECK_OK(maps_add(store, n, &ids[n]));
        CHECK(!n || ids[n] > ids[n - 1]);
    }
    for (uint32_t n = 0; n < 20; n++)
        CHECK_OK(maps_check(store, ids[n], n));
    CHECK_STATUS(maps_check(store, 12345, 0), PC_MISS);
    CHECK_OK(pc__map_store_remove(store, ids[3]));
    CHECK_STATUS(pc__map_store_remove(store, ids[3]), PC_MISS);
    CHECK_STATUS(maps_check(store, ids[3], 3), PC_MISS);
    CHECK(maps_balance(store));
    pc__map_store_free(store);
    store = fresh(folder, (pc__map_store_options){0});
    CHECK_INT(maps_count(store), 19);
    for (uint32_t n = 0; n < 20; n++)
        CHECK_STATUS(maps_check(store, ids[n], n), n == 3 ? PC_MISS : PC_OK);
    int64_t id;
    CHECK_OK(maps_add(store, 3, &id));
    CHECK(id > ids[19]);
    pc__map_store_get_stats(store, &s);
    CHECK_INT(s.stored, 20);
    CHECK(maps_balance(store));
    pc__map_store_free(store);
}

/* Stores of earlier versions. */
static void test_golden(void)
{
    static const uint32_t numbers[] = {2, 5, 0};
    pc__map_store *store = NULL;
    maps_list *list;
    CHECK_OK(maps_open(&store, PC_SOURCE_DIR "/test/golden/maps",
                       (pc__map_store_options){.read_only = 1}));
    if (!store)
        return;
    list = maps_list_of(store);
    CHECK_INT(list->count, 3);
    for (size_t i = 0; i < list->count && i < 3; i++) {
        CHECK_INT(list->items[i].number, numbers[i]);
        CHECK_OK(maps_check(store, list->items[i].id, numbers[i]));
    }
    free(list);
    pc__map_store_free(store);
}

/* ------------------------------------------------------------------- the signature */

static void refused(const char *folder, pc__map_signature signature, pc_status want,
                    const char *text)
{
    pc__map_store *store = (pc__map_store *)(uintptr_t)1;
    CHECK_STATUS(pc__map_store_open(&store, &pc__libc_allocator, folder,
                                    &(pc__map_store_options){.signature = signature}),
                 want);
    CHECK(!store);
    CHECK_ERROR_HAS(text);
}

static void test_face(void)
{
    const char *folder = maps_folder();
    pc__map_signature signature = maps_face();
    pc__map_store *store, *second = NULL;
    pc__map_store_free(fresh(folder, (pc__map_store_options){0}));
    signature.model.bytes[31] ^= 1;
    refused(folder, signature, PC_ERR_MISMATCH, "another model");
    signature = maps_face();
    signature.layers++;
    refused(folder, signature, PC_ERR_MISMATCH, "3 layers, not 4");
    signature = maps_face();
    signature.heads++;
    refused(folder, signature, PC_ERR_MISMATCH, "2 heads, not 3");
    signature = maps_face();
    signature.causal = 0;
    refused(folder, signature, PC_ERR_MISMATCH, "causal maps, not bidirectional");
    signature = maps_face();
    signature.format = PC_MAP_U8;
    refused(folder, signature, PC_ERR_MISMATCH, "fp16, not u8");
    signature.layers = 0;
    refused(folder, signature, PC_ERR_INVALID, "0 layers");
    refused(maps_folder(), maps_face(), PC_ERR_NOT_FOUND, "maps");
    store = fresh(folder, (pc__map_store_options){0});
    CHECK_STATUS(maps_open(&second, folder, (pc__map_store_options){0}), PC_AGAIN); /* one writer */
    CHECK(!second);
    CHECK_OK(maps_open(&second, folder, (pc__map_store_options){.read_only = 1}));
    pc__map_store_free(second);
    pc__map_store_free(store);
}

static const uint8_t *maps_note_of(uint32_t number)
{
    static uint8_t metadata[MAPS_NOTE];
    maps_fill(number, 63, metadata, sizeof metadata);
    return metadata;
}

static void test_arguments(void)
{
    const char *folder = maps_folder();
    pc__map_store *store = fresh(folder, (pc__map_store_options){0});
    pc__map_signature signature = maps_face();
    maps_record r = maps_make(&signature, 1);
    const void *layers[MAPS_LAYERS] = {r.layers[0], NULL, r.layers[2]};
    uint8_t metadata[4], long_note[MAPS_NOTE + 1], *whole = NULL;
    size_t size;
    int64_t id;
    CHECK_STATUS(pc__map_store_add(store, &r.tokens_id, 0, NULL, 0, r.layers, &id, NULL, NULL),
                 PC_ERR_INVALID);
    CHECK_STATUS(
        pc__map_store_add(store, &r.tokens_id, r.tokens, NULL, 5, r.layers, &id, NULL, NULL),
        PC_ERR_INVALID);
    CHECK_STATUS(pc__map_store_add(store, &r.tokens_id, r.tokens, NULL, 0, layers, &id, NULL, NULL),
                 PC_ERR_INVALID);
    CHECK_STATUS(
        pc__map_store_add(store, &r.tokens_id, UINT32_MAX, NULL, 0, r.layers, &id, NULL, NULL),
        PC_ERR_LIMIT);
    CHECK_STATUS(pc__map_store_add(store, &r.tokens_id, r.tokens, metadata, SIZE_MAX, r.layers, &id,
                                   NULL, NULL),
                 PC_ERR_LIMIT);
    CHECK_INT(id, -1);
    CHECK_OK(pc__map_store_add(store, &r.tokens_id, r.tokens, NULL, 0, r.layers, &id, NULL,
                               NULL)); /* without metadata */
    CHECK_OK(pc__map_store_metadata(store, id, NULL, 0));
    CHECK_OK(maps_add(store, 2, &id));
    CHECK_OK(pc__map_store_metadata(store, id, metadata, sizeof metadata)); /* its first bytes */
    CHECK(!memcmp(metadata, maps_note_of(2), sizeof metadata));
    CHECK_STATUS(pc__map_store_metadata(store, id, long_note, sizeof long_note), PC_ERR_INVALID);
    CHECK_OK(pc__map_store_metadata_copy(store, id, 1, &whole, &size));
    CHECK(size == MAPS_NOTE && !memcmp(whole, maps_note_of(2), size));
    pc__free(&pc__libc_allocator, whole);
    CHECK_STATUS(pc__map_store_metadata_copy(store, 999, 0, &whole, &size), PC_MISS);
    CHECK(!whole && !size);
    pc__map_store_free(store);
    CHECK_OK(maps_open(&store, folder, (pc__map_store_options){.read_only = 1}));
    CHECK_STATUS(maps_add(store, 2, &id), PC_ERR_STATE);
    CHECK_STATUS(pc__map_store_remove(store, 0), PC_ERR_STATE);
    CHECK_STATUS(pc__map_store_tidy(store), PC_ERR_STATE);
    CHECK_OK(maps_check(store, 1, 2));
    pc__map_store_free(store);
    maps_free(&r);
}

/* ----------------------------------------------------------------- the budget */

static uint64_t disk_bytes(const char *folder) /* of the disk, not of the file's size */
{
    static const char *const names[] = {"maps.log", "maps.data"};
    uint64_t sum = 0;
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (!stat(path, &st))
            sum += (uint64_t)st.st_blocks * 512;
    }
    return sum;
}

static void count_one(void *user, int64_t id)
{
    (void)id;
    ++*(uint64_t *)user;
}

static void test_budget(void)
{
    enum { BUDGET = 200 * 1024, SLACK = 8192 /* blocks of the file system */ };
    const char *folder = maps_folder();
    pc__map_store *store = fresh(folder,
                                 (pc__map_store_options){.budget_bytes = BUDGET, .relaxed = 1});
    pc__map_signature signature = maps_face();
    pc_memo_stats s;
    uint64_t told = 0;
    int64_t first = -1, id;
    CHECK_OK(maps_add(store, 0, &first));
    for (uint32_t n = 1; n < 200; n++) {
        maps_record r = maps_make(&signature, n);
        CHECK_OK(pc__map_store_add(store, &r.tokens_id, r.tokens, r.metadata, sizeof r.metadata,
                                   r.layers, &id, count_one, &told));
        maps_free(&r);
        CHECK_OK(maps_check(store, first, 0)); /* used records stay */
        pc__map_store_get_stats(store, &s);
        CHECK(s.bytes <= BUDGET);
        CHECK(disk_bytes(folder) <= BUDGET + SLACK);
    }
    CHECK_INT(s.evicted, told);
    CHECK(s.live > 8 && told > 100);
    CHECK(s.bytes > BUDGET * 3 / 4);
    CHECK(maps_balance(store));
    pc__map_store_free(store);
    store = fresh(folder, (pc__map_store_options){.budget_bytes = 16 * 1024});
    CHECK_STATUS(maps_add(store, 4, &id), PC_ERR_LIMIT);
    CHECK_OK(maps_add(store, 0, &id)); /* a smaller budget: the others are evicted */
    pc__map_store_get_stats(store, &s);
    CHECK(s.bytes <= 16 * 1024);
    CHECK_OK(maps_check(store, id, 0));
    pc__map_store_free(store);
}

/* The next process knows the uses. */
static void test_worth_lasts(void)
{
    const char *folder = maps_folder();
    pc__map_store *store = fresh(folder,
                                 (pc__map_store_options){.budget_bytes = 100 * 1024, .relaxed = 1});
    int64_t ids[4], id;
    for (uint32_t n = 0; n < 4; n++)
        CHECK_OK(maps_add(store, 5 * n, &ids[n]));
    for (int i = 0; i < 20; i++)
        CHECK_OK(maps_check(store, ids[1], 5));
    pc__map_store_free(store);
    store = fresh(folder, (pc__map_store_options){.budget_bytes = 100 * 1024, .relaxed = 1});
    for (uint32_t n = 5; n < 35; n++)
        CHECK_OK(maps_add(store, 5 * n, &id));
    CHECK_OK(maps_check(store, ids[1], 5));
    CHECK_STATUS(maps_check(store, ids[0], 0), PC_MISS);
    CHECK_STATUS(maps_check(store, ids[2], 10), PC_MISS);
    pc__map_store_free(store);
}

/* Adds records of 5 sizes in little room for long: room is reused, the log does not grow without
 * limit, and no record is overwritten. */
static void test_churn(void)
{
    const char *folder = maps_folder();
    pc__map_store *store = fresh(folder,
                                 (pc__map_store_options){.budget_bytes = 256 * 1024, .relaxed = 1});
    char log[512];
    struct stat st;
    for (uint32_t n = 0; n < 4000; n++) {
        int64_t id;
        CHECK_OK(maps_add(store, n % 251, &id));
        if (n % 3 == 0)
            CHECK_OK(pc__map_store_remove(store, id));
        if (n % 500 == 499) {
            maps_list *list = maps_list_of(store);
            CHECK(list->count > 5);
            for (size_t i = 0; i < list->count; i++)
                CHECK_OK(maps_check(store, list->items[i].id, list->items[i].number));
            free(list);
            CHECK_OK(pc__map_store_tidy(store));
        }
    }
    CHECK(maps_balance(store));
    CHECK_OK(pc__map_store_sync(store));
    snprintf(log, sizeof log, "%s/maps.log", folder);
    CHECK(!stat(log, &st) && st.st_size < 300 * 1024);
    snprintf(log, sizeof log, "%s/maps.data", folder);
    CHECK(!stat(log, &st) && st.st_size < 1024 * 1024);
    pc__map_store_free(store);
}

/* -------------------------------------------------------------------- compressing */

static void test_pack(void)
{
    const char *folder = maps_folder();
    pc__map_store *store = fresh(folder,
                                 (pc__map_store_options){.cold_seconds = 1e-9, .relaxed = 1});
    pc_memo_stats raw, packed;
    int64_t ids[25];
    for (uint32_t n = 0; n < 25; n++)
        CHECK_OK(maps_add(store, n, &ids[n]));
    pc__map_store_get_stats(store, &raw);
    pc__maps held;
    CHECK_OK(pc__map_store_get(store, ids[4], &held));
    CHECK_OK(pc__map_store_tidy(store));
    CHECK(maps_right(&held, 4));
    pc__map_store_get_stats(store, &packed);
    pc__maps_release(store, &held);
    CHECK(packed.bytes < raw.bytes * 9 / 10);
    CHECK_INT(packed.live, 25);
    for (uint32_t n = 0; n < 25; n++)
        CHECK_OK(maps_check(store, ids[n], n));
    CHECK(maps_balance(store));
    pc__map_store_free(store);
    store = fresh(folder, (pc__map_store_options){.cold_seconds = 1e9});
    for (uint32_t n = 0; n < 25; n++)
        CHECK_OK(maps_check(store, ids[n], n));
    CHECK_OK(pc__map_store_tidy(store)); /* they are used again */
    for (uint32_t n = 0; n < 25; n++)
        CHECK_OK(maps_check(store, ids[n], n));
    pc__map_store_get_stats(store, &packed);
    CHECK_INT(packed.bytes, raw.bytes);
    CHECK(disk_bytes(folder) <= raw.bytes + 8192);
    pc__map_store_free(store);
}

/* ------------------------------------------------------------------ a truncated log */

enum { CUT_RECORDS = 6 };

static void copy_file(const char *from, const char *to, const char *name, off_t size)
{
    char path[512];
    uint8_t data[256 * 1024];
    ssize_t got;
    snprintf(path, sizeof path, "%s/%s", from, name);
    int in = open(path, O_RDONLY);
    snprintf(path, sizeof path, "%s/%s", to, name);
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(in >= 0 && out >= 0 && (got = read(in, data, sizeof data)) > 0
          && write(out, data, (size_t)got) == got);
    CHECK(size < 0 || !ftruncate(out, size));
    close(in);
    close(out);
}

/* Returns how many of `records` count as damaged; checks that each of the others is there. */
static uint64_t damaged_of(const char *folder, uint64_t records, int read_only)
{
    pc__map_store *store = fresh(folder,
                                 (pc__map_store_options){.read_only = read_only, .relaxed = 1});
    pc_memo_stats s = {0};
    maps_list *list;
    if (!store)
        return UINT64_MAX;
    pc__map_store_get_stats(store, &s);
    list = maps_list_of(store);
    for (size_t i = 0; i < list->count; i++)
        CHECK_OK(maps_check(store, list->items[i].id, list->items[i].number));
    CHECK_INT(list->count, s.live);
    CHECK_INT(s.stored, s.live + s.damaged);
    CHECK(!records || s.live + s.damaged == records);
    free(list);
    pc__map_store_free(store);
    return s.damaged;
}

/* A truncated log costs records and says how many; opening it for writing repairs it. */
static void cut_everywhere(const char *folder)
{
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/maps.log", folder);
    CHECK(!stat(path, &st) && st.st_size == 128 + CUT_RECORDS * 128);
    for (int i = 0; i <= 4 * (CUT_RECORDS + 1); i++) {
        static const off_t within[] = {0, 1, 64, 127};
        off_t size = i / 4 * 128 + within[i % 4];
        const char *cut = maps_folder();
        pc__map_store *store = NULL;
        uint64_t lost = CUT_RECORDS - (uint64_t)(size < 128 ? 0 : (size - 128) / 128);
        mkdir(cut, 0700);
        copy_file(folder, cut, "maps.data", -1);
        copy_file(folder, cut, "maps.log", size);
        if (size < 128) {
            CHECK_STATUS(maps_open(&store, cut, (pc__map_store_options){0}), PC_ERR_FORMAT);
            continue;
        }
        CHECK_INT(damaged_of(cut, CUT_RECORDS, 1), lost);
        CHECK_INT(damaged_of(cut, CUT_RECORDS, 0), lost);
        CHECK_INT(damaged_of(cut, 0, 0), 0);
    }
}

static void test_cut_log(void)
{
    char folder[256]; /* maps_folder reuses its text */
    snprintf(folder, sizeof folder, "%s", maps_folder());
    pc__map_store *store = fresh(folder, (pc__map_store_options){.relaxed = 1});
    int64_t ids[CUT_RECORDS];
    for (uint32_t n = 0; n < CUT_RECORDS; n++)
        CHECK_OK(maps_add(store, n, &ids[n]));
    pc__map_store_free(store);
    cut_everywhere(folder); /* entries in the order of adding */
    store = fresh(folder, (pc__map_store_options){.relaxed = 1});
    CHECK_OK(maps_check(store, ids[1], 1));
    CHECK_OK(pc__map_store_tidy(store));
    pc__map_store_free(store);
    cut_everywhere(folder); /* written anew */
    store = fresh(folder, (pc__map_store_options){.relaxed = 1});
    CHECK_OK(pc__map_store_remove(store, ids[0]));
    CHECK_OK(maps_add(store, 0, &ids[0]));
    CHECK_OK(pc__map_store_tidy(store));
    pc__map_store_free(store);
    cut_everywhere(folder);
}

/* ---------------------------------------------------------------------- memory */

static pc_status use(const pc_allocator *mem, const char *folder, int64_t *stored)
{
    pc__map_store_options options = {.signature = maps_face(),
                                     .create = 1,
                                     .cold_seconds = 1e-9,
                                     .budget_bytes = 40 * 1024,
                                     .relaxed = 1};
    pc__map_store *store = NULL;
    pc__maps maps = {0};
    uint8_t metadata[MAPS_NOTE];
    int64_t id = -1;
    pc_status status = pc__map_store_open(&store, mem, folder, &options), first = status;
    for (uint32_t n = 0; n < 7 && store; n++) {
        status = maps_add(store, n, &id);
        first = first < 0 ? first : status;
        if (status == PC_OK)
            *stored = id;
        if (n == 3 && (status = pc__map_store_tidy(store)) < 0)
            first = first < 0 ? first : status;
        if (n < 4)
            continue;
        status = pc__map_store_get(store, *stored, &maps);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM || status == PC_MISS);
        first = first < 0 ? first : status < 0 ? status : first;
        pc__maps_release(store, &maps);
        status = pc__map_store_metadata(store, *stored, metadata, sizeof metadata);
        first = first < 0 ? first : status < 0 ? status : first;
    }
    if (store)
        CHECK(maps_balance(store));
    pc__map_store_free(store);
    return first;
}

static void test_memory(void)
{
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    int failed = 1;
    for (uint64_t at = 1; failed && at < 2000; at++) {
        const char *folder = maps_folder();
        int64_t stored = -1;
        memory.calls = 0;
        memory.fail_at = at;
        pc_status status = use(&mem, folder, &stored);
        failed = memory.calls >= at;
        memory.fail_at = 0;
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        CHECK_INT(memory.live_blocks, 0);
        if (stored >= 0) { /* it was reported as stored */
            pc__map_store *store = fresh(folder, (pc__map_store_options){0});
            maps_list *list = maps_list_of(store);
            CHECK(list->count > 0 && list->items[list->count - 1].id >= stored);
            for (size_t i = 0; i < list->count; i++)
                CHECK_OK(maps_check(store, list->items[i].id, list->items[i].number));
            free(list);
            pc__map_store_free(store);
        }
    }
    CHECK(memory.calls > 60);
}

int main(void)
{
    test_round();
    test_golden();
    test_face();
    test_arguments();
    test_budget();
    test_worth_lasts();
    test_churn();
    test_pack();
    test_cut_log();
    test_memory();
    return pc_test_end();
}
