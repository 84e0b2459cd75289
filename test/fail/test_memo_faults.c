/* Catches: a memo that has lost reported prompts, or that cannot be opened, after its process was
 * killed while adding, training or setting thresholds; a failed allocation that causes a leak, a
 * wrong answer or a half-remembered prompt (for an answer from a hit, each allocation fails once);
 * look-ups that disturb adding and training in another thread, or the reverse. PC_TEST_LONG=1: 300
 * kills, and every allocation. */
#include <promptcache/bench.h>
#include <promptcache/memo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/context.h"
#include "memo/index/index.h"
#include "testing.h"

#ifdef __SANITIZE_THREAD__
enum { UNDER_TSAN = 1 };
#else
enum { UNDER_TSAN = 0 };
#endif
enum { PROMPTS = 96, TOKENS = 7 };
static int32_t tokens[PROMPTS][TOKENS];
static pc_input inputs[PROMPTS];
static char folder[400];
static const uint32_t lengths[] = {8, 16};

static void make_inputs(void)
{
    pc_test_rng rng = {77};
    for (int i = 0; i < PROMPTS; i++) {
        for (int t = 0; t < TOKENS; t++)
            tokens[i][t] = (int32_t)(pc_test_bits(&rng) % 250);
        inputs[i] = (pc_input){tokens[i], TOKENS, NULL};
    }
}

static pc_status open_in(pc_memo **memo, const pc_model *model, const char *path)
{
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    o.bucket_tokens = lengths;
    o.bucket_count = 2;
    o.verify_share = 0.1;
    o.index = pc__index_has_faiss() ? PC_INDEX_HNSW
                                    : PC_INDEX_AUTO; /* with outputs, also for few prompts */
    return pc_memo_open(memo, model, path, &o);
}

static pc_context *context_of(const pc_allocator *memory, uint32_t threads)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    o.threads = threads;
    o.allocator = memory;
    CHECK_OK(pc_context_new(&context, &o));
    return context;
}

static uint64_t live_in(pc_memo *memo)
{
    pc_memo_stats s = PC_MEMO_STATS_INIT;
    CHECK_OK(pc_memo_get_stats(memo, &s));
    CHECK_INT(s.stored, s.live + s.evicted + s.removed + s.damaged);
    return s.live;
}

/* ------------------------------------------------------------------- kills */

typedef struct diary { /* shared with the parent */
    volatile uint64_t reported, threshold;
} diary;

static int32_t note(void *user, const char *what, uint64_t done, uint64_t total)
{
    diary *d = user;
    (void)what, (void)total;
    d->reported = done;
    return 0;
}

/* Adds, trains and sets thresholds until it is killed. */
static void child(const pc_model *model, const char *path, diary *d)
{
    pc_memo *memo = NULL;
    pc_memo_work work = PC_MEMO_WORK_INIT;
    work.progress = note;
    work.progress_user = d;
    if (open_in(&memo, model, path) != PC_OK
        || pc_memo_add(memo, inputs, sizeof(pc_input), PROMPTS, &work) < 0)
        _exit(1);
    work.progress = NULL;
    work.epochs = 2;
    if (pc_memo_train(memo, &work) < 0)
        _exit(2);
    for (uint64_t n = 1;; n++) {
        if (pc_memo_set_threshold(memo, 0, (double)n, PC_LOSS_COSINE, 0, NULL) < 0)
            _exit(3);
        d->threshold = n;
    }
}

static void killed_once(const pc_model *model, const char *path, diary *d, useconds_t after)
{
    int status;
    pc_memo *memo = NULL;
    pc_memo_bucket b = PC_MEMO_BUCKET_INIT;
    pid_t pid = fork();
    if (!pid)
        child(model, path, d);
    usleep(after);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK_OK(open_in(&memo, model, path));
    CHECK(live_in(memo) >= d->reported);
    CHECK(live_in(memo) <= PROMPTS);
    CHECK_OK(pc_memo_get_bucket(memo, 0, &b));
    CHECK(!d->threshold || b.threshold >= (double)d->threshold);
    CHECK(!d->threshold || b.trained);
    CHECK_OK(pc_memo_add(memo, inputs, sizeof(pc_input), PROMPTS,
                         NULL)); /* adding works for what was not reported */
    CHECK_INT(live_in(memo), PROMPTS);
    pc_memo_free(memo);
}

static void test_kills(void)
{
    pc_context *context = context_of(NULL, 1);
    pc_model *model = NULL;
    diary *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pc_test_rng rng = {3};
    int kills = getenv("PC_TEST_LONG") ? 300 : 12;
    uint64_t most = 0, trained = 0;
    CHECK_OK(pc_model_new_shape(&model, context, "tiny", 0, NULL));
    for (int i = 0; i < kills; i++) {
        char path[500];
        snprintf(path, sizeof path, "%s/kill-%d", folder, i);
        memset(d, 0, sizeof *d);
        killed_once(model, path, d, (useconds_t)(pc_test_bits(&rng) % 250000));
        most = d->reported > most ? d->reported : most;
        trained += d->threshold > 0;
    }
    printf("%d kills: up to %d of %d prompts were reported, %d times it was trained\n", kills,
           (int)most, PROMPTS, (int)trained);
    munmap(d, sizeof *d);
    pc_model_free(model);
    pc_context_free(context);
}

/* ------------------------------------------------------------------ memory */

static pc_test_memory memory;

/* Opens, fills, trains, uses and closes a memo; the model exists before. */
static pc_status life(const pc_model *model, const char *path)
{
    pc_memo *memo = NULL;
    pc_memo_work work = PC_MEMO_WORK_INIT;
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    float out[4 * 64];
    pc_status status = open_in(&memo, model, path);
    work.epochs = 1;
    work.limit = 1;
    if (status >= 0)
        status = pc_memo_add(memo, inputs, sizeof(pc_input), 44, NULL);
    if (status >= 0)
        status = pc_memo_train(memo, &work);
    if (status >= 0)
        status = pc_memo_tune(memo, inputs + 44, sizeof(pc_input), 16, &work);
    o.embeddings = out;
    o.memo = memo;
    if (status >= 0)
        status = pc_prefill(model, inputs + 60, sizeof(pc_input), 4, &o, NULL);
    pc_memo_free(memo);
    return status;
}

/* Blocks that live, but for the work memory that the context holds. */
static int64_t live_blocks(pc_context *context)
{
    int64_t held = 0;
    for (size_t i = 0; i < PC__WORK_BLOCKS; i++)
        held += atomic_load(&context->work[i]) != NULL;
    return memory.live_blocks - held;
}

static void test_memory(void)
{
    pc_allocator failing = pc_test_allocator(&memory);
    pc_context *context = context_of(&failing, 1);
    pc_model *model = NULL;
    char path[500];
    int64_t before;
    uint64_t all, step;
    CHECK_OK(pc_model_new_shape(&model, context, "tiny", 0, NULL));
    before = live_blocks(context);
    memory.calls = 0;
    snprintf(path, sizeof path, "%s/memory", folder);
    CHECK_OK(life(model, path));
    CHECK_INT(live_blocks(context), before);
    all = memory.calls;
    step = getenv("PC_TEST_LONG") ? 1 : all / 60 + 1;
    for (uint64_t at = 1; at <= all; at += step) {
        pc_status status;
        snprintf(path, sizeof path, "%s/memory-%llu", folder, (unsigned long long)at);
        memory.calls = 0;
        memory.fail_at = at;
        status = life(model, path);
        CHECK(status == PC_ERR_NOMEM || status >= 0);
        memory.fail_at = 0;
        CHECK_INT(live_blocks(context), before);
        CHECK_OK(life(model, path)); /* remembered prompts are complete */
        CHECK_INT(live_blocks(context), before);
    }
    printf("each %llu. of %llu allocations failed once\n", (unsigned long long)step,
           (unsigned long long)all);
    pc_model_free(model);
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
}

/* Generates an answer from a hit; each allocation fails once; with maps, and verified. */
static pc_status answer(const pc_model *model, pc_memo *memo, pc_cache *cache, pc_stats *stats)
{
    pc_prompt *prompt = NULL;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_status status = pc_prompt_from_tokens(&prompt, model, tokens[50], TOKENS, NULL);
    o.max_tokens = 3;
    o.samples = 2;
    o.memo = memo;
    if (status >= 0)
        status = pc_generate(prompt, cache, &o, stats);
    pc_prompt_free(prompt);
    return status;
}

static void every_allocation(const pc_model *model, pc_memo *memo, pc_cache *cache,
                             uint32_t exactness)
{
    pc_stats stats = PC_STATS_INIT;
    int64_t before;
    uint64_t all, failed = 0;
    CHECK_OK(answer(model, memo, cache, &stats)); /* allocations of the first use are done */
    before = memory.live_blocks;
    memory.calls = 0;
    CHECK_OK(answer(model, memo, cache, &stats));
    CHECK_INT(stats.exactness, exactness);
    CHECK_INT(stats.memo_verified, exactness == PC_EXACT);
    CHECK(stats.memo_layers > 0);
    all = memory.calls;
    for (uint64_t at = 1; at <= all; at++) {
        pc_status status;
        memory.calls = 0;
        memory.fail_at = at;
        status = answer(model, memo, cache, &stats);
        memory.fail_at = 0;
        failed += status == PC_ERR_NOMEM;
        CHECK(status == PC_ERR_NOMEM || status == PC_OK);
        CHECK_INT(memory.live_blocks, before);
    }
    printf("an answer behind a hit: %d of %d allocations are needed\n", (int)failed, (int)all);
    CHECK(failed > 0); /* a failed step of two samples is repeated as two steps */
}

static void test_answers(void)
{
    pc_allocator failing = pc_test_allocator(&memory);
    pc_context *context = context_of(&failing, 1);
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    pc_memo_work work = PC_MEMO_WORK_INIT;
    work.epochs = 1;
    CHECK_OK(pc_model_new_shape(&model, context, "tiny", 0, NULL));
    CHECK_OK(pc_cache_new(&cache, context, NULL));
    for (int verify = 0; verify < 2; verify++) {
        pc_memo *memo = NULL;
        pc_memo_options o = PC_MEMO_OPTIONS_INIT;
        char path[500];
        snprintf(path, sizeof path, "%s/answers-%d", folder, verify);
        o.bucket_tokens = lengths;
        o.bucket_count = 2;
        o.verify_share = verify ? 1 : -1;
        CHECK_OK(pc_memo_open(&memo, model, path, &o));
        CHECK_OK(pc_memo_add(memo, inputs, sizeof(pc_input), 34, NULL));
        CHECK_OK(pc_memo_train(memo, &work));
        CHECK_OK(pc_memo_set_threshold(memo, 0, -1e9, PC_LOSS_COSINE, 0, NULL));
        every_allocation(model, memo, cache, verify ? PC_EXACT : PC_APPROXIMATE);
        pc_memo_free(memo);
    }
    pc_cache_free(cache);
    pc_model_free(model);
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
}

/* ----------------------------------------------------------------- threads */

typedef struct seeker {
    pthread_t thread;
    const pc_model *model;
    pc_memo *memo;
    const float *full; /* [PROMPTS][64] */
    atomic_int *stop;
    int wrong, hits, index;
} seeker;

static void *seek(void *user)
{
    seeker *s = user;
    pc_test_rng rng = {(uint64_t)s->index};
    while (!atomic_load(s->stop)) {
        size_t at = pc_test_bits(&rng) % (PROMPTS - 4);
        float out[4 * 64];
        pc_memo_result results[4];
        pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
        o.embeddings = out;
        o.memo = s->memo;
        o.results = results;
        o.result_stride = sizeof(pc_memo_result);
        s->wrong += pc_prefill(s->model, inputs + at, sizeof(pc_input), 4, &o, NULL) != PC_OK;
        for (size_t i = 0; i < 4; i++) {
            s->hits += results[i].exactness == PC_APPROXIMATE;
            if (results[i].exactness == PC_EXACT)
                s->wrong += memcmp(out + 64 * i, s->full + 64 * (at + i), 64 * sizeof(float)) != 0;
        }
    }
    return NULL;
}

static void test_threads(void)
{
    enum { SEEKERS = 3 };
    pc_context *context = context_of(NULL, 2);
    pc_model *model = NULL;
    pc_memo *memo = NULL;
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    pc_memo_work work = PC_MEMO_WORK_INIT;
    static float full[PROMPTS * 64];
    atomic_int stop = 0;
    seeker seekers[SEEKERS];
    char path[500];
    int hits = 0;
    CHECK_OK(pc_model_new_shape(&model, context, "tiny", 0, NULL));
    snprintf(path, sizeof path, "%s/threads", folder);
    CHECK_OK(open_in(&memo, model, path));
    o.embeddings = full;
    CHECK_OK(pc_prefill(model, inputs, sizeof(pc_input), PROMPTS, &o, NULL));
    for (int i = 0; i < SEEKERS; i++) {
        seekers[i] = (seeker){
            .model = model, .memo = memo, .full = full, .stop = &stop, .index = i};
        pthread_create(&seekers[i].thread, NULL, seek, &seekers[i]);
    }
    work.epochs = 1;
    for (size_t n = 0; n < PROMPTS; n += 32) {
        CHECK_OK(pc_memo_add(memo, inputs + n, sizeof(pc_input), 32, NULL));
        CHECK_OK(pc_memo_train(memo, &work));
        CHECK_OK(pc_memo_set_threshold(memo, 0, n ? -10 : 0.9, PC_LOSS_COSINE, 0, NULL));
        CHECK_OK(pc_memo_tidy(memo));
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < SEEKERS; i++) {
        pthread_join(seekers[i].thread, NULL);
        CHECK_INT(seekers[i].wrong, 0);
        hits += seekers[i].hits;
    }
    CHECK(hits > 0);
    CHECK_INT(live_in(memo), PROMPTS);
    pc_memo_free(memo);
    pc_model_free(model);
    pc_context_free(context);
}

int main(void)
{
    make_inputs();
    snprintf(folder, sizeof folder, "%s", pc_test_folder());
    test_threads();
    if (!UNDER_TSAN) { /* one thread each, and a child that is killed */
        test_memory();
        test_answers();
        test_kills();
    }
    return pc_test_end();
}
