/* Catches: copies outside of passes that wait for each other although streams are left, more
 * streams than there may be, a stream that cannot be made and ends a copy, an error that another
 * thread gets. */
#include "attn/backend.h"

#include <pthread.h>
#include <time.h>

#include "short_backend.h"

enum { THREADS = 9, COPIES = 200 };

static void *copy_often(void *arg)
{
    short_backend *b = arg;
    uint8_t host[100], back[100];
    void *memory = short_take(&b->base, sizeof host);
    int worst = 0;
    for (int i = 0; i < COPIES; i++) {
        memset(host, i, sizeof host);
        pc__stream *stream = pc__backend_stream(&b->base);
        stream->ops->copy(stream, memory, host, sizeof host);
        if (i % 16 == 0)
            nanosleep(&(struct timespec){0, 20000}, NULL);
        worst |= pc__backend_stream_end(stream) != PC_OK;
        worst |= pc__backend_copy(&b->base, back, memory, sizeof back) != PC_OK;
        worst |= memcmp(host, back, sizeof host) != 0;
    }
    short_give(&b->base, memory);
    return worst ? b : NULL;
}

static void many_threads(pc_context *context, size_t most_to_make)
{
    short_backend b;
    pthread_t threads[THREADS];
    short_open(&b, context, 0);
    b.most_to_make = most_to_make;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, copy_often, &b);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK(!failed);
    }
    if (most_to_make)
        CHECK_INT(atomic_load(&b.most_streams), most_to_make);
    else
        CHECK(atomic_load(&b.most_streams) > 1 && atomic_load(&b.most_streams) <= PC__COPY_STREAMS);
    short_close(&b);
}

/* Two at once; the error of one is not the other's, nor the next one's. */
static void errors(pc_context *context)
{
    short_backend b;
    uint8_t x[4] = {1, 2, 3, 4}, y[4];
    short_open(&b, context, 0);
    pc__stream *first = pc__backend_stream(&b.base), *second = pc__backend_stream(&b.base);
    CHECK(first != second);
    b.fail_copy = 1;
    first->ops->copy(first, y, x, sizeof x);
    second->ops->copy(second, y, x, sizeof x);
    CHECK_OK(pc__backend_stream_end(second));
    CHECK_STATUS(pc__backend_stream_end(first), PC_ERR_IO);
    CHECK_OK(pc__backend_copy(&b.base, y, x, sizeof x));
    short_close(&b);
}

int main(void)
{
    pc_context *context = NULL;
    if (CHECK_OK(pc_context_new(&context, NULL))) {
        many_threads(context, 0);
        many_threads(context, 1);
        errors(context);
    }
    pc_context_free(context);
    return pc_test_end();
}
