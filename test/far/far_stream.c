/* Streams that run late: a queue and a thread each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "far.h"

typedef struct far_item {
    struct far_item *next;
    far_fn run;
    void **lists; /* to free after it */
    size_t list_count;
    max_align_t work[];
} far_item;

typedef struct far_stream {
    pc__stream base;
    far_backend *far;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    far_item *first, **last;
    int running, ends;
    void **lists; /* of the item that is being made */
    size_t list_count;
    pc_status status; /* the first error since `finish` */
    char text[512];
    uint64_t random;
} far_stream;

static uint64_t next_random(far_stream *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

/* Now and then; most operations are shorter than a pause. */
static void pause_a_little(far_stream *s)
{
    if (next_random(s) % 16 == 0)
        nanosleep(&(struct timespec){0, (long)(next_random(s) % 40000)}, NULL);
}

static void free_item(far_item *item)
{
    for (size_t i = 0; i < item->list_count; i++)
        free(item->lists[i]);
    free(item->lists);
    free(item);
}

static void run_item(far_stream *s, far_item *item)
{
    pc_status status = s->status;
    pause_a_little(s);
    if (status >= 0 && (status = item->run(s->far, item->work)) < 0) {
        snprintf(s->text, sizeof s->text, "%s", pc_error_text());
        s->status = status;
    }
    free_item(item);
}

static void *run_stream(void *arg)
{
    far_stream *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        far_item *item = s->first;
        if (!item) {
            s->running = 0;
            pthread_cond_broadcast(&s->idle);
            if (s->ends)
                break;
            pthread_cond_wait(&s->more, &s->lock);
            continue;
        }
        s->running = 1;
        if (!(s->first = item->next))
            s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        run_item(s, item);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

pc_status far_stream_new(pc__stream **out, pc__backend *backend)
{
    static atomic_uint_fast64_t seed = 1;
    far_stream *s = calloc(1, sizeof *s);
    if (!s)
        return pc__fail(PC_ERR_NOMEM, "far: no stream");
    s->base = (pc__stream){backend->ops, backend, backend->context};
    s->far = (far_backend *)backend;
    s->last = &s->first;
    s->random = atomic_fetch_add(&seed, 1) * UINT64_C(0x9e3779b97f4a7c15);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    pthread_cond_init(&s->idle, NULL);
    if (pthread_create(&s->thread, NULL, run_stream, s)) {
        free(s);
        return pc__fail(PC_ERR_NOMEM, "far: no thread");
    }
    *out = &s->base;
    return PC_OK;
}

void far_stream_free(pc__stream *stream)
{
    far_stream *s = (far_stream *)stream;
    pthread_mutex_lock(&s->lock);
    s->ends = 1;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->idle);
    free(s->lists);
    free(s);
}

pc_status far_finish(pc__stream *stream)
{
    far_stream *s = (far_stream *)stream;
    pc_status status;
    pthread_mutex_lock(&s->lock);
    while (s->first || s->running)
        pthread_cond_wait(&s->idle, &s->lock);
    status = s->status;
    s->status = PC_OK;
    pthread_mutex_unlock(&s->lock);
    return status < 0 ? pc__fail(status, "%s", s->text) : PC_OK;
}

void *far_list(pc__stream *stream, const void *list, size_t bytes)
{
    far_stream *s = (far_stream *)stream;
    void *copy = malloc(bytes + 1);
    void **lists = realloc(s->lists, (s->list_count + 1) * sizeof *lists);
    if (!copy || !lists)
        abort();
    if (bytes)
        memcpy(copy, list, bytes);
    s->lists = lists;
    return s->lists[s->list_count++] = copy;
}

void far_later(pc__stream *stream, far_fn run, const void *work, size_t bytes)
{
    far_stream *s = (far_stream *)stream;
    far_item *item = malloc(sizeof *item + bytes);
    if (!item)
        abort();
    *item = (far_item){NULL, run, s->lists, s->list_count};
    memcpy(item->work, work, bytes);
    s->lists = NULL;
    s->list_count = 0;
    pthread_mutex_lock(&s->lock);
    *s->last = item;
    s->last = &item->next;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}
