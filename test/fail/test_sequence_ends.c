/* Sequences that end before their time: cancelled, by a deadline, by a callback, without room,
 * without memory, by a failing model. Catches: an end that is not told apart from another; an error
 * that another sequence's overwrites; an error of one sequence as the result of the step; a
 * sequence that cannot go on as if nothing had happened (other tokens than an undisturbed run); a
 * list of changes that misses some or names freed ones; options that change what they cannot. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <promptcache/bench.h>
#include <promptcache/sampling.h>
#include <promptcache/batch.h>

#include "toy_schema.h"

enum { ANSWER = 12 };

static const char asked[] = "<prompt schema=\"t\"><a x=\"some\"/><b/>what is it?</prompt>";

typedef struct stage {
    toy_world w;
    pc_prompt *prompt;
    pc_batch *batch;
    pc_sequence *s;
} stage;

static pc_generate_options options(void)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.flags = PC_GENERATE_KEEP;
    o.max_tokens = ANSWER;
    return o;
}

static pc_sequence *join(stage *t, const pc_generate_options *o)
{
    pc_sequence *s = NULL;
    CHECK_OK(pc_sequence_new(&s, t->prompt, t->w.cache, o));
    CHECK_OK(pc_batch_add(t->batch, s));
    return s;
}

static int start(stage *t, const pc_allocator *mem, int32_t context, const pc_generate_options *o)
{
    memset(t, 0, sizeof *t);
    if (!CHECK(toy_start(&t->w, mem, 0, context, toy_schema)))
        return 0;
    t->prompt = toy_prompt(&t->w, asked);
    CHECK_OK(pc_batch_new(&t->batch, t->w.model, NULL));
    t->s = join(t, o);
    return 1;
}

static void stop(stage *t)
{
    pc_sequence_free(t->s);
    pc_batch_free(t->batch);
    pc_prompt_free(t->prompt);
    CHECK_INT(pc_toy_count(t->w.toy)->live_sequences, 0);
    toy_end(&t->w);
}

static void run(const stage *t)
{
    pc_status status = PC_OK;
    while (status == PC_OK)
        status = pc_batch_step(t->batch);
    CHECK_STATUS(status, PC_END);
}

static size_t count_of(const pc_sequence *s)
{
    size_t count;
    pc_sequence_tokens(s, &count);
    return count;
}

static int32_t undisturbed[ANSWER];

/* The tokens of a run that nothing disturbs. */
static void learn(void)
{
    stage t;
    pc_generate_options o = options();
    if (!start(&t, NULL, 0, &o))
        return;
    run(&t);
    CHECK_INT(count_of(t.s), ANSWER);
    memcpy(undisturbed, pc_sequence_tokens(t.s, NULL), sizeof undisturbed);
    stop(&t);
}

/* It has ended with this; it goes on and gives the tokens of the undisturbed run. */
static void goes_on(const stage *t, uint32_t finish, pc_status error, const char *words)
{
    const char *text = NULL;
    CHECK_INT(pc_sequence_finish(t->s), finish);
    CHECK_STATUS(pc_sequence_error(t->s, &text), error);
    CHECK(text && (error < 0 ? strstr(text, words) != NULL : !*text));
    CHECK_OK(pc_sequence_push(t->s, NULL, 0));
    CHECK_OK(pc_sequence_error(t->s, &text));
    CHECK_STR(text, "");
    CHECK_INT(pc_sequence_finish(t->s), PC_FINISH_NONE);
    for (int i = 0; i < 2 * ANSWER && count_of(t->s) < ANSWER; i++)
        CHECK(pc_batch_step(t->batch) >= 0);
    CHECK_INT(count_of(t->s), ANSWER);
    CHECK(!memcmp(pc_sequence_tokens(t->s, NULL), undisturbed, sizeof undisturbed));
}

/* ------------------------------------------------------------------------- cancelled */

static void cancels(void)
{
    pc_generate_options o = options();
    pc_span span;
    size_t count;
    stage t;
    CHECK_STATUS(pc_sequence_cancel(NULL), PC_ERR_INVALID);
    for (int at = 0; at < 4; at++) { /* 0: before the first step */
        if (!start(&t, NULL, 0, &o))
            return;
        for (int i = 0; i < at; i++)
            CHECK_OK(pc_batch_step(t.batch));
        CHECK_OK(pc_sequence_cancel(t.s));
        CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_NONE);
        CHECK_STATUS(pc_batch_step(t.batch), PC_END);
        CHECK_INT(count_of(t.s), at);
        goes_on(&t, PC_FINISH_CANCELLED, PC_ERR_CANCELLED,
                "the request was cancelled: pc_sequence_cancel");
        stop(&t);
    }
    /* one that came too late is forgotten by the next turn */
    if (!start(&t, NULL, 0, &o))
        return;
    run(&t);
    CHECK_OK(pc_sequence_cancel(t.s));
    CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_LENGTH);
    CHECK_OK(pc_sequence_error(t.s, NULL));
    goes_on(&t, PC_FINISH_LENGTH, PC_OK, "");
    CHECK_OK(pc_batch_step(t.batch));
    CHECK_INT(count_of(t.s), ANSWER + 1);
    stop(&t);
    /* without the flag nothing is left of it */
    o.flags = 0;
    if (!start(&t, NULL, 0, &o))
        return;
    CHECK_OK(pc_batch_step(t.batch));
    CHECK_OK(pc_sequence_cancel(t.s));
    CHECK_STATUS(pc_batch_step(t.batch), PC_END);
    CHECK_INT(pc_toy_count(t.w.toy)->live_sequences, 0);
    CHECK_STATUS(pc_sequence_push(t.s, NULL, 0), PC_ERR_STATE);
    CHECK_ERROR_HAS("PC_GENERATE_KEEP");
    CHECK_STATUS(pc_sequence_spans(t.s, &span, sizeof(pc_span), 1, &count), PC_ERR_UNSUPPORTED);
    CHECK_STATUS(pc_sequence_error(t.s, NULL), PC_ERR_CANCELLED);
    stop(&t);
}

typedef struct poll {
    int left; /* says so at this question */
    int asked;
    pc_sequence *sequence; /* NULL: by the answer; else by pc_sequence_cancel */
} poll;

static int32_t at_poll(void *user)
{
    poll *p = user;
    p->asked++;
    if (p->left < 0 || p->left--)
        return 0;
    if (!p->sequence)
        return 1;
    CHECK_OK(pc_sequence_cancel(p->sequence));
    return 0;
}

/* At every question in turn: while modules are encoded, in the prefill, in steps. */
static void cancelled_anywhere(void)
{
    for (int by_call = 0; by_call < 2; by_call++)
        for (int at = 0, more = 1; more; at += 1 + at / 20) {
            pc_generate_options o = options();
            poll p = {.left = at};
            stage t;
            o.cancelled = at_poll;
            o.cancel_user = &p;
            if (!start(&t, NULL, 0, &o))
                return;
            p.sequence = by_call ? t.s : NULL;
            run(&t);
            more = pc_sequence_finish(t.s) == PC_FINISH_CANCELLED;
            CHECK(more || p.asked <= at + 1);
            CHECK(at || count_of(t.s) == 0);
            if (more)
                goes_on(&t, PC_FINISH_CANCELLED, PC_ERR_CANCELLED, "cancel");
            stop(&t);
        }
}

static void deadline(void)
{
    const struct timespec nap = {0, 300000000};
    pc_generate_options o = options();
    pc_stats stats = PC_STATS_INIT;
    stage t;
    o.deadline_seconds = 0.25;
    if (!start(&t, NULL, 0, &o))
        return;
    nanosleep(&nap, NULL);
    CHECK_STATUS(pc_batch_step(t.batch), PC_END);
    CHECK_STATUS(pc_sequence_error(t.s, NULL), PC_ERR_CANCELLED);
    CHECK_ERROR_HAS("the deadline of 0.25 seconds has passed");
    CHECK_OK(pc_sequence_push(t.s, NULL, 0)); /* a turn has its own */
    CHECK_STATUS(pc_batch_step(t.batch), PC_OK);
    nanosleep(&nap, NULL);
    CHECK_STATUS(pc_batch_step(t.batch), PC_END);
    CHECK_STATUS(pc_sequence_error(t.s, NULL), PC_ERR_CANCELLED);
    o.deadline_seconds = 0;
    CHECK_OK(pc_sequence_set_options(t.s, &o));
    goes_on(&t, PC_FINISH_CANCELLED, PC_ERR_CANCELLED, "deadline");
    o.deadline_seconds = -1;
    CHECK_STATUS(pc_sequence_set_options(t.s, &o), PC_ERR_INVALID);
    CHECK_ERROR_HAS("deadline_seconds is -1");
    o.deadline_seconds = 1e-9;
    CHECK_STATUS(pc_generate(t.prompt, t.w.cache, &o, &stats), PC_ERR_CANCELLED);
    CHECK_ERROR_HAS("deadline");
    CHECK_INT(stats.finish, PC_FINISH_CANCELLED);
    stop(&t);
}

/* ------------------------------------------------------------------------- from another thread */

typedef struct other {
    pc_sequence **list;
    int count;
    atomic_int go;
} other;

static void *cancel_all(void *user)
{
    other *o = user;
    uint64_t state = 7;
    while (atomic_load(&o->go)) {
        const struct timespec nap = {0, 20000};
        state = state * 6364136223846793005u + 1442695040888963407u;
        pc_sequence_cancel(o->list[(state >> 33) % (uint64_t)o->count]);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

/* Under load: what is cancelled goes on, until each has its tokens. */
static void another_thread(void)
{
    enum { MANY = 6 };
    pc_generate_options o = options();
    pc_sequence *all[MANY];
    other rival = {.list = all, .count = MANY};
    pthread_t thread;
    size_t left = MANY;
    stage t;
    if (!start(&t, NULL, 0, &o))
        return;
    all[0] = t.s;
    for (int i = 1; i < MANY; i++)
        all[i] = join(&t, &o);
    atomic_store(&rival.go, 1);
    CHECK_INT(pthread_create(&thread, NULL, cancel_all, &rival), 0);
    for (int round = 0; left && round < 100000; round++) {
        pc_sequence *copy;
        CHECK(pc_batch_step(t.batch) >= 0);
        if (pc_sequence_fork(&copy, all[round % MANY], NULL) != PC_ERR_STATE) /* not prefilled */
            CHECK(copy != NULL);
        pc_sequence_free(copy);
        left = 0;
        for (int i = 0; i < MANY; i++) {
            uint32_t finish = pc_sequence_finish(all[i]);
            CHECK(finish == PC_FINISH_NONE || finish == PC_FINISH_CANCELLED
                  || finish == PC_FINISH_LENGTH);
            left += count_of(all[i]) < ANSWER;
            if (count_of(all[i]) < ANSWER && finish)
                CHECK_OK(pc_sequence_push(all[i], NULL, 0));
        }
    }
    atomic_store(&rival.go, 0);
    pthread_join(thread, NULL);
    CHECK_INT(left, 0);
    for (int i = 0; i < MANY; i++) {
        CHECK(!memcmp(pc_sequence_tokens(all[i], NULL), undisturbed, sizeof undisturbed));
        if (i)
            pc_sequence_free(all[i]);
    }
    stop(&t);
}

/* ------------------------------------------------------------------------- callbacks */

typedef struct listener {
    const stage *t;
    int left;
    int32_t answer;
    uint32_t finish; /* as it sees it at the last call */
} listener;

static int32_t listen(void *user, uint32_t sample, const char *text, size_t size)
{
    listener *l = user;
    (void)sample, (void)text, (void)size;
    l->finish = pc_sequence_finish(l->t->s);
    return l->left-- == 0 ? l->answer : 0;
}

static void callback_stops(void)
{
    for (int at = 0; at < 6; at++)
        for (int32_t answer = PC_ERR_IO; answer <= 1; answer += 1 - PC_ERR_IO) {
            pc_generate_options o = options();
            stage t;
            listener l = {.t = &t, .left = at, .answer = answer};
            o.on_text = listen;
            o.on_text_user = &l;
            if (!start(&t, NULL, 0, &o))
                return;
            run(&t);
            CHECK(count_of(t.s) >= 1 && count_of(t.s) < ANSWER);
            goes_on(&t, answer > 0 ? PC_FINISH_CALLBACK : PC_FINISH_ERROR,
                    answer > 0 ? PC_OK : PC_ERR_IO, "on_text");
            CHECK_OK(pc_sequence_truncate(t.s, 2));
            goes_on(&t, PC_FINISH_NONE, PC_OK, "");
            stop(&t);
        }
}

/* ------------------------------------------------------------------------- no room */

static void out_of_context(void)
{
    pc_generate_options o = options();
    pc_sequence *copy = NULL;
    int32_t word = 270;
    stage t;
    size_t room;
    o.max_tokens = 1000;
    if (!start(&t, NULL, 110, &o))
        return;
    run(&t);
    CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_LENGTH);
    CHECK_OK(pc_sequence_error(t.s, NULL));
    room = count_of(t.s);
    CHECK(room > 5);
    CHECK_STATUS(pc_sequence_push(t.s, &word, 1), PC_ERR_LIMIT);
    CHECK_STATUS(pc_sequence_push(t.s, NULL, 0), PC_ERR_LIMIT);
    CHECK_OK(pc_sequence_fork(&copy, t.s, NULL));
    CHECK_OK(pc_sequence_truncate(copy, room - 4));
    CHECK_OK(pc_sequence_push(copy, &word, 1));
    CHECK_OK(pc_batch_add(t.batch, copy));
    CHECK_OK(pc_batch_step(t.batch));
    CHECK_INT(count_of(copy), room - 2);
    CHECK_INT(count_of(t.s), room);
    CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_LENGTH);
    pc_sequence_free(copy);
    stop(&t);
}

/* The application's memory is full for a while. */
static void out_of_pool(void)
{
    pc_generate_options o = options();
    stage t;
    if (!start(&t, NULL, 0, &o))
        return;
    for (int i = 0; i < 3; i++)
        CHECK_OK(pc_batch_step(t.batch));
    pc_toy_count(t.w.toy)->pool = 1;
    CHECK_STATUS(pc_batch_step(t.batch), PC_END);
    pc_toy_count(t.w.toy)->pool = 0;
    CHECK_INT(count_of(t.s), 3);
    goes_on(&t, PC_FINISH_ERROR, PC_ERR_LIMIT, "the application's model: step");
    stop(&t);
}

/* ------------------------------------------------------------------------- failures */

static void failing_model(void)
{
    for (int encode = 0; encode < 2; encode++)
        for (uint64_t at = 1, more = 1; more; at++) {
            pc_generate_options o = options();
            pc_toy_counts *counts;
            stage t;
            if (!start(&t, NULL, 0, &o))
                return;
            counts = pc_toy_count(t.w.toy);
            *(encode ? &counts->fail_encode_at : &counts->fail_step_at) = at;
            run(&t);
            more = pc_sequence_finish(t.s) == PC_FINISH_ERROR;
            if (more)
                goes_on(&t, PC_FINISH_ERROR, PC_ERR_IO, encode ? "encode" : "step");
            stop(&t);
        }
}

/* Every allocation of the run fails in turn: of the batch (the step says so) or of the sequence. */
static void failing_memory(float temperature)
{
    int32_t want[ANSWER];
    for (uint64_t at = 0, more = 1; more; at++) { /* 0: none */
        pc_test_memory memory = {0};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc_generate_options o = options();
        pc_sampling sampling = PC_SAMPLING_INIT;
        pc_status status;
        stage t;
        sampling.temperature = temperature;
        sampling.repetition_penalty = 1.3f;
        o.sampling = &sampling;
        if (!start(&t, &mem, 0, &o))
            return;
        memory.fail_at = at ? memory.calls + at : 0;
        for (int i = 0; i < 4 * ANSWER && count_of(t.s) < ANSWER; i++) {
            status = pc_batch_step(t.batch);
            CHECK(status >= 0 || status == PC_ERR_NOMEM);
            if (pc_sequence_finish(t.s) == PC_FINISH_ERROR) {
                CHECK_STATUS(pc_sequence_error(t.s, NULL), PC_ERR_NOMEM);
                CHECK_OK(pc_sequence_push(t.s, NULL, 0));
            }
        }
        more = !at || memory.calls >= memory.fail_at;
        CHECK_INT(count_of(t.s), ANSWER);
        if (!at)
            memcpy(want, pc_sequence_tokens(t.s, NULL), sizeof want);
        CHECK(!memcmp(pc_sequence_tokens(t.s, NULL), want, sizeof want));
        stop(&t);
        CHECK_INT(memory.live_blocks, 0);
    }
}

static int spoilt; /* steps until one gives logits without a number */

static pc_status spoilt_step(void *user, const pc_step_args *args)
{
    pc_status status = pc_toy_ops().step(user, args);
    for (size_t i = 0; i < TOY_VOCAB && status >= 0 && spoilt == 1; i++)
        args->logits[i] = NAN;
    spoilt -= spoilt > 0;
    return status;
}

/* Rows whose token could not be sampled are taken off again, where the model can. */
static void no_numbers(void)
{
    for (int at = 1; at < 4; at++)
        for (int cuts = 0; cuts < 2; cuts++) {
            pc_model_ops ops = pc_toy_ops();
            pc_generate_options o = options();
            int32_t want[ANSWER];
            stage t;
            memset(&t, 0, sizeof t);
            ops.step = spoilt_step;
            ops.truncate = cuts ? ops.truncate : NULL;
            if (!CHECK(toy_start_ops(&t.w, NULL, &ops, 0, 0, NULL)))
                return;
            CHECK_OK(pc_prompt_from_text(&t.prompt, t.w.model, "what is the word", 16, NULL));
            CHECK_OK(pc_batch_new(&t.batch, t.w.model, NULL));
            for (int with = 0; with < 2; with++) {
                spoilt = with ? at : 0;
                t.s = join(&t, &o);
                run(&t);
                if (with) {
                    CHECK_STATUS(pc_sequence_error(t.s, NULL), PC_ERR_INTERNAL);
                    CHECK_INT(count_of(t.s), at - 1);
                }
                if (with && at > 1 && !cuts) {
                    CHECK_STATUS(pc_sequence_push(t.s, NULL, 0), PC_ERR_UNSUPPORTED);
                    CHECK_ERROR_HAS("ops.truncate");
                } else if (with) {
                    o.max_tokens = (uint32_t)(ANSWER + 1 - at);
                    CHECK_OK(pc_sequence_set_options(t.s, &o));
                    CHECK_OK(pc_sequence_push(t.s, NULL, 0));
                    run(&t);
                    CHECK_INT(count_of(t.s), ANSWER);
                    CHECK(!memcmp(want, pc_sequence_tokens(t.s, NULL), sizeof want));
                } else if (CHECK_INT(count_of(t.s), ANSWER)) {
                    memcpy(want, pc_sequence_tokens(t.s, NULL), sizeof want);
                }
                if (!with)
                    pc_sequence_free(t.s);
            }
            stop(&t);
        }
}

static pc_status dead_step(void *user, const pc_step_args *args)
{
    (void)user, (void)args;
    return PC_ERR_DEAD;
}

/* What has killed the model is final. */
static void dead(void)
{
    toy_world w;
    pc_model_ops ops = pc_toy_ops();
    pc_prompt *prompt = NULL;
    pc_batch *batch = NULL;
    pc_sequence *s = NULL, *copy = NULL;
    pc_generate_options o = options();
    ops.step = dead_step;
    if (!CHECK(toy_start_ops(&w, NULL, &ops, 0, 0, NULL)))
        return;
    CHECK_OK(pc_prompt_from_text(&prompt, w.model, "the word", 8, NULL));
    CHECK_OK(pc_batch_new(&batch, w.model, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, NULL, &o));
    CHECK_OK(pc_batch_add(batch, s));
    CHECK_STATUS(pc_batch_step(batch), PC_END);
    CHECK_STATUS(pc_sequence_error(s, NULL), PC_ERR_DEAD);
    CHECK_STATUS(pc_sequence_push(s, NULL, 0), PC_ERR_STATE);
    CHECK_ERROR_HAS("ended for good");
    CHECK_STATUS(pc_sequence_truncate(s, 0), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_fork(&copy, s, NULL), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_set_options(s, &o), PC_ERR_STATE);
    pc_sequence_free(s);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
    toy_end(&w);
}

/* ------------------------------------------------------------------------- the list of changes */

static void lists(const stage *t, pc_sequence *const *want, size_t want_count)
{
    size_t count = 99;
    pc_sequence *const *got = pc_batch_changed(t->batch, &count);
    CHECK_INT(count, want_count);
    for (size_t i = 0; i < count && i < want_count; i++)
        CHECK(got[i] == want[i]);
}

typedef struct freer {
    pc_sequence **victim;
    int left;
} freer;

static int32_t free_one(void *user, uint32_t sample, const char *text, size_t size)
{
    freer *f = user;
    (void)sample, (void)text, (void)size;
    if (f->left-- == 0) {
        pc_sequence_free(*f->victim);
        *f->victim = NULL;
    }
    return 0;
}

static void changes(void)
{
    pc_generate_options o = options(), frees = options();
    pc_sequence *all[5], *none = NULL;
    size_t count = 7;
    freer f;
    stage t;
    CHECK(!pc_batch_changed(NULL, &count));
    CHECK_INT(count, 0);
    if (!start(&t, NULL, 0, &o))
        return;
    lists(&t, &none, 0);
    all[0] = t.s;
    for (int i = 1; i < 4; i++)
        all[i] = join(&t, &o);
    CHECK_OK(pc_batch_step(t.batch));
    lists(&t, all, 4);
    CHECK_OK(pc_sequence_cancel(all[1]));
    CHECK_OK(pc_batch_step(t.batch));
    lists(&t, all, 4); /* the end of one is a change */
    CHECK_OK(pc_batch_step(t.batch));
    lists(&t, (pc_sequence *[]){all[0], all[2], all[3]}, 3);
    pc_sequence_free(all[2]);
    lists(&t, (pc_sequence *[]){all[0], all[3]}, 2);
    CHECK_OK(pc_batch_remove(t.batch, all[0]));
    lists(&t, (pc_sequence *[]){all[3]}, 1);
    CHECK_OK(pc_batch_add(t.batch, all[0]));
    lists(&t, (pc_sequence *[]){all[3]}, 1);
    /* one frees another within the step, then itself */
    f = (freer){.victim = &all[3], .left = 1};
    frees.on_text = free_one;
    frees.on_text_user = &f;
    all[4] = join(&t, &frees);
    CHECK_OK(pc_batch_step(t.batch));
    lists(&t, (pc_sequence *[]){all[3], all[0], all[4]}, 3);
    for (int i = 0; i < 5 && all[3]; i++)
        CHECK_OK(pc_batch_step(t.batch));
    CHECK(!all[3]);
    lists(&t, (pc_sequence *[]){all[0], all[4]}, 2);
    f = (freer){.victim = &all[4], .left = 0};
    for (int i = 0; i < 5 && all[4]; i++)
        CHECK(pc_batch_step(t.batch) >= 0);
    lists(&t, (pc_sequence *[]){all[0]}, 1);
    pc_sequence_free(all[1]);
    run(&t);
    CHECK_STATUS(pc_batch_step(t.batch), PC_END);
    lists(&t, &none, 0);
    stop(&t);
}

/* ------------------------------------------------------------------------- options */

static int32_t note_order(void *user, uint32_t sample, const char *text, size_t size)
{
    char *order = *(char **)user;
    (void)sample, (void)text, (void)size;
    order[strlen(order)] = *((char **)user)[1];
    return 0;
}

/* New prompts by priority, then by the order of joining. */
static void priorities(void)
{
    static const int32_t given[] = {0, 5, -3, 5, 0};
    static char names[] = "abcde";
    char order[64] = "";
    char *users[5][2];
    pc_generate_options o = options();
    pc_sequence *all[5];
    stage t;
    if (!start(&t, NULL, 0, &o))
        return;
    pc_sequence_free(t.s);
    t.s = NULL;
    for (int i = 0; i < 5; i++) {
        users[i][0] = order;
        users[i][1] = names + i;
        o.on_text = note_order;
        o.on_text_user = users[i];
        o.priority = given[i];
        all[i] = join(&t, &o);
    }
    for (int i = 0; i < 2; i++)
        CHECK_OK(pc_batch_step(t.batch));
    CHECK(!memcmp(order, "bdaec", 5));
    for (int i = 0; i < 5; i++)
        pc_sequence_free(all[i]);
    stop(&t);
}

static void fixed(stage *t, pc_generate_options o, const char *field)
{
    o.flags = o.flags ? o.flags : PC_GENERATE_KEEP;
    CHECK_STATUS(pc_sequence_set_options(t->s, &o), PC_ERR_STATE);
    CHECK_ERROR_HAS(field);
}

static void new_options(void)
{
    static const char salt[] = "salt";
    const pc_salt salts = {0, salt, 4};
    pc_bench_options bench = PC_BENCH_OPTIONS_INIT;
    pc_generate_options o = options(), changed;
    char letter[2] = "";
    const char *stops[] = {letter};
    stage t;
    o.encoding = PC_ENCODE_SINK;
    if (!start(&t, NULL, 0, &o))
        return;
    CHECK_STATUS(pc_sequence_set_options(NULL, &o), PC_ERR_INVALID);
    o.samples = 2;
    CHECK_STATUS(pc_sequence_set_options(t.s, &o), PC_ERR_INVALID);
    o = options();
    o.flags |= PC_GENERATE_LOGITS; /* before the first step everything may change */
    o.visibility = PC_VISIBLE_ALL;
    CHECK_OK(pc_sequence_set_options(t.s, &o));
    o = options();
    bench.baseline = PC_BASELINE_PER_ROW;
    o.bench = &bench;
    o.max_tokens = 2;
    CHECK_OK(pc_sequence_set_options(t.s, &o));
    run(&t);
    CHECK(!pc_sequence_logits(t.s, NULL));
    CHECK_INT(count_of(t.s), 2);
#define FIXED(field, value)  \
    changed = o;             \
    changed.field = (value); \
    fixed(&t, changed, #field)
    FIXED(encoding, PC_ENCODE_EXACT);
    FIXED(repair, PC_REPAIR_NONE);
    FIXED(repair_tokens, 3);
    FIXED(repair_percent, 3);
    FIXED(visibility, PC_VISIBLE_ALL);
    FIXED(flags, PC_GENERATE_LOGITS | PC_GENERATE_KEEP);
    FIXED(memo_threshold, &(double){0.5});
    FIXED(rope_regime_length, 100);
#undef FIXED
    changed = o;
    changed.salts = &salts;
    changed.salt_stride = sizeof(pc_salt);
    changed.salt_count = 1;
    fixed(&t, changed, "salts");
    bench.baseline = PC_BASELINE_PLAN;
    fixed(&t, o, "bench");
    bench.baseline = PC_BASELINE_PER_ROW;
    CHECK_OK(pc_sequence_set_options(t.s, &o)); /* as they were */
    o.bench = NULL;
    CHECK_INT(count_of(t.s), 2);
    CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_LENGTH); /* nothing has changed */
    o.flags = 0;                                          /* the default leaves it */
    o.max_tokens = ANSWER;
    CHECK_OK(pc_sequence_set_options(t.s, &o));
    CHECK_OK(pc_sequence_push(t.s, NULL, 0));
    run(&t);
    letter[0] = *pc_sequence_text(t.s, NULL);
    CHECK_OK(pc_sequence_truncate(t.s, 2));
    o.stop_strings = stops;
    o.stop_string_count = 1;
    CHECK_OK(pc_sequence_set_options(t.s, &o));
    CHECK_OK(pc_sequence_push(t.s, NULL, 0));
    run(&t);
    CHECK_INT(pc_sequence_finish(t.s), PC_FINISH_STOP_STRING);
    CHECK_OK(pc_sequence_set_options(t.s, NULL)); /* it is kept still */
    CHECK_OK(pc_sequence_truncate(t.s, 0));
    CHECK_OK(pc_sequence_set_options(t.s, &(pc_generate_options){sizeof o, .max_tokens = ANSWER}));
    goes_on(&t, PC_FINISH_NONE, PC_OK, "");
    stop(&t);
}

/* A new sampling takes effect, its seed too; the same options again give the same draws. */
static void new_sampling(void)
{
    int32_t first[ANSWER];
    pc_generate_options o = options();
    pc_sampling sampling = PC_SAMPLING_INIT;
    stage t;
    if (!start(&t, NULL, 0, &o))
        return;
    CHECK_OK(pc_batch_step(t.batch));
    sampling.temperature = 1.5f;
    sampling.seed = 5;
    o.sampling = &sampling;
    for (int i = 0; i < 3; i++) {
        sampling.seed += i == 2;
        CHECK_OK(pc_sequence_truncate(t.s, 1));
        CHECK_OK(pc_sequence_set_options(t.s, &o));
        while (count_of(t.s) < ANSWER && pc_batch_step(t.batch) == PC_OK)
            ;
        CHECK_INT(count_of(t.s), ANSWER);
        if (!i)
            memcpy(first, pc_sequence_tokens(t.s, NULL), sizeof first);
        CHECK_INT(!memcmp(first, pc_sequence_tokens(t.s, NULL), sizeof first), i < 2);
    }
    CHECK(memcmp(first, undisturbed, sizeof first));
    stop(&t);
}

int main(void)
{
    learn();
    cancels();
    cancelled_anywhere();
    deadline();
    another_thread();
    callback_stops();
    out_of_context();
    out_of_pool();
    failing_model();
    failing_memory(0);
    failing_memory(1.2f);
    no_numbers();
    dead();
    changes();
    priorities();
    new_options();
    new_sampling();
    return pc_test_end();
}
