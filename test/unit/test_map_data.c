/* A store of maps that several threads use, and readers beside the writer. An opened store stands
 * for a process, because locks belong to open files. Catches: maps that change while they are held,
 * room that is reused while a reader holds its record, a reader that accepts another record,
 * pointers that move when the file grows, records that are lost or evicted because ranges of the
 * file cannot be locked; with ThreadSanitizer, races. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maps.h"
#include "memo/maps/map_store_internal.h"

enum { BUDGET = 100 * 1024 };

static pc__map_store *open_store(const char *folder, pc__map_store_options options)
{
    pc__map_store *store = NULL;
    CHECK_OK(maps_open(&store, folder, options));
    return store;
}

/* A reader holds one record. The writer removes both records, reuses their room, and tidies. */
static void test_reader_keeps(void)
{
    const char *folder = maps_folder();
    pc__map_store *writer = open_store(folder, (pc__map_store_options){.relaxed = 1}), *reader;
    pc_memo_stats before, after;
    int64_t held, between, other, id;
    pc__maps maps;
    CHECK_OK(maps_add(writer, 4, &held));
    CHECK_OK(maps_add(writer, 1, &between));
    CHECK_OK(maps_add(writer, 9, &other));
    reader = open_store(folder, (pc__map_store_options){.read_only = 1});
    CHECK_OK(maps_check(reader, other, 9));
    CHECK_OK(pc__map_store_get(reader, held, &maps));
    CHECK_OK(pc__map_store_remove(writer, held));
    CHECK_OK(pc__map_store_remove(writer, other));
    CHECK_OK(maps_add(writer, 14, &id));
    CHECK_OK(maps_add(writer, 19, &id));
    CHECK_OK(pc__map_store_tidy(writer));
    CHECK(maps_right(&maps, 4));
    CHECK_STATUS(maps_check(reader, other, 9), PC_MISS); /* its room has another record */
    CHECK_STATUS(maps_check(reader, id, 19), PC_MISS);   /* it is newer than the reader's log */
    CHECK(maps_right(&maps, 4));
    pc__map_store_get_stats(writer, &before);
    pc__maps_release(reader, &maps);
    CHECK_OK(pc__map_store_tidy(writer));
    pc__map_store_get_stats(writer, &after);
    CHECK(after.bytes < before.bytes);
    CHECK_STATUS(pc__map_store_get(reader, held, &maps), PC_MISS);
    CHECK(maps_balance(reader));
    CHECK(maps_balance(writer));
    pc__map_store_free(reader);
    pc__map_store_free(writer);
}

/* All records are in use: none is evicted. */
static void test_all_in_use(int by_reader)
{
    const char *folder = maps_folder();
    pc__map_store *writer = open_store(
                      folder, (pc__map_store_options){.relaxed = 1, .budget_bytes = BUDGET}),
                  *holder = writer;
    pc__maps maps[64];
    maps_list *list;
    int64_t id;
    for (uint32_t n = 0; n < 40; n++)
        CHECK_OK(maps_add(writer, n, &id));
    if (by_reader)
        holder = open_store(folder, (pc__map_store_options){.read_only = 1});
    list = maps_list_of(holder);
    CHECK(list->count > 3 && list->count < 40);
    for (size_t i = 0; i < list->count; i++)
        CHECK_OK(pc__map_store_get(holder, list->items[i].id, &maps[i]));
    pc_status status = PC_OK;
    for (uint32_t n = 0; n < 12 && status == PC_OK; n++)
        status = maps_add(writer, 4, &id);
    CHECK_STATUS(status, PC_AGAIN);
    CHECK_ERROR_HAS("in use");
    for (size_t i = 0; i < list->count; i++) {
        CHECK(maps_right(&maps[i], list->items[i].number));
        pc__maps_release(holder, &maps[i]);
    }
    CHECK_OK(maps_add(writer, 4, &id));
    CHECK_OK(maps_check(writer, id, 4));
    CHECK(maps_balance(writer));
    if (by_reader)
        pc__map_store_free(holder);
    pc__map_store_free(writer);
    free(list);
}

/* Records are removed and moved while they are held; borrowed maps stay until released. */
static void test_held_here(void)
{
    const char *folder = maps_folder();
    pc__map_store *store = open_store(folder,
                                      (pc__map_store_options){.relaxed = 1, .cold_seconds = 1e-9});
    int64_t ids[12];
    pc__maps maps[12], again;
    for (uint32_t n = 0; n < 12; n++)
        CHECK_OK(maps_add(store, n, &ids[n]));
    for (uint32_t n = 0; n < 12; n++)
        CHECK_OK(pc__map_store_get(store, ids[n], &maps[n]));
    CHECK_OK(pc__map_store_get(store, ids[0], &again));
    CHECK(again.layer[0] == maps[0].layer[0]);
    for (uint32_t n = 0; n < 12; n += 2)
        CHECK_OK(pc__map_store_remove(store, ids[n]));
    CHECK_OK(pc__map_store_tidy(store));
    for (uint32_t n = 12; n < 40; n++) {
        int64_t id;
        CHECK_OK(maps_add(store, n, &id));
    }
    for (uint32_t n = 0; n < 12; n++) {
        CHECK(maps_right(&maps[n], n));
        pc__maps_release(store, &maps[n]);
    }
    CHECK(maps_right(&again, 0));
    pc__maps_release(store, &again);
    pc__maps_release(store, &again); /* nothing is left */
    CHECK(maps_balance(store));
    pc__map_store_free(store);
}

/* With few addresses, mappings are as large as the file, and made anew often. */
static void test_growth(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    enum { COUNT = 120 };
    struct rlimit was, less = {(rlim_t)600 << 20, (rlim_t)600 << 20};
    const char *folder = maps_folder();
    static pc__maps maps[COUNT];
    static int64_t ids[COUNT];
    CHECK(!getrlimit(RLIMIT_AS, &was));
    less.rlim_max = was.rlim_max;
    CHECK(!setrlimit(RLIMIT_AS, &less));
    pc__map_store *store = open_store(folder, (pc__map_store_options){.relaxed = 1});
    for (uint32_t n = 0; n < COUNT; n++) {
        CHECK_OK(maps_add(store, n, &ids[n]));
        CHECK_OK(pc__map_store_get(store, ids[n], &maps[n]));
    }
    CHECK(!setrlimit(RLIMIT_AS, &was));
    for (uint32_t n = 0; n < COUNT; n++) {
        CHECK(maps_right(&maps[n], n));
        pc__maps_release(store, &maps[n]);
    }
    pc__map_store_free(store);
#endif
}

/* ------------------------------------------------------------------- threads */

typedef struct crowd {
    pc__map_store *store;
    const char *folder;
    atomic_int stop, wrong, added, gone;
    uint64_t seed;
} crowd;

static void crowd_evicted(void *user, int64_t id)
{
    (void)id;
    atomic_fetch_add(&((crowd *)user)->gone, 1);
}

static void *adder(void *user)
{
    crowd *c = user;
    pc__map_signature signature = maps_face();
    for (uint32_t n = 0; n < 60; n++) {
        maps_record r = maps_make(&signature, n);
        int64_t id;
        pc_status status = pc__map_store_add(c->store, &r.tokens_id, r.tokens, r.metadata,
                                             sizeof r.metadata, r.layers, &id, crowd_evicted, c);
        if (status == PC_OK)
            atomic_fetch_add(&c->added, 1);
        else if (status != PC_AGAIN) {
            fprintf(stderr, "    %s\n", pc_error_text());
            atomic_fetch_add(&c->wrong, 1);
        }
        maps_free(&r);
    }
    return NULL;
}

static void look_around(crowd *c, pc__map_store *store)
{
    maps_list *list = calloc(1, sizeof *list);
    pc__map_store_each(store, maps_see, list);
    for (size_t i = 0; i < list->count; i++) {
        pc_status status = maps_check(store, list->items[i].id, list->items[i].number);
        if (status != PC_OK && status != PC_MISS) {
            fprintf(stderr, "    %s: %s\n", pc_status_name(status), pc_error_text());
            atomic_fetch_add(&c->wrong, 1);
        }
    }
    free(list);
}

static void *looker(void *user)
{
    crowd *c = user;
    while (!atomic_load(&c->stop))
        look_around(c, c->store);
    return NULL;
}

static void *outsider(void *user)
{
    crowd *c = user;
    while (!atomic_load(&c->stop)) {
        pc__map_store *store = NULL;
        if (maps_open(&store, c->folder, (pc__map_store_options){.read_only = 1}) != PC_OK) {
            atomic_fetch_add(&c->wrong, 1);
            break;
        }
        for (int i = 0; i < 3; i++)
            look_around(c, store);
        pc__map_store_free(store);
    }
    return NULL;
}

static void *tidier(void *user)
{
    crowd *c = user;
    while (!atomic_load(&c->stop)) {
        if (pc__map_store_tidy(c->store) < 0)
            atomic_fetch_add(&c->wrong, 1);
        usleep(2000);
    }
    return NULL;
}

static void test_crowd(void)
{
    static void *(*const others[])(void *) = {looker, looker, outsider, tidier};
    const char *folder = maps_folder();
    crowd c = {.folder = folder,
               .store = open_store(folder, (pc__map_store_options){.relaxed = 1,
                                                                   .budget_bytes = 4 * BUDGET,
                                                                   .cold_seconds = 0.01})};
    pthread_t adders[3], rest[4];
    pc_memo_stats s;
    for (size_t i = 0; i < 3; i++)
        CHECK(!pthread_create(&adders[i], NULL, adder, &c));
    for (size_t i = 0; i < 4; i++)
        CHECK(!pthread_create(&rest[i], NULL, others[i], &c));
    for (size_t i = 0; i < 3; i++)
        pthread_join(adders[i], NULL);
    atomic_store(&c.stop, 1);
    for (size_t i = 0; i < 4; i++)
        pthread_join(rest[i], NULL);
    CHECK_INT(atomic_load(&c.wrong), 0);
    pc__map_store_get_stats(c.store, &s);
    CHECK_INT(s.stored, atomic_load(&c.added));
    CHECK_INT(s.evicted, atomic_load(&c.gone));
    CHECK_INT(s.damaged, 0);
    CHECK(maps_balance(c.store));
    CHECK(s.live > 3);
    size_t live = s.live;
    pc__map_store_free(c.store);
    c.store = open_store(folder, (pc__map_store_options){0});
    CHECK_INT(maps_count(c.store), live);
    look_around(&c, c.store);
    CHECK_INT(atomic_load(&c.wrong), 0);
    pc__map_store_free(c.store);
}

/* Ranges of the file cannot be locked, or another process has locked all beyond its end: adding
 * fails and evicts nothing. */
static void test_no_locks(uint64_t budget)
{
    const char *folder = maps_folder();
    pc__map_store *store = open_store(
        folder, (pc__map_store_options){.relaxed = 1, .budget_bytes = budget});
    pc_memo_stats s;
    int64_t id;
    char path[64];
    int writable = dup(store->data.fd), readable, outsider;
    for (uint32_t n = 0; n < 4; n++)
        CHECK_OK(maps_add(store, n, &id));
    snprintf(path, sizeof path, "/proc/self/fd/%d", store->data.fd);
    readable = open(path, O_RDONLY | O_CLOEXEC); /* a descriptor on which no write lock works */
    outsider = open(path, O_RDWR | O_CLOEXEC);
    CHECK(writable >= 0 && readable >= 0 && outsider >= 0 && dup2(readable, store->data.fd) >= 0);
    CHECK_STATUS(maps_add(store, 5, &id), PC_ERR_IO);
    CHECK_ERROR_HAS("cannot be locked");
    CHECK(dup2(writable, store->data.fd) >= 0);
    CHECK_INT(pc__range_lock(outsider, F_RDLCK, pc__map_space_used_end(&store->data.space), 0), 0);
    CHECK_STATUS(maps_add(store, 5, &id),
                 budget ? PC_OK : PC_AGAIN); /* with a budget, others are evicted */
    pc__map_store_get_stats(store, &s);
    CHECK((s.evicted > 0) == (budget > 0));
    CHECK(maps_balance(store));
    close(outsider);
    close(readable);
    close(writable);
    CHECK_OK(maps_add(store, 6, &id));
    pc__map_store_free(store);
}

int main(void)
{
    test_reader_keeps();
    test_all_in_use(0);
    test_all_in_use(1);
    test_held_here();
    test_growth();
    test_no_locks(0);
    test_no_locks(BUDGET);
    test_crowd();
    return pc_test_end();
}
