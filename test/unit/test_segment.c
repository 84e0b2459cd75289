/* Catches: a payload that is released too early, never or twice; an owner that is dropped before
 * its payload; a watcher that is not called when the others are done with a segment, is called
 * twice, or for a segment that is gone (tools/test.sh --all runs it under ThreadSanitizer). */
#include "store/segment.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "testing.h"

static int released, dropped;

static void release(void *owner, void *payload)
{
    CHECK(owner == &dropped && payload == &released);
    CHECK_INT(dropped, 0);
    released++;
}

static void drop(void *owner)
{
    CHECK(owner == &dropped);
    CHECK_INT(released, 1);
    dropped++;
}

static const pc__payload_ops ops = {.release = release, .drop_owner = drop};

/* The lower bits count the references. */
static int is_single(const pc_segment *segment)
{
    return (uint32_t)atomic_load(&((pc_segment *)(uintptr_t)segment)->references) == 1;
}

static void life(void)
{
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    int32_t ids[3] = {7, 8, 9};
    const int32_t *tokens = NULL;
    pc_segment *segment = NULL;
    if (!CHECK_OK(pc__segment_new(&segment, &mem, &ops, &released, &dropped, 100, ids, 3)))
        return;
    ids[0] = 1; /* copied */
    size_t count;
    tokens = pc_segment_tokens(segment, &count);
    CHECK_INT(count, 3);
    CHECK(tokens && tokens[0] == 7 && tokens[2] == 9);
    CHECK(is_single(segment));
    CHECK(pc__segment_ref(segment) == segment);
    CHECK(!is_single(segment));
    pc__segment_unref(segment);
    CHECK_INT(released, 0);
    pc_segment_free(segment);
    CHECK_INT(released, 1);
    CHECK_INT(dropped, 1);
    CHECK_INT(memory.live_blocks, 0);
}

static void without_memory(void)
{
    int32_t ids[3] = {7, 8, 9};
    released = dropped = 0;
    for (uint64_t at = 1; at <= 2; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_segment *segment = (pc_segment *)ids;
        CHECK_STATUS(pc__segment_new(&segment, &mem, &ops, &released, &dropped, 100, ids, 3),
                     PC_ERR_NOMEM);
        CHECK(segment == NULL);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK_INT(released + dropped, 0); /* still the caller's */
}

/* ---------------------------------------------------------------- watching */

static atomic_int freed;

static void count_release(void *owner, void *payload)
{
    (void)owner, (void)payload;
    atomic_fetch_add(&freed, 1);
}

static const pc__payload_ops counted = {.release = count_release};

static pc_segment *plain(void)
{
    pc_segment *segment = NULL;
    CHECK_OK(pc__segment_new(&segment, &pc__libc_allocator, &counted, &freed, NULL, 1, NULL, 0));
    return segment;
}

static void watching(void)
{
    pc__releases list = {NULL}, other = {NULL};
    pc_segment *a = plain(), *b = plain();
    int tag = 0;
    CHECK(pc__segment_claim(a, &list, &tag) && pc__segment_claim(b, &list, &tag));
    CHECK(!pc__segment_claim(a, &other, NULL) && a->watch_tag == &tag);
    CHECK(!pc__segment_watch(a)); /* there is no other reference */
    pc__segment_ref(a);
    pc__segment_ref(a);
    pc__segment_ref(b);
    CHECK(pc__segment_watch(a) && pc__segment_watch(b));
    CHECK(!is_single(a));
    pc__segment_unref(a);
    CHECK(!pc__releases_take(&list));
    pc__segment_unref(a);
    CHECK(is_single(a));
    pc__segment_ref(a); /* used again and released: still once */
    pc__segment_unref(a);
    CHECK(!pc__segment_unwatch(a)); /* it is in the list */
    CHECK(pc__releases_take(&list) == a && !a->next_release);
    CHECK(!pc__releases_take(&list));
    CHECK(pc__segment_unwatch(b));
    pc__segment_unref(b);
    CHECK(!pc__releases_take(&list));
    pc__segment_disclaim(a);
    CHECK(pc__segment_claim(a, &other, NULL));
    CHECK_INT(atomic_load(&freed), 0);
    pc__segment_unref(a);
    pc__segment_unref(b);
    CHECK_INT(atomic_load(&freed), 2);
}

/* A tier that stores a segment which another one watches makes no thread wait, whenever it begins
 * and ends. */
static void keeping(void)
{
    pc__releases list = {NULL};
    pc_segment *a = plain();
    CHECK(pc__segment_claim(a, &list, NULL));
    pc__segment_ref(a);
    CHECK(pc__segment_watch(a) && !pc__segment_is_idle(a));
    pc__segment_set_passive(a); /* the apparent use was the tier's own reference */
    CHECK(pc__segment_is_idle(a) && pc__releases_take(&list) == a && !pc__segment_watch(a));
    pc__segment_ref(a);
    CHECK(!pc__segment_is_idle(a) && pc__segment_watch(a));
    pc__segment_set_active(a);
    pc__segment_unref(a);
    CHECK(!pc__releases_take(&list)); /* there are two others, still */
    pc__segment_unref(a);
    CHECK(pc__releases_take(&list) == a && pc__segment_is_idle(a) && is_single(a));
    pc__segment_unref(a);
}

enum { HOLDERS = 4, SHARED = 8, TURNS = 2000 };

typedef struct desk {
    pthread_mutex_t lock; /* the watcher's, under which references are given out */
    pc_segment *segments[SHARED];
    int is_held[SHARED];
    pc__releases list;
    int wrong;
} desk;

static void look(desk *d)
{
    for (pc_segment *s = pc__releases_take(&d->list), *next; s; s = next) {
        int *held = s->watch_tag;
        next = s->next_release;
        d->wrong |= !*held;
        *held = pc__segment_watch(s);
    }
}

static void *hold_and_return(void *arg)
{
    desk *d = arg;
    pc_segment *mine[2] = {NULL, NULL};
    for (int i = 0; i < TURNS; i++) {
        size_t n = ((size_t)i * 7 + ((uintptr_t)&mine >> 12)) % SHARED;
        pthread_mutex_lock(&d->lock);
        if (i % 3 == 0)
            look(d);
        if (i % 5 == 0) { /* another keeper comes, and one goes */
            pc__segment_ref(d->segments[n]);
            pc__segment_set_passive(d->segments[n]);
            pc__segment_set_active(d->segments[n]);
            d->is_held[n] = d->is_held[n] || pc__segment_watch(d->segments[n]);
            pc__segment_unref(d->segments[n]);
        }
        mine[i % 2] = pc__segment_ref(d->segments[n]);
        if (!d->is_held[n])
            d->is_held[n] = pc__segment_watch(d->segments[n]);
        pthread_mutex_unlock(&d->lock);
        pc__segment_unref(mine[(i + 1) % 2]);
        mine[(i + 1) % 2] = NULL;
    }
    pc__segment_unref(mine[(TURNS - 1) % 2]);
    return NULL;
}

static void watching_threads(void)
{
    desk d = {.list = {NULL}};
    pthread_t ids[HOLDERS];
    atomic_store(&freed, 0);
    pthread_mutex_init(&d.lock, NULL);
    for (int n = 0; n < SHARED; n++) {
        d.segments[n] = plain();
        CHECK(pc__segment_claim(d.segments[n], &d.list, &d.is_held[n]));
    }
    for (int i = 0; i < HOLDERS; i++)
        CHECK_INT(pthread_create(&ids[i], NULL, hold_and_return, &d), 0);
    for (int i = 0; i < HOLDERS; i++)
        pthread_join(ids[i], NULL);
    look(&d);
    CHECK(!d.wrong);
    CHECK_INT(atomic_load(&freed), 0);
    for (int n = 0; n < SHARED; n++) {
        CHECK(!d.is_held[n] && is_single(d.segments[n]));
        pc__segment_unref(d.segments[n]);
    }
    CHECK_INT(atomic_load(&freed), SHARED);
    pthread_mutex_destroy(&d.lock);
}

int main(void)
{
    life();
    without_memory();
    pc_segment_free(NULL);
    size_t count = 1;
    CHECK(!pc_segment_tokens(NULL, &count));
    CHECK_INT(count, 0);
    watching();
    atomic_store(&freed, 0);
    keeping();
    CHECK_INT(atomic_load(&freed), 1);
    watching_threads();
    return pc_test_end();
}
