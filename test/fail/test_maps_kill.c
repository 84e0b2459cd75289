/* A store of attention maps whose writer is killed, or whose disk fails, at every system call and
 * at random moments. Catches: a record that was reported as stored and is missing or changed, a
 * removed record that returns, an exceeded budget, room that is lost for good, a store that cannot
 * be opened, counters that do not balance after a failure, leaked descriptors.
 *
 * failing_calls.h counts the library's calls and kills the process or makes them fail. A diary in
 * memory that the parent shares has what was reported. PC_TEST_LONG=1: all calls with both errors,
 * and 500 random moments. */
#include <limits.h>

#include "failing_calls.h"
#include "maps.h"

WRAP_FCNTL(fcntl)
WRAP_FCNTL(fcntl64)
WRAP_MMAP(mmap)
WRAP_MMAP(mmap64)
WRAP(fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
WRAP(fallocate64, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
WRAP(fsync, (int fd), (fd))
WRAP(fdatasync, (int fd), (fd))

/* ------------------------------------------------------------- the diary */

enum {
    BUDGET = 80 * 1024,
    MOST = 1 << 16,
    VICTIMS = 4 /* in one call: this many of the smallest make room for the largest */
};
typedef struct reported {  /* shared with the parent */
    uint8_t number[MOST];  /* record of an id, + 1; 0: unknown */
    uint8_t begun[MOST];   /* a removal has begun, or eviction may have happened unreported */
    uint8_t stored[MOST];  /* add has returned */
    uint8_t removed[MOST]; /* removal or eviction has returned */
    int adding;            /* may evict; a kill loses the report */
    int wrong;
} reported;
static reported *diary;

static void forget(void)
{
    memset(diary, 0, sizeof *diary);
}

static void evicted(void *user, int64_t id)
{
    (void)user;
    diary->removed[id] = 1;
}

static void add(pc__map_store *store, uint32_t number)
{
    pc__map_signature signature = maps_face();
    maps_record r = maps_make(&signature, number);
    int64_t id = -1;
    diary->adding = 1;
    pc_status status = pc__map_store_add(store, &r.tokens_id, r.tokens, r.metadata,
                                         sizeof r.metadata, r.layers, &id, evicted, NULL);
    diary->adding = 0;
    maps_free(&r);
    diary->wrong += (status == PC_OK) != (id >= 0);
    if (status == PC_OK && id < MOST) {
        diary->number[id] = (uint8_t)(number + 1);
        diary->stored[id] = 1;
    }
}

static void take_out(pc__map_store *store, int64_t id)
{
    if (id >= 0 && id < MOST)
        diary->begun[id] = 1;
    pc_status status = pc__map_store_remove(store, id);
    diary->wrong += status != PC_OK && status != PC_MISS && hook.what != FAIL;
    if (status == PC_OK)
        diary->removed[id] = 1;
}

static void look(pc__map_store *store, int64_t id)
{
    pc_status status = maps_check(store, id, (uint32_t)diary->number[id] - 1);
    diary->wrong += status == PC_ERR_INTERNAL || status == PC_ERR_FORMAT;
    diary->wrong += status == PC_MISS && diary->stored[id] && !diary->removed[id]
                    && !diary->begun[id];
}

/* Does everything that changes a store: make, fill, evict, remove, compress, decompress, tidy,
 * close. */
static void scenario(const char *folder)
{
    pc__map_store *store = NULL;
    if (maps_open(&store, folder,
                  (pc__map_store_options){.budget_bytes = BUDGET, .cold_seconds = 1e-9})
        != PC_OK)
        return;
    for (uint32_t n = 0; n < 3; n++)
        add(store, n);
    take_out(store, 1);
    look(store, 0);
    pc__map_store_tidy(store);
    for (uint32_t n = 3; n < 12; n++)
        add(store, n);
    for (int64_t id = 0; id < 12; id++)
        if (diary->stored[id])
            look(store, id);
    diary->wrong += !maps_balance(store);
    pc__map_store_free(store);
    if (maps_open(&store, folder,
                  (pc__map_store_options){.budget_bytes = BUDGET, .cold_seconds = 1e9})
        != PC_OK)
        return;
    pc__map_store_tidy(store);
    add(store, 12);
    diary->wrong += !maps_balance(store);
    pc__map_store_free(store);
}

static uint64_t disk_bytes(const char *folder)
{
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/maps.data", folder);
    return stat(path, &st) ? 0 : (uint64_t)st.st_blocks * 512;
}

/* Checks the store after an accident, and that it stays usable. */
static int check_store(const char *folder)
{
    pc__map_store *store = NULL, *reader = NULL;
    pc_memo_stats s;
    int fine = CHECK_INT(diary->wrong, 0);
    int64_t id = -1;
    int lost = 0;
    uint8_t there[MOST] = {0};
    fine &= CHECK(disk_bytes(folder) <= BUDGET + 8192);
    fine &= CHECK_OK(
        maps_open(&store, folder, (pc__map_store_options){.budget_bytes = BUDGET, .relaxed = 1}));
    if (!store)
        return 0;
    fine &= CHECK_OK(maps_open(&reader, folder, (pc__map_store_options){.read_only = 1}));
    maps_list *list = maps_list_of(store);
    for (size_t i = 0; i < list->count; i++) {
        fine &= CHECK_OK(maps_check(store, list->items[i].id, list->items[i].number));
        fine &= CHECK_OK(maps_check(reader, list->items[i].id, list->items[i].number));
        there[list->items[i].id] = 1;
        fine &= CHECK(!diary->removed[list->items[i].id]);
    }
    free(list);
    for (size_t i = 0; i < MOST; i++)
        lost += diary->stored[i] && !diary->removed[i] && !diary->begun[i] && !there[i];
    fine &= CHECK(lost <= (diary->adding ? VICTIMS : 0));
    diary->adding = 0;
    pc__map_store_free(reader);
    pc__map_store_get_stats(store, &s);
    fine &= CHECK_INT(s.damaged, 0);
    fine &= CHECK_OK(pc__map_store_tidy(store));
    fine &= CHECK_OK(maps_add(store, 200, &id));
    fine &= CHECK(!diary->stored[id]); /* a reported id is never given out again */
    fine &= CHECK_OK(maps_check(store, id, 200));
    fine &= CHECK(maps_balance(store));
    pc__map_store_free(store);
    return fine;
}

static void fresh(const char *path)
{
    (void)path;
    forget();
}

/* The diary says what is wrong. */
static int noted(const char *path)
{
    scenario(path);
    return 0;
}

static void test_kill(int what, const char *name, long step)
{
    kill_at_each_call(what,
                      &(accident){name, step, what == KILL ? 150 : 30, fresh, noted, check_store});
}

static void test_fail(int error, long step)
{
    fail_at_each_call(
        error,
        &(accident){.step = step, .prepare = fresh, .scenario = noted, .check = check_store});
}

/* ----------------------------------------------------------- random moments */

static void work_for_ever(const char *path, uint64_t seed)
{
    pc_test_rng rng = {seed};
    pc__map_store *store = NULL;
    int64_t last = 0;
    for (;;) {
        uint64_t bits = pc_test_bits(&rng);
        int again = 0;
        while (!store
               && maps_open(&store, path,
                            (pc__map_store_options){.budget_bytes = BUDGET,
                                                    .cold_seconds = bits & 64 ? 1e-9 : 1e9,
                                                    .relaxed = bits & 128 ? 1 : 0})
                      == PC_AGAIN
               && again++ < 1000)
            usleep(1000);
        if (!store)
            _exit(2);
        switch (bits >> 32 & 15) {
        case 0:
            take_out(store, last);
            break;
        case 1:
            pc__map_store_tidy(store);
            break;
        case 2:
            diary->wrong += !maps_balance(store);
            pc__map_store_free(store);
            store = NULL;
            break;
        case 3:
        case 4:
        case 5: {
            maps_list *list = calloc(1, sizeof *list);
            pc__map_store_each(store, maps_see, list);
            for (size_t i = 0; i < list->count; i++) {
                diary->wrong += maps_check(store, list->items[i].id, list->items[i].number)
                                != PC_OK;
                last = list->items[i].id;
            }
            free(list);
            break;
        }
        default:
            add(store, (uint32_t)(bits % 128));
        }
        if (diary->wrong)
            _exit(3);
    }
}

static void test_random(int kills)
{
    char path[256];
    pc_test_rng rng = {20261121};
    snprintf(path, sizeof path, "%s/random", pc_test_folder());
    forget();
    for (int done = 0; done < kills; done++) {
        uint64_t seed = pc_test_bits(&rng);
        pid_t child = fork();
        int status;
        if (!child)
            work_for_ever(path, seed);
        usleep((useconds_t)(seed % 40000));
        kill(child, SIGKILL);
        if (!CHECK(waitpid(child, &status, 0) == child) || !CHECK(WIFSIGNALED(status)))
            break;
        if (!check_store(path)) {
            fprintf(stderr, "    after %d kills\n", done + 1);
            return;
        }
        for (size_t i = 0; i < MOST; i++) /* check_store evicted without a report */
            diary->begun[i] |= diary->stored[i];
    }
    printf("%d random kills\n", kills);
}

int main(void)
{
    const char *longer = getenv("PC_TEST_LONG");
    int is_long = longer && *longer && strcmp(longer, "0");
    diary = mmap(NULL, sizeof *diary, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    test_kill(KILL, "kill", is_long ? 1 : 5);
    test_kill(HALF_WRITE, "half", is_long ? 1 : 3);
    test_fail(EIO, is_long ? 1 : 7);
    test_fail(ENOSPC, is_long ? 1 : 11);
    test_random(is_long ? 500 : 30);
    return pc_test_end();
}
