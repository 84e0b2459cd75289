/* Catches: a memo that finds other records with index files than with newly computed indexes: after
 * another projector, removed or added records, another prompt under the same id, damage or
 * truncation; a damaged file that is not reported; indexes that are computed although the file has
 * them; failed allocations that leak or leave a memo that cannot be opened. Prints how long opening
 * takes, with and without the file. PC_TEST_LONG=1: also with 10,000 and 100,000 records. */
#include <promptcache/bench.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/little_endian.h"
#include "memo/index/index_bytes.h"
#include "memo/index/index_file.h"
#include "memo/memo_internal.h"
#include "memo_prompts.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* ten times slower */
enum { DAMAGES = 8, CUTS = 4, FAILURES = 10, TIMED = 0 };
#else
enum { DAMAGES = 24, CUTS = 8, FAILURES = 24, TIMED = 1000 };
#endif
enum { LATER = 20, GONE = 10, OTHER_PROMPT = 30 /* the record of step 5 */ };

typedef struct kind {
    uint32_t index;
    uint64_t flags;
    size_t prompts; /* an HNSW so small that it is exact */
    uint64_t cost;  /* of a record */
    size_t units;
} kind;

typedef struct world {
    kind k;
    pc_context *context;
    pc_model *model;
    pc_memo *memo;
    char folder[300], path[340]; /* of the memo; of its index files */
    int warnings;
} world;

static void count_warnings(void *user, uint32_t level, const char *line)
{
    world *w = user;
    w->warnings += level == PC_LOG_WARN && strstr(line, "is computed again") != NULL;
}

static void start(world *w, const kind *k, const char *name, const pc_allocator *memory)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    *w = (world){.k = *k};
    o.log = count_warnings;
    o.log_user = w;
    o.threads = memory ? 1 : 0;
    o.allocator = memory;
    CHECK_OK(pc_context_new(&w->context, &o));
    CHECK_OK(pc_model_new_shape(&w->model, w->context, "tiny", 0, NULL));
    snprintf(w->folder, sizeof w->folder, "%s", name);
    snprintf(w->path, sizeof w->path, "%s/index-16.pci", w->folder);
}

static void end(world *w)
{
    pc_model_free(w->model);
    pc_context_free(w->context);
}

static pc_status try_open(world *w, uint32_t index, uint64_t flags)
{
    static const uint32_t lengths[] = {16};
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    o.flags = flags | w->k.flags;
    o.bucket_tokens = lengths;
    o.bucket_count = 1;
    o.index = index;
    o.verify_share = -1;
    w->warnings = 0;
    return pc_memo_open(&w->memo, w->model, w->folder, &o);
}

static void close_memo(world *w)
{
    pc_memo_free(w->memo);
    w->memo = NULL;
}

static void add(world *w, size_t from, size_t count)
{
    pc_input *inputs = memo_prompts(from, count);
    CHECK_OK(pc_memo_add(w->memo, inputs, sizeof(pc_input), count, NULL));
    memo_prompts_free(inputs);
}

static void train(world *w, uint64_t seed)
{
    pc_memo_work work = PC_MEMO_WORK_INIT;
    work.epochs = 1;
    work.seed = seed;
    CHECK_OK(pc_memo_train(w->memo, &work));
}

/* The same memo without index files. */
static memo_found look_without(world *w)
{
    char aside[360];
    memo_found f;
    snprintf(aside, sizeof aside, "%s.aside", w->path);
    CHECK(!rename(w->path, aside));
    CHECK_OK(try_open(w, PC_INDEX_SCAN, PC_MEMO_READ_ONLY));
    f = memo_look(w->model, w->memo);
    close_memo(w);
    CHECK(!rename(aside, w->path));
    return f;
}

/* Opened read-only, the memo finds what it should, lacks that much of the file, and warns as often.
 */
static int is_opened(world *w, const memo_found *want, uint64_t unsaved_cost, int warnings)
{
    int fine = CHECK_OK(try_open(w, w->k.index, PC_MEMO_READ_ONLY));
    if (!fine)
        return 0;
    memo_found f = memo_look(w->model, w->memo);
    fine &= CHECK_INT(w->memo->buckets[0].unsaved_cost, unsaved_cost);
    fine &= CHECK_INT(w->warnings, warnings);
    fine &= memo_same(&f, want);
    close_memo(w);
    return fine;
}

/* ------------------------------------------------------------- changed files */

/* A record of the file has another prompt, and all checksums are right: its id was given out twice.
 */
static void change_prompt(world *w, uint8_t *data, size_t size)
{
    pc__index_file_head head;
    CHECK_OK(pc__index_file_head_get(&head, &pc__libc_allocator, data, size));
    CHECK_INT(head.count, w->k.units);
    for (size_t s = 0; s < head.count; s++) {
        pc__index_file_section *section = &head.sections[s];
        pc__index_options options;
        size_t places;
        uint8_t *at = data + section->at;
        const uint8_t *ids = pc__index_bytes_header(at, section->size, &options, &places);
        for (size_t i = 0; i < places; i++)
            if (pc__get_u64(ids + 8 * i) == OTHER_PROMPT)
                at[section->size - 8 * places + 8 * i] ^= 1;
        section->sum = XXH3_64bits(at, section->size);
    }
    pc__index_file_head_put(&head, data);
    pc__free(&pc__libc_allocator, head.sections);
}

static void damage(world *w, const memo_found *want, uint64_t all)
{
    size_t size;
    uint8_t *data = (uint8_t *)pc_test_read(w->path, &size);
    pc_test_rng rng = {4};
    for (size_t i = 0; i < DAMAGES; i++) {
        size_t head = PC__INDEX_FILE_HEAD + w->k.units * PC__INDEX_FILE_ROW + PC__INDEX_FILE_SUM,
               at = i < DAMAGES / 2 ? i * head / (DAMAGES / 2) : pc_test_bits(&rng) % size;
        data[at] ^= 16;
        pc_test_write(w->path, data, size);
        if (!is_opened(w, want, all, 1))
            fprintf(stderr, "    byte %zu of %zu\n", at, size);
        data[at] ^= 16;
    }
    for (size_t i = 0; i < CUTS; i++) {
        size_t to = i < CUTS / 2 ? i * 40 : pc_test_bits(&rng) % size;
        pc_test_write(w->path, data, to);
        if (!is_opened(w, want, all, 1))
            fprintf(stderr, "    cut at %zu of %zu\n", to, size);
    }
    pc_test_write(w->path, data, size);
    free(data);
}

static void lose_some(world *w)
{
    CHECK_OK(try_open(w, w->k.index, 0));
    for (int64_t id = 0; id < GONE; id++) {
        CHECK_OK(pc__map_store_remove(w->memo->maps, id));
        pc__memo_entry_remove(w->memo, id);
    }
    close_memo(w);
}

/* The file stays unchanged while writing it would cost more than it saves. */
static void grow_and_shrink(world *w)
{
    size_t size, now;
    char *before = pc_test_read(w->path, &size), *after;
    CHECK_OK(try_open(w, w->k.index, 0));
    add(w, w->k.prompts, LATER);
    CHECK_OK(pc_memo_tidy(w->memo));
    close_memo(w);
    lose_some(w);
    after = pc_test_read(w->path, &now);
    CHECK(size == now && !memcmp(before, after, size));
    free(before);
    free(after);
}

static void test_kept(const kind *k, const char *name)
{
    world w;
    size_t size;
    uint64_t all = k->prompts * k->cost * k->units, later;
    memo_found want;
    start(&w, k, name, NULL);
    CHECK_OK(try_open(&w, k->index, 0));
    add(&w, 0, k->prompts);
    train(&w, 1);
    close_memo(&w);
    want = look_without(&w);
    is_opened(&w, &want, 0, 0);
    uint8_t *first = (uint8_t *)pc_test_read(w.path, &size);
    unlink(w.path);
    is_opened(&w, &want, all, 0);
    pc_test_write(w.path, first, size);
    damage(&w, &want, all);

    grow_and_shrink(&w);
    later = k->units * (LATER * k->cost + GONE);
    want = look_without(&w);
    is_opened(&w, &want, later, 0);
    change_prompt(&w, first, size);
    pc_test_write(w.path, first, size);
    is_opened(&w, &want, later + k->units * (k->cost + 1), 0);

    CHECK_OK(try_open(&w, k->index, 0));
    train(&w, 2);
    close_memo(&w);
    want = look_without(&w);
    is_opened(&w, &want, 0, 0);
    pc_test_write(w.path, first, size); /* of the first projector */
    is_opened(&w, &want, k->units * k->cost * (k->prompts + LATER - GONE), 0);
    CHECK_OK(try_open(&w, k->index, 0)); /* a writer repairs it at once */
    pc_memo *writer = w.memo;
    is_opened(&w, &want, 0, 0);
    pc_memo_free(writer);
    free(first);
    end(&w);
}

/* ------------------------------------------------------------------ memory */

/* Opens with the file; or without it, which writes the file. */
static void test_memory(const kind *k, const char *name, int without)
{
    pc_test_memory memory = {0};
    pc_allocator failing = pc_test_allocator(&memory);
    world w;
    int64_t before;
    uint64_t all = 0, step = 1;
    start(&w, k, name, &failing);
    before = memory.live_blocks;
    for (uint64_t at = 0; at <= all; at += step) {
        if (without)
            unlink(w.path);
        memory.calls = 0;
        memory.fail_at = at;
        pc_status status = try_open(&w, k->index, 0);
        CHECK(at ? status == PC_ERR_NOMEM || status == PC_OK : status == PC_OK);
        CHECK(status == PC_OK ? w.memo != NULL : !w.memo);
        memory.fail_at = 0;
        close_memo(&w);
        CHECK_INT(memory.live_blocks, before);
        if (!at)
            all = memory.calls;
        step = getenv("PC_TEST_LONG") ? 1 : all / FAILURES + 1;
    }
    CHECK_OK(try_open(&w, k->index, 0));
    close_memo(&w);
    end(&w);
    CHECK_INT(memory.live_blocks, 0);
}

/* -------------------------------------------------------------------- time */

static double clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void opened_in(world *w, const char *index, const char *how)
{
    double wall = clock_of(CLOCK_MONOTONIC), own = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    CHECK_OK(try_open(w, w->k.index, PC_MEMO_READ_ONLY));
    printf("%zu records, %s, %s: %.3f s, of processor time %.3f s\n", w->k.prompts, index, how,
           clock_of(CLOCK_MONOTONIC) - wall, clock_of(CLOCK_PROCESS_CPUTIME_ID) - own);
    fflush(stdout);
    close_memo(w);
}

static void test_time(size_t records, const char *name)
{
    static const struct {
        uint32_t index;
        const char *name;
    } kinds[] = {{PC_INDEX_SCAN, "scan"}, {PC_INDEX_IVF, "IVF"}, {PC_INDEX_HNSW, "HNSW"}};
    const kind k = {.prompts = records};
    world w;
    start(&w, &k, name, NULL);
    CHECK_OK(try_open(&w, PC_INDEX_SCAN, 0));
    add(&w, 0, records);
    train(&w, 1);
    close_memo(&w);
    for (size_t i = 0; i < (pc__index_has_faiss() ? 3 : 1); i++) {
        w.k.index = kinds[i].index;
        unlink(w.path);
        opened_in(&w, kinds[i].name, "from notes");
        double wall = clock_of(CLOCK_MONOTONIC);
        CHECK_OK(try_open(&w, w.k.index, 0));
        close_memo(&w);
        if (access(w.path, F_OK))
            continue;
        printf("made and written in %.3f s\n", clock_of(CLOCK_MONOTONIC) - wall);
        opened_in(&w, kinds[i].name, "kept");
    }
    end(&w);
}

int main(void)
{
    const kind kinds[] = {{PC_INDEX_SCAN, 0, 1100, 1, 1},
                          {PC_INDEX_SCAN, PC_MEMO_LAYERS, 600, 1, 2},
                          {PC_INDEX_HNSW, 0, 200, 25, 1},
                          {PC_INDEX_HNSW, PC_MEMO_LAYERS, 200, 25, 2}};
    char name[300];
    size_t count = pc__index_has_faiss() ? 4 : 2;
    const char *root = pc_test_folder();
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%.200s/kept-%zu", root, i);
        test_kept(&kinds[i], name);
        test_memory(&kinds[i], name, 0);
        test_memory(&kinds[i], name, 1);
    }
    for (size_t records = 1000; records <= (getenv("PC_TEST_LONG") ? 100000 : TIMED);
         records *= 10) {
        snprintf(name, sizeof name, "%.200s/time-%zu", root, records);
        test_time(records, name);
    }
    return pc_test_end();
}
