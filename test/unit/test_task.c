/* Catches: a task that is lost, run twice, or done before its work is let go; a wait that gives up
 * early or too late; an error text that stays on the task's thread; a descriptor that is readable
 * too early, or never; threads that are started while others rest, that take signals, or that
 * outlive their context; an object that two threads have at once; memory that is left when an
 * allocation fails, or when a task is freed in its own work; a child after fork() that waits for
 * ever. */
#include <dirent.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/task.h"
#include "base/threads.h"
#include "testing.h"

/* A door that work waits at. */
typedef struct door {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int open, waiting;
} door;

static void door_init(door *d)
{
    memset(d, 0, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->change, NULL);
}

static void door_pass(door *d)
{
    pthread_mutex_lock(&d->lock);
    d->waiting++;
    pthread_cond_broadcast(&d->change);
    while (!d->open)
        pthread_cond_wait(&d->change, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

static void door_await(door *d, int waiting)
{
    pthread_mutex_lock(&d->lock);
    while (d->waiting < waiting)
        pthread_cond_wait(&d->change, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

static void door_open(door *d)
{
    pthread_mutex_lock(&d->lock);
    d->open = 1;
    pthread_cond_broadcast(&d->change);
    pthread_mutex_unlock(&d->lock);
}

typedef struct work {
    door *door, *last; /* at its begin, at its end; NULL: none */
    pc_status status;
    int *runs, *ends;    /* plain memory: the end of a task hands it over */
    pc_task **own;       /* freed in its own work; NULL: not */
    pc_context *context; /* freed there too */
    pthread_t *thread;
    pc__task_link *link;
    int *right; /* what it sees of itself */
} work;

static pc_status run_work(void *memory)
{
    work *w = memory;
    if (w->door)
        door_pass(w->door);
    if (w->thread)
        *w->thread = pthread_self();
    if (w->link) /* its object is its own */
        *w->right = !pc__task_check(w->link, "work", "the object") && pc__task_here(w->link)
                    && pc__task_await(w->link);
    if (w->own) {
        *w->right = pc_task_wait(*w->own, 0) == PC_ERR_STATE
                    && strstr(pc_error_text(), "a callback of the task itself");
        pc_task_free(*w->own);
    }
    pc_context_free(w->context);
    ++*w->runs;
    return w->status < 0 ? pc__fail(w->status, "this text is of run %d", *w->runs) : w->status;
}

static void end_work(void *memory)
{
    work *w = memory;
    ++*w->ends;
    if (w->last)
        door_pass(w->last);
}

static const pc__task_kind kind = {sizeof(work), run_work, end_work};

static pc_context *make_context(const pc_allocator *mem, uint32_t threads)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *c = NULL;
    o.threads = threads;
    o.allocator = mem;
    CHECK_OK(pc_context_new(&c, &o));
    return c;
}

static pc_task *start(pc_context *context, const work *w)
{
    pc_task *task;
    if (pc__task_new(&task, context, &kind) < 0)
        return NULL; /* waiting for it then fails */
    *(work *)pc__task_work(task) = *w;
    pc__task_start(task);
    return task;
}

/* A thread that was joined may still be listed for a moment. */
static int threads_become(int count)
{
    int n = 0;
    for (int tries = 0; tries < 1000 && n != count; tries++) {
        DIR *dir = opendir("/proc/self/task");
        for (n = -2; dir && readdir(dir);)
            n++;
        if (dir)
            closedir(dir);
        usleep(n == count ? 0 : 1000);
    }
    return n == count;
}

static void *come_and_go(void *arg)
{
    return arg;
}

static int own_threads; /* of the process, before the first context */

static void statuses(void)
{
    pc_context *c = make_context(NULL, 1);
    int runs = 0, ends = 0;
    for (int i = 0; i < 200; i++) {
        pc_status want = i % 3 == 0 ? PC_OK : i % 3 == 1 ? PC_END : PC_ERR_LIMIT;
        pc_task *task = start(c, &(work){.status = want, .runs = &runs, .ends = &ends});
        pc__fail(PC_ERR_IO, "another text");
        CHECK_STATUS(pc_task_wait(task, i % 2 ? INFINITY : 60), want);
        CHECK_INT(runs, i + 1);
        CHECK_INT(ends, i + 1);
        if (want < 0)
            CHECK_ERROR_HAS("this text is of run");
        else
            CHECK_ERROR_HAS("another text");
        CHECK_STATUS(pc_task_wait(task, 0), want); /* again */
        pc_task_free(task);
    }
    CHECK_STATUS(pc_task_wait(NULL, 0), PC_ERR_INVALID);
    pc_task *task = start(c, &(work){.runs = &runs, .ends = &ends});
    CHECK_STATUS(pc_task_wait(task, -1), PC_ERR_INVALID);
    CHECK_STATUS(pc_task_wait(task, NAN), PC_ERR_INVALID);
    pc_task_free(task);
    pc_task_free(NULL);
    pc_context_free(c);
}

static void waiting(void)
{
    pc_context *c = make_context(NULL, 2);
    door d;
    int runs = 0, ends = 0;
    door_init(&d);
    pc_task *task = start(c, &(work){.door = &d, .runs = &runs, .ends = &ends});
    CHECK_STATUS(pc_task_wait(task, 0), PC_AGAIN);
    double before = pc__now();
    CHECK_STATUS(pc_task_wait(task, 0.05), PC_AGAIN);
    CHECK(pc__now() - before >= 0.05);
    door_open(&d);
    CHECK_OK(pc_task_wait(task, 1e300));
    pc_task_free(task);
    pc_context_free(c);
}

static int is_readable(int32_t fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

static void descriptors(void)
{
    pc_context *c = make_context(NULL, 1);
    size_t open_before = pc_test_open_files();
    door d;
    int runs = 0, ends = 0;
    int32_t fd, same;
    door_init(&d);
    pc_task *task = start(c, &(work){.door = &d, .runs = &runs, .ends = &ends});
    CHECK_INT(pc_test_open_files(), open_before); /* nobody has asked */
    CHECK_OK(pc_task_fd(task, &fd));
    CHECK_OK(pc_task_fd(task, &same));
    CHECK_INT(same, fd);
    CHECK(!is_readable(fd));
    door_open(&d);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    CHECK_INT(poll(&p, 1, 60000), 1);
    CHECK_OK(pc_task_wait(task, 0)); /* readable means done */
    CHECK(is_readable(fd));
    pc_task_free(task);
    CHECK_INT(pc_test_open_files(), open_before);

    task = start(c, &(work){.runs = &runs, .ends = &ends});
    CHECK_OK(pc_task_wait(task, INFINITY));
    CHECK_OK(pc_task_fd(task, &fd)); /* asked for when it is done */
    CHECK(is_readable(fd));
    CHECK_STATUS(pc_task_fd(task, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_task_fd(NULL, &fd), PC_ERR_INVALID);
    CHECK_INT(fd, same >= 0 ? fd : -1);
    pc_task_free(task);
    CHECK_INT(pc_test_open_files(), open_before);
    pc_context_free(c);
}

/* One after the other they need one thread, at once one each. Nobody who does not use them pays. */
static void few_threads(void)
{
    pc_context *c = make_context(NULL, 1);
    pc_task *tasks[5];
    door d;
    int runs[5] = {0}, ends[5] = {0};
    CHECK(threads_become(own_threads));
    for (int i = 0; i < 100; i++) {
        tasks[0] = start(c, &(work){.runs = runs, .ends = ends});
        CHECK_OK(pc_task_wait(tasks[0], INFINITY));
        pc_task_free(tasks[0]);
    }
    CHECK(threads_become(own_threads + 1));
    door_init(&d);
    for (int i = 0; i < 5; i++)
        tasks[i] = start(c, &(work){.door = &d, .runs = &runs[i], .ends = &ends[i]});
    door_await(&d, 5); /* none waits for another */
    CHECK(threads_become(own_threads + 5));
    door_open(&d);
    for (int i = 0; i < 5; i++)
        pc_task_free(tasks[i]); /* waits */
    for (int i = 1; i < 5; i++)
        CHECK(runs[i] == 1 && ends[i] == 1);
    CHECK(threads_become(own_threads + 5));
    pc_context_free(c);
    CHECK(threads_become(own_threads));
}

static void signals(void)
{
    pc_context *c = make_context(NULL, 1);
    pthread_t thread;
    int runs = 0, ends = 0;
    pc_task *task = start(c, &(work){.runs = &runs, .ends = &ends, .thread = &thread});
    CHECK_OK(pc_task_wait(task, INFINITY));
    CHECK(!pthread_equal(thread, pthread_self()));
    CHECK_INT(pthread_kill(thread, SIGUSR1), 0); /* would end the process */
    pc_task_free(task);
    pc_context_free(c);
}

static void links(void)
{
    pc_context *c = make_context(NULL, 1);
    pc__task_link link = {NULL};
    door d;
    int runs = 0, ends = 0, right = 0;
    pc_task *task, *next;
    CHECK_OK(pc__task_check(&link, "call", "the object"));
    CHECK(!pc__task_has(&link) && !pc__task_here(&link) && pc__task_await(&link));
    door_init(&d);
    CHECK_OK(pc__task_new(&task, c, &kind));
    *(work *)pc__task_work(task) = (work){
        .door = &d, .runs = &runs, .ends = &ends, .link = &link, .right = &right};
    pc__task_link_to(&link, task);
    pc__task_link_to(&link, task);
    pc__task_start(task);
    CHECK_STATUS(pc__task_check(&link, "call", "the object"), PC_ERR_STATE);
    CHECK_ERROR_HAS("call: a task that uses the object is under way");
    CHECK(!pc__task_here(&link));
    door_open(&d);
    CHECK(pc__task_await(&link));
    CHECK(ends == 1 && right);
    CHECK_OK(pc__task_check(&link, "call", "the object"));
    pc_task_free(task); /* the link holds it */
    CHECK(!pc__task_has(&link));
    CHECK_OK(pc__task_new(&next, c, &kind));
    pc__task_link_to(&link, next);
    pc__task_unlink(&link);
    pc__task_drop(next);
    CHECK_INT(runs, 1);
    pc_context_free(c);
}

/* The last of all may be the task's own thread. */
static void freed_within(void)
{
    for (int i = 0; i < 50; i++) {
        pc_context *c = make_context(NULL, 1);
        pc_task *task, *other;
        door d, first, last;
        int runs = 0, ends = 0, right = 0;
        door_init(&d);
        door_init(&first);
        door_init(&last);
        other = start(c, &(work){.door = &first, .runs = &runs, .ends = &ends});
        door_open(&first);
        CHECK_OK(pc_task_wait(other, INFINITY));
        pc_task_free(other);
        CHECK_OK(pc__task_new(&task, c, &kind));
        work w = {.door = &d, .last = &last, .runs = &runs, .ends = &ends, .right = &right};
        w.own = &task;
        w.context = i % 2 ? c : NULL;
        *(work *)pc__task_work(task) = w;
        pc__task_start(task);
        door_open(&last);
        door_open(&d);
        if (i % 2 == 0)
            pc_context_free(c);
        door_await(&last, 1);
        CHECK(threads_become(own_threads)); /* it ends by itself */
        CHECK(runs == 2 && ends == 2 && right);
    }
}

/* The allocator is not counted on two threads at once: each task is waited for. */
static void no_memory(void)
{
    int done = 0;
    for (uint64_t at = 1; !done; at++) {
        pc_test_memory memory = {0};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc_context *c = make_context(&mem, 1);
        int runs = 0, ends = 0;
        memory.fail_at = memory.calls + at;
        for (int i = 0; i < 3; i++) {
            pc_task *task = (pc_task *)(uintptr_t)8;
            pc_status status = pc__task_new(&task, c, &kind);
            CHECK(status == PC_OK || (status == PC_ERR_NOMEM && !task));
            if (!task)
                continue;
            *(work *)pc__task_work(task) = (work){.runs = &runs, .ends = &ends};
            pc__task_start(task);
            CHECK_OK(pc_task_wait(task, INFINITY));
            pc_task_free(task);
        }
        done = memory.calls < memory.fail_at;
        CHECK(runs >= 2 && runs == ends && (runs == 3) == done);
        pc_context_free(c);
        CHECK_INT(memory.live_blocks, 0);
    }
}

typedef struct user {
    pc_context *context;
    uint64_t seed;
    int right;
} user;

static void *use_many(void *arg)
{
    user *u = arg;
    pc_test_rng rng = {u->seed};
    pc_task *tasks[4] = {NULL};
    int runs[4] = {0}, ends[4] = {0}, started[4] = {0};
    for (int i = 0; i < 300; i++) {
        int at = (int)(pc_test_bits(&rng) % 4);
        int32_t fd;
        if (!tasks[at]) {
            tasks[at] = start(u->context, &(work){.runs = &runs[at], .ends = &ends[at]});
            started[at]++;
            if (pc_test_bits(&rng) % 4 == 0 && pc_task_fd(tasks[at], &fd) < 0)
                u->right -= 1000;
            continue;
        }
        if (pc_test_bits(&rng) % 2)
            while (pc_task_wait(tasks[at], 1e-4) == PC_AGAIN)
                ;
        pc_task_free(tasks[at]);
        tasks[at] = NULL;
        u->right += runs[at] == started[at] && ends[at] == started[at] ? 0 : -1000;
    }
    for (int at = 0; at < 4; at++)
        pc_task_free(tasks[at]);
    u->right += 1;
    return NULL;
}

/* Several threads start tasks of one context from its first one on. */
static void many_users(void)
{
    for (int round = 0; round < 10; round++) {
        pc_context *c = make_context(NULL, 2);
        pthread_t threads[4];
        user users[4];
        for (uint64_t i = 0; i < 4; i++) {
            users[i] = (user){c, 10 * (uint64_t)round + i + 1, 0};
            pthread_create(&threads[i], NULL, use_many, &users[i]);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            CHECK_INT(users[i].right, 1);
        }
        pc_context_free(c);
    }
}

static int in_child(pc_context *c, pc_task *under_way, pc_task *done, pc__task_link *link)
{
    int runs = 0, ends = 0;
    int32_t fd;
    pc_task *task = start(c, &(work){.status = PC_END, .runs = &runs, .ends = &ends});
    CHECK(runs == 1 && ends == 1); /* by this thread */
    CHECK_STATUS(pc_task_wait(task, 0), PC_END);
    CHECK_OK(pc_task_fd(task, &fd));
    CHECK(is_readable(fd));
    pc_task_free(task);
    CHECK_OK(pc_task_wait(done, INFINITY));
    pc_task_free(done);
    CHECK_STATUS(pc_task_wait(under_way, INFINITY), PC_ERR_STATE);
    CHECK_ERROR_HAS("fork()");
    CHECK_STATUS(pc_task_fd(under_way, &fd), PC_ERR_STATE);
    CHECK(pc__task_has(link) && !pc__task_await(link));
    pc_task_free(under_way);
    pc_context_free(c);
    return pc_test_end();
}

static void forked(void)
{
    pc_context *c = make_context(NULL, 2);
    pc__task_link link = {NULL};
    door d;
    int runs = 0, ends = 0, status = -1;
    pc_task *done = start(c, &(work){.runs = &runs, .ends = &ends}), *under_way;
    CHECK_OK(pc_task_wait(done, INFINITY));
    door_init(&d);
    CHECK_OK(pc__task_new(&under_way, c, &kind));
    *(work *)pc__task_work(under_way) = (work){.door = &d, .runs = &runs, .ends = &ends};
    pc__task_link_to(&link, under_way);
    pc__task_start(under_way);
    door_await(&d, 1);
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        _exit(in_child(c, under_way, done, &link));
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    door_open(&d);
    CHECK_OK(pc_task_wait(under_way, INFINITY));
    pc_task_free(under_way);
    pc_task_free(done);
    pc__task_unlink(&link);
    pc_context_free(c);
}

int main(void)
{
    pthread_t first;
    pthread_create(&first, NULL, come_and_go, NULL);
    pthread_join(first, NULL);
    while (!threads_become(++own_threads))
        ; /* a sanitizer may have one of its own, from the first thread on */
    statuses();
    waiting();
    descriptors();
    few_threads();
    signals();
    links();
    freed_within();
    no_memory();
    many_users();
    forked();
    return pc_test_end();
}
