/* Conversations that are saved and loaded, through each tier and by another process: they go on as
 * one that was never saved does, with equal logits, bit for bit. Catches: states, tokens, random
 * numbers or positions that come back changed; a run that no longer grows where it did; a save that
 * disturbs the sequence; saving that stores again what is there, or keeps parts that no save needs;
 * an older save that is loaded while the last one is in another tier or on its way to one, or parts
 * that expire before the last save that needs them; a conversation of another key, tenant or model;
 * one that is half loaded when parts are missing or damaged; exact states called approximate, or
 * lossy ones exact; a read-only cache that says it has no room; modules whose eviction takes a
 * conversation along; levels and forks of loaded ones that differ; unchecked arguments; leaks when
 * memory runs out. The program starts itself as a second process. */
#include "serve/sequence.h"

#include <promptcache/batch.h>
#include <promptcache/extend.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "random_model.h"
#include "redis_server.h"
#include "testing.h"

enum { VOCAB = RANDOM_VOCAB, PROMPT = 150, BEFORE = 90, TURN = 70, AFTER = 12 };
#define BIT(tier) (UINT64_C(1) << (tier))

static const uint8_t key[32] = {1, 2, 3}, other_key[32] = {1, 2, 4};

typedef struct world {
    pc_context *context;
    pc_model *model;
    int32_t ids[PROMPT + TURN];
} world;

static int start(world *w, const pc_allocator *allocator, uint32_t kv)
{
    const random_model shape = {PC_POSITION_ROPE, PC_DTYPE_F32, kv, 16, 0};
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_test_rng rng = {5};
    memset(w, 0, sizeof *w);
    o.threads = 1;
    o.allocator = allocator;
    for (int i = 0; i < PROMPT + TURN; i++)
        w->ids[i] = (int32_t)(pc_test_bits(&rng) % VOCAB);
    return pc_context_new(&w->context, &o) >= 0
           && random_model_new(&w->model, w->context, &shape) >= 0;
}

static void end(world *w)
{
    pc_model_free(w->model);
    pc_context_free(w->context);
}

static pc_generate_options options(const pc_sampling *sampling)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.flags = PC_GENERATE_KEEP | PC_GENERATE_LOGITS;
    o.max_tokens = 1000;
    o.sampling = sampling;
    return o;
}

static void step(pc_sequence *s, int count)
{
    pc_batch *batch = NULL;
    CHECK_OK(pc_batch_new(&batch, s->model, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    for (int i = 0; i < count; i++)
        CHECK(pc_batch_step(batch) >= 0);
    pc_batch_free(batch);
}

static pc_sequence *talk(const world *w, pc_cache *cache, const pc_sampling *sampling, int steps)
{
    pc_generate_options o = options(sampling);
    pc_prompt *prompt = NULL;
    pc_sequence *s = NULL;
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, w->ids, PROMPT, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, cache, &o));
    pc_prompt_free(prompt);
    step(s, steps);
    return s;
}

static pc_cache *open_cache(const world *w, const char *folder, const char *remote)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.disk_path = folder;
    o.remote = remote;
    o.deadline_seconds = 30;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    CHECK_OK(pc_cache_new(&cache, w->context, &o));
    return cache;
}

static size_t tokens_behind(const pc_sequence *s)
{
    size_t count;
    pc_sequence_tokens(s, &count);
    return count;
}

/* Both go on in the same way: equal tokens, equal logits. */
static void go_on_equally(pc_sequence *a, pc_sequence *b, const int32_t *turn, size_t turn_count)
{
    size_t m, n;
    const int32_t *x, *y;
    for (int i = 0; i < AFTER; i++) {
        const float *p, *q;
        if (i == AFTER / 2) {
            CHECK_OK(pc_sequence_push(a, turn, turn_count));
            CHECK_OK(pc_sequence_push(b, turn, turn_count));
        }
        step(a, 1);
        step(b, 1);
        p = pc_sequence_logits(a, &m);
        q = pc_sequence_logits(b, &n);
        if (CHECK(p && q && m == n))
            CHECK(!memcmp(p, q, m * sizeof *p));
    }
    x = pc_sequence_tokens(a, &m);
    y = pc_sequence_tokens(b, &n);
    CHECK_INT(m, n);
    CHECK(m == n && !memcmp(x, y, n * sizeof *x));
}

static pc_sequence *load(const world *w, pc_cache *cache, const pc_sampling *sampling,
                         pc_status outcome)
{
    pc_generate_options o = options(sampling);
    pc_sequence *s = NULL;
    uint32_t reason = 99;
    CHECK_STATUS(pc_sequence_load(&s, w->model, cache, key, &o, NULL, &reason), outcome);
    CHECK((s != NULL) == (outcome == PC_OK));
    CHECK(outcome == PC_MISS ? reason != 0 : !reason);
    return s;
}

/* tier: that all of it came from; PC_TIER_NONE: from several. */
static void is_exact(const pc_sequence *s, uint32_t tier)
{
    pc_stats stats = PC_STATS_INIT;
    CHECK_OK(pc_sequence_get_stats(s, &stats));
    CHECK_INT(stats.exactness, PC_EXACT);
    CHECK_INT(stats.lossy, 0);
    CHECK_INT(stats.tokens_prompt, stats.tokens_cached + stats.tokens_new);
    CHECK_INT(stats.tokens_cached, PROMPT + BEFORE - 1);
    if (tier)
        CHECK_INT(stats.tokens_tier[tier], stats.tokens_cached);
}

/* Saved with a cache, loaded with it or, after a restart, with another one. */
static void through_a_tier(const world *w, const char *folder, const char *remote, uint64_t tiers,
                           uint32_t from, int restart)
{
    pc_sampling sampling = PC_SAMPLING_INIT;
    pc_save_options save = PC_SAVE_OPTIONS_INIT;
    pc_cache *cache = open_cache(w, folder, remote);
    pc_sequence *never, *saved, *loaded;
    sampling.temperature = 0.8f;
    sampling.seed = 11;
    sampling.repetition_penalty = 1.2f;
    save.tiers = tiers;
    never = talk(w, NULL, &sampling, BEFORE);
    saved = talk(w, NULL, &sampling, BEFORE);
    CHECK_OK(pc_sequence_save(saved, cache, key, &save));
    CHECK_OK(pc_cache_flush(cache));
    if (restart) {
        pc_cache_free(cache);
        cache = open_cache(w, folder, remote);
    }
    loaded = load(w, cache, &sampling, PC_OK);
    if (loaded) {
        is_exact(loaded, from);
        go_on_equally(never, loaded, w->ids + PROMPT, TURN);
    }
    pc_sequence_free(never);
    never = talk(w, NULL, &sampling, BEFORE);
    go_on_equally(never, saved, w->ids + PROMPT, TURN); /* saving has changed nothing */
    pc_sequence_free(never);
    pc_sequence_free(loaded);
    pc_sequence_free(saved);
    CHECK_OK(pc_sequence_forget(w->model, cache, key, NULL));
    CHECK_STATUS(pc_sequence_forget(w->model, cache, key, NULL), PC_MISS);
    load(w, cache, &sampling, PC_MISS);
    pc_cache_free(cache);
}

/* What this process has saved, and how it goes on, compared by a second one. */
static void second_process(const world *w, const char *program, const char *folder)
{
    pc_cache *cache = open_cache(w, folder, NULL);
    pc_sequence *s = talk(w, cache, NULL, BEFORE);
    pid_t child;
    int status = -1;
    CHECK_OK(pc_sequence_save(s, cache, key, NULL));
    pc_sequence_free(s);
    pc_cache_free(cache);
    child = fork();
    if (!child) {
        execl(program, program, "second", folder, (char *)NULL);
        _exit(127);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

static void as_second(const world *w, const char *folder)
{
    pc_cache *cache = open_cache(w, folder, NULL);
    pc_sequence *loaded = load(w, cache, NULL, PC_OK), *never = talk(w, NULL, NULL, BEFORE);
    if (loaded)
        go_on_equally(never, loaded, w->ids + PROMPT, TURN);
    pc_sequence_free(loaded);
    pc_sequence_free(never);
    pc_cache_free(cache);
}

static uint64_t disk_segments(pc_cache *cache, uint64_t *stored)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_flush(cache));
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &s));
    *stored = s.bytes_written;
    return s.segments;
}

/* Turn by turn: only what is new is written, and what no save needs goes. */
static void many_turns(const world *w, const char *folder)
{
    pc_cache *cache = open_cache(w, folder, NULL);
    pc_sequence *s = talk(w, NULL, NULL, 1), *never = talk(w, NULL, NULL, 1), *loaded;
    uint64_t first, before, now, segments = 0;
    CHECK_OK(pc_sequence_save(s, cache, key, NULL));
    disk_segments(cache, &first);
    before = first;
    for (int turn = 0; turn < 20; turn++) {
        for (int i = 0; i < 2; i++) {
            pc_sequence *each = i ? s : never;
            CHECK_OK(pc_sequence_push(each, w->ids + turn, 40));
            step(each, 20);
        }
        CHECK_OK(pc_sequence_save(s, cache, key, NULL));
        segments = disk_segments(cache, &now);
        before = now;
    }
    /* 1,350 tokens in all: two heads, the full parts, and the last ones of two saves */
    CHECK(segments <= 2 + 1 + 1350 / (64 * 8) + 4);
    CHECK(before > first);
    loaded = load(w, cache, NULL, PC_OK);
    if (loaded)
        go_on_equally(never, loaded, w->ids, TURN);
    pc_sequence_free(loaded);
    CHECK_OK(pc_sequence_save(s, cache, key, NULL)); /* nothing is new but the head */
    disk_segments(cache, &now);
    CHECK(now - before < 40000);
    CHECK_OK(pc_sequence_forget(w->model, cache, key, NULL));
    CHECK_INT(disk_segments(cache, &now), PROMPT / 64); /* what it shares with others */
    pc_sequence_free(s);
    pc_sequence_free(never);
    pc_cache_free(cache);
}

/* A conversation over blocks of the cache: these may go, and are stored once for two of them. */
static void over_cached_blocks(const world *w, const char *folder)
{
    pc_cache *cache = open_cache(w, folder, NULL);
    pc_generate_options o = options(NULL);
    pc_sequence *first = talk(w, cache, NULL, BEFORE), *s, *never, *a = NULL, *b = NULL;
    pc_span spans[64];
    size_t count = 0, shared = 0;
    uint64_t bytes, parts;
    pc_sequence_free(first);
    s = talk(w, cache, NULL, BEFORE);
    never = talk(w, cache, NULL, BEFORE);
    CHECK_OK(pc_sequence_save(s, cache, key, NULL));
    pc_sequence_free(load(w, cache, NULL, PC_OK)); /* while its blocks are on their way to DISK */
    parts = disk_segments(cache, &bytes);
    CHECK_OK(pc_sequence_save(s, cache, other_key, NULL));
    CHECK(disk_segments(cache, &bytes) - parts < parts); /* its own states and head */
    pc_sequence_free(s);
    pc_cache_free(cache);
    cache = open_cache(w, folder, NULL);
    a = load(w, cache, NULL, PC_OK);
    CHECK_OK(pc_sequence_load(&b, w->model, cache, other_key, &o, NULL, NULL));
    if (a && b) {
        is_exact(a, PC_TIER_DISK);
        for (size_t i = 0; i < a->placed.segment_count; i++)
            shared += a->placed.segments[i] == b->placed.segments[i];
        CHECK(shared == a->placed.segment_count && shared); /* one reading in a batch */
        CHECK_OK(pc_sequence_spans(a, spans, sizeof *spans, 64, &count));
        for (size_t i = 0; i < count; i++) /* exactness travels */
            CHECK(pc__segment_visibility(spans[i].segment) != NULL);
        for (size_t i = 0; i < count; i++)
            pc_segment_free(spans[i].segment);
        go_on_equally(never, b, w->ids + PROMPT, TURN);
    }
    pc_sequence_free(a);
    pc_sequence_free(b);
    pc_sequence_free(never);
    pc_cache_free(cache);
}

/* Loaded ones are as others: truncated, forked, saved again, in the middle of an answer. */
static void as_others(const world *w)
{
    pc_cache *cache = open_cache(w, NULL, NULL);
    pc_sequence *s = talk(w, NULL, NULL, BEFORE), *loaded, *fork = NULL, *same = NULL;
    CHECK_OK(pc_sequence_save(s, cache, key, NULL));
    loaded = load(w, cache, NULL, PC_OK);
    for (int i = 0; i < 2 && loaded; i++) {
        size_t left = i ? 0 : BEFORE / 3;
        CHECK_OK(pc_sequence_truncate(s, left));
        CHECK_OK(pc_sequence_truncate(loaded, left));
        CHECK_OK(pc_sequence_save(loaded, cache, key, NULL));
        pc_sequence_free(loaded);
        loaded = load(w, cache, NULL, PC_OK);
        if (loaded)
            go_on_equally(s, loaded, w->ids + PROMPT, TURN);
    }
    if (loaded) {
        CHECK_OK(pc_sequence_fork(&fork, loaded, NULL));
        CHECK_OK(pc_sequence_fork(&same, s, NULL));
        go_on_equally(same, fork, w->ids, 3);
        go_on_equally(s, loaded, w->ids + 5, 3);
        /* runs that a fork has frozen, and one that was cut afterwards */
        CHECK_OK(pc_sequence_truncate(s, BEFORE / 4));
        CHECK_OK(pc_sequence_truncate(loaded, BEFORE / 4));
        CHECK_OK(pc_sequence_save(loaded, cache, key, NULL));
        pc_sequence_free(loaded);
        loaded = load(w, cache, NULL, PC_OK);
        if (loaded)
            go_on_equally(s, loaded, w->ids + 9, 2);
    }
    pc_sequence_free(same);
    pc_sequence_free(fork);
    pc_sequence_free(loaded);
    pc_sequence_free(s);
    pc_cache_free(cache);
}

static void others_do_not_get_it(const world *w, const char *folder)
{
    pc_cache *cache = open_cache(w, folder, NULL);
    pc_generate_options o = options(NULL);
    pc_save_options alice = PC_SAVE_OPTIONS_INIT, bob = PC_SAVE_OPTIONS_INIT;
    pc_sequence *s = talk(w, cache, NULL, BEFORE), *got = NULL;
    world other;
    uint32_t reason = 0;
    alice.salt = "alice";
    alice.salt_size = 5;
    bob.salt = "bob";
    bob.salt_size = 3;
    CHECK_OK(pc_sequence_save(s, cache, key, &alice));
    CHECK_OK(pc_cache_flush(cache));
    CHECK_STATUS(pc_sequence_load(&got, w->model, cache, key, &o, &bob, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_FIRST_USE);
    CHECK_STATUS(pc_sequence_load(&got, w->model, cache, key, &o, NULL, &reason), PC_MISS);
    CHECK_STATUS(pc_sequence_load(&got, w->model, cache, other_key, &o, &alice, &reason), PC_MISS);
    CHECK_STATUS(pc_sequence_forget(w->model, cache, key, &bob), PC_MISS);
    CHECK(start(&other, NULL, PC_DTYPE_DEFAULT));
    other.model->info.fingerprint[0] ^= 1;
    CHECK_STATUS(pc_sequence_load(&got, other.model, cache, key, &o, &alice, &reason), PC_MISS);
    CHECK(got == NULL);
    CHECK_OK(pc_sequence_load(&got, w->model, cache, key, &o, &alice, &reason));
    pc_sequence_free(got);
    pc_sequence_free(s);
    pc_cache_free(cache);
    end(&other);
}

/* A folder that may not be written says so; a miss of what has expired, too. */
static void read_only_and_expired(const world *w, const char *folder)
{
    pc_cache_options c = PC_CACHE_OPTIONS_INIT;
    pc_save_options save = PC_SAVE_OPTIONS_INIT;
    pc_generate_options o = options(NULL);
    pc_cache *cache = open_cache(w, folder, NULL);
    pc_sequence *s = talk(w, cache, NULL, BEFORE), *got = NULL;
    uint32_t reason = 0;
    save.ttl_seconds = 0.01;
    save.tiers = BIT(PC_TIER_RAM);
    CHECK_OK(pc_sequence_save(s, cache, other_key, &save));
    usleep(12000);
    CHECK_STATUS(pc_sequence_load(&got, w->model, cache, other_key, &o, NULL, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_EXPIRED);
    pc_cache_free(cache);
    c.disk_path = folder;
    c.flags = PC_CACHE_READ_ONLY;
    CHECK_OK(pc_cache_new(&cache, w->context, &c));
    save.ttl_seconds = 0;
    save.tiers = BIT(PC_TIER_DISK);
    CHECK_STATUS(pc_sequence_save(s, cache, key, &save), PC_ERR_STATE);
    CHECK_ERROR_HAS("pc_sequence_save: the cache is read-only");
    save.tiers |= BIT(PC_TIER_RAM);
    CHECK_OK(pc_sequence_save(s, cache, key, &save));
    pc_sequence_free(s);
    pc_cache_free(cache);
}

/* Calls `each` for every file of records. */
static int each_file(const char *folder, int (*each)(const char *path, int number))
{
    char path[1024];
    int number = 0;
    DIR *top = opendir(folder);
    for (struct dirent *d = top ? readdir(top) : NULL; d; d = readdir(top)) {
        DIR *inner;
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        inner = d->d_name[0] == '.' ? NULL : opendir(path);
        for (struct dirent *f = inner ? readdir(inner) : NULL; f; f = readdir(inner)) {
            char file[2048];
            snprintf(file, sizeof file, "%s/%s", path, f->d_name);
            if (f->d_name[0] != '.' && strlen(f->d_name) > 40)
                number += each(file, number);
        }
        if (inner)
            closedir(inner);
    }
    if (top)
        closedir(top);
    return number;
}

static int victim, harm; /* the file's number; 0: removed, 1: damaged */

static int hurt(const char *path, int number)
{
    if (number != victim)
        return 1;
    if (harm) {
        FILE *file = fopen(path, "r+b");
        CHECK(file && !fseek(file, 5000, SEEK_SET) && fputs("damaged!", file) >= 0);
        if (file)
            fclose(file);
    } else {
        CHECK_INT(unlink(path), 0);
    }
    return 1;
}

static int count_only(const char *path, int number)
{
    (void)path, (void)number;
    return 1;
}

/* Each record of a save is lost once, or damaged: all or nothing. */
static void broken(const world *w, const char *folder)
{
    char path[600];
    int files = 1, misses = 0;
    for (victim = 0; victim < files; victim++)
        for (harm = 0; harm < 2; harm++) {
            pc_cache *cache;
            pc_generate_options o = options(NULL);
            pc_sequence *s, *got = NULL;
            uint32_t reason;
            pc_status status;
            snprintf(path, sizeof path, "%s/%d-%d", folder, victim, harm);
            cache = open_cache(w, path, NULL);
            s = talk(w, NULL, NULL, BEFORE);
            CHECK_OK(pc_sequence_save(s, cache, key, NULL));
            pc_cache_free(cache);
            files = each_file(path, count_only);
            each_file(path, hurt);
            cache = open_cache(w, path, NULL);
            status = pc_sequence_load(&got, w->model, cache, key, &o, NULL, &reason);
            CHECK_STATUS(status, PC_MISS);
            CHECK(status != PC_MISS || (!got && reason));
            misses += status == PC_MISS;
            CHECK_OK(pc_sequence_save(s, cache, key, NULL)); /* stores what is missing */
            CHECK_OK(pc_cache_flush(cache));
            pc_cache_free(cache);
            cache = open_cache(w, path, NULL);
            CHECK_OK(pc_sequence_load(&got, w->model, cache, key, &o, NULL, &reason));
            pc_sequence_free(got);
            pc_sequence_free(s);
            pc_cache_free(cache);
        }
    CHECK(files >= 2);
    CHECK_INT(misses, 2 * files);
}

static void lossy(const world *w, const char *folder)
{
    pc_cache_options c = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    pc_sequence *s = talk(w, NULL, NULL, BEFORE), *loaded;
    pc_stats stats = PC_STATS_INIT;
    c.disk_path = folder;
    c.disk_codec = PC_CODEC_I8;
    c.flags = PC_CACHE_ALWAYS_LOAD;
    CHECK_OK(pc_cache_new(&cache, w->context, &c));
    CHECK_OK(pc_sequence_save(s, cache, key, NULL));
    pc_cache_free(cache);
    CHECK_OK(pc_cache_new(&cache, w->context, &c));
    loaded = load(w, cache, NULL, PC_OK);
    if (loaded) {
        CHECK_OK(pc_sequence_get_stats(loaded, &stats));
        CHECK_INT(stats.exactness, PC_APPROXIMATE);
        CHECK_INT(stats.lossy, 1);
        step(loaded, 2);
    }
    pc_sequence_free(loaded);
    pc_sequence_free(s);
    pc_cache_free(cache);
}

/* Saves in tiers of the caller's choice: the last one counts, and loads look nowhere else. */
static void in_chosen_tiers(const world *w, const char *folder)
{
    static const uint32_t saves[] = {0, 1, 1, 0, 1, 0, 0, 1}; /* 0: RAM, 1: DISK */
    pc_cache *cache = open_cache(w, folder, NULL);
    pc_generate_options o = options(NULL);
    pc_save_options save = PC_SAVE_OPTIONS_INIT;
    pc_sequence *s = talk(w, NULL, NULL, BEFORE), *got = NULL;
    uint32_t reason;
    for (size_t i = 0; i < sizeof saves / sizeof *saves; i++) {
        save.tiers = BIT(saves[i] ? PC_TIER_DISK : PC_TIER_RAM);
        step(s, 3);
        CHECK_OK(pc_sequence_save(s, cache, key, &save));
        if (i % 2) /* else it is on its way to DISK */
            CHECK_OK(pc_cache_flush(cache));
        if (i % 4 == 3)
            CHECK_OK(pc_sequence_forget(w->model, cache, key, NULL));
        got = load(w, cache, NULL, i % 4 == 3 ? PC_MISS : PC_OK);
        if (got)
            CHECK_INT(tokens_behind(got), tokens_behind(s));
        pc_sequence_free(got);
    }
    save.tiers = BIT(PC_TIER_RAM);
    CHECK_OK(pc_sequence_save(s, cache, key, &save));
    save.tiers = BIT(PC_TIER_DISK);
    CHECK_STATUS(pc_sequence_load(&got, w->model, cache, key, &o, &save, &reason), PC_MISS);
    save.tiers = BIT(PC_TIER_RAM);
    CHECK_OK(pc_sequence_load(&got, w->model, cache, key, &o, &save, &reason));
    pc_sequence_free(got);
    pc_sequence_free(s);
    pc_cache_free(cache);
}

/* The last save counts, and can be forgotten, while nothing but a write that waits has it. */
static void on_the_way(const world *w, const char *folder)
{
    pc_cache *cache = open_cache(w, folder, NULL);
    pc_sequence *s = talk(w, NULL, NULL, BEFORE), *got;
    for (int i = 0; i < 20; i++) {
        step(s, 1);
        pc__cache_request_running(cache, 1); /* writes wait for a pause */
        CHECK_OK(pc_sequence_save(s, cache, key, NULL));
        CHECK_OK(pc_cache_clear(cache));
        if (i % 3 == 2) {
            CHECK_OK(pc_sequence_forget(w->model, cache, key, NULL));
            load(w, cache, NULL, PC_MISS);
        } else {
            got = load(w, cache, NULL, PC_OK);
            CHECK_INT(tokens_behind(got), tokens_behind(s));
            pc_sequence_free(got);
        }
        pc__cache_request_running(cache, -1);
    }
    pc_sequence_free(s);
    pc_cache_free(cache);
}

static void wait_seconds(double seconds)
{
    struct timespec t = pc__timespec(seconds);
    nanosleep(&t, NULL);
}

/* What a save finds of the save before lives as long as the later one: of its own, and shared. */
static void saved_anew_in_time(const world *w, const char *folder)
{
    for (int shared = 0; shared < 2; shared++) {
        pc_cache *cache = open_cache(w, folder, NULL);
        pc_save_options save = PC_SAVE_OPTIONS_INIT;
        pc_sequence *s;
        if (shared)
            pc_sequence_free(talk(w, cache, NULL, 1));
        s = talk(w, shared ? cache : NULL, NULL, BEFORE);
        save.ttl_seconds = 2;
        for (int i = 0; i < 3; i++) {
            CHECK_OK(pc_sequence_save(s, cache, key, &save));
            CHECK_OK(pc_cache_flush(cache));
            wait_seconds(0.8);
        }
        pc_sequence_free(s);
        pc_cache_free(cache);
        cache = open_cache(w, folder, NULL);
        pc_sequence_free(load(w, cache, NULL, PC_OK));
        pc_cache_free(cache);
        wait_seconds(3.1);
        cache = open_cache(w, folder, NULL);
        load(w, cache, NULL, PC_MISS);
        pc_cache_free(cache);
    }
}

/* The demo model, with modules, repaired tokens and a chat template: from the tiers of `folder`
 * (NULL: RAM), and as it goes on without having been saved. */
static void over_modules(const char *folder)
{
    static const char schema_text[] =
        "<schema name=\"s\"><module name=\"a\">Anna Reed is a nurse. She lives in Oslo.</module>"
        "<module name=\"b\">Ben Cole is a cook. He lives in Rome.</module></schema>",
                      prompt_text[] = "<prompt schema=\"s\"><a/><b/><user>Where does Ben Cole "
                                      "live?</user></prompt>";
    world w = {.context = NULL};
    pc_generate_options o = options(NULL);
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_sequence *never = NULL, *saved = NULL, *loaded = NULL;
    pc_stats before = PC_STATS_INIT, after = PC_STATS_INIT;
    pc_cache *cache;
    const char *text;
    size_t size, other;
    int32_t turn[3];
    CHECK_OK(pc_context_new(&w.context, NULL));
    if (!CHECK_OK(pc_model_load(&w.model, w.context, PC_SOURCE_DIR "/models/demo/demo.gguf", NULL)))
        return;
    o.repair = PC_REPAIR_FIRST;
    o.repair_tokens = 2;
    cache = open_cache(&w, folder, NULL);
    CHECK_OK(pc_schema_parse(&schema, w.model, schema_text, sizeof schema_text - 1, NULL));
    CHECK_OK(pc_prompt_parse(&prompt, &schema, 1, prompt_text, sizeof prompt_text - 1, NULL));
    CHECK_OK(pc_sequence_new(&never, prompt, cache, &o));
    step(never, 4);
    CHECK_OK(pc_sequence_new(&saved, prompt, cache, &o));
    step(saved, 4);
    CHECK_OK(pc_sequence_save(saved, cache, key, NULL));
    CHECK_OK(pc_sequence_get_stats(saved, &before));
    CHECK_OK(pc_cache_flush(cache));
    if (folder) { /* the sequences hold the old one */
        pc_cache_free(cache);
        cache = open_cache(&w, folder, NULL);
    }
    CHECK_OK(pc_sequence_load(&loaded, w.model, cache, key, &o, NULL, NULL));
    if (loaded) {
        CHECK_OK(pc_sequence_get_stats(loaded, &after));
        CHECK_INT(after.exactness, before.exactness);
        CHECK_INT(after.tokens_tier[folder ? PC_TIER_DISK : PC_TIER_RAM], after.tokens_cached);
        for (int i = 0; i < 3; i++)
            turn[i] = pc_sequence_tokens(saved, &size)[i];
        go_on_equally(never, loaded, turn, 3);
        text = pc_sequence_text(never, &size);
        CHECK(!memcmp(text, pc_sequence_text(loaded, &other), size));
        CHECK_INT(other, size);
    }
    pc_sequence_free(loaded);
    pc_sequence_free(saved);
    pc_sequence_free(never);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_cache_free(cache);
    pc_model_free(w.model);
    pc_context_free(w.context);
}

static void refused(const world *w)
{
    pc_cache *cache = open_cache(w, NULL, NULL), *small = NULL;
    pc_cache_options c = PC_CACHE_OPTIONS_INIT;
    pc_generate_options o = options(NULL), bad = options(NULL);
    pc_save_options save = PC_SAVE_OPTIONS_INIT;
    pc_prompt *prompt = NULL;
    pc_sequence *s = talk(w, NULL, NULL, BEFORE), *fresh = NULL, *got = NULL;
    uint32_t reason;
    CHECK_STATUS(pc_sequence_save(NULL, cache, key, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_save(s, NULL, key, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_save(s, cache, NULL, NULL), PC_ERR_INVALID);
    save.tiers = BIT(PC_TIER_DISK);
    CHECK_STATUS(pc_sequence_save(s, cache, key, &save), PC_ERR_INVALID);
    save.tiers = 0;
    save.salt = "x";
    CHECK_STATUS(pc_sequence_save(s, cache, key, &save), PC_ERR_INVALID);
    save.salt = NULL;
    save.ttl_seconds = -1;
    CHECK_STATUS(pc_sequence_load(&got, w->model, cache, key, &o, &save, &reason), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_load(NULL, w->model, cache, key, &o, NULL, &reason), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_load(&got, NULL, cache, key, &o, NULL, &reason), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_load(&got, w->model, NULL, key, &o, NULL, &reason), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_load(&got, w->model, cache, NULL, &o, NULL, &reason), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_forget(NULL, cache, key, NULL), PC_ERR_INVALID);
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, w->ids, PROMPT, NULL));
    CHECK_OK(pc_sequence_new(&fresh, prompt, NULL, &o));
    CHECK_STATUS(pc_sequence_save(fresh, cache, key, NULL), PC_ERR_STATE); /* no states yet */
    CHECK_OK(pc_sequence_save(s, cache, key, NULL));
    bad.visibility = PC_VISIBLE_ALL;
    CHECK_STATUS(pc_sequence_load(&got, w->model, cache, key, &bad, NULL, &reason), PC_ERR_STATE);
    CHECK_ERROR_HAS("visibility");
    bad.visibility = 0;
    bad.samples = 2;
    CHECK_STATUS(pc_sequence_load(&got, w->model, cache, key, &bad, NULL, &reason), PC_ERR_INVALID);
    CHECK(got == NULL);
    /* no room: the save before stays */
    c.ram_bytes = 64 << 10;
    CHECK_OK(pc_cache_new(&small, w->context, &c));
    CHECK_STATUS(pc_sequence_save(s, small, key, NULL), PC_MISS);
    CHECK_STATUS(pc_sequence_load(&got, w->model, small, key, &o, NULL, &reason), PC_MISS);
    pc_cache_free(small);
    pc_sequence_free(fresh);
    pc_prompt_free(prompt);
    pc_sequence_free(s);
    pc_cache_free(cache);
}

static void out_of_memory(void)
{
    uint64_t at = 0, began = 0;
    int completed = 0;
    while (!completed && ++at < 4000) {
        pc_test_memory memory = {.fail_at = 0};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_generate_options o = options(NULL);
        pc_cache *cache = NULL;
        pc_sequence *s, *got = NULL;
        world w;
        pc_status status;
        CHECK(start(&w, &mem, PC_DTYPE_DEFAULT));
        CHECK_OK(pc_cache_new(&cache, w.context, NULL));
        s = talk(&w, NULL, NULL, 3);
        began = memory.calls;
        memory.fail_at = began + at;
        status = pc_sequence_save(s, cache, key, NULL);
        if (status >= 0)
            status = pc_sequence_load(&got, w.model, cache, key, &o, NULL, NULL);
        completed = memory.calls < memory.fail_at;
        memory.fail_at = 0;
        CHECK(completed ? status == PC_OK && got : status == PC_ERR_NOMEM || status >= 0);
        if (!completed && status < 0) { /* nothing has changed */
            step(s, 1);
            CHECK_OK(pc_sequence_save(s, cache, key, NULL));
            CHECK_OK(pc_sequence_load(&got, w.model, cache, key, &o, NULL, NULL));
        }
        pc_sequence_free(got);
        pc_sequence_free(s);
        pc_cache_free(cache);
        end(&w);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK(completed && at > 40);
}

int main(int argc, char **argv)
{
    static void (*const each[])(const world *w, const char *folder) = {
        many_turns, over_cached_blocks, others_do_not_get_it, read_only_and_expired, broken,
        lossy,      in_chosen_tiers,    on_the_way,           saved_anew_in_time};
    const char *folder;
    char path[512], address[64];
    world w;
    if (!CHECK(start(&w, NULL, PC_DTYPE_DEFAULT)))
        return pc_test_end();
    if (argc == 3 && !strcmp(argv[1], "second")) {
        as_second(&w, argv[2]);
        end(&w);
        return pc_test_end();
    }
    folder = pc_test_folder();
    through_a_tier(&w, NULL, NULL, 0, PC_TIER_RAM, 0);
    snprintf(path, sizeof path, "%s/disk", folder);
    through_a_tier(&w, path, NULL, 0, PC_TIER_DISK, 1);
    through_a_tier(&w, path, NULL, BIT(PC_TIER_DISK), PC_TIER_DISK, 0);
    through_a_tier(&w, path, NULL, 0, PC_TIER_NONE, 0);
    if (PC_REDIS_IS_THERE) {
        pc_redis server = pc_redis_start("");
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
        through_a_tier(&w, NULL, address, 0, PC_TIER_REMOTE, 1);
    }
    snprintf(path, sizeof path, "%s/second", folder);
    second_process(&w, argv[0], path);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        snprintf(path, sizeof path, "%s/%zu", folder, i);
        mkdir(path, 0700);
        each[i](&w, path);
    }
    as_others(&w);
    over_modules(NULL);
    snprintf(path, sizeof path, "%s/modules", folder);
    over_modules(path);
    refused(&w);
    end(&w);
    out_of_memory();
    return pc_test_end();
}
