/* Catches: a mirror that is dropped while it is held, or that stays when memory is short; the
 * newest dropped before the oldest; half a hold that is left behind; work that fails for want of
 * memory that others have for a while, that runs again beside others or for nothing, or that waits
 * for its own thread; layers that are copied twice, before they are loaded, or not at all; a failed
 * copy that counts; a mirror that outlives its run, or is dropped while its run goes; more bytes
 * than the budget; allocations that fail. */
#include "attn/kv_mirror.h"

#include <pthread.h>

#include "attn/kv_device.h"
#include "counted_context.h"
#include "short_backend.h"

enum { LAYERS = 3, PAGES = 2 };

static const pc__kv_shape shape = {LAYERS, 1, 4, 4, PC_DTYPE_F32, 0};

static size_t run_bytes(void)
{
    return LAYERS * pc__kv_layer_bytes(&shape, PAGES * PC__PAGE);
}

static pc__kv *new_run(const pc_allocator *mem, float value)
{
    pc__kv *kv = NULL;
    float token[4] = {value, value, value, value};
    if (pc__kv_new(&kv, mem, &shape, PAGES * PC__PAGE) < 0)
        return NULL;
    for (int64_t t = 0; t < PAGES * PC__PAGE; t++) {
        pc__kv_append(kv, &t, 1);
        for (int32_t l = 0; l < LAYERS; l++)
            pc__kv_write(kv, l, (size_t)t, token, token);
    }
    return kv;
}

/* Whether the mirror has the run's layers up to `layer`. */
static int equals(const pc__kv *kv, int32_t layer)
{
    size_t each = pc__kv_layer_page_bytes(&shape);
    int equal = 1;
    for (int32_t l = 0; l <= layer; l++)
        for (size_t p = 0; p < PAGES; p++)
            equal &= !memcmp(pc__kv_page_at(kv, p) + (size_t)l * pc__kv_layer_stride(kv),
                             kv->layer[l] + p * each, each);
    return equal;
}

static int has_mirror(const pc__kv *kv)
{
    return atomic_load(&((pc__kv *)(uintptr_t)kv)->device) != NULL;
}

static pc_status begin(pc__kv_hold *h, pc__backend *backend, pc__kv **runs, size_t count)
{
    return pc__kv_mirrors_hold(h, backend, runs, count, 8);
}

static void end(pc__kv_hold *h)
{
    pc__kv_mirrors_release(h);
}

static void hold_shortly(pc__backend *backend, pc__kv **runs, size_t count)
{
    pc__kv_hold h;
    if (!CHECK_OK(begin(&h, backend, runs, count)))
        return;
    CHECK_OK(pc__kv_mirrors_fill(&h, LAYERS - 1));
    for (size_t i = 0; i < count; i++)
        CHECK(equals(runs[i], LAYERS - 1));
    end(&h);
}

/* Room for three mirrors and a little. */
static void dropped_by_age(pc_context *context)
{
    short_backend b;
    pc__kv *run[5];
    pc__kv_hold h, other;
    short_open(&b, context, 3 * run_bytes() + 100);
    for (int i = 0; i < 5; i++)
        run[i] = new_run(&context->mem, (float)i + 1);
    for (int i = 0; i < 3; i++)
        hold_shortly(&b.base, &run[i], 1);
    hold_shortly(&b.base, &run[0], 1); /* now 1 is the oldest */
    CHECK_INT(b.base.mirrors.count, 3);
    CHECK_INT(b.base.mirrors.bytes, 3 * run_bytes());
    hold_shortly(&b.base, &run[3], 1);
    CHECK(has_mirror(run[0]) && !has_mirror(run[1]) && has_mirror(run[2]) && has_mirror(run[3]));
    size_t copies = atomic_load(&b.copies);
    hold_shortly(&b.base, &run[0], 1);
    CHECK_INT(atomic_load(&b.copies), copies); /* it is still there */
    CHECK_OK(begin(&h, &b.base, run, 1));      /* 0 stays, whatever else is needed */
    hold_shortly(&b.base, run + 1, 2);
    CHECK(has_mirror(run[0]) && has_mirror(run[1]) && has_mirror(run[2]) && !has_mirror(run[3]));
    CHECK_STATUS(begin(&other, &b.base, run + 1, 3), PC_ERR_NOMEM); /* one too many, with 0 */
    CHECK_ERROR_HAS("out of memory");
    CHECK(!other.backend && !other.memory && has_mirror(run[0]));
    end(&h);
    void *all = short_take(&b.base, 3 * run_bytes()); /* any memory, not only mirrors' */
    CHECK(all != NULL);
    CHECK_INT(b.base.mirrors.count, 0);
    CHECK_INT(b.base.mirrors.bytes, 0);
    short_give(&b.base, all);
    for (int i = 0; i < 5; i++)
        pc__kv_unref(run[i]);
    short_close(&b);
}

static void with_their_runs(pc_context *context)
{
    short_backend b, c;
    pc__kv *run[3];
    pc__kv_hold h;
    short_open(&b, context, 0);
    short_open(&c, context, 0);
    for (int i = 0; i < 3; i++)
        run[i] = new_run(&context->mem, (float)i + 1);
    hold_shortly(&b.base, run, 3);
    CHECK_STATUS(begin(&h, &c.base, run, 1), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("another context");
    pc__kv_unref(run[1]); /* from the middle of the list */
    CHECK_INT(b.base.mirrors.count, 2);
    pc__kv_unref(run[2]);
    pc__kv_unref(run[0]);
    CHECK_INT(b.base.mirrors.count, 0);
    CHECK_INT(atomic_load(&b.used), 0);
    short_close(&b);
    short_close(&c);
}

static void budget(pc_context *context)
{
    short_backend b;
    pc__kv *run[4];
    short_open(&b, context, 0);
    for (int i = 0; i < 4; i++)
        run[i] = new_run(&context->mem, (float)i + 1);
    hold_shortly(&b.base, run, 4);
    pc__kv_mirrors_set_budget(&b.base, 2 * run_bytes());
    CHECK(!has_mirror(run[0]) && !has_mirror(run[1]) && has_mirror(run[2]) && has_mirror(run[3]));
    hold_shortly(&b.base, run, 3); /* what is held may be more */
    CHECK_INT(b.base.mirrors.bytes, 2 * run_bytes());
    CHECK(has_mirror(run[1]) && has_mirror(run[2]));
    atomic_store(&b.most_used, 0);
    hold_shortly(&b.base, run, 1);
    CHECK(atomic_load(&b.most_used) < 3 * run_bytes()); /* dropped first */
    for (int i = 0; i < 4; i++)
        pc__kv_unref(run[i]);
    short_close(&b);
}

static pc_status arrives(pc__layer_stream *stream, size_t layer)
{
    (void)stream, (void)layer;
    return PC_OK;
}

static void layers(pc_context *context)
{
    pc__layer_stream loading = {arrives};
    short_backend b;
    pc__kv *run[2] = {new_run(&context->mem, 1), new_run(&context->mem, 2)};
    pc__kv_hold h;
    short_open(&b, context, 0);
    CHECK_OK(begin(&h, &b.base, run, 2));
    atomic_store(&run[1]->stream, &loading);
    CHECK_OK(pc__kv_mirrors_fill(&h, 0));
    CHECK_INT(atomic_load(&b.copies), LAYERS + 1); /* all of the first, one of the other */
    CHECK(equals(run[0], LAYERS - 1) && equals(run[1], 0) && !equals(run[1], 1));
    b.fail_copy = atomic_load(&b.copies) + 1;
    CHECK_STATUS(pc__kv_mirrors_fill(&h, 1), PC_ERR_IO);
    CHECK(!equals(run[1], 1));
    CHECK_OK(pc__kv_mirrors_fill(&h, 1)); /* once more */
    CHECK(equals(run[1], 1) && !equals(run[1], 2));
    atomic_store(&run[1]->stream, NULL);
    CHECK_OK(pc__kv_mirrors_fill(&h, 2));
    CHECK(equals(run[1], 2));
    size_t copies = atomic_load(&b.copies);
    CHECK_OK(pc__kv_mirrors_fill(&h, 2));
    CHECK_INT(atomic_load(&b.copies), copies);
    end(&h);
    pc__kv_unref(run[0]);
    pc__kv_unref(run[1]);
    short_close(&b);
}

static void empty_runs(pc_context *context)
{
    short_backend b;
    pc__kv *run = NULL;
    pc__kv_hold h;
    short_open(&b, context, 0);
    CHECK_OK(pc__kv_new(&run, &context->mem, &shape, 0));
    CHECK_OK(begin(&h, &b.base, &run, 1));
    CHECK_OK(pc__kv_mirrors_fill(&h, LAYERS - 1));
    end(&h);
    CHECK_OK(begin(&h, &b.base, NULL, 0)); /* a pass that reads none */
    CHECK_OK(pc__kv_mirrors_fill(&h, LAYERS - 1));
    end(&h);
    CHECK(pc__kv_mirrors_drop(&b.base, 1) && !pc__kv_mirrors_drop(&b.base, 1));
    pc__kv_unref(run);
    short_close(&b);
}

/* ----------------------------------------------------------------- threads */

enum { THREADS = 4, ROUNDS = 300, RUNS = 6 };

typedef struct world {
    short_backend b;
    const pc_allocator *mem;
    pthread_mutex_t lock; /* of the runs */
    pc__kv *run[RUNS];
    atomic_int faults;
} world;

static size_t choose(world *w, pc_test_rng *rng, pc__kv **runs)
{
    size_t count = 0;
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < RUNS && count < 3; i++)
        if (pc_test_bits(rng) >> 40 & 1)
            runs[count++] = pc__kv_ref(w->run[i]);
    if (pc_test_bits(rng) >> 40 & 1) { /* in another order than other threads */
        pc__kv *first = runs[0];
        for (size_t i = 1; i < count; i++)
            runs[i - 1] = runs[i];
        if (count)
            runs[count - 1] = first;
    }
    pthread_mutex_unlock(&w->lock);
    return count;
}

/* A new run in the place of one that others may still use. */
static void replace(world *w, pc_test_rng *rng)
{
    pc__kv *fresh = new_run(w->mem, pc_test_uniform(rng) + 1);
    pthread_mutex_lock(&w->lock);
    size_t i = pc_test_bits(rng) % RUNS;
    pc__kv *old = w->run[i];
    w->run[i] = fresh;
    pthread_mutex_unlock(&w->lock);
    pc__kv_unref(old);
}

typedef struct turn {
    world *world;
    pc__kv **runs;
    size_t count;
    int good;
} turn;

static pc_status take_turn(void *of)
{
    turn *t = of;
    pc__kv_hold h;
    PC__TRY_RETURN(begin(&h, &t->world->b.base, t->runs, t->count));
    t->good = pc__kv_mirrors_fill(&h, LAYERS - 1) == PC_OK;
    for (size_t r = 0; r < t->count; r++)
        t->good &= equals(t->runs[r], LAYERS - 1);
    end(&h);
    return PC_OK;
}

static void *work(void *arg)
{
    static atomic_uint_fast64_t seeds = 77;
    world *w = arg;
    pc_test_rng rng = {atomic_fetch_add(&seeds, 1)};
    for (int i = 0; i < ROUNDS; i++) {
        pc__kv *runs[3];
        size_t count = choose(w, &rng, runs);
        turn t = {w, runs, count, 0};
        pc_status status = pc__kv_mirrors_work(&w->b.base, take_turn, &t, 0);
        atomic_fetch_add(&w->faults, status < 0 || !t.good);
        for (size_t r = 0; r < count; r++)
            pc__kv_unref(runs[r]);
        if (pc_test_bits(&rng) % 4 == 0)
            replace(w, &rng);
    }
    return NULL;
}

/* A thread that holds and fills. */
typedef struct filler {
    pc__backend *backend;
    pc__kv **run;
    atomic_int state; /* 0: begins, 1: has filled, 2: has seen other contents */
} filler;

static void *fill(void *arg)
{
    filler *f = arg;
    pc__kv_hold h;
    int good = begin(&h, f->backend, f->run, 1) == PC_OK
               && pc__kv_mirrors_fill(&h, LAYERS - 1) == PC_OK && equals(f->run[0], LAYERS - 1);
    atomic_store(&f->state, good ? 1 : 2);
    end(&h);
    return NULL;
}

/* Two fill one mirror: it is copied once, and both see all of it. */
static void filled_together(pc_context *context)
{
    short_backend b;
    pc__kv *run = new_run(&context->mem, 1);
    filler f[2] = {{&b.base, &run, 0}, {&b.base, &run, 0}};
    pthread_t threads[2];
    short_open(&b, context, 0);
    b.slow = 1;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, fill, &f[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(atomic_load(&f[i].state), 1);
    }
    CHECK_INT(atomic_load(&b.copies), LAYERS);
    pc__kv_unref(run);
    short_close(&b);
}

/* ----------------------------------------------------------------- work */

/* Work that takes some memory, meets others, and has it for a moment. */
typedef struct job {
    short_backend *b;
    size_t bytes;
    struct job *inner; /* runs within it */
    int inner_once;
    atomic_int *beside; /* counts those that work now; or NULL */
    int most_beside;    /* of the last run, with itself */
    int runs;
    int once;
    pc_status status;
} job;

static pc_status run_job(void *of)
{
    job *j = of;
    int now = j->beside ? atomic_fetch_add(j->beside, 1) + 1 : 1;
    void *memory = short_take(&j->b->base, j->bytes);
    pc_status status = memory ? PC_OK : PC_ERR_NOMEM;
    j->runs++;
    if (status >= 0 && j->inner)
        status = pc__kv_mirrors_work(&j->b->base, run_job, j->inner, j->inner_once);
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    if (j->beside) {
        int after = atomic_load(j->beside);
        j->most_beside = after > now ? after : now;
        atomic_fetch_sub(j->beside, 1);
    }
    short_give(&j->b->base, memory);
    return status;
}

static void *start_job(void *of)
{
    job *j = of;
    j->status = pc__kv_mirrors_work(&j->b->base, run_job, j, j->once);
    return NULL;
}

/* Eight need more than half of the memory each: all succeed, those that failed first alone. */
static void works_alone(pc_context *context)
{
    enum { JOBS = 8 };
    short_backend b;
    atomic_int beside = 0;
    pthread_t threads[JOBS];
    job jobs[JOBS];
    int again = 0;
    short_open(&b, context, 1000);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (job){.b = &b, .bytes = 600, .beside = &beside};
        pthread_create(&threads[i], NULL, start_job, &jobs[i]);
    }
    for (int i = 0; i < JOBS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_OK(jobs[i].status);
        if (jobs[i].runs == 1)
            continue;
        CHECK_INT(jobs[i].runs, 2);
        CHECK_INT(jobs[i].most_beside, 1);
        again++;
    }
    CHECK(again > 0);
    CHECK_INT(b.base.mirrors.works, JOBS + again);
    CHECK_INT(b.base.mirrors.working, 0);
    CHECK_INT(b.base.mirrors.alone, 0);
    short_close(&b);
}

static void await_work(short_backend *b, uint64_t number)
{
    pc__kv_mirrors *all = &b->base.mirrors;
    for (uint64_t works = 0; works < number;) {
        nanosleep(&(struct timespec){0, 100000}, NULL);
        pthread_mutex_lock(&all->lock);
        works = all->works;
        pthread_mutex_unlock(&all->lock);
    }
}

/* Work that nobody disturbs runs once, as does what others have seen; more than there is fails. */
static void works_once(pc_context *context)
{
    short_backend b;
    pthread_t thread;
    job first = {.bytes = 600}, second = {.bytes = 600, .once = 1}, large = {.bytes = 1001};
    short_open(&b, context, 1000);
    first.b = second.b = large.b = &b;
    start_job(&large);
    CHECK_STATUS(large.status, PC_ERR_NOMEM);
    CHECK_INT(large.runs, 1);
    void *some = short_take(&b.base, 600);
    pthread_create(&thread, NULL, start_job, &first); /* fails, and is there when second begins */
    await_work(&b, 2);
    start_job(&second);
    pthread_join(thread, NULL);
    CHECK_STATUS(second.status, PC_ERR_NOMEM);
    CHECK_INT(second.runs, 1);
    CHECK_STATUS(first.status, PC_ERR_NOMEM); /* alone, too */
    CHECK_INT(first.runs, 2);
    short_give(&b.base, some);
    short_close(&b);
}

/* Inner work is a part of the outer: it waits for nobody, and the outer runs again for it. */
static void works_within(pc_context *context)
{
    short_backend b;
    pthread_t thread;
    job beside = {.bytes = 500}, inner = {.bytes = 500}, outer = {.bytes = 400, .inner = &inner};
    short_open(&b, context, 1000);
    beside.b = inner.b = outer.b = &b;
    pthread_create(&thread, NULL, start_job, &beside);
    await_work(&b, 1);
    start_job(&outer);
    pthread_join(thread, NULL);
    CHECK_OK(beside.status);
    CHECK_OK(outer.status);
    CHECK_INT(beside.runs, 1);
    CHECK_INT(outer.runs, 2);
    CHECK_INT(inner.runs, 2);
    short_close(&b);
}

/* Less memory than two threads need together. */
static void many_threads(pc_context *context)
{
    world w = {.mem = &context->mem};
    pthread_t threads[THREADS];
    short_open(&w.b, context, 4 * run_bytes());
    pthread_mutex_init(&w.lock, NULL);
    for (int i = 0; i < RUNS; i++)
        w.run[i] = new_run(w.mem, (float)i + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &w);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(atomic_load(&w.faults), 0);
    CHECK(w.b.base.mirrors.works >= THREADS * ROUNDS);
    CHECK(w.b.base.mirrors.dropped > 0);
    CHECK_INT(w.b.base.mirrors.working, 0);
    for (int i = 0; i < RUNS; i++)
        pc__kv_unref(w.run[i]);
    CHECK_INT(w.b.base.mirrors.count, 0);
    pthread_mutex_destroy(&w.lock);
    short_close(&w.b);
}

typedef struct dropper {
    pc__backend *backend;
    atomic_int ends;
} dropper;

static void *drop_always(void *arg)
{
    dropper *d = arg;
    while (!atomic_load(&d->ends))
        pc__kv_mirrors_drop(d->backend, 1);
    return NULL;
}

/* Runs go while their mirrors are dropped: each mirror is freed once. */
static void dropped_while_freed(pc_context *context)
{
    enum { TIMES = 3000 };
    short_backend b;
    dropper d = {&b.base, 0};
    pthread_t thread;
    short_open(&b, context, 0);
    pthread_create(&thread, NULL, drop_always, &d);
    for (int i = 0; i < TIMES; i++) {
        pc__kv *run[4];
        pc__kv_hold h;
        for (int r = 0; r < 4; r++)
            CHECK_OK(pc__kv_new(&run[r], &context->mem, &shape, 1));
        CHECK_OK(begin(&h, &b.base, run, 4));
        end(&h);
        for (int r = 0; r < 4; r++)
            pc__kv_unref(run[r]);
    }
    atomic_store(&d.ends, 1);
    pthread_join(thread, NULL);
    CHECK_INT(b.base.mirrors.count, 0);
    short_close(&b);
}

/* ------------------------------------------------------- failing allocations */

static void failures(void)
{
    uint64_t calls = 1;
    for (uint64_t fail = 0; fail <= calls; fail++) {
        pc_test_memory memory = {0};
        pc_context *context = pc_test_counted_context(&memory, 1);
        pc__kv *run[2] = {new_run(&context->mem, 1), new_run(&context->mem, 2)};
        short_backend b;
        pc__kv_hold h;
        short_open(&b, context, 0);
        uint64_t before = memory.calls;
        memory.fail_at = fail ? before + fail : 0;
        pc_status status = begin(&h, &b.base, run, 2);
        calls = fail ? calls : memory.calls - before;
        memory.fail_at = 0;
        CHECK_STATUS(status, fail ? PC_ERR_NOMEM : PC_OK);
        if (status == PC_OK)
            end(&h);
        hold_shortly(&b.base, run, 2);
        pc__kv_unref(run[0]);
        pc__kv_unref(run[1]);
        short_close(&b);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    pc_context *context = NULL;
    if (CHECK_OK(pc_context_new(&context, NULL))) {
        dropped_by_age(context);
        with_their_runs(context);
        budget(context);
        layers(context);
        empty_runs(context);
        filled_together(context);
        works_alone(context);
        works_once(context);
        works_within(context);
        many_threads(context);
        dropped_while_freed(context);
    }
    pc_context_free(context);
    failures();
    return pc_test_end();
}
