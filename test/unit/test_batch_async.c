/* Catches: steps on other threads that give other tokens than steps of the caller, whatever joins,
 * leaves, is cancelled or freed meanwhile; calls that touch a batch or a sequence that a task has;
 * callbacks that may not do there what they may within a step; a task, batch or sequence that is
 * freed too early, or never; threads that wait for each other; memory that is left when an
 * allocation fails; a child after fork() that touches what its parent's thread was computing. */
#include <promptcache/task.h>
#include <promptcache/batch.h>
#include <promptcache/extend.h>
#include <promptcache/sampling.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chat_vocab.h"
#include "random_model.h"
#include "testing.h"

/* A sanitizer is slow. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 12, STEP = 61 };
#else
enum { SEEDS = 40, STEP = 1 };
#endif

enum { KNOWN = 40, PROMPT = 70, BATCHES = 3, REQUESTS = 14, MAX_TOKENS = 24 };

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_prompt *prompts[3]; /* the second begins as the first */
} world;

static pc_model *make_model(pc_context *context)
{
    static const char names[KNOWN + 1] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";
    pc__text tokens[KNOWN];
    pc__vocab vocab = pc_test_vocab(tokens, NULL, KNOWN);
    random_model shape = {.scheme = PC_POSITION_ROPE,
                          .compute = PC_DTYPE_F32,
                          .kv = PC_DTYPE_F32,
                          .head_dim = 8,
                          .context_length = 512};
    pc_model *model = NULL;
    for (int i = 0; i < KNOWN; i++)
        tokens[i] = (pc__text){names + i, 1};
    if (random_model_new(&model, context, &shape) < 0)
        return NULL;
    if (pc__tokenizer_from_vocab(&model->tokenizer, &context->mem, &vocab) >= 0)
        return model;
    pc_model_free(model);
    return NULL;
}

/* 0: out of memory. */
static int start_world(world *w, const pc_allocator *mem, uint32_t threads)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    int32_t tokens[PROMPT];
    memset(w, 0, sizeof *w);
    o.allocator = mem;
    o.threads = threads;
    if (pc_context_new(&w->context, &o) < 0 || !(w->model = make_model(w->context))
        || pc_cache_new(&w->cache, w->context, NULL) < 0)
        return 0;
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < PROMPT; i++)
            tokens[i] = (i * 7 + (p == 2 || i > 65 ? p : 0)) % KNOWN;
        if (pc_prompt_from_tokens(&w->prompts[p], w->model, tokens, PROMPT - (size_t)p, NULL) < 0)
            return 0;
    }
    return 1;
}

static void end_world(world *w)
{
    for (int p = 0; p < 3; p++)
        pc_prompt_free(w->prompts[p]);
    pc_cache_free(w->cache);
    pc_model_free(w->model);
    pc_context_free(w->context);
}

/* ------------------------------------------------------------------ random schedules */

typedef struct request {
    pc_prompt *prompt;
    pc_generate_options options;
    pc_sampling sampling;
    int32_t alone[MAX_TOKENS];
    size_t alone_count;
    pc_sequence *sequence;
    int batch; /* -1: in none */
    int cancelled;
    atomic_size_t bytes; /* of text */
} request;

static int32_t count_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)sample, (void)text;
    atomic_fetch_add((atomic_size_t *)user, size);
    return 0;
}

static void run_alone(const world *w, request *r)
{
    pc_batch *batch = NULL;
    pc_sequence *s = NULL;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_sequence_new(&s, r->prompt, NULL, &r->options));
    CHECK_OK(pc_batch_add(batch, s));
    while (pc_batch_step(batch) == PC_OK)
        ;
    const int32_t *tokens = pc_sequence_tokens(s, &r->alone_count);
    memcpy(r->alone, tokens, r->alone_count * sizeof *tokens);
    pc_batch_free(batch);
    pc_sequence_free(s);
}

typedef struct schedule {
    world w;
    pc_test_rng rng;
    pc_batch *batches[BATCHES];
    pc_task *tasks[BATCHES];
    request requests[REQUESTS];
    int left, waited, refused;
} schedule;

static void start_schedule(schedule *s, uint64_t seed)
{
    s->rng.state = seed;
    CHECK(start_world(&s->w, NULL, 1 + (uint32_t)(seed % 3)));
    for (int b = 0; b < BATCHES; b++)
        CHECK_OK(pc_batch_new(&s->batches[b], s->w.model, NULL));
    for (int i = 0; i < REQUESTS; i++) {
        request *r = &s->requests[i];
        r->prompt = s->w.prompts[pc_test_bits(&s->rng) % 3];
        r->options = (pc_generate_options)PC_GENERATE_OPTIONS_INIT;
        r->options.max_tokens = 1 + (uint32_t)(pc_test_bits(&s->rng) % (MAX_TOKENS - 1));
        r->sampling = (pc_sampling)PC_SAMPLING_INIT;
        r->sampling.temperature = pc_test_bits(&s->rng) % 2 ? 1.5f : 0;
        r->sampling.seed = pc_test_bits(&s->rng);
        r->options.sampling = &r->sampling;
        run_alone(&s->w, r);
        r->options.on_text = count_text;
        r->options.on_text_user = &r->bytes;
        r->batch = -1;
        CHECK_OK(pc_sequence_new(&r->sequence, r->prompt, s->w.cache, &r->options));
    }
    s->left = REQUESTS;
}

static void check_done(schedule *s, request *r)
{
    size_t count;
    const int32_t *tokens = pc_sequence_tokens(r->sequence, &count);
    uint32_t finish = pc_sequence_finish(r->sequence);
    CHECK(finish == PC_FINISH_LENGTH || (finish == PC_FINISH_CANCELLED && r->cancelled));
    CHECK(finish == PC_FINISH_CANCELLED ? count <= r->alone_count : count == r->alone_count);
    CHECK(count <= r->alone_count && !memcmp(tokens, r->alone, count * sizeof *tokens));
    pc_sequence_text(r->sequence, &count);
    CHECK_INT(atomic_load(&r->bytes), count);
    pc_sequence_free(r->sequence);
    r->sequence = NULL;
    s->left--;
}

static void end_task(schedule *s, int b)
{
    pc_task_free(s->tasks[b]);
    s->tasks[b] = NULL;
    for (int i = 0; i < REQUESTS; i++)
        if (s->requests[i].sequence && s->requests[i].batch == b
            && pc_sequence_finish(s->requests[i].sequence))
            check_done(s, &s->requests[i]);
}

/* Something with a batch that nobody steps. */
static void act_at_rest(schedule *s, int b, request *r)
{
    if (r->sequence && r->batch == -1) {
        CHECK_OK(pc_batch_add(s->batches[b], r->sequence));
        r->batch = b;
    } else if (r->sequence && r->batch == b && pc_test_bits(&s->rng) % 4 == 0) {
        CHECK_OK(pc_batch_remove(s->batches[b], r->sequence));
        r->batch = -1;
    } else {
        CHECK_OK(pc_batch_step_async(&s->tasks[b], s->batches[b]));
    }
}

/* These see a batch that belongs to a task, or one whose step has just ended. */
static void try_all(schedule *s, int b, const request *r)
{
    pc_batch_stats stats = PC_BATCH_STATS_INIT;
    pc_stats own = PC_STATS_INIT;
    pc_sequence *fork = NULL;
    size_t count;
    pc_status got[] = {pc_batch_get_stats(s->batches[b], &stats),
                       pc_sequence_get_stats(r->sequence, &own)};
    for (size_t i = 0; i < sizeof got / sizeof *got; i++) {
        CHECK(got[i] == PC_OK || got[i] == PC_ERR_STATE);
        s->refused += got[i] == PC_ERR_STATE;
    }
    pc_batch_changed(s->batches[b], &count);
    CHECK(count <= REQUESTS);
    pc_sequence_tokens(r->sequence, &count);
    CHECK(count <= r->alone_count);
    pc_sequence_text(r->sequence, &count);
    CHECK(count <= 2 * r->alone_count); /* letters, and what stands between */
    pc_sequence_logits(r->sequence, &count);
    CHECK(pc_sequence_error(r->sequence, NULL) <= PC_OK);
    if (pc_task_wait(s->tasks[b], 0) != PC_AGAIN)
        return;
    /* it may end right now; then they do what they do */
    if (pc_sequence_fork(&fork, r->sequence, NULL) >= 0)
        pc_sequence_free(fork);
}

static void act_under_way(schedule *s, int b, request *r)
{
    uint64_t dice = pc_test_bits(&s->rng) % 16;
    int inside = r->sequence && r->batch == b;
    if (dice < 6) {
        pc_status status = pc_task_wait(s->tasks[b], dice < 3 ? 0 : INFINITY);
        CHECK(status == PC_OK || status == PC_END || (status == PC_AGAIN && dice < 3));
        s->waited += status == PC_AGAIN;
        if (status != PC_AGAIN)
            end_task(s, b);
    } else if (dice < 8) {
        end_task(s, b); /* the task is freed under way */
    } else if (inside && dice < 12) {
        try_all(s, b, r);
    } else if (inside && dice == 12) {
        r->cancelled = 1;
        CHECK_OK(pc_sequence_cancel(r->sequence));
    } else if (inside && dice == 13) {
        pc_sequence_free(r->sequence); /* waits */
        r->sequence = NULL;
        s->left--;
    } else if (dice == 14) {
        pc_batch_free(s->batches[b]); /* waits */
        for (int i = 0; i < REQUESTS; i++) {
            request *other = &s->requests[i];
            if (!other->sequence || other->batch != b)
                continue;
            other->batch = -1;
            if (pc_sequence_finish(other->sequence))
                check_done(s, other);
        }
        CHECK(pc_task_wait(s->tasks[b], 0) >= 0);
        end_task(s, b);
        CHECK_OK(pc_batch_new(&s->batches[b], s->w.model, NULL));
    }
}

static void random_schedule(uint64_t seed, schedule *total)
{
    static schedule s;
    memset(&s, 0, sizeof s);
    start_schedule(&s, seed);
    for (int round = 0; s.left && round < 20000; round++) {
        int b = (int)(pc_test_bits(&s.rng) % BATCHES);
        request *r = &s.requests[pc_test_bits(&s.rng) % REQUESTS];
        if (s.tasks[b])
            act_under_way(&s, b, r);
        else
            act_at_rest(&s, b, r);
    }
    CHECK_INT(s.left, 0);
    for (int b = 0; b < BATCHES; b++) {
        pc_batch_free(s.batches[b]);
        pc_task_free(s.tasks[b]);
    }
    for (int i = 0; i < REQUESTS; i++)
        pc_sequence_free(s.requests[i].sequence);
    end_world(&s.w);
    total->waited += s.waited;
    total->refused += s.refused;
}

/* ------------------------------------------------------------------ callbacks */

typedef struct talk {
    world w;
    pthread_t caller;
    pc_task *task;
    pc_batch *batch;
    pc_sequence *own, *other;
    int calls, free_all, right;
    pthread_mutex_t lock;
    pthread_cond_t change;
    int held, let_go; /* the first text waits until it may go on */
} talk;

static void hold(talk *t)
{
    pthread_mutex_lock(&t->lock);
    t->held = 1;
    pthread_cond_broadcast(&t->change);
    while (!t->let_go)
        pthread_cond_wait(&t->change, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void await_held(talk *t)
{
    pthread_mutex_lock(&t->lock);
    while (!t->held)
        pthread_cond_wait(&t->change, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void let_go(talk *t)
{
    pthread_mutex_lock(&t->lock);
    t->let_go = 1;
    pthread_cond_broadcast(&t->change);
    pthread_mutex_unlock(&t->lock);
}

/* On the library's thread: as within a step of this thread. */
static int32_t in_text(void *user, uint32_t sample, const char *text, size_t size)
{
    talk *t = user;
    pc_task *second;
    pc_batch_stats stats = PC_BATCH_STATS_INIT;
    (void)sample, (void)text, (void)size;
    if (t->calls++)
        return 0;
    hold(t);
    t->right = !pthread_equal(pthread_self(), t->caller);
    t->right &= pc_task_wait(t->task, 0) == PC_ERR_STATE;
    t->right &= pc_batch_step(t->batch) == PC_ERR_STATE;
    t->right &= pc_batch_step_async(&second, t->batch) == PC_ERR_STATE && !second;
    t->right &= pc_sequence_push(t->own, NULL, 0) == PC_ERR_STATE;
    t->right &= pc_batch_get_stats(t->batch, &stats) == PC_OK && stats.sequences == 1;
    t->right &= pc_batch_add(t->batch, t->other) == PC_OK;
    if (!t->free_all)
        return 0;
    pc_task_free(t->task);
    pc_batch_free(t->batch);
    pc_sequence_free(t->own);
    pc_sequence_free(t->other);
    end_world(&t->w);
    return 0;
}

static void start_talk(talk *t)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT, plain = PC_GENERATE_OPTIONS_INIT;
    t->caller = pthread_self();
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->change, NULL);
    CHECK(start_world(&t->w, NULL, 2));
    o.max_tokens = plain.max_tokens = 3;
    o.on_text = in_text;
    o.on_text_user = t;
    o.flags = PC_GENERATE_KEEP;
    CHECK_OK(pc_batch_new(&t->batch, t->w.model, NULL));
    CHECK_OK(pc_sequence_new(&t->own, t->w.prompts[0], t->w.cache, &o));
    CHECK_OK(pc_sequence_new(&t->other, t->w.prompts[1], t->w.cache, &plain));
    CHECK_OK(pc_batch_add(t->batch, t->own));
    CHECK_OK(pc_batch_step_async(&t->task, t->batch));
    await_held(t);
}

/* While the task has them, all calls on other threads are refused, and change nothing. */
static void refused_calls(talk *t)
{
    pc_batch_stats stats = PC_BATCH_STATS_INIT;
    pc_stats own = PC_STATS_INIT;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_task *second = (pc_task *)(uintptr_t)8;
    pc_sequence *fork;
    pc_span *spans = NULL;
    const uint8_t key[32] = {1};
    const char *text;
    size_t count = 7;
    CHECK_STATUS(pc_task_wait(t->task, 0), PC_AGAIN);
    CHECK_STATUS(pc_batch_step(t->batch), PC_ERR_STATE);
    CHECK_ERROR_HAS("pc_batch_step: a task that uses the batch is under way");
    CHECK_STATUS(pc_batch_step_async(&second, t->batch), PC_ERR_STATE);
    CHECK(!second);
    CHECK_STATUS(pc_batch_add(t->batch, t->other), PC_ERR_STATE);
    CHECK_STATUS(pc_batch_remove(t->batch, t->own), PC_ERR_STATE);
    CHECK_STATUS(pc_batch_get_stats(t->batch, &stats), PC_ERR_STATE);
    CHECK(!pc_batch_changed(t->batch, &count) && !count);
    CHECK_STATUS(pc_sequence_get_stats(t->own, &own), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_push(t->own, NULL, 0), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_truncate(t->own, 0), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_set_options(t->own, &o), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_fork(&fork, t->own, NULL), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_spans(t->own, spans, sizeof *spans, 0, &count), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_save(t->own, t->w.cache, key, NULL), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_error(t->own, &text), PC_ERR_STATE);
    CHECK_STR(text, "");
    CHECK(!pc_sequence_tokens(t->own, &count) && !count);
    CHECK_STR(pc_sequence_text(t->own, &count), "");
    CHECK(!count && !pc_sequence_logits(t->own, &count) && !count);
    CHECK_INT(pc_sequence_finish(t->own), PC_FINISH_NONE);
}

static void callbacks(void)
{
    talk t = {.free_all = 0};
    size_t count;
    start_talk(&t);
    refused_calls(&t);
    let_go(&t);
    CHECK_OK(pc_task_wait(t.task, INFINITY));
    CHECK(t.right);
    pc_task_free(t.task);
    pc_sequence_tokens(t.own, &count);
    CHECK_INT(count, 1);
    pc_sequence_tokens(t.other, &count); /* it has joined during the step */
    CHECK_INT(count, 0);
    CHECK_OK(pc_batch_step_async(&t.task, t.batch));
    CHECK_OK(pc_task_wait(t.task, INFINITY));
    pc_sequence_tokens(t.other, &count);
    CHECK_INT(count, 1);
    pc_task_free(t.task);
    pc_sequence_free(t.own);
    pc_sequence_free(t.other);
    pc_batch_free(t.batch);
    end_world(&t.w);
}

/* A callback frees all there is, its own task and context too. */
static void all_freed_within(void)
{
    talk t = {.free_all = 1};
    pc_context *kept;
    start_talk(&t);
    kept = pc__context_ref(t.w.context);
    let_go(&t);
    while (atomic_load(&kept->references) > 1) /* by the task, at last */
        usleep(100);
    pc_context_free(kept);
    CHECK(t.right);
    CHECK_INT(t.calls, 1);
}

static void *free_sequence_first(void *arg)
{
    talk *t = arg;
    pc_sequence_free(t->own);
    pc_batch_free(t->batch);
    return NULL;
}

static void *free_batch_first(void *arg)
{
    talk *t = arg;
    pc_batch_free(t->batch);
    pc_sequence_free(t->own);
    return NULL;
}

/* Frees on another thread wait for the step. */
static void frees_wait(void *(*frees)(void *))
{
    talk t = {.free_all = 0};
    pthread_t thread;
    start_talk(&t);
    pthread_create(&thread, NULL, frees, &t);
    end_world(&t.w); /* the task holds them */
    usleep(20000);
    CHECK_STATUS(pc_task_wait(t.task, 0), PC_AGAIN);
    let_go(&t);
    CHECK(pc_task_wait(t.task, INFINITY) >= 0);
    pthread_join(thread, NULL);
    CHECK_INT(t.calls, 1);
    pc_sequence_free(t.other);
    pc_task_free(t.task);
}

/* ------------------------------------------------------------------ two at once, memory, fork */

/* The texts of two batches wait for each other: their steps run at the same time. */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int there;
} meeting;

static int32_t meet(void *user, uint32_t sample, const char *text, size_t size)
{
    meeting *m = user;
    (void)sample, (void)text, (void)size;
    pthread_mutex_lock(&m->lock);
    m->there++;
    pthread_cond_broadcast(&m->change);
    while (m->there < 2)
        pthread_cond_wait(&m->change, &m->lock);
    pthread_mutex_unlock(&m->lock);
    return 0;
}

static void both_at_once(void)
{
    meeting m = {.there = 0};
    world w;
    pc_batch *batches[2];
    pc_sequence *sequences[2];
    pc_task *tasks[2];
    struct pollfd polled[2];
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pthread_mutex_init(&m.lock, NULL);
    pthread_cond_init(&m.change, NULL);
    CHECK(start_world(&w, NULL, 2));
    o.on_text = meet;
    o.on_text_user = &m;
    for (int i = 0; i < 2; i++) {
        int32_t fd;
        CHECK_OK(pc_batch_new(&batches[i], w.model, NULL));
        CHECK_OK(pc_sequence_new(&sequences[i], w.prompts[i], NULL, &o));
        CHECK_OK(pc_batch_add(batches[i], sequences[i]));
        CHECK_OK(pc_batch_step_async(&tasks[i], batches[i]));
        CHECK_OK(pc_task_fd(tasks[i], &fd));
        polled[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    for (int i = 0; i < 2; i++)
        CHECK_INT(poll(&polled[i], 1, 60000), 1);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(pc_task_wait(tasks[i], 0));
        pc_task_free(tasks[i]);
        pc_batch_free(batches[i]);
        pc_sequence_free(sequences[i]);
    }
    end_world(&w);
}

/* Steps of one sequence, of which an allocation fails. Returns whether none did. */
static int steps_with(const pc_allocator *mem, const pc_test_memory *memory)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_batch *batch = NULL;
    pc_sequence *s = NULL;
    world w;
    size_t count = 0;
    o.max_tokens = 3;
    if (start_world(&w, mem, 1) && pc_batch_new(&batch, w.model, NULL) >= 0
        && pc_sequence_new(&s, w.prompts[0], w.cache, &o) >= 0 && pc_batch_add(batch, s) >= 0)
        for (int i = 0; i < 8 && !pc_sequence_finish(s); i++) {
            pc_task *task = NULL;
            pc_status status = pc_batch_step_async(&task, batch);
            CHECK(status == PC_OK || (status == PC_ERR_NOMEM && !task));
            if (task)
                status = pc_task_wait(task, INFINITY);
            CHECK(status >= 0 || status == PC_ERR_NOMEM);
            pc_task_free(task);
        }
    if (s)
        pc_sequence_tokens(s, &count);
    int whole = s && pc_sequence_finish(s) == PC_FINISH_LENGTH && count == 3;
    CHECK(whole || memory->calls >= memory->fail_at);
    pc_sequence_free(s);
    pc_batch_free(batch);
    end_world(&w);
    return whole && memory->calls < memory->fail_at;
}

static void no_memory(void)
{
    int done = 0;
    for (uint64_t at = 1; !done; at += STEP) {
        pc_test_memory memory = {.fail_at = at};
        const pc_allocator mem = pc_test_allocator(&memory);
        done = steps_with(&mem, &memory);
        CHECK_INT(memory.live_blocks, 0);
    }
}

#ifndef __SANITIZE_THREAD__
static int in_child(talk *t)
{
    pc_batch *batch = NULL;
    pc_sequence *s = NULL;
    pc_task *task;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    alarm(60);
    CHECK_STATUS(pc_task_wait(t->task, INFINITY), PC_ERR_STATE);
    CHECK_STATUS(pc_batch_step(t->batch), PC_ERR_STATE);
    pc_sequence_free(t->own); /* none of them waits */
    pc_batch_free(t->batch);
    pc_task_free(t->task);
    o.max_tokens = 2;
    CHECK_OK(pc_batch_new(&batch, t->w.model, NULL));
    CHECK_OK(pc_sequence_new(&s, t->w.prompts[2], NULL, &o));
    CHECK_OK(pc_batch_add(batch, s));
    CHECK_OK(pc_batch_step_async(&task, batch));
    CHECK_OK(pc_task_wait(task, 0)); /* it is done */
    pc_task_free(task);
    CHECK_OK(pc_batch_step_async(&task, batch));
    CHECK_STATUS(pc_task_wait(task, 0), PC_END);
    pc_task_free(task);
    pc_batch_free(batch);
    pc_sequence_free(s);
    pc_sequence_free(t->other);
    end_world(&t->w);
    return pc_test_end();
}

static void forked(void)
{
    talk t = {.free_all = 0};
    int code = -1;
    if (getenv("PC_BACKEND")) /* a device is the parent's */
        return;
    start_talk(&t);
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        _exit(in_child(&t));
    CHECK(child > 0 && waitpid(child, &code, 0) == child);
    CHECK_INT(code, 0);
    let_go(&t);
    CHECK_OK(pc_task_wait(t.task, INFINITY));
    pc_task_free(t.task);
    pc_sequence_free(t.own);
    pc_sequence_free(t.other);
    pc_batch_free(t.batch);
    end_world(&t.w);
}
#else
/* The sanitizer does not go on in a child of several threads. */
static void forked(void)
{
}
#endif

static void arguments(void)
{
    pc_task *task = (pc_task *)(uintptr_t)8;
    CHECK_STATUS(pc_batch_step_async(&task, NULL), PC_ERR_INVALID);
    CHECK(!task);
    CHECK_STATUS(pc_batch_step_async(NULL, NULL), PC_ERR_INVALID);
}

int main(void)
{
    schedule total = {.left = 0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        random_schedule(seed, &total);
    printf("%d waits were too early, %d calls were refused\n", total.waited, total.refused);
    CHECK(total.waited && total.refused);
    callbacks();
    all_freed_within();
    frees_wait(free_sequence_first);
    frees_wait(free_batch_first);
    both_at_once();
    no_memory();
    forked();
    arguments();
    return pc_test_end();
}
