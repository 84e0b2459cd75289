/* Catches: parts of device memory that overlap, are not aligned, or are lost when they come back;
 * memory that is not there yet when it is handed out; a limit that is passed, or that leaves
 * nothing to others; threads that take and give at once; memory that others could spare and are not
 * asked for, or are asked for in vain. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_testing.h"

enum { PARTS = 200 };
static const size_t MIB = 1 << 20, GIB = 1 << 30;

typedef struct part {
    uint64_t address;
    size_t bytes;
} part;

static int overlap(const part *a, const part *b)
{
    return a->address < b->address + b->bytes && b->address < a->address + a->bytes;
}

static int fits(const part *parts, const part *added)
{
    for (int i = 0; i < PARTS; i++)
        if (parts[i].address && overlap(&parts[i], added))
            return 0;
    return added->address % PC__CUDA_ALIGNMENT == 0;
}

static void random_parts(void)
{
    static part parts[PARTS];
    pc_test_rng rng = {1};
    pc_cuda_place p;
    int right = 0, taken = 0;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    for (int i = 0; i < 5000; i++) {
        part *at = &parts[pc_test_bits(&rng) % PARTS];
        if (at->address) {
            pc__cuda_pool_give(p.pool, (void *)(uintptr_t)at->address);
            at->address = 0;
            continue;
        }
        part added = {0, pc_test_bits(&rng) % (pc_test_bits(&rng) % 2 ? 2000 : 200000)};
        void *memory;
        CHECK_OK(pc__cuda_pool_take(p.pool, added.bytes, &memory));
        added.address = (uint64_t)(uintptr_t)memory;
        taken++;
        right += fits(parts, &added);
        *at = added;
    }
    CHECK_INT(right, taken);
    for (int i = 0; i < PARTS; i++)
        pc__cuda_pool_give(p.pool, (void *)(uintptr_t)parts[i].address);
    pc_cuda_close(&p);
}

/* A part can be used at once by anybody, and a part of no bytes is one. */
static void parts_are_there(void)
{
    pc_cuda_place p;
    struct cudaPointerAttributes is;
    void *a, *b;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    CHECK_OK(pc__cuda_pool_take(p.pool, 100, &a));
    CHECK_INT(cudaMemsetAsync(a, 7, 100, NULL), 0);
    CHECK_OK(pc__cuda_pool_take(p.pool, 0, &b));
    CHECK(b && b != a);
    CHECK_INT(cudaStreamSynchronize(NULL), 0);
    CHECK_INT(cudaPointerGetAttributes(&is, a), 0);
    CHECK_INT(is.type, cudaMemoryTypeDevice);
    pc__cuda_pool_give(p.pool, a);
    pc__cuda_pool_give(p.pool, b);
    pc__cuda_pool_give(p.pool, NULL);
    pc_cuda_close(&p);
}

static void limit(void)
{
    pc_cuda_place p;
    void *a, *b, *c;
    CHECK_OK(pc_cuda_open(&p, NULL, 48 * MIB));
    CHECK_OK(pc__cuda_pool_take(p.pool, 20 * MIB, &a));
    CHECK_OK(pc__cuda_pool_take(p.pool, 20 * MIB, &b));
    CHECK_STATUS(pc__cuda_pool_take(p.pool, 20 * MIB, &c), PC_ERR_NOMEM);
    CHECK_ERROR_HAS("20971520 bytes of device memory: cudaMallocFromPoolAsync: "
                    "cudaErrorMemoryAllocation");
    CHECK(c == NULL);
    CHECK_STATUS(pc__cuda_pool_take(p.pool, 49 * MIB, &c), PC_ERR_NOMEM);
    CHECK_ERROR_HAS("51380224 bytes of device memory: the limit is 50331648 bytes");
    pc__cuda_pool_give(p.pool, a);
    pc__cuda_pool_give(p.pool, b);
    CHECK_OK(pc__cuda_pool_take(p.pool, 44 * MIB, &a)); /* where both were */
    pc__cuda_pool_give(p.pool, a);
    pc_cuda_close(&p);
}

/* What a pool leaves to others that it is not told of. */
static size_t limit_of(size_t memory, size_t others, size_t limit)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    pc_test_memory counted = {0};
    pc_allocator mem = pc_test_allocator(&counted);
    pc__cuda_device *device = NULL;
    pc__cuda_pool *pool = NULL;
    void *none;
    options.memory = memory;
    pc_fake_start(&options);
    pc_fake_others(0, others);
    CHECK_OK(pc__cuda_device_new(&device, &mem, 0));
    CHECK_OK(pc__cuda_pool_new(&pool, device, limit));
    CHECK_STATUS(pc__cuda_pool_take(pool, SIZE_MAX, &none), PC_ERR_NOMEM);
    const char *text = strstr(pc_error_text(), "the limit is ");
    limit = text ? strtoull(text + strlen("the limit is "), NULL, 10) : 0;
    pc__cuda_pool_free(pool);
    pc__cuda_device_free(device);
    CHECK_INT(counted.live_blocks, 0);
    CHECK_INT(pc_fake_end(), 0);
    return limit;
}

static void room_for_others(void)
{
    CHECK_INT(limit_of(8 * GIB, 0, 0), 7 * GIB);
    CHECK_INT(limit_of(8 * GIB, 5 * GIB, 0), 2 * GIB);
    CHECK_INT(limit_of(1 * GIB, 0, 0), GIB / 2);
    CHECK_INT(limit_of(1 * GIB, 0, 3 * GIB), GIB);
    CHECK_INT(limit_of(4 * GIB, 3 * GIB, 2 * GIB), 2 * GIB);
}

/* Other processes take what the pool may still have. */
static void device_is_full(void)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    pc_cuda_place p;
    void *a, *b;
    options.memory = 50 * MIB;
    CHECK_OK(pc_cuda_open(&p, &options, 50 * MIB));
    pc_fake_others(0, 10 * MIB);
    CHECK_OK(pc__cuda_pool_take(p.pool, 30 * MIB, &a));
    CHECK_STATUS(pc__cuda_pool_take(p.pool, 11 * MIB, &b), PC_ERR_NOMEM);
    CHECK_ERROR_HAS("11534336 bytes of device memory");
    CHECK_OK(pc__cuda_pool_take(p.pool, 10 * MIB, &b));
    pc__cuda_pool_give(p.pool, b);
    pc_fake_others(0, 15 * MIB);
    CHECK_OK(pc__cuda_pool_take(p.pool, 10 * MIB, &b)); /* it had kept that */
    pc__cuda_pool_give(p.pool, b);
    pc__cuda_pool_give(p.pool, a);
    pc_cuda_close(&p);
}

static void *take_and_give(void *argument)
{
    pc__cuda_pool *pool = argument;
    size_t failed = 0;
    for (size_t i = 0; i < 2000; i++) {
        void *a = NULL, *b = NULL;
        failed += pc__cuda_pool_take(pool, 1000 * (i % 50), &a) < 0;
        failed += pc__cuda_pool_take(pool, 70000, &b) < 0;
        failed += a == b;
        pc__cuda_pool_give(pool, a);
        pc__cuda_pool_give(pool, b);
    }
    return (void *)(uintptr_t)failed;
}

static void several_threads(void)
{
    pthread_t threads[4];
    pc_cuda_place p;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    /* The counting allocator of the tests is safe for that. */
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, take_and_give, p.pool);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK(failed == NULL);
    }
    pc_cuda_close(&p);
}

typedef struct keeper {
    pc__cuda_pool *pool;
    void *kept[4];
    int count, asked;
} keeper;

static int give_one(void *user, size_t bytes)
{
    keeper *k = user;
    CHECK_INT(bytes, 20 * MIB);
    k->asked++;
    if (!k->count)
        return 0;
    pc__cuda_pool_give(k->pool, k->kept[--k->count]);
    return 1;
}

/* Asked once for each part that is needed; not for more than there can be. */
static void spared(void)
{
    pc_cuda_place p;
    void *a, *b;
    CHECK_OK(pc_cuda_open(&p, NULL, 48 * MIB));
    keeper k = {.pool = p.pool};
    for (; k.count < 4; k.count++)
        CHECK_OK(pc__cuda_pool_take(p.pool, 10 * MIB, &k.kept[k.count]));
    pc__cuda_pool_set_spare(p.pool, give_one, &k);
    CHECK_OK(pc__cuda_pool_take(p.pool, 20 * MIB, &a));
    CHECK_INT(k.asked, 2);
    CHECK_OK(pc__cuda_pool_take(p.pool, 20 * MIB, &b));
    CHECK_INT(k.asked, 4);
    void *c;
    CHECK_STATUS(pc__cuda_pool_take(p.pool, 20 * MIB, &c), PC_ERR_NOMEM);
    CHECK_STATUS(pc__cuda_pool_take(p.pool, 49 * MIB, &c), PC_ERR_NOMEM);
    CHECK_INT(k.asked, 5);
    CHECK(c == NULL);
    pc__cuda_pool_give(p.pool, a);
    pc__cuda_pool_give(p.pool, b);
    pc_cuda_close(&p);
}

int main(void)
{
    random_parts();
    parts_are_there();
    limit();
    spared();
    several_threads();
    if (!pc_cuda_real()) {
        room_for_others();
        device_is_full();
    }
    return pc_test_end();
}
