/* Catches: a child after fork() that crashes, waits for ever or changes a folder when it uses or
 * frees what its parent has made; objects that work on where they cannot; a context that does not
 * compute in a child; the lock of a memo that stays with a child; a cache that cannot be made, or
 * whose folder cannot be read, because another process was stopped. */
#include <fcntl.h>
#include <promptcache/admin.h>
#include <promptcache/memo.h>
#include <promptcache/cache.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "own_states.h"
#include "testing.h"

enum { BYTES = 100000, COUNT = 12, TOKENS = 130 };

static char folder[300], maps[300];

/* Runs the part of a child, which must end by itself. */
static void in_child(void (*part)(void *arg), void *arg)
{
    int code = -1;
    pid_t child;
    fflush(NULL);
    child = fork();
    if (!child) {
        alarm(60);
        part(arg);
        _exit(pc_test_end());
    }
    CHECK(child > 0 && waitpid(child, &code, 0) == child);
    CHECK_INT(code, 0);
}

static pc_cache *open_cache(pc_context *context, uint64_t compressed, double deadline)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.disk_path = folder;
    o.compressed_bytes = compressed;
    o.deadline_seconds = deadline;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    return cache;
}

/* ------------------------------------------------------------------ a cache */

typedef struct things {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_memo *memo;
    pc_folder *records;
    pc_prompt *prompt;
    pc_systems *systems;
} things;

static void cache_of_the_parent(void *arg)
{
    things *t = arg;
    pc_cache_stats stats = PC_CACHE_STATS_INIT;
    pc_tier_stats tier = PC_TIER_STATS_INIT;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    uint8_t key[32] = {1};
    size_t size;
    CHECK_STATUS(own_get(t->cache, NULL, 0, BYTES), PC_ERR_STATE);
    CHECK_ERROR_HAS("fork()");
    CHECK_STATUS(own_put(t->cache, t->context, NULL, 99, BYTES, 0), PC_ERR_STATE);
    CHECK_STATUS(pc_cache_get_stats(t->cache, &stats), PC_ERR_STATE);
    CHECK_STATUS(pc_cache_get_tier_stats(t->cache, PC_TIER_DISK, &tier), PC_ERR_STATE);
    CHECK_STATUS(pc_cache_prometheus(t->cache, NULL, 0, &size, NULL), PC_ERR_STATE);
    CHECK_STATUS(pc_cache_clear(t->cache), PC_ERR_STATE);
    CHECK_STATUS(pc_cache_trim(t->cache, 0, NULL), PC_ERR_STATE);
    CHECK_STATUS(pc_cache_flush(t->cache), PC_ERR_STATE);
    CHECK_STATUS(pc_cache_set_quota(t->cache, PC_TIER_RAM, NULL, 0, 1), PC_ERR_STATE);
    CHECK_STATUS(pc_cache_pin(t->cache, key, 1, 0), PC_ERR_STATE);
    CHECK_STATUS(pc_cache_unpin(t->cache, key, 1), PC_ERR_STATE);
    CHECK_STATUS(pc_cache_unpin_owner(t->cache, 1), PC_ERR_STATE);
    o.max_tokens = 2;
    CHECK_STATUS(pc_generate(t->prompt, t->cache, &o, NULL), PC_ERR_STATE);
    CHECK_ERROR_HAS("fork()");
    pc_cache_free(t->cache);
    pc_prompt_free(t->prompt);
    pc_model_free(t->model);
    pc_context_free(t->context);
}

static void own_cache_in_child(void *arg)
{
    pc_context *context = own_context();
    pc_cache *cache = open_cache(context, 0, 60);
    (void)arg;
    for (int32_t n = 0; n < COUNT; n++)
        CHECK_OK(own_get(cache, NULL, n, BYTES));
    pc_cache_free(cache);
    pc_context_free(context);
}

static void *fork_now(void *arg)
{
    in_child(cache_of_the_parent, arg);
    return NULL;
}

/* The allocators of sanitizers keep the locks of threads that are not there in a child. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { WHILE_BUSY = 0 };
#else
enum { WHILE_BUSY = 20 };
#endif

static void caches(things *t)
{
    t->cache = open_cache(t->context, 1 << 20, 60);
    for (int32_t n = 0; n < COUNT; n++)
        CHECK(own_put(t->cache, t->context, NULL, n, BYTES, PC_PUT_WAIT) >= 0);
    if (WHILE_BUSY)
        in_child(cache_of_the_parent, t); /* perhaps while they are written */
    CHECK(pc_cache_trim(t->cache, 0, NULL) >= 0);
    CHECK_OK(pc_cache_flush(t->cache));
    in_child(cache_of_the_parent, t);
    for (int i = 0; i < WHILE_BUSY; i++) { /* from another thread, while the cache works */
        pthread_t forks;
        CHECK_INT(pthread_create(&forks, NULL, fork_now, t), 0);
        for (int32_t n = 0; n < COUNT; n++)
            CHECK(own_put(t->cache, t->context, NULL, 100 * i + 50 + n, BYTES, 0) >= 0);
        CHECK(pc_cache_trim(t->cache, 0, NULL) >= 0);
        pthread_join(forks, NULL);
    }
    in_child(own_cache_in_child, NULL);
    for (int32_t n = 0; n < COUNT; n++)
        CHECK_OK(own_get(t->cache, NULL, n, BYTES)); /* the parent's goes on */
    CHECK(pc_cache_flush(t->cache) >= 0);
    pc_cache_free(t->cache);
    t->cache = NULL;
}

/* ------------------------------------------------------------------ computing */

typedef struct answer {
    char text[400];
    size_t size;
} answer;

static int32_t add_text(void *user, uint32_t sample, const char *text, size_t size)
{
    answer *a = user;
    (void)sample;
    if (size < sizeof a->text - a->size)
        memcpy(a->text + a->size, text, size);
    a->size += size;
    return 0;
}

static answer generate(const things *t)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    answer a = {{0}, 0};
    o.max_tokens = 12;
    o.on_text = add_text;
    o.on_text_user = &a;
    CHECK_OK(pc_generate(t->prompt, NULL, &o, NULL));
    return a;
}

typedef struct expected {
    const things *things;
    answer answer;
} expected;

static void compute_in_child(void *arg)
{
    expected *e = arg;
    answer a = generate(e->things);
    CHECK(a.size == e->answer.size && !memcmp(a.text, e->answer.text, sizeof a.text));
    pc_prompt_free(e->things->prompt);
    pc_model_free(e->things->model);
    pc_context_free(e->things->context);
}

/* ------------------------------------------------------------ memo and folder */

static void memo_of_the_parent(void *arg)
{
    things *t = arg;
    pc_memo_stats stats = PC_MEMO_STATS_INIT;
    pc_memo_bucket bucket = PC_MEMO_BUCKET_INIT;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    CHECK_STATUS(pc_memo_get_stats(t->memo, &stats), PC_ERR_STATE);
    CHECK_ERROR_HAS("fork()");
    CHECK_STATUS(pc_memo_get_bucket(t->memo, 0, &bucket), PC_ERR_STATE);
    CHECK_STATUS(pc_memo_add(t->memo, NULL, sizeof(pc_input), 0, NULL), PC_ERR_STATE);
    CHECK_STATUS(pc_memo_train(t->memo, NULL), PC_ERR_STATE);
    CHECK_STATUS(pc_memo_tidy(t->memo), PC_ERR_STATE);
    o.memo = t->memo;
    CHECK_STATUS(pc_generate(t->prompt, NULL, &o, NULL), PC_ERR_STATE);
    pc_memo_free(t->memo);
}

static void sleep_on(int end)
{
    char byte;
    (void)!read(end, &byte, 1);
    _exit(0);
}

/* The lock goes with the parent's handle, though a child lives on. */
static void memos(things *t)
{
    int pipes[2], code;
    pid_t child;
    CHECK_OK(pc_memo_open(&t->memo, t->model, maps, NULL));
    in_child(memo_of_the_parent, t);
    CHECK_INT(pipe(pipes), 0);
    child = fork();
    if (!child) {
        close(pipes[1]);
        sleep_on(pipes[0]);
    }
    pc_memo *second = NULL;
    CHECK_STATUS(pc_memo_open(&second, t->model, maps, NULL), PC_AGAIN);
    CHECK(!strstr(pc_error_text(), "deadline"));
    pc_memo_free(t->memo);
    t->memo = NULL;
    CHECK_OK(pc_memo_open(&t->memo, t->model, maps, NULL));
    pc_memo_free(t->memo);
    t->memo = NULL;
    close(pipes[1]);
    CHECK(waitpid(child, &code, 0) == child);
    close(pipes[0]);
}

static void folder_of_the_parent(void *arg)
{
    things *t = arg;
    pc_record_info info = PC_RECORD_INFO_INIT;
    CHECK_STATUS(pc_folder_get(t->records, 0, &info), PC_ERR_STATE);
    CHECK_ERROR_HAS("fork()");
    CHECK_STATUS(pc_folder_verify(t->records, 0), PC_ERR_STATE);
    CHECK_STATUS(pc_folder_remove(t->records, 0), PC_ERR_STATE);
    CHECK_STATUS(pc_folder_trim(t->records, 0, NULL, NULL), PC_ERR_STATE);
    pc_folder_free(t->records);
}

static void folders(things *t)
{
    size_t count;
    CHECK_OK(pc_folder_open(&t->records, t->context, folder, NULL));
    count = pc_folder_count(t->records);
    CHECK(count >= COUNT);
    CHECK_OK(pc_folder_remove(t->records, count - 1)); /* opens it for writing */
    in_child(folder_of_the_parent, t);
    CHECK_OK(pc_folder_verify(t->records, 0));
    pc_folder_free(t->records);
    t->records = NULL;
}

/* ------------------------------------------------------------ a stopped process */

static pid_t hold_lock(void)
{
    char path[400];
    int code;
    pid_t child = fork();
    if (!child) {
        snprintf(path, sizeof path, "%s/promptcache.lock", folder);
        int fd = open(path, O_RDWR);
        if (fd < 0 || flock(fd, LOCK_EX))
            _exit(1);
        raise(SIGSTOP);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &code, WUNTRACED) == child && WIFSTOPPED(code));
    return child;
}

static char last_warning[600];

static void keep_warning(void *user, uint32_t level, const char *line)
{
    (void)user;
    if (level == PC_LOG_WARN)
        snprintf(last_warning, sizeof last_warning, "%s", line);
}

static pc_tier_stats disk_stats(pc_cache *cache)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &s));
    return s;
}

static void stopped_process(void)
{
    const struct timespec moment = {0, 200000000};
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    struct timespec begin, end;
    pid_t child = hold_lock();
    int code, written = 0, found = 0;
    o.threads = 1;
    o.log = keep_warning;
    CHECK_OK(pc_context_new(&context, &o));
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pc_cache *cache = open_cache(context, 0, 3);
    clock_gettime(CLOCK_MONOTONIC, &end);
    CHECK(end.tv_sec - begin.tv_sec < 5);
    CHECK(strstr(last_warning, "promptcache.lock"));
    for (int32_t n = 0; n < COUNT; n++)
        found += own_get(cache, NULL, n, BYTES) == PC_OK; /* the folder is read */
    CHECK(found >= COUNT - 1);                            /* folders() has removed a record */
    CHECK_OK(own_put(cache, context, NULL, 5000, BYTES, 0));
    CHECK_STATUS(pc_cache_flush(cache), PC_MISS);
    CHECK(disk_stats(cache).failed > 0);
    CHECK_INT(disk_stats(cache).stored, 0);
    CHECK_OK(own_get(cache, NULL, 5000, BYTES)); /* the cache works */
    kill(child, SIGCONT);
    CHECK(waitpid(child, &code, 0) == child);
    for (int32_t n = 0; n < 150 && !written; n++) { /* it is tried again */
        CHECK(own_put(cache, context, NULL, 6000 + n, BYTES, 0) >= 0);
        (void)pc_cache_flush(cache);
        written = disk_stats(cache).stored > 0;
        if (!written)
            nanosleep(&moment, NULL);
    }
    CHECK(written);
    pc_cache_free(cache);
    pc_context_free(context);
}

int main(void)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    things t = {0};
    o.threads = 3;
    snprintf(folder, sizeof folder, "%s/records", pc_test_folder());
    snprintf(maps, sizeof maps, "%s/maps", pc_test_folder());
    CHECK_OK(pc_context_new(&t.context, &o));
    CHECK_OK(pc_model_load(&t.model, t.context, PC_SOURCE_DIR "/models/demo/demo.gguf", NULL));
    int32_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = 5 + 7 * i % 200;
    CHECK_OK(pc_prompt_from_tokens(&t.prompt, t.model, tokens, TOKENS, NULL));
    expected e = {&t, generate(&t)};
    CHECK(e.answer.size > 0);
    in_child(compute_in_child, &e);
    caches(&t);
    folders(&t);
    memos(&t);
    pc_prompt_free(t.prompt);
    pc_model_free(t.model);
    pc_context_free(t.context);
    stopped_process();
    return pc_test_end();
}
